"""Runs that are interrupted, and runs at the same time over one store."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.cli.running import conforming
from tests.e2e.command import entries, many, start, vcache

COUNT = 600


def test_after_ctrl_c_the_next_run_goes_on(media: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    corpus, store = many(tmp_path / "corpus", media / "thumbnail.bmp", COUNT), tmp_path / "store"
    args = ("warm", corpus, "-m", tiny_siglip, "-s", store, "--json")
    with start(*args) as process:
        while not entries(store) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
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
            out, _ = process.communicate(timeout=50)
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
    corpus = many(tmp_path / "corpus", media / "thumbnail.bmp", 400)
    args = (corpus, "-m", tiny_siglip, "-s", store)
    with start("warm", *args, "--json") as process:
        while not entries(store) and process.poll() is None:
            time.sleep(0.01)
        pruned = vcache("prune", store, "--older-than", "0s", "--yes", "--json")
        still_at_work = process.poll() is None
        out, _ = process.communicate(timeout=50)
    assert (process.returncode, pruned.code) == (0, 0)
    assert conforming(out.decode())["items"]["stored"] == 400
    if still_at_work:  # else it was a prune of a store at rest
        assert pruned.document["removed"] == 0
        assert vcache("check", *args, "-q").code == 0
