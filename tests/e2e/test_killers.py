"""Pictures that kill their decoder: each costs itself, and is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Run, aged, entries, many, vcache
from tests.e2e.killers import WAYS, killer
from tests.engines.test_processes import descendants, wait_gone
from tests.patience import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[2]
HOOK = "import tests.e2e.killers as killers; killers.install()"
KINDS = {
    **dict.fromkeys(("segv", "abort", "exit"), "decoder_crashed"),
    **dict.fromkeys(("loop", "spin"), "decoder_timeout"),
    "eat": "decoder_memory",
}
LIMITS = ("--item-timeout", "4s", "--item-memory", "96MiB", "--workers", "2")


@pytest.fixture
def hooked(tmp_path: Path) -> dict[str, str]:
    """An environment in which every Python starts with the deadly decoder."""
    folder = tmp_path / "hook"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HOOK)
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}


def deadly(folder: Path, picture: Path, *, good: int, bad: int) -> list[Path]:
    """A folder of so many good pictures, and killers among them: those."""
    many(folder, picture, good)
    step = max(1, good // bad)
    killers = [
        killer(folder / f"{number * step:05d}-bad{picture.suffix}", picture, WAYS[number % 6])
        for number in range(bad)
    ]
    aged(folder)
    return killers


def failures(run: Run) -> dict[str, str]:
    """The kind of each that failed, by its path."""
    return {each["source"]: each["kind"] for each in run.document["failures"]}


def expected(killers: list[Path]) -> dict[str, str]:
    return {str(path): KINDS[path.read_bytes().rpartition(b":")[2].decode()] for path in killers}


def test_every_killer_is_named_and_everything_else_is_stored(
    tmp_path: Path, media: Path, tiny_siglip: Path, hooked: dict[str, str]
) -> None:
    corpus, store = tmp_path / "corpus", tmp_path / "store"
    killers = deadly(corpus, media / "chart.png", good=40, bad=6)
    args = ("warm", corpus, "-m", tiny_siglip, "-s", store, *LIMITS, "--json")
    run = vcache(*args, env=hooked)
    assert run.code == 3
    assert failures(run) == expected(killers)
    assert (run.items["stored"], run.items["failed"]) == (40, 6)
    assert len(entries(store)) == 40

    again = vcache(*args, env=hooked)
    assert failures(again) == expected(killers)
    tried = [each for each in run_lines(store) if each.get("seconds", {}).get("decode")]
    assert {each["error"]["kind"] for each in tried} == {"decoder_memory"}  # the rest is remembered

    mended = vcache(*args, "--retry-errors")
    assert (mended.items["stored"], mended.items["failed"]) == (6, 0)


def run_lines(store: Path) -> list[dict[str, Any]]:
    """What the last run wrote of each item."""
    last = max((store / ".vcache/runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(line) for line in last.read_text("utf-8").splitlines()]


@pytest.mark.thorough
def test_twenty_killers_among_a_thousand_pictures(
    tmp_path: Path, media: Path, tiny_siglip: Path, hooked: dict[str, str]
) -> None:
    corpus, store = tmp_path / "corpus", tmp_path / "store"
    killers = deadly(corpus, media / "chart.png", good=1000, bad=20)
    begun = time.monotonic()
    run = vcache(*("warm", corpus, "-m", tiny_siglip, "-s", store, *LIMITS, "--json"), env=hooked)
    seconds = time.monotonic() - begun
    sys.stderr.write(f"1,000 pictures and 20 killers: {seconds:.1f} s\n")
    assert failures(run) == expected(killers)
    assert (run.items["stored"], run.items["failed"]) == (1000, 20)
    assert Counter(failures(run).values())["decoder_crashed"] == 11


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_ended_leaves_no_process(
    number: int, tmp_path: Path, media: Path, tiny_siglip: Path, hooked: dict[str, str]
) -> None:
    """A worker is hung, and holds the interpreter's lock."""
    corpus, store = tmp_path / "corpus", tmp_path / "store"
    many(corpus, media / "chart.png", 20)
    killer(corpus / "00000.png", media / "chart.png", "loop")
    words = ("warm", str(corpus), "-m", str(tiny_siglip), "-s", str(store), "--item-timeout", "8s")
    with subprocess.Popen(
        [sys.executable, "-m", "vcache_cli", *words, "--workers", "2"],
        env={**os.environ, **hooked},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as command:
        until(lambda: len(entries(store)) >= 8)
        family = descendants(command.pid)
        assert family
        os.killpg(command.pid, number)
        assert command.wait(PATIENCE_SECONDS) in {-number, 128 + number}
    wait_gone(family)
    assert len(entries(store)) >= 8
    assert vcache("verify", store, "--json").code == 0
