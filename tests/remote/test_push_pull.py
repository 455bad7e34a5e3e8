"""A store pushed to a bucket and pulled by another machine: whole, or named."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.cli.running import Vcache
from tests.e2e.command import start
from tests.patience import PATIENCE_SECONDS, until
from tests.remote.conftest import Cloud
from tests.remote.proxy import Hold
from tests.store.archives import filled
from tests.store.care import add, entry
from tests.targets import ec_files
from vcache_cli.digest import digest_bytes

pytestmark = pytest.mark.needs_remote
COUNT = 30


def contents(store: Path) -> dict[str, bytes]:
    """Every entry, by path."""
    found = store.glob("??/*.safetensors")
    return {str(path.relative_to(store)): path.read_bytes() for path in found}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A native store of small entries."""
    return filled(tmp_path / "store", range(COUNT)).path


@pytest.fixture
def url(cloud: Cloud) -> str:
    return f"s3://{cloud.bucket}/caches/one"


def test_what_was_pushed_is_pulled_whole_and_nothing_moves_twice(
    vcache: Vcache, store: Path, url: str, tmp_path: Path, cloud: Cloud
) -> None:
    pushed = vcache("push", url, "--store", store, "--json")
    assert (pushed.code, pushed.document["entries"]["pushed"]) == (0, COUNT)
    cloud.proxy.asked.clear()
    again = vcache("push", url, "--store", store, "--json").document
    assert (again["entries"]["present"], again["bytes"]["written"]) == (COUNT, 0)
    assert again["run"] == pushed.document["run"]
    assert cloud.proxy.count("PUT", "/") == 0
    copy = tmp_path / "copy"
    pulled = vcache("pull", url, "--store", copy, "--json")
    assert (pulled.code, pulled.document["entries"]["stored"]) == (0, COUNT)
    assert contents(copy) == contents(store)
    assert vcache("verify", copy).code == 0
    cloud.proxy.asked.clear()
    same = vcache("pull", url, "--store", copy, "--json").document
    assert (same["entries"]["present"], same["bytes"]["read"]) == (COUNT, 0)
    assert cloud.proxy.count("GET", "/objects/") == 0


def test_a_corrupted_object_is_named_and_not_published(
    vcache: Vcache, store: Path, url: str, cloud: Cloud, tmp_path: Path
) -> None:
    assert vcache("push", url, "--store", store).code == 0
    bad, gone, longer = cloud.objects()[:3]
    data = bytearray(cloud.files.cat_file(bad))
    data[-1] ^= 1
    cloud.files.pipe_file(bad, bytes(data))
    cloud.files.rm_file(gone)
    cloud.files.pipe_file(longer, cloud.files.cat_file(longer) + b"\0")
    copy = tmp_path / "copy"
    run = vcache("pull", url, "--store", copy, "--json")
    assert (run.code, run.document["error"]["kind"]) == (4, "damage")
    assert run.document["entries"] == {
        "total": COUNT,
        "stored": COUNT - 3,
        "failed": 3,
        "present": 0,
        "kept": 0,
        "repaired": 0,
    }
    kinds = [each["kind"] for each in run.document["failures"]]
    assert sorted(kinds) == ["digest", "digest", "missing"]
    told = " ".join(each["message"] for each in run.document["failures"])
    assert all(each.rpartition("/")[2] in told for each in (bad, gone, longer))
    assert len(contents(copy)) == COUNT - 3
    assert contents(copy).items() <= contents(store).items()
    scanned = vcache("stats", url, "--scan", "--json").document
    assert scanned["index"]["drift_entries"] == 2
    for each in run.document["failures"]:
        assert vcache("prune", url, "--key", each["key"], "--yes").code == 0
    assert vcache("push", url, "--store", store, "--json").document["entries"]["pushed"] == 3
    assert vcache("pull", url, "--store", copy).code == 0
    assert contents(copy) == contents(store)


def test_half_a_push_goes_on_where_it_ended(
    vcache: Vcache, store: Path, url: str, cloud: Cloud
) -> None:
    """What has arrived needs no manifest to be found again, and is no store yet."""
    cloud.proxy.fault = lambda method, path, _before: (
        403 if method == "PUT" and re.search("/objects/[89a-f]", path) else None
    )
    run = vcache("push", url, "--store", store, "--json")
    assert run.code == 14
    assert "s3:PutObject" in run.err
    half = len(cloud.objects())
    assert 0 < half < COUNT
    assert vcache("pull", url, "--store", "copy").code == 10
    cloud.proxy.fault = lambda _method, _path, _before: None
    run = vcache("push", url, "--store", store, "--json")
    assert (run.code, run.document["entries"]["present"]) == (0, half)
    assert run.document["entries"]["pushed"] == COUNT - half


def pull_and_end(url: str, copy: Path, number: int, hold: Hold) -> int:
    """Pull into `copy`, send that signal once three entries are there; the exit code."""
    process = start("pull", url, "--store", copy, "--jobs", "1")
    until(lambda: len(contents(copy)) >= 3 or process.poll() is not None)
    process.send_signal(number)
    hold.let_go()
    process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode


def test_kill_9_of_a_pull_and_run_again(
    vcache: Vcache, store: Path, url: str, tmp_path: Path, cloud: Cloud
) -> None:
    assert vcache("push", url, "--store", store).code == 0
    copy = tmp_path / "copy"
    pull_and_end(url, copy, signal.SIGKILL, Hold(cloud.proxy, "GET", after=5))
    there = contents(copy)
    assert 0 < len(there) < COUNT
    assert there.items() <= contents(store).items()
    run = vcache("pull", url, "--store", copy, "--json").document
    assert run["entries"]["present"] >= len(there)
    assert run["entries"]["stored"] == COUNT - run["entries"]["present"]
    assert contents(copy) == contents(store)


def test_an_interrupted_pull_keeps_what_is_whole(
    vcache: Vcache, store: Path, url: str, tmp_path: Path, cloud: Cloud
) -> None:
    assert vcache("push", url, "--store", store).code == 0
    copy = tmp_path / "copy"
    assert pull_and_end(url, copy, signal.SIGINT, Hold(cloud.proxy, "GET", after=5)) == 130
    assert 0 < len(contents(copy)) < COUNT
    assert vcache("verify", copy).code == 0


def test_two_that_push_at_once_lose_nothing_of_each_other(
    vcache: Vcache, url: str, tmp_path: Path
) -> None:
    one = filled(tmp_path / "one", range(8)).path
    two = filled(tmp_path / "two", range(4, 12)).path
    processes = [start("push", url, "--store", each) for each in (one, two)]
    for each in processes:
        each.communicate(timeout=PATIENCE_SECONDS)
    assert [each.returncode for each in processes] == [0, 0]
    assert vcache("stats", url, "--json").document["entries"] == 12
    assert vcache("pull", url, "--store", "copy", "--json").document["entries"]["stored"] == 12


def test_a_run_takes_what_its_job_needs(vcache: Vcache, url: str, tmp_path: Path) -> None:
    root = filled(tmp_path / "store", range(4))
    first = vcache("push", url, "--store", root.path, "--json").document["run"]
    add(root, entry(7, model="other"))
    second = vcache("push", url, "--store", root.path, "--model", "other", "--json").document["run"]
    assert first != second
    for words, stored in (
        (("--run", first), 4),
        (("--run", "last"), 1),
        (("--model", "other"), 1),
        (("--key", entry(2).key[:20]), 1),
        (("--filter", "model!=other"), 4),
        ((), 5),
    ):
        copy = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        run = vcache("pull", url, "--store", copy, "--json", *words)
        assert (run.code, run.document["entries"]["stored"]) == (0, stored), words
    assert vcache("pull", url, "--store", "x", "--run", "20200101T000000Z-00000000").code == 2


def test_a_corpus_takes_what_it_needs_and_a_warm_run_what_it_met(
    vcache: Vcache, url: str, media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    for name in ("hills.jpg", "chart.png"):
        assert vcache("warm", media / name, "-m", tiny_siglip, "-s", "store").code == 0
    assert vcache("push", url, "--store", "store").code == 0
    words = ("--for", media / "chart.png", "--json")
    run = vcache("pull", url, "--store", "copy", *words)
    assert (run.code, run.document["entries"]["stored"]) == (0, 1)
    assert vcache("check", media / "chart.png", "-m", tiny_siglip, "-s", "copy").code == 0
    done = vcache("push", url, "--store", "store", "--run", "last", "--json").document
    assert done["entries"]["total"] == 1


def test_prune_removes_objects_that_no_push_needs(
    vcache: Vcache, url: str, cloud: Cloud, tmp_path: Path
) -> None:
    root = filled(tmp_path / "store", range(4))
    add(root, entry(7, model="other"))
    assert vcache("push", url, "--store", root.path).code == 0
    assert vcache("push", url, "--store", root.path, "--model", "other").code == 0
    orphan = digest_bytes(b"of a push that goes on")
    cloud.files.pipe_file(f"{cloud.bucket}/caches/one/objects/{orphan[:2]}/{orphan}", b"of a push")
    words = ("prune", url, "--model", "other")
    plan = vcache(*words, "--dry-run", "--json").document
    assert (plan["dry_run"], len(plan["plan"]), plan["after"]["entries"]) == (True, 1, 4)
    assert plan["skipped"]["grace"] == 1
    assert len(cloud.objects()) == 6
    assert vcache(*words).code == 2
    done = vcache(*words, "--yes", "--json").document
    assert (done["removed"], done["after"]["entries"]) == (1, 4)
    assert len(cloud.objects()) == 5
    assert vcache("pull", url, "--store", "copy", "--json").document["entries"]["stored"] == 4
    rest = vcache("prune", url, "--max-size", "0", "--grace", "0s", "--yes", "--json").document
    assert rest["after"]["entries"] == 0
    assert cloud.objects() == []
    assert vcache("stats", url).code == 10


def test_a_store_of_another_kind_is_refused(vcache: Vcache, url: str, tmp_path: Path) -> None:
    assert vcache("push", url, "--store", filled(tmp_path / "one").path).code == 0
    other = tmp_path / "two"
    ec_files.put(other, ec_files.digest_id(1))
    assert vcache("push", url, "--store", other).code == 16


def test_patience_and_permission(
    vcache: Vcache, store: Path, url: str, tmp_path: Path, cloud: Cloud
) -> None:
    cloud.proxy.fault = lambda method, path, before: (
        503 if method == "PUT" and before < 1 and "/objects/" in path else None
    )
    assert vcache("push", url, "--store", store).code == 0
    cloud.proxy.fault = lambda method, path, _before: (
        403 if method == "GET" and "/objects/" in path else None
    )
    assert vcache("pull", url, "--store", tmp_path / "copy").code == 14
    cloud.proxy.fault = lambda _method, _path, _before: 403
    for command in ("stats", "ls"):
        assert vcache(command, url, "--json").code == 14
    assert vcache("push", "s3://no-such-bucket-at-all/x", "--store", store).code == 14
    cloud.proxy.fault = lambda _method, _path, _before: None
    assert vcache("push", "s3://no-such-bucket-at-all/x", "--store", store).code == 10
    assert vcache("ls", "s3://no-such-bucket-at-all/x").code == 10
