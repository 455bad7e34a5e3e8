"""Runs that are interrupted, and runs at the same time over one store."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.cli.running import conforming
from tests.e2e.command import entries, many, start, vcache
from tests.e2e.held import Hold
from tests.patience import PATIENCE_SECONDS, until

COUNT = 200


def test_after_ctrl_c_the_next_run_goes_on(media: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    corpus, store = many(tmp_path / "corpus", media / "thumbnail.bmp", COUNT), tmp_path / "store"
    args = ("warm", corpus, "-m", tiny_siglip, "-s", store, "--json")
    hold = Hold(tmp_path / "hold", COUNT // 2)
    with start(*args, env=hold.environment, stderr=subprocess.PIPE) as process:
        until(lambda: entries(store) or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        assert process.stderr
        assert any(b"stopping: " in line for line in process.stderr)
        hold.let_go()
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    document = conforming(out.decode())
    assert process.returncode == document["error"]["code"] == 130
    assert document["interrupted"]
    kept = document["items"]["stored"]
    assert 0 < kept == len(entries(store)) < COUNT
    assert vcache("verify", store, "--level", "data", "-q").code == 0
    assert vcache("stats", store, "--json").document["last_run"]["items"]["stored"] == kept
    following = vcache(*args)
    assert following.code == 0
    assert following.items == {
        **dict.fromkeys(following.items, 0),
        "total": COUNT,
        "present": kept,
        "stored": COUNT - kept,
    }


def test_two_runs_over_one_store_lose_nothing(
    media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    shared = many(tmp_path / "shared", media / "thumbnail.bmp", 100)
    parts = [many(tmp_path / name, media / f"{name}.png", 60) for name in ("chart", "depth")]
    commands = [("warm", shared, part, "-m", tiny_siglip, "-s", store, "--json") for part in parts]
    processes = [start(*command) for command in commands]
    for process in processes:
        with process:
            out, _ = process.communicate(timeout=PATIENCE_SECONDS)
        document = conforming(out.decode())
        assert process.returncode == 0, document
        assert document["items"]["stored"] + document["items"]["present"] == 160
        assert document["items"]["failed"] == 0
    assert len(entries(store)) == 220
    checked = vcache("check", shared, *parts, "-m", tiny_siglip, "-s", store, "--json")
    assert (checked.code, checked.document["coverage"]) == (0, 1)
    verified = vcache("verify", store, "--level", "data", "--json")
    assert (verified.code, verified.document["checked"]) == (0, 220)
    assert vcache("stats", store, "--json").document["entries"] == 220


def test_a_prune_beside_a_warm_takes_nothing_that_it_made(
    media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    corpus = many(tmp_path / "corpus", media / "thumbnail.bmp", 100)
    args = (corpus, "-m", tiny_siglip, "-s", store)
    hold = Hold(tmp_path / "hold", 50)
    with start("warm", *args, "--json", env=hold.environment) as process:
        until(lambda: entries(store) or process.poll() is not None)
        pruned = vcache("prune", store, "--older-than", "0s", "--yes", "--json")
        hold.let_go()
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, pruned.code) == (0, 0)
    assert conforming(out.decode())["items"]["stored"] == 100
    assert pruned.document["removed"] == 0
    assert vcache("check", *args, "-q").code == 0
