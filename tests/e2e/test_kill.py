"""kill -9 at random moments of a warm: nothing torn, nothing lost, the next run completes."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from tests.e2e.command import entries, many, start, vcache
from tests.e2e.held import Hold
from tests.patience import until
from vcache_cli import open_store

KILLS = int(os.environ.get("VCACHE_KILLS", "4"))
"""Rounds: each costs about two seconds."""
PICTURES_PER_KILL = 60


def test_a_killed_warm_leaves_nothing_torn(media: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    corpus = many(tmp_path / "corpus", media / "hills.jpg", PICTURES_PER_KILL * KILLS)
    store, rng = tmp_path / "store", random.Random(os.urandom(8))
    args = ("warm", corpus, "-m", tiny_siglip, "-s", store, "-q")
    struck = 0
    for number in range(KILLS):
        if number % 2:
            struck += _kill(start(*args), after_seconds=rng.uniform(0.1, 1.2))
        else:
            hold = Hold(tmp_path / "hold", rng.randrange(20, PICTURES_PER_KILL))
            process = start(*args, env=hold.environment)
            struck += _kill_while_writing(process, store, rng.uniform(0, 0.2))
        _check_nothing_is_torn(store)
    assert struck  # the first one at least: after the second all may be done
    last = vcache(*args[:-1], "--json")
    assert last.code == 0
    assert last.items["stored"] + last.items["present"] == last.items["total"]
    assert vcache("check", corpus, "-m", tiny_siglip, "-s", store).code == 0
    assert vcache("verify", store, "--level", "data", "-q").code == 0
    assert len(entries(store)) == last.items["total"]


def _kill(process: subprocess.Popen[bytes], *, after_seconds: float) -> bool:
    """Whether it was still at work."""
    with process:
        try:
            process.wait(after_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.returncode != 0


def _kill_while_writing(process: subprocess.Popen[bytes], store: Path, seconds: float) -> bool:
    """Kill it a moment after it has published something."""
    before = len(entries(store))
    until(lambda: len(entries(store)) > before or process.poll() is not None)
    return _kill(process, after_seconds=seconds)


def _check_nothing_is_torn(store: Path) -> None:
    if not (store / ".vcache" / "store.json").exists():  # killed before there was a store
        return
    verified = vcache("verify", store, "--level", "data", "--json")
    assert verified.code == 0, verified.document["problems"]
    published = entries(store)
    assert verified.document["checked"] == verified.document["ok"] == len(published)
    with open_store(store) as reader:
        assert all(reader.get(key) is not None for key in published)
