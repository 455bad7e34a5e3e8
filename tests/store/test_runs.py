from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.store.care import NOW, make_store
from vcache_cli.errors import UsageError
from vcache_cli.items import Kind, MediaItem
from vcache_cli.outcome import Failure, Outcome, Status
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.runs import RunLog, last_run, list_runs, live_keys, read_run, runs_dir

OUTCOMES = [
    Outcome(MediaItem("/caf\udce9"), Status.STORED, key="k1", source_sha256="ab" * 32),
    Outcome(MediaItem("/b\n"), Status.FAILED, failure=Failure("decode", "truncated", "too short")),
]
SUMMARY = {"items": {"total": 2, "failed": 1}, "failures": [{"source": "x" * 300}] * 1000}


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return make_store(tmp_path / "store")


def test_a_run_reads_back_as_it_was_written(root: StoreRoot) -> None:
    with RunLog(root, now=NOW) as log:
        for outcome in OUTCOMES:
            log.append([outcome])
        log.finish(SUMMARY)
    run = read_run(root, log.run_id)
    told = {"cwd": os.getcwd(), **SUMMARY}
    assert (run.live, run.summary, run.started_seconds) == (False, told, NOW)
    assert list(run.outcomes()) == [outcome.as_json() for outcome in OUTCOMES]
    assert run.as_json() == {
        "id": log.run_id,
        "started": "2023-11-14T22:13:20Z",
        "live": False,
        "complete": True,
        "items": SUMMARY["items"],
    }


def test_a_run_is_live_while_its_process_holds_it(root: StoreRoot) -> None:
    with RunLog(root) as log:
        log.append([OUTCOMES[0]])
        assert read_run(root, log.run_id).live
        assert live_keys(root) == {"k1"}
    ended = read_run(root, "last")
    assert (ended.live, ended.summary, ended.as_json()["complete"]) == (False, None, False)
    assert live_keys(root) == set()


def test_lines_of_items_that_were_there_wait_for_others(root: StoreRoot) -> None:
    present = Outcome(
        MediaItem("/b"), Status.PRESENT, key="k2", source_sha256="ab" * 32, kind=Kind.IMAGE
    )
    with RunLog(root) as log:
        for _ in range(300):
            log.append([present])
        run = read_run(root, log.run_id)
        assert len(list(run.outcomes())) == 257
        log.append([OUTCOMES[0]])
        assert len(list(run.outcomes())) == 301
        log.append([present])
    assert len(list(run.outcomes())) == 302


def test_a_torn_last_line_is_left_out(root: StoreRoot) -> None:
    with RunLog(root) as log:
        for outcome in OUTCOMES:
            log.append([outcome])
        log.finish({"items": {}})
    data = log.path.read_bytes()
    for length in range(len(data)):
        log.path.write_bytes(data[:length])
        run = read_run(root, log.run_id)
        assert run.summary is None
        assert len(list(run.outcomes())) <= len(OUTCOMES)


def test_the_last_run_is_the_one_that_began_last(root: StoreRoot) -> None:
    assert last_run(root) is None
    for moment in (NOW + 5, NOW, NOW + 9, NOW + 7):
        RunLog(root, now=moment).finish({"items": {"total": int(moment)}})
    (runs_dir(root) / "zzz.jsonl").write_text("no run")
    (runs_dir(root) / "99991231T235959Z-00000000.txt").write_text("no run")
    found = last_run(root)
    assert found is not None
    assert found.started_seconds == NOW + 9
    assert [run.started_seconds for run in list_runs(root)] == [NOW, NOW + 5, NOW + 7, NOW + 9]


def test_of_runs_of_one_second_the_last_one_is_the_one_that_began_last(root: StoreRoot) -> None:
    ids = []
    for step in range(4):
        with RunLog(root, now=NOW + step / 8) as log:
            log.finish(SUMMARY)
        os.utime(log.path, (NOW - step, NOW - step))
        ids.append(log.run_id)
    assert [run.id for run in list_runs(root)] == ids
    assert read_run(root, "last").id == ids[-1]


@pytest.mark.parametrize("name", ["last", "nonsense", "../../etc/passwd", "20231114T221320Z-0"])
def test_a_run_that_is_not_there_is_a_usage_error(root: StoreRoot, name: str) -> None:
    with pytest.raises(UsageError, match="no run"):
        read_run(root, name)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_log_that_cannot_be_written_ends_without_ending_the_run(root: StoreRoot) -> None:
    log = RunLog(root)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._fd)
    os.close(full)
    log.append([OUTCOMES[0]])
    assert log.failure == "No space left on device"
    log.finish({})


def test_a_log_makes_the_folders_that_someone_deleted(root: StoreRoot) -> None:
    for path in sorted((root.path / ".vcache").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root.path / ".vcache").rmdir()
    RunLog(root).finish({})
    assert last_run(root) is not None


@pytest.mark.parametrize(
    "line", ["[" * 200_000, '{"summary":' + "[" * 200_000 + "}", '{"summary":5}']
)
def test_a_hostile_last_line_is_no_summary(root: StoreRoot, line: str) -> None:
    run_id = "20990101T000000Z-d029bf21"
    (runs_dir(root) / f"{run_id}.jsonl").write_text(line + "\n")
    found = read_run(root, "last")
    assert (found.id, found.summary) == (run_id, None)
    assert list(found.outcomes()) in ([], [{"summary": 5}])


@pytest.mark.parametrize("begins", [b"", b'{"source":"a.png","status":"stored"}\n'])
def test_what_a_disk_left_of_a_log_is_not_read_whole(root: StoreRoot, begins: bytes) -> None:
    path = runs_dir(root) / "20990101T000000Z-d029bf21.jsonl"
    path.write_bytes(begins)
    os.truncate(path, 1024**4)  # zeros that lie nowhere
    found = read_run(root, "last")
    assert found.summary is None
    assert len(list(found.outcomes())) == (1 if begins else 0)


def test_fields_of_the_wrong_type_are_not_taken_from_a_summary(root: StoreRoot) -> None:
    summary = {
        "items": [1],
        "bytes": {"read": "x"},
        "seconds": "y",
        "stage": {},
        "model": 5,
        "interrupted": "no",
        "target": "native",
    }
    with RunLog(root) as log:
        log.finish(summary)
    found = read_run(root, log.run_id).as_json()
    assert found.keys() == {"id", "started", "live", "complete", "target"}


def test_a_pipe_or_a_link_is_no_run(root: StoreRoot, tmp_path: Path) -> None:
    folder = runs_dir(root)
    os.mkfifo(folder / "20990101T000000Z-d029bf21.jsonl")
    (tmp_path / "elsewhere").write_text("{}\n")
    os.symlink(tmp_path / "elsewhere", folder / "20990102T000000Z-d029bf21.jsonl")
    assert list_runs(root) == []
    assert last_run(root) is None
