"""A second run over folders does exactly what a look at each file would have it do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.pipeline.fakes import RECIPE, MemoryStore, Rig
from tests.store.care import make_store
from vcache_cli.folders import FolderFiles
from vcache_cli.media import sources
from vcache_cli.media.walk import walk
from vcache_cli.outcome import Outcome, PresentFiles, Status
from vcache_cli.pipeline.lookahead import Lookahead
from vcache_cli.protocols import KeyFrom
from vcache_cli.store.index import Index, open_index
from vcache_cli.targets.native import NativeTarget

OLD = 1_600_000_000
COUNT = 10


def write(path: Path, content: bytes) -> None:
    """A file that nobody has changed for long."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (OLD, OLD))


@dataclass(frozen=True)
class LateTarget(NativeTarget):
    """Its keys can only be made of what was decoded."""

    key_from: KeyFrom = "frames"


@dataclass
class Folder:
    """A corpus and what runs over it learnt."""

    top: Path
    index: Index
    store: MemoryStore = field(default_factory=MemoryStore)
    target: NativeTarget = field(default_factory=NativeTarget)

    def rig(self) -> Rig:
        return Rig(store=self.store, ledger=self.index, target=self.target)

    def run(self) -> dict[str, Status]:
        """What became of each, found as a walk finds them."""
        outcomes = self.outcomes()
        assert len(outcomes) == sum(map(len, walk(str(self.top))))
        return {os.path.relpath(each.item.path, self.top): each.status for each in outcomes}

    def outcomes(self) -> list[Outcome]:
        batches = self.rig().make().batches(walk(str(self.top)))
        return [outcome for batch in batches for outcome in batch]

    def alone(self) -> dict[str, bool]:
        """Whether each is there, says a look at it alone."""
        triage = self.rig().make()._parts.triage
        items = [item for batch in walk(str(self.top)) for item in batch]
        found = [(item, triage(item)) for item in items]
        return {
            os.path.relpath(item.path, self.top): bool(told and told.status is Status.PRESENT)
            for item, told in found
        }


@pytest.fixture(params=[NativeTarget(), LateTarget()], ids=["digest", "frames"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Folder]:
    top = tmp_path / "corpus"
    for number in range(COUNT):
        write(top / f"{number:02}.jpg", b"IMG " + b"x" * number)
    with open_index(make_store(tmp_path / "index"), mode="w") as index:
        folder = Folder(top, index, target=request.param)
        assert set(folder.run().values()) == {Status.STORED}
        index.commit()
        yield folder


def test_a_folder_that_did_not_change_is_there_as_a_whole(folder: Folder) -> None:
    batches = list(folder.rig().make().batches(walk(str(folder.top))))
    assert [(type(batch), len(batch)) for batch in batches if batch] == [(PresentFiles, COUNT)]
    assert set(folder.run().values()) == {Status.PRESENT}
    assert all(outcome.bytes_read == 0 for batch in batches for outcome in batch)


def grow(top: Path) -> None:
    write(top / "03.jpg", b"IMG another, longer")


def touch(top: Path) -> None:
    os.utime(top / "03.jpg", (OLD + 1, OLD + 1))


def rewrite(top: Path) -> None:
    """As long as before, and dated as before."""
    write(top / "03.jpg", b"IMG yyy")


def replace_by_other(top: Path) -> None:
    os.replace(top / "04.jpg", top / "03.jpg")


def link(top: Path) -> None:
    (top / "03.jpg").unlink()
    (top / "03.jpg").symlink_to("05.jpg")


def break_link(top: Path) -> None:
    (top / "03.jpg").unlink()
    (top / "03.jpg").symlink_to("nothing")


def make_folder(top: Path) -> None:
    (top / "03.jpg").unlink()
    write(top / "03.jpg" / "inner.jpg", b"IMG inner")


def swap(top: Path) -> None:
    os.rename(top / "03.jpg", top / "x")
    os.rename(top / "04.jpg", top / "03.jpg")
    os.rename(top / "x", top / "04.jpg")


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _: None,
    "grown": grow,
    "touched": touch,
    "rewritten": rewrite,
    "replaced by another": replace_by_other,
    "swapped": swap,
    "a link": link,
    "a broken link": break_link,
    "a folder": make_folder,
    "added first": lambda top: write(top / "!.jpg", b"IMG new"),
    "added last": lambda top: write(top / "zz.jpg", b"IMG new"),
    "a note": lambda top: write(top / "03.txt", b"note"),
    "broken": lambda top: write(top / "03b.jpg", b"IMG broken"),
    "a copy": lambda top: write(top / "03b.jpg", b"IMG xxx"),
    "another case": lambda top: os.rename(top / "03.jpg", top / "03.JPG"),
    "no text": lambda top: os.rename(top / "03.jpg", os.fsencode(top) + b"/\xe9.jpg"),
    "removed": lambda top: (top / "03.jpg").unlink(),
    "renamed": lambda top: os.rename(top / "03.jpg", top / "33.jpg"),
    "another folder": lambda top: shutil.copytree(top, top.with_name("x")).rename(top / "y"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_changed_is_worked_on_and_nothing_else(
    folder: Folder, change: Callable[[Path], object]
) -> None:
    change(folder.top)
    alone = folder.alone()
    opened = {name for name, there in alone.items() if not there}
    outcomes = {os.path.relpath(each.item.path, folder.top): each for each in folder.outcomes()}
    assert outcomes.keys() == alone.keys()
    kept = [each for name, each in outcomes.items() if name not in opened]
    assert all(each.status is Status.PRESENT and not each.bytes_read for each in kept)
    assert all(outcomes[name].bytes_read or outcomes[name].failure for name in opened)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_after_a_change_the_folder_is_known_again(
    folder: Folder, change: Callable[[Path], object]
) -> None:
    change(folder.top)
    folder.run()
    folder.index.commit()
    assert all(not each.bytes_read for each in folder.outcomes() if not each.failure)


def test_a_file_rewritten_a_moment_ago_is_read_again_until_it_settles(folder: Folder) -> None:
    (folder.top / "03.jpg").write_bytes(b"IMG yyy")
    for _ in range(2):
        read = [each.item.path for each in folder.outcomes() if each.bytes_read]
        assert read == [str(folder.top / "03.jpg")]
        folder.index.commit()


def test_an_entry_that_was_pruned_is_made_again(folder: Folder) -> None:
    folder.store.entries.popitem()
    assert sorted(folder.run().values()) == [Status.PRESENT] * (COUNT - 1) + [Status.STORED]
    folder.store.entries.clear()
    assert set(folder.run().values()) == {Status.STORED}


def test_another_recipe_finds_nothing_in_the_same_memo(folder: Folder) -> None:
    triage = folder.rig().make()._parts.triage
    other = replace(
        triage, recipe=replace(RECIPE, family_revision=2), make_context=lambda: "another"
    )
    found = list(Lookahead(other).over(walk(str(folder.top))))
    assert not any(isinstance(each, PresentFiles) for each in found)
    assert sum(map(len, found)) == COUNT


def test_two_folders_alike_are_both_there(folder: Folder) -> None:
    for path in sorted(folder.top.iterdir()):
        write(folder.top / "more" / path.name, path.read_bytes())
    first = folder.run()
    assert {first[f"more/{number:02}.jpg"] for number in range(COUNT)} == {Status.PRESENT}
    folder.index.commit()
    assert set(folder.run().values()) == {Status.PRESENT}


def test_a_copy_of_what_this_run_stored_is_a_copy(folder: Folder) -> None:
    """Known from before, pruned, and made anew for the first of two folders."""
    for number in range(COUNT):
        write(folder.top / "more" / f"{number:02}.jpg", b"IMG " + b"x" * number)
    folder.run()
    folder.index.commit()
    folder.store.entries.clear()
    found = folder.run()
    for number in range(COUNT):
        both = {found[f"{number:02}.jpg"], found[f"more/{number:02}.jpg"]}
        assert both == {Status.STORED, Status.COPY}


def test_two_runs_at_once_tell_each_item_once(folder: Folder) -> None:
    for number in range(COUNT):
        write(folder.top / "more" / f"{number:02}.jpg", b"IMG more" + b"x" * number)
    runs = [folder.rig().make().batches(walk(str(folder.top))) for _ in range(2)]
    told: tuple[list[Outcome], list[Outcome]] = [], []
    for batches in zip_longest(*runs, fillvalue=()):
        for outcomes, batch in zip(told, batches, strict=True):
            outcomes.extend(batch)
    assert [len(outcomes) for outcomes in told] == [2 * COUNT] * 2
    assert all(not outcome.failure for outcomes in told for outcome in outcomes)


def test_files_of_a_folder_come_before_what_has_to_be_done_there(folder: Folder) -> None:
    write(folder.top / "!.jpg", b"IMG new")
    lookahead = Lookahead(folder.rig().make()._parts.triage)
    found: list[object] = []
    for each in lookahead.over(walk(str(folder.top))):
        found += [type(each)] * len(each) if isinstance(each, PresentFiles) else each
    assert found[:COUNT] == [PresentFiles] * COUNT
    assert len(found) == COUNT + 1


def test_items_of_other_sources_are_looked_up_between_folders(folder: Folder) -> None:
    write(folder.top.parent / "alone.jpg", b"IMG alone")
    corpus = sources([str(folder.top), str(folder.top.parent / "alone.jpg"), str(folder.top)])
    for expected in (Status.STORED, Status.PRESENT):
        batches = folder.rig().make().batches(corpus.batches())
        found = {each.item.locator: each.status for batch in batches for each in batch}
        assert len(found) == COUNT + 1
        assert found[str(folder.top.parent / "alone.jpg")] is expected
        folder.index.commit()


def test_a_memo_of_single_files_is_asked_for_each(tmp_path: Path) -> None:
    for number in range(COUNT):
        write(tmp_path / "in" / f"{number}.jpg", b"IMG " + b"x" * number)
    rig = Rig()
    (files,) = walk(str(tmp_path / "in"))
    assert isinstance(files, FolderFiles)
    for expected in (Status.STORED, Status.PRESENT):
        found = [each for batch in rig.make().batches([files]) for each in batch]
        assert {each.item.locator for each in found} == set(files.paths)
        assert {each.status for each in found} == {expected}
