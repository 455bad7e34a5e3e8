"""A corpus in a bucket: the same keys as its local copy, few requests, and no secret told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.running import Vcache
from tests.e2e.command import vcache as in_a_process
from tests.remote.conftest import Cloud

pytestmark = pytest.mark.needs_remote
NAMES = ("hills.jpg", "chart.png", "thumbnail.bmp")


@pytest.fixture
def corpus(cloud: Cloud, media: Path, tmp_path: Path) -> Path:
    """Three pictures and a text, on this machine and under `photos` of the bucket."""
    local = tmp_path / "photos"
    (local / "deep").mkdir(parents=True)
    for name in NAMES:
        shutil.copy(media / name, local / name)
    (local / "deep" / "note.txt").write_text("no picture")
    (local / "deep" / "more.jpg").write_bytes((media / "hills.jpg").read_bytes() + b"\0")
    for path in local.rglob("*.*"):
        cloud.files.pipe_file(f"{cloud.bucket}/photos/{path.relative_to(local)}", path.read_bytes())
    cloud.files.pipe_file(f"{cloud.bucket}/photos2/other.jpg", (media / "press.jpg").read_bytes())
    cloud.files.pipe_file(f"{cloud.bucket}/photos/.hidden/x.jpg", b"not read")
    cloud.files.pipe_file(f"{cloud.bucket}/photos/", b"")
    return local


def keys(vcache: Vcache, store: Path) -> set[str]:
    return {each["key"] for each in vcache("ls", store, "--json").document["entries"]}


def test_a_corpus_in_a_bucket_has_the_keys_of_its_local_copy(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    url = f"s3://{cloud.bucket}/photos"
    assert vcache("warm", corpus, "-m", tiny_siglip, "-s", here).code == 0
    run = vcache("warm", url, "-m", tiny_siglip, "-s", there, "--json")
    assert (run.code, run.document["items"]["stored"]) == (0, 4)
    assert keys(vcache, here) == keys(vcache, there) != set()
    cloud.proxy.asked.clear()
    again = vcache("warm", url, "-m", tiny_siglip, "-s", there, "--json").document
    assert (again["items"]["present"], again["bytes"]["read"]) == (4, 0)
    assert cloud.proxy.count("GET", ".jpg") == cloud.proxy.count("GET", ".png") == 0
    assert vcache("check", url, "-m", tiny_siglip, "-s", here).code == 0
    made = [vcache("key", each, "-m", tiny_siglip, "--quiet").out for each in (corpus, url)]
    assert made[0] == made[1] != ""


def test_a_changed_object_is_read_again(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path, media: Path
) -> None:
    url = f"s3://{cloud.bucket}/photos/hills.jpg"
    assert vcache("warm", url, "-m", tiny_siglip, "-s", "store").code == 0
    cloud.files.pipe_file(f"{cloud.bucket}/photos/hills.jpg", (media / "press.jpg").read_bytes())
    run = vcache("warm", url, "-m", tiny_siglip, "-s", "store", "--json").document
    assert run["items"]["stored"] == 1


def test_worker_processes_read_objects_themselves(
    corpus: Path, cloud: Cloud, tiny_siglip: Path, tmp_path: Path
) -> None:
    """The default: what decodes a stranger's picture may crash."""
    environment = {"VCACHE_ISOLATION": "process", "AWS_ENDPOINT_URL": cloud.proxy.url}
    options = ("-m", tiny_siglip, "-s", tmp_path / "store", "--backend", "numpy", "--json")
    done = in_a_process("warm", f"s3://{cloud.bucket}/photos", *options, env=environment)
    assert done.code == 0, done.err
    assert done.items["stored"] == 4


def test_globs_single_objects_and_lists_name_what_they_say(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path, tmp_path: Path
) -> None:
    lines = tmp_path / "list.txt"
    lines.write_text(
        f"s3://{cloud.bucket}/photos/chart.png\ns3://{cloud.bucket}/photos/hills.jpg\n"
    )
    for spec, found in (
        (f"s3://{cloud.bucket}/photos/*.jpg", 1),
        (f"s3://{cloud.bucket}/photos/**/*.jpg", 2),
        (f"s3://{cloud.bucket}/pho*/*.jpg", 2),
        (f"s3://{cloud.bucket}/photos/chart.png", 1),
        (f"s3://{cloud.bucket}/photos/deep/", 1),
        (f"s3://{cloud.bucket}", 5),
        (f"@{lines}", 2),
    ):
        run = vcache("check", spec, "-m", tiny_siglip, "-s", tmp_path / "none", "--json")
        assert run.code == 10
        run = vcache("warm", spec, "-m", tiny_siglip, "-s", "store", "--dry-run", "--json")
        assert run.document["items"]["to_do"] == found, spec


def test_prune_keeps_what_a_corpus_in_a_bucket_has(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path
) -> None:
    assert vcache("warm", corpus, "-m", tiny_siglip, "-s", "store").code == 0
    words = ("prune", "store", "--not-in", f"s3://{cloud.bucket}/photos/*.png", "--yes", "--json")
    done = vcache(*words)
    assert (done.code, done.document["removed"]) == (0, 3)


@pytest.mark.parametrize(
    "expected",
    [
        ("no-such-bucket-at-all/photos", 2, "no such object"),
        ("{bucket}/photos/*.gif", 2, "no object matches"),
        ("{bucket}/photos/missing.jpg", 3, "1 of 1 item failed"),
    ],
)
def test_what_is_missing_is_told(
    vcache: Vcache,
    corpus: Path,
    cloud: Cloud,
    tiny_siglip: Path,
    expected: tuple[str, int, str],
) -> None:
    path, code, told = expected
    url = "s3://" + path.format(bucket=cloud.bucket)
    run = vcache("warm", url, "-m", tiny_siglip, "-s", "store")
    assert run.code == code, run.err
    assert told in run.err


def test_a_bucket_that_may_not_be_listed_ends_the_run(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path
) -> None:
    cloud.proxy.fault = lambda _method, _path, _before: 403
    for command in ("warm", "check"):
        run = vcache(
            command, f"s3://{cloud.bucket}/photos", "-m", tiny_siglip, "-s", "store", "--json"
        )
        assert run.code in {14, 10}
    run = vcache("warm", f"s3://{cloud.bucket}/photos", "-m", tiny_siglip, "-s", "store")
    assert run.code == 14
    assert f"s3://{cloud.bucket}/photos: permission denied" in run.err
    assert "s3:ListBucket" in run.err


def test_an_object_without_permission_is_one_failed_item(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path
) -> None:
    cloud.proxy.fault = lambda method, path, _before: (
        403 if method == "GET" and "chart.png" in path else None
    )
    run = vcache("warm", f"s3://{cloud.bucket}/photos", "-m", tiny_siglip, "-s", "store", "--json")
    assert (run.code, run.document["items"]["stored"]) == (3, 3)
    failure = run.document["failures"][0]
    assert failure["source"] == f"s3://{cloud.bucket}/photos/chart.png"
    assert failure["kind"] == "permission"


def test_a_service_that_asks_for_patience_gets_it(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path
) -> None:
    cloud.proxy.fault = lambda _method, path, before: (
        503 if before < 2 and ("chart.png" in path or "list-type" in path) else None
    )
    run = vcache("warm", f"s3://{cloud.bucket}/photos", "-m", tiny_siglip, "-s", "store", "--json")
    assert (run.code, run.document["items"]["stored"]) == (0, 4)


def test_no_secret_is_told_or_kept(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path, tmp_path: Path
) -> None:
    assert vcache("warm", f"s3://{cloud.bucket}/photos", "-m", tiny_siglip, "-s", "store").code == 0
    kept = [path.read_bytes() for path in Path("store").rglob("*") if path.is_file()]
    assert not any(b"of-a-test" in each for each in kept)
    for url in (
        f"s3://ID:PASS@{cloud.bucket}/photos",
        f"s3://{cloud.bucket}/a.jpg?X-Amz-Signature=PASS",
    ):
        for words in (("warm", url, "-m", tiny_siglip), ("push", url), ("ls", url)):
            run = vcache(*words, "--json")
            assert run.code == 2
            assert "PASS" not in run.out + run.err


def test_the_environment_is_that_of_the_test() -> None:
    """No credentials of a person reach a server."""
    assert os.environ["AWS_ACCESS_KEY_ID"] == "key-of-a-test"


def test_a_folder_without_a_name_is_walked_too(
    vcache: Vcache, corpus: Path, cloud: Cloud, tiny_siglip: Path, tmp_path: Path
) -> None:
    """`a//b` is what a script leaves that joins names with one slash too many."""
    picture = (corpus / "hills.jpg").read_bytes()
    for number, name in enumerate(("odd//one.jpg", "odd/a//two.jpg", "odd/a///three.jpg")):
        cloud.files.pipe_file(f"{cloud.bucket}/{name}", picture + bytes(number + 2))
    run = vcache(
        "warm", f"s3://{cloud.bucket}/odd", "-m", tiny_siglip, "-s", tmp_path / "store", "--json"
    )
    assert (run.code, run.document["items"]["total"]) == (0, 3)
