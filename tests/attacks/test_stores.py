"""Stores that were tampered with: no command follows a link out, or trusts a stranger's store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Vcache, running
from tests.store.care import add, entry, make_store
from vcache_cli.store import DiskStore, StoreRoot

OWN = ("tmp", "locks", "runs", "quarantine", "index.sqlite")


@pytest.fixture
def vcache(capsys: pytest.CaptureFixture[str]) -> Vcache:
    return running(capsys)


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    made = make_store(tmp_path / "store")
    for number in range(3):
        add(made, entry(number))
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What must not change, and must not be read."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    return folder


def state(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def work(vcache: Vcache, root: StoreRoot) -> list[int]:
    """Everything that looks after a store and could be led astray; exit codes."""
    lines: list[tuple[object, ...]] = [
        ("stats", root.path, "--scan"),
        ("ls", "-s", root.path),
        ("verify", root.path, "--repair"),
        ("export", root.path.with_name("x.tar"), "-s", root.path, "--force"),
        ("prune", root.path, "--older-than", "0s", "--grace", "0s", "--yes"),
    ]
    return [vcache(*line).code for line in lines]


def test_a_link_in_the_place_of_an_entry_is_a_miss_and_leads_nowhere(
    root: StoreRoot, outside: Path, vcache: Vcache
) -> None:
    path = root.path / root.layout.path_of(entry(0).key)
    other = outside / "entry"
    shutil.move(path, other)  # even what would be a good entry
    path.symlink_to(other)
    before = state(outside)
    store = DiskStore(root)
    assert store.get(entry(0).key) is None
    assert store.findings[0].kind == "symlink"
    assert set(work(vcache, root)) <= {0, 4}
    assert state(outside) == before


def test_a_link_in_the_place_of_a_shard_is_a_miss_and_leads_nowhere(
    root: StoreRoot, outside: Path, vcache: Vcache
) -> None:
    shard = (root.path / root.layout.path_of(entry(0).key)).parent
    shutil.move(shard, outside / "shard")
    shard.symlink_to(outside / "shard")
    before = state(outside)
    assert DiskStore(root).get(entry(0).key) is None
    assert set(work(vcache, root)) <= {0, 4}
    assert state(outside) == before


@pytest.mark.parametrize("part", OWN)
def test_a_link_in_the_place_of_a_part_of_ours_leads_nowhere(
    part: str, root: StoreRoot, outside: Path, vcache: Vcache
) -> None:
    path = root.path / ".vcache" / part
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(outside / "precious" if part == "index.sqlite" else outside)
    before = state(outside)
    assert set(work(vcache, root)) <= {0, 4, 10, 14, 16}
    assert state(outside) == before


def test_a_link_in_the_place_of_all_that_is_ours_leads_nowhere(
    root: StoreRoot, outside: Path, vcache: Vcache
) -> None:
    shutil.move(root.path / ".vcache", outside / "own")
    (root.path / ".vcache").symlink_to(outside / "own")
    before = state(outside)
    work(vcache, root)
    changed = state(outside)
    assert {path: changed.get(path) for path in before} == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a store away")
@pytest.mark.parametrize(
    "words",
    [
        ("warm", "{corpus}", "-m", "{model}", "-s", "{store}"),
        ("import", "{archive}", "-s", "{store}"),
        ("export", "-", "-s", "{store}"),
    ],
    ids=lambda words: words[0],
)
def test_a_store_of_someone_else_is_refused_and_stays(
    words: tuple[str, ...], root: StoreRoot, vcache: Vcache, samples: Path, *,
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    archive = root.path.with_name("a.tar")
    assert vcache("export", archive, "-s", root.path).code == 0
    os.chown(root.path, 12345, -1)
    before = state(root.path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    places = {"corpus": samples / "media", "model": samples / "tiny-siglip"}
    places |= {"store": root.path, "archive": archive}
    done = vcache(*(word.format(**places) for word in words))
    assert done.code == 16, done.err
    assert "12345" in done.err
    assert state(root.path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as someone else")
def test_a_private_store_shows_nothing_to_another_user(root: StoreRoot) -> None:
    for folder in root.path.parents:
        if folder.owner() == "root" and os.access(folder, os.W_OK) and "pytest" in str(folder):
            folder.chmod(0o755)
    code = f"import os; os.setuid(12345); os.listdir({str(root.path)!r})"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, check=False)
    assert b"PermissionError" in done.stderr
