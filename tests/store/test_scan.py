"""One walker: `ls`, `stats`, `verify` and the directory agree, whatever lies there."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import ON_DISK
from tests.store.care import add, entry, make_store
from vcache_cli.store.index import open_index
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.query import list_entries
from vcache_cli.store.scan import allocated_once, scan_store
from vcache_cli.store.stats import store_stats

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Place:
    """Where a piece is laid, and what of."""

    root: StoreRoot
    number: int

    @property
    def base(self) -> Path:
        return self.root.path

    @property
    def shard(self) -> Path:
        shard = self.base / f"{self.number:02x}"
        shard.mkdir(exist_ok=True)
        return shard

    @property
    def target(self) -> Path:
        return self.shard / f"{f'{self.number:02x}' * 32}.safetensors"

    @property
    def made(self) -> Path:
        return self.base / self.root.layout.path_of(entry(self.number % 5).key)

    @property
    def data(self) -> bytes:
        return random.Random(self.number).randbytes(self.number * 97 % 9000)

    def own(self, folder: str) -> Path:
        return self.base / ".vcache" / folder / f"{self.number}"

    def named(self, *names: str) -> Path:
        path = self.base.joinpath(f"{names[0]} {self.number}", *names[1:])
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def hard_link(self, path: Path) -> None:
        if self.made.exists():
            os.link(self.made, path)

    def not_text(self) -> Path:
        return Path(os.fsdecode(os.fsencode(self.base) + b"/caf\xe9%d" % self.number))


PIECES: dict[str, Callable[[Place], object]] = {
    "entry": lambda at: add(at.root, entry(at.number, tokens=at.number % 7)),
    "foreign": lambda at: at.named("note").write_bytes(at.data),
    "foreign in shard": lambda at: (at.shard / "a.bak").write_bytes(at.data),
    "link": lambda at: at.named("link").symlink_to("/etc"),
    "link as entry": lambda at: at.target.symlink_to(at.made),
    "hard link": lambda at: at.hard_link(at.named("hard")),
    "hard link as entry": lambda at: at.hard_link(at.target),
    "tmp": lambda at: at.own("tmp").write_bytes(at.data),
    "quarantine": lambda at: at.own("quarantine").write_bytes(at.data),
    "wrong shard": lambda at: (at.shard / f"{'f' * 64}.safetensors").write_bytes(at.data),
    "directory as entry": lambda at: (at.target / "deep").mkdir(parents=True),
    "damaged": lambda at: at.target.write_bytes(at.data),
    "deep": lambda at: at.named("deep", "a", "b", "c").write_bytes(at.data),
    "fifo": lambda at: os.mkfifo(at.named("fifo")),
    "not text": lambda at: at.not_text().write_bytes(at.data),
}


def sizes_below(path: Path) -> int:
    """Bytes of everything below `path` but directories, as `find` would sum them."""
    return sum(
        os.lstat(os.path.join(folder, name)).st_size
        for folder, directories, files in os.walk(path)
        for name in [*files, *(d for d in directories if os.path.islink(os.path.join(folder, d)))]
    )


@ON_DISK
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(PIECES)), st.integers(0, 30)),
        unique_by=lambda piece: piece[1],
    )
)
def test_every_count_agrees_with_the_directory(pieces: list[tuple[str, int]]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        root = make_store(folder / "store")
        with open_index(root, mode="w") as index:
            for piece, number in sorted(pieces):
                PIECES[piece](Place(root, number))
                if number % 3 == 0:
                    index.refresh()
        check(root)
        for row in list_entries(root).entries[::2]:
            (root.path / row.path).unlink()
        check(root)
    finally:
        shutil.rmtree(folder)


def check(root: StoreRoot) -> None:
    scan = scan_store(root)
    listing = list_entries(root)
    quick, walked = store_stats(root), store_stats(root, scan=True)
    files = {file.key: (file.path, file.size_bytes) for file in scan.entries}
    assert {row.key: (row.path, row.size_bytes) for row in listing.entries} == files
    assert quick.entries == walked.entries == len(files)
    assert walked.drift_entries == 0
    assert quick.bytes == walked.bytes
    assert quick.bytes.allocated == allocated_once(scan.entries)
    assert sum(group.bytes for group in quick.by_model) == quick.bytes.logical
    assert sum(count for count, _ in quick.by_kind.values()) == quick.entries
    assert quick.by_age[0][1:] == (quick.entries, quick.bytes.logical)
    counted = quick.bytes
    total = counted.logical + counted.quarantine + counted.tmp + counted.index + counted.foreign
    assert total == sizes_below(root.path)


def test_a_directory_that_cannot_be_listed_is_told_and_hides_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_store(tmp_path / "store")
    add(root, entry(1))
    closed = root.path / "closed"
    closed.mkdir()
    listing = os.scandir

    def refuse(path: str) -> object:
        if path == str(closed):
            raise PermissionError(13, "Permission denied", path)
        return listing(path)

    monkeypatch.setattr("vcache_cli.store.scan.os.scandir", refuse)
    stats = store_stats(root, scan=True)
    assert stats.unreadable == (("closed", "Permission denied"),)
    assert stats.entries == 1


class Closed:
    """A name whose file cannot be looked at."""

    def __init__(self, found: os.DirEntry[str]) -> None:
        self.name = found.name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return follow_symlinks

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        raise PermissionError(13, "Permission denied", self.name, None, str(follow_symlinks))


def test_a_file_that_cannot_be_looked_at_is_told_and_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_store(tmp_path / "store")
    path = add(root, entry(1))
    os.utime(path.parent, (1, 1))  # settled: a scan of it would be remembered
    listing = os.scandir

    @contextmanager
    def closed(place: str) -> Iterator[list[Closed | os.DirEntry[str]]]:
        with listing(place) as names:
            yield [Closed(each) if each.name == path.name else each for each in names]

    with monkeypatch.context() as patch, open_index(root, mode="w") as index:
        patch.setattr("vcache_cli.store.scan.os.scandir", closed)
        told = ((f"{path.parent.name}/{path.name}", "Permission denied"),)
        assert index.refresh().unseen == told
        assert store_stats(root, scan=True).unreadable == told
    with open_index(root, mode="w") as index:
        assert index.refresh().unseen == ()
        assert index.totals().entries == 1


def test_a_link_in_place_of_a_shard_is_not_followed(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    path = add(root, entry(1))
    shard = path.parent
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    assert list_entries(root).entries == ()
    assert store_stats(root).bytes.foreign == len(str(tmp_path / "elsewhere"))
