"""Archives, tables and logs in a bucket of a service: the same keys, and few requests."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from tests.cli.running import Vcache
from tests.e2e.command import vcache as in_a_process
from tests.media.containers import chat, log, make_parquet, make_tar, make_zip, uri
from tests.remote.conftest import Cloud
from tests.remote.test_corpora import keys
from vcache_cli.errors import ReadError
from vcache_cli.items import MediaItem
from vcache_cli.media import read_item, sources

pytestmark = pytest.mark.needs_remote
NAMES = ("hills.jpg", "chart.png", "thumbnail.bmp", "press.jpg")
FORMS = ("a.tar", "b.zip", "c.parquet", "d.jsonl", "e.tar.gz")


@pytest.fixture
def corpus(cloud: Cloud, media: Path, tmp_path: Path) -> Path:
    """Pictures alone and in each kind of container, on this machine and in the bucket."""
    local = tmp_path / "corpus"
    local.mkdir()
    members = {name: (media / name).read_bytes() for name in NAMES}
    made = {
        f"{kind}-{name}": data + kind.encode() for kind in "abc" for name, data in members.items()
    }
    of = {kind: {name: made[name] for name in made if name[0] == kind} for kind in "abc"}
    make_tar(local / "a.tar", of["a"])
    make_zip(local / "b.zip", of["b"])
    make_parquet(local / "c.parquet", of["c"])
    shutil.copy(media / NAMES[0], local / NAMES[0])
    log(local / "d.jsonl", [chat(uri(members[NAMES[1]]), NAMES[0]), "no json"])
    with tarfile.open(local / "e.tar.gz", "w:gz") as packed:
        packed.add(media / NAMES[2], NAMES[2])
    for path in local.iterdir():
        cloud.files.pipe_file(f"{cloud.bucket}/corpus/{path.name}", path.read_bytes())
    return local


def url_of(cloud: Cloud, name: str = "") -> str:
    return f"s3://{cloud.bucket}/corpus" + (f"/{name}" if name else "")


def test_containers_give_the_keys_of_their_local_copies(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    local = [*(corpus / name for name in FORMS), corpus]
    remote = [*(url_of(cloud, name) for name in FORMS), url_of(cloud)]
    first = vcache("warm", *local, "-m", tiny_siglip, "-s", here, "--json")
    run = vcache("warm", *remote, "-m", tiny_siglip, "-s", there, "--json")
    assert run.code == first.code == 3, run.err  # a packed tar that was named is a failure
    assert run.document["items"] == first.document["items"]
    assert run.document["items"]["stored"] >= 3 * len(NAMES) + 2
    assert keys(vcache, here) == keys(vcache, there) != set()
    assert [each["kind"] for each in run.document["failures"]] == ["packed_archive"]
    assert vcache("check", url_of(cloud), "-m", tiny_siglip, "-s", here).code == 0


def test_a_second_run_reads_no_member(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path
) -> None:
    """What is in an archive is told anew each time, by its directory, footer or headers."""
    words = ("warm", *(url_of(cloud, name) for name in FORMS[:4]), "-m", tiny_siglip, "-s", "store")
    assert vcache(*words).code == 0
    cloud.proxy.asked.clear()
    again = vcache(*words, "--json").document
    total = 3 * len(NAMES) + 2
    assert (again["items"]["present"], again["bytes"]["read"]) == (total, 0)
    asked = [cloud.proxy.count("GET", f"/corpus/{name}") for name in (*FORMS[:4], NAMES[0])]
    assert max(asked[:4]) <= 3
    assert asked[4] == 0
    assert vcache("prune", "store", "--not-in", url_of(cloud, "a.tar"), "--yes").code == 0
    assert len(keys(vcache, Path("store"))) == len(NAMES)


def test_worker_processes_reopen_members(
    corpus: Path, cloud: Cloud, tiny_siglip: Path, tmp_path: Path
) -> None:
    environment = {"VCACHE_ISOLATION": "process", "AWS_ENDPOINT_URL": cloud.proxy.url}
    options = ("-m", tiny_siglip, "-s", tmp_path / "store", "--backend", "numpy", "--json")
    names = [url_of(cloud, name) for name in FORMS[:4]]
    done = in_a_process("warm", *names, *options, env=environment)
    assert done.code == 0, done.err
    assert done.items["stored"] == 3 * len(NAMES) + 2


@pytest.mark.parametrize("name", [*FORMS[:4], NAMES[0]])
def test_what_was_written_again_after_it_was_listed_is_told_by_its_etag(
    corpus: Path, cloud: Cloud, name: str
) -> None:
    item = next(iter(sources([url_of(cloud, name)]).items()))
    assert isinstance(item, MediaItem)
    data = (corpus / name).read_bytes()
    for other in (data[:-1] + b"\xff", b"short"):
        cloud.files.pipe_file(f"{cloud.bucket}/corpus/{name}", other)
        with pytest.raises(ReadError) as changed:
            read_item(item, max_bytes=1 << 20)
        assert changed.value.item_kind == "changed"
    cloud.files.pipe_file(f"{cloud.bucket}/corpus/{name}", data)
    cloud.proxy.asked.clear()
    assert read_item(item, max_bytes=1 << 20)
    assert cloud.proxy.count("HEAD", "") == 0


def test_a_service_that_fails_inside_an_archive_fails_it_and_no_other(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path
) -> None:
    cloud.proxy.fault = lambda method, path, _before: (
        403 if method == "GET" and "a.tar" in path else None
    )
    run = vcache("warm", url_of(cloud), "-m", tiny_siglip, "-s", "store", "--json")
    assert run.code == 3
    failure = run.document["failures"][0]
    assert (failure["source"], failure["kind"]) == (url_of(cloud, "a.tar"), "permission")
    assert run.document["items"]["stored"] == 2 * len(NAMES) + 1
    cloud.proxy.fault = lambda _method, path, before: (
        503 if before < 1 and "a.tar" in path else None
    )
    run = vcache("warm", url_of(cloud), "-m", tiny_siglip, "-s", "store", "--json")
    assert (run.code, run.document["items"]["stored"]) == (0, len(NAMES))
