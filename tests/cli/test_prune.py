"""`vcache prune` where a part of the store cannot be looked at, and what a pipe gets."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.cli.running import Vcache

REASON = os.strerror(errno.EIO)


@pytest.fixture
def oldest(warmed: Path) -> Path:
    """The entry that goes first."""
    for number, path in enumerate(files(warmed)):
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return files(warmed)[0]


def files(root: Path) -> list[Path]:
    return sorted(root.glob("??/*.safetensors"))


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, path: Path) -> None:
    """Answer that call on that path as a failing disk does."""
    real = getattr(os, call)

    def refused(where: object, *args: object, **named: object) -> object:
        if str(where) == str(path):
            raise OSError(errno.EIO, REASON, str(where))
        return real(where, *args, **named)

    monkeypatch.setattr(os, call, refused)


def test_an_entry_that_cannot_be_looked_at_is_told_and_no_other_goes_in_its_place(
    vcache: Vcache, warmed: Path, oldest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(warmed)
    size = sum(path.stat().st_size for path in before[2:])
    vcache("stats", warmed)
    with monkeypatch.context() as patch:
        refuse(patch, "lstat", oldest)
        done = vcache("prune", warmed, "--max-size", size, "--yes")
    assert done.code == 3
    assert f"1 file or folder could not be looked at, and was left; {shard(oldest)}" in done.err
    assert f"not looked at, and left: {shard(oldest)}: {REASON}" in done.out
    assert files(warmed) == [before[0], *before[2:]]
    assert vcache("prune", warmed, "--max-size", size, "--yes").code == 0
    assert files(warmed) == before[2:]


def shard(path: Path) -> str:
    """Below the store."""
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("flag", ["--dry-run", "--yes"])
def test_a_folder_that_cannot_be_listed_is_told(
    flag: str, vcache: Vcache, warmed: Path, oldest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(oldest.parent)
    refuse(monkeypatch, "scandir", oldest.parent)
    done = vcache("prune", warmed, "--max-size", "0", flag, "--json")
    assert done.code == 3
    assert done.document["unseen"] == [{"path": oldest.parent.name, "message": REASON}]
    assert done.document["error"]["kind"] == "not_looked_at"
    assert oldest.exists()


def test_an_entry_that_is_gone_is_nothing_to_tell(
    vcache: Vcache, warmed: Path, oldest: Path
) -> None:
    vcache("stats", warmed)
    oldest.unlink()
    done = vcache("prune", warmed, "--max-size", "0", "--yes", "--json")
    assert (done.code, "unseen" in done.document) == (0, False)


def test_a_pipe_gets_whole_keys(vcache: Vcache, warmed: Path) -> None:
    shown = vcache("prune", warmed, "--max-size", "0", "--dry-run").out
    assert all(path.stem in shown for path in files(warmed))
