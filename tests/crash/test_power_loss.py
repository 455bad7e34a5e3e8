"""The power fails at any moment of a run: nothing wrong is got, nothing reported is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.outage import recorded_command, recorded_writer, tried
from tests.crash.power import Disk, Recording
from tests.crash.scenes import scene
from tests.crash.shim import Call
from vcache_cli.store import writer


@pytest.fixture(autouse=True)
def _same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")


@pytest.mark.parametrize("command", ["warm", "import"])
def test_what_a_command_reported_outlives_the_power(command: str, tmp_path: Path) -> None:
    outage = recorded_command(scene(command, tmp_path / "scene"), tmp_path)
    assert command == "import" or len(outage.recording.told) == len(outage.final)
    found = tried(outage, tmp_path / "states", most=4, rerun_each=10)
    assert found.states > 10  # how many differ depends on how threads take turns
    assert found.reruns
    assert found.violations == []


def test_what_a_writer_reported_outlives_the_power(tmp_path: Path) -> None:
    outage = recorded_writer(tmp_path, 4, threads=2)
    assert len(outage.recording.told) == 4
    found = tried(outage, tmp_path / "states", most=4)
    assert found.states > 10
    assert found.violations == []


def test_a_writer_that_does_not_sync_its_folder_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model itself can fail."""
    monkeypatch.setattr(writer, "sync_directory", lambda *_: None)
    outage = recorded_writer(tmp_path, 2, threads=1)
    assert tried(outage, tmp_path / "states", most=4).violations


def test_only_a_sync_that_began_later_keeps_what_was_written() -> None:
    made = Call("create", "a", number=1, begun=1, ended=2)
    wrote = Call("write", "a", data=b"x", number=1, begun=3, ended=6)
    early = Call("fsync", "a", number=1, begun=4, ended=7)
    names = Call("fsync", "", number=2, begun=8, ended=9)
    late = Call("fsync", "a", number=1, begun=10, ended=11)
    recording = Recording({}, [made, wrote, early, names, late], ())

    def lengths(moment: int) -> set[int | None]:
        found = Disk(recording, moment).states(random.Random(1), 100)
        return {None if (data := each.files.get("a")) is None else len(data) for each in found}

    assert lengths(7) == {None, 0, 1}
    assert lengths(9) == {0, 1}
    assert lengths(11) == {1}
