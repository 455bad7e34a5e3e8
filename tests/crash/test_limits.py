"""Disks that are really full or read-only, limits of the system, every umask."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.scenes import contents, run_here
from tests.e2e.command import Run, entries, many, vcache

COUNT = 6
LIMITED = (
    "import os, resource, sys;"
    "resource.setrlimit(getattr(resource,sys.argv[1]),(int(sys.argv[2]),)*2);"
    "os.execv(sys.argv[3],sys.argv[3:])"
)


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VCACHE_ISOLATION", "thread")
    monkeypatch.setenv("VCACHE_MIN_FREE", "0")


@pytest.fixture
def corpus(media: Path, tmp_path: Path) -> Path:
    """A few pictures."""
    return many(tmp_path / "corpus", media / "thumbnail.bmp", COUNT)


def _mounted(place: Path, *words: str) -> Path:
    """Mount at `place`; skips where that is not allowed."""
    place.mkdir(exist_ok=True)
    if sys.platform != "linux" or os.geteuid():
        pytest.skip("mounting needs Linux and root")
    command = ["mount", *words, str(place)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.decode().strip()}")
    return place


def _unmount(place: Path) -> None:
    command = ["umount", str(place)]
    subprocess.run(command, check=False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An own file system of 8 MiB."""
    place = _mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=8m", "tmpfs")
    yield place
    _unmount(place)


def _warm(corpus: Path, model: Path, store: Path, *launcher: str) -> Run:
    args = ("warm", corpus, "-m", model, "-s", store, "--backend", "numpy", "--workers", "1")
    if launcher:
        return vcache(*args, "--json", launcher=launcher)
    ran = run_here([*map(str, args), "--json"])
    return Run(ran.code, ran.out, ran.err)


def _limited(name: str, number: int) -> tuple[str, ...]:
    return (sys.executable, "-c", LIMITED, name, str(number))


def _is_whole(store: Path) -> bool:
    """Whether all that lies there is whole; asked in this process."""
    return run_here(["verify", str(store), "-q"]).code == 0


def test_a_disk_that_fills_up_ends_the_run_and_loses_nothing(
    corpus: Path, tiny_siglip: Path, small_disk: Path
) -> None:
    store, ballast = small_disk / "store", small_disk / "ballast"
    first = _warm(corpus, tiny_siglip, store)
    assert first.code == 0
    more = many(corpus, next(corpus.iterdir()), 3 * COUNT)
    free = os.statvfs(small_disk)
    entry_bytes = next(iter(entries(store).values())).stat().st_size
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - 3 * entry_bytes))
    full = _warm(more, tiny_siglip, store)
    assert full.code == 13
    assert full.document["error"]["kind"] == "store_full"
    assert "free" in full.document["error"]["message"]
    assert _is_whole(store)
    assert len(entries(store)) >= COUNT
    pruned = run_here(["prune", "-s", str(store), "--max-size", "1", "--grace", "0s", "--yes"])
    assert pruned.code == 0
    assert not contents(store)
    ballast.unlink()
    assert _warm(more, tiny_siglip, store).code == 0
    assert len(entries(store)) == 3 * COUNT


def test_a_limit_of_the_size_of_files_ends_the_run(
    corpus: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    ended = _warm(corpus, tiny_siglip, store, *_limited("RLIMIT_FSIZE", 1024))
    assert ended.code == 13
    assert "File too large" in ended.document["error"]["message"]
    assert contents(store) == {}
    assert _warm(corpus, tiny_siglip, store).code == 0
    assert _is_whole(store)


def test_few_open_files_are_enough(corpus: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    done = _warm(corpus, tiny_siglip, tmp_path / "store", *_limited("RLIMIT_NOFILE", 64))
    assert done.code == 0
    assert done.items["stored"] == COUNT


def test_a_read_only_store_is_read_and_not_written(
    corpus: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    assert _warm(corpus, tiny_siglip, store).code == 0
    held = contents(store)
    place = _mounted(tmp_path / "seen", "--bind", str(store))
    try:
        options = ["mount", "-o", "remount,bind,ro", str(place)]
        if subprocess.run(options, capture_output=True, check=False).returncode:
            pytest.skip("a bind mount cannot be made read-only here")
        for words in (["stats"], ["ls"], ["verify"]):
            assert run_here([*words, "-s", str(place), "-q"]).code == 0
        more = many(corpus, next(corpus.iterdir()), 2 * COUNT)
        refused = _warm(more, tiny_siglip, place)
        assert refused.code == 14
        assert "Read-only file system" in refused.document["error"]["message"]
        pruned = run_here(["prune", "-s", str(place), "--max-size", "1", "--yes"])
        assert pruned.code == 14
    finally:
        _unmount(place)
    assert contents(store) == held


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_do_not_depend_on_the_umask(
    umask: int, corpus: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    store, before = tmp_path / "store", os.umask(umask)
    try:
        words = ["warm", str(corpus), "-m", str(tiny_siglip), "-s", str(store), "-q"]
        assert run_here([*words, "--backend", "numpy", "--workers", "1"]).code == 0
    finally:
        os.umask(before)
    for path in (store, *store.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == _mode(store, path), path


def _mode(store: Path, path: Path) -> int:
    if path.is_dir():
        return 0o700
    name = path.relative_to(store).as_posix()
    return 0o600 if name.startswith(".vcache/") and name != ".vcache/store.json" else 0o444
