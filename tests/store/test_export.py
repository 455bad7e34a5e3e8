"""An export: the same entries are the same bytes, whatever else happens to the store."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.archives import draft, exported, filled
from tests.store.care import add, entry, make_store, set_used
from vcache_cli.errors import RefusedError
from vcache_cli.store import export as export_module
from vcache_cli.store.archive_tar import END_MARK, filling, member_header, plain_member
from vcache_cli.store.export import export_store
from vcache_cli.store.scan import DirectoryScan, walk
from vcache_cli.store.scan_names import Naming

LETTERS = st.characters(exclude_categories=["Cs", "Cc"])
NAMES = st.text(LETTERS, min_size=1, max_size=200).filter(lambda name: name.strip("/"))
"""None of slashes alone, which is the name of no file."""


@given(name=NAMES, data=st.binary(max_size=1100))
def test_any_tar_reader_finds_name_and_data(name: str, data: bytes) -> None:
    archive = member_header(name, len(data)) + data + filling(len(data)) + END_MARK
    assert len(archive) % 512 == 0
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        (found,) = tar.getmembers()
        assert (found.name, found.size) == (name.rstrip("/"), len(data))
        assert (found.uid, found.gid, found.mode, found.mtime) == (0, 0, 0o444, 0)
        if found.isfile():
            file = tar.extractfile(found)
            assert file is not None
            assert file.read() == data


@given(st.binary(min_size=512, max_size=512))
def test_no_other_block_is_taken_for_a_header(block: bytes) -> None:
    assert plain_member(block) is None
    assert plain_member(member_header("a/b", 7)) == ("a/b", 7)


def test_a_store_and_its_copy_export_the_same_bytes(tmp_path: Path) -> None:
    """Neither the order of writing, nor times, nor the store's own id is in an archive."""
    one, other = filled(tmp_path / "one"), filled(tmp_path / "other", [3, 1, 0, 2])
    for number, path in enumerate(other.path.glob("??/*.safetensors")):
        set_used(path, 1_000_000.0 + number)
    assert exported(one) == exported(other) == draft(one).encoded()


def test_neither_index_nor_runs_nor_strangers_are_exported(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    before = exported(root)
    (root.path / ".vcache" / "index.sqlite").write_bytes(b"rows")
    (root.path / ".vcache" / "runs" / "a.jsonl").write_bytes(b"{}")
    (root.path / "notes.txt").write_text("mine")
    (root.path / "ab").mkdir(exist_ok=True)
    (root.path / "ab" / "link.safetensors").symlink_to("/etc/passwd")
    assert exported(root) == before


def test_the_manifest_stands_in_parts_before_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = filled(tmp_path / "store", range(7))
    monkeypatch.setattr(export_module, "MAX_PART_FILES", 3)
    with tarfile.open(fileobj=io.BytesIO(exported(root)), mode="r|") as tar:
        told: list[str] = []
        names: list[str] = []
        for each in tar:
            file = tar.extractfile(each)
            assert file is not None
            if each.name.startswith(".vcache-export/0"):
                assert names == told
                told += [one["path"] for one in json.load(file)["files"]]
            elif each.name.startswith(".vcache-export/"):
                end = json.load(file)
            else:
                names.append(each.name)
    assert names == told == sorted(names)
    assert (end["parts"], end["entries"]) == (3, 7)


def test_times_of_use_do_not_change(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    paths = list(root.path.glob("??/*.safetensors"))
    before = [path.stat().st_mtime_ns for path in paths]
    exported(root)
    assert [path.stat().st_mtime_ns for path in paths] == before


def test_a_damaged_entry_is_left_out_and_told(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    path = next(root.path.glob("??/*.safetensors"))
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    os.chmod(path, 0o644)
    path.write_bytes(raw)
    result = export_store(root, io.BytesIO().write)
    assert result.entries == 3
    (failure,) = result.as_json()["failures"]
    assert (failure["key"], failure["kind"]) == (path.stem, "checksum")


def test_an_entry_that_vanishes_is_told_and_the_archive_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was listed, and is gone in the moment in which it would be opened."""
    root = filled(tmp_path / "store")
    gone = next(root.path.glob("??/*.safetensors"))

    def listed_before(path: Path, naming: Naming) -> list[DirectoryScan]:
        found = list(walk(path, naming))
        gone.unlink()
        return found

    monkeypatch.setattr(export_module, "walk", listed_before)
    out = io.BytesIO()
    result = export_store(root, out.write)
    assert (result.entries, result.vanished) == (3, 1)
    assert [each["key"] for each in result.as_json()["warnings"]] == [gone.stem]
    monkeypatch.undo()
    assert out.getvalue() == exported(root)


def test_a_store_that_others_may_write_to_is_not_exported(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    root.path.chmod(0o777)
    with pytest.raises(RefusedError, match="can be written by others"):
        exported(root)


def test_an_empty_store_is_a_whole_archive(tmp_path: Path) -> None:
    result = export_store(make_store(tmp_path / "store"), io.BytesIO().write)
    assert (result.entries, result.archive_bytes % 512) == (0, 0)


def test_only_what_is_wanted_is_exported(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    add(root, entry(9))
    result = export_store(root, io.BytesIO().write, wanted={entry(9).key, "f" * 64})
    assert result.entries == 1
