"""Killed before every call on files, by the shim: nothing torn, nothing lost, the next run ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.judge import judge
from tests.crash.scenes import fresh, run_here, scene
from tests.crash.straced import judged, killed_at, missing
from vcache_cli.store.writer import Packed, Publisher

ROOT = Path(__file__).resolve().parents[2]
NEEDS_STRACE = pytest.mark.skipif(bool(missing()), reason=missing() or "strace is here")


@pytest.mark.parametrize(
    ("commands", "step"), [(("warm",), 12), (("prune", "import"), 8), (("repair", "rebuild"), 2)]
)
def test_a_killed_command_tears_and_loses_nothing(commands: tuple[str, ...], step: int) -> None:
    """A sample of the points; `make crash` goes through all of them."""
    words = (sys.executable, "-m", "tests.crash.matrix", "shim", *commands, "--step", str(step))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == list(commands)
    assert all(int(line[1]) >= 3 for line in lines)


def test_a_writer_that_writes_half_of_an_entry_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The matrix itself can fail."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    made = scene("import", tmp_path)

    def write(self: Publisher, temp: str, packed: Packed) -> None:
        Path(temp).write_bytes(packed.parts[0][:-1])
        del self

    monkeypatch.setattr(Publisher, "_write", write)
    store = fresh(made, tmp_path / "run")
    run_here(made.words(store))
    found = judge(made, store)
    assert len(found.torn) >= 3
    assert not found.lost


@NEEDS_STRACE
@pytest.mark.parametrize(("command", "call"), [("import", "rename"), ("rebuild", "pwrite64")])
def test_a_command_killed_in_a_system_call_tears_and_loses_nothing(
    command: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real command, and SQLite's calls too."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    made = scene(command, tmp_path / "scene")
    store = killed_at(made, tmp_path, call, 1)
    assert store is not None
    row = judged(made, store)
    assert row.points == 1
    assert row.wrong.is_good, row
