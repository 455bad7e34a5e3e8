"""The contract of a layout: where entries lie, and what their files hold."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import InvalidEntryError
from vcache_cli.items import Kind
from vcache_cli.protocols import Layout
from vcache_cli.tensor import ITEMSIZE_BYTES
from vcache_cli.testing.audit import watch_io
from vcache_cli.testing.files import EntryFile, contents, file_of
from vcache_cli.testing.strategies import changed_metadata, lies, texts_near

__all__ = ["LayoutTests", "examples"]

_T = TypeVar("_T")
_MAX_NAME_BYTES: Final = 255
_WRITER_ALIGNMENT_BYTES: Final = 64
examples = settings(
    deadline=None,
    # A layout and its sample entries are values: a test cannot spoil them for the next example.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
"""Settings of every property in a kit."""


class LayoutTests:
    """What every layout does. Subclass it and override `layout` and `entries`."""

    @pytest.fixture
    def layout(self) -> Layout:
        """The layout under test."""
        raise NotImplementedError("override the fixture `layout`")

    @pytest.fixture
    def entries(self) -> Sequence[Entry]:
        """Two entries or more, of different keys, that the layout can hold."""
        raise NotImplementedError("override the fixture `entries`")

    # --- keys and paths ----------------------------------------------------------------------

    def test_a_key_has_one_place_and_the_place_one_key(
        self, layout: Layout, entries: Sequence[Entry]
    ) -> None:
        """`key_of` undoes `path_of`; another spelling of a key leads to the same place."""
        paths = [layout.path_of(entry.key) for entry in entries]
        assert len(set(paths)) == len(entries) >= 2
        for path in paths:
            _check_place(path, layout)

    @examples
    @given(data=st.data())
    def test_a_path_never_leaves_the_root(
        self, layout: Layout, entries: Sequence[Entry], data: st.DataObject
    ) -> None:
        """Whatever text comes as a key: a ValueError, or a place for an entry below the root."""
        key = data.draw(texts_near([entry.key for entry in entries]))
        try:
            path = layout.path_of(key)
        except ValueError:
            return
        _check_place(path, layout)

    @examples
    @given(data=st.data())
    def test_only_an_exact_place_holds_an_entry(
        self, layout: Layout, entries: Sequence[Entry], data: st.DataObject
    ) -> None:
        """A file is deleted by its path alone, so a near miss is a stranger's."""
        path = data.draw(texts_near([layout.path_of(entry.key) for entry in entries]))
        if layout.key_of(path) is not None:
            _check_place(path, layout)

    def test_foreign_files_have_no_key(self, layout: Layout, entries: Sequence[Entry]) -> None:
        """Temporary files, other places and other spellings of a path."""
        folder, _, name = layout.path_of(entries[0].key).partition("/")
        foreign = [
            *("", ".", "..", "/", folder, name, f"{folder}/", f"/{folder}/{name}"),
            *(f"./{folder}/{name}", f"../{folder}/{name}", f"{folder}//{name}"),
            *(f"x/{folder}/{name}", f"{folder}/x/{name}", f"{folder}/{name}/x"),
            *(f"../{name}", f".vcache/{name}", f".vcache/tmp/{name}", "CACHEDIR.TAG"),
            *(f"{folder}/.{name}", f"{folder}/{name}.tmp", f"{folder}/{name}\n"),
            *(f"{folder}/{name}\0", f"{folder}/{name.upper()}", f"{folder}\\{name}"),
        ]
        assert {path: key for path in foreign if (key := layout.key_of(path))} == {}

    # --- files -------------------------------------------------------------------------------

    def test_unpacking_what_was_packed_gives_the_same_entry(
        self, layout: Layout, entries: Sequence[Entry]
    ) -> None:
        """Key, stage and tensors survive, and all else that a file of this layout can say."""
        for entry in entries:
            file = file_of(entry, layout)
            again = layout.unpack(file.path, file.metadata, file.tensors)
            assert again.key == layout.key_of(file.path)
            assert again.stage is entry.stage
            assert contents(again.tensors) == contents(entry.tensors)
            once_more = file_of(again, layout)
            assert once_more.data == file.data
            last = layout.unpack(once_more.path, once_more.metadata, once_more.tensors)
            assert last.provenance == again.provenance

    def test_a_header_alone_says_all_but_the_tensors(
        self, layout: Layout, entries: Sequence[Entry]
    ) -> None:
        """A scan reads no tensor."""
        for entry in entries:
            file = file_of(entry, layout)
            whole = layout.unpack(file.path, file.metadata, file.tensors)
            bare = layout.unpack(file.path, file.metadata, MappingProxyType({}))
            assert bare.tensors == {}
            assert (bare.key, bare.stage) == (whole.key, whole.stage)
            assert (bare.provenance, bare.metadata) == (whole.provenance, whole.metadata)

    @examples
    @given(data=st.data())
    def test_hostile_metadata_gives_invalid_entry_error_only(
        self, layout: Layout, entries: Sequence[Entry], data: st.DataObject
    ) -> None:
        """What is accepted is the entry of that path, every value of the type that it promises."""
        file = file_of(data.draw(st.sampled_from(entries)), layout)
        metadata = data.draw(changed_metadata(file.metadata))
        _check_unpacked(replace(file, metadata=metadata), layout)

    def test_no_field_can_lie_about_its_type(
        self, layout: Layout, entries: Sequence[Entry]
    ) -> None:
        """The same, field by field, with values that have gone wrong elsewhere."""
        for entry in entries:
            file = file_of(entry, layout)
            for metadata in lies(file.metadata):
                _check_unpacked(replace(file, metadata=metadata), layout)

    def test_the_file_of_another_key_is_not_taken_for_this_one(
        self, layout: Layout, entries: Sequence[Entry]
    ) -> None:
        """A file that was moved is refused where it says whose it is, and has its place's key."""
        path = layout.path_of(entries[0].key)
        file = file_of(entries[1], layout)
        try:
            entry = layout.unpack(path, file.metadata, file.tensors)
        except InvalidEntryError as error:
            assert error.finding == "key_mismatch"  # noqa: PT017  a layout may also accept it
        else:
            assert entry.key == layout.key_of(path)

    # --- what it declares --------------------------------------------------------------------

    def test_its_limits_make_sense(self, layout: Layout) -> None:
        """Bounds are bounds, dtypes exist, and files of vcache's writer are aligned enough."""
        limits = layout.limits
        sizes = (limits.max_header_bytes, limits.max_tensors, limits.max_ndim)
        assert min(*sizes, limits.max_file_bytes) > 0
        assert limits.max_header_bytes < limits.max_file_bytes
        assert _WRITER_ALIGNMENT_BYTES % limits.alignment_bytes == 0
        assert limits.dtypes <= ITEMSIZE_BYTES.keys()
        assert re.compile(limits.name_pattern)

    def test_its_checksum_is_the_writers_business(
        self, layout: Layout, entries: Sequence[Entry]
    ) -> None:
        """`pack` leaves the field out: nobody but the writer knows the whole file."""
        assert layout.checksum_field or not layout.checksum_required
        assert layout.checksum_field not in layout.pack(entries[0])[0]

    def test_it_crosses_to_another_process(self, layout: Layout, entries: Sequence[Entry]) -> None:
        """Pickled, it answers as before."""
        again = _pickled(layout)
        for entry in entries:
            path = layout.path_of(entry.key)
            assert again.path_of(entry.key) == path
            assert again.key_of(path) == layout.key_of(path)
        assert again.limits == layout.limits

    def test_it_does_no_input_or_output(self, layout: Layout, entries: Sequence[Entry]) -> None:
        """It runs in every get, in any thread, below any root."""
        file = file_of(entries[0], layout)
        for watched in (False, True):  # the first round may import
            with watch_io() as found:
                layout.pack(entries[0])
                layout.key_of(layout.path_of(entries[0].key))
                layout.unpack(file.path, file.metadata, file.tensors)
            assert not watched or found == []


def _check_place(path: str, layout: Layout) -> None:
    """`path` is where one entry of the layout lies, safe to make and to remove."""
    folder, slash, name = path.partition("/")
    assert slash, f"{path!r}: a file in a directory is expected"
    for part in (folder, name):
        assert part not in {"", ".", ".."}, path
        assert not {"/", "\0"}.intersection(part), path
        assert len(os.fsencode(part)) <= _MAX_NAME_BYTES, path
    assert folder.casefold() != ".vcache"  # some file systems take both for one
    assert layout.shards is None or folder in layout.shards
    key = layout.key_of(path)
    assert key is not None
    assert layout.path_of(key) == path


def _check_unpacked(file: EntryFile, layout: Layout) -> None:
    """With and without its tensors, the file is refused, or is the entry of its path."""
    for tensors in (file.tensors, {}):
        try:
            entry = layout.unpack(file.path, MappingProxyType(dict(file.metadata)), tensors)
        except InvalidEntryError:
            continue
        assert entry.key == layout.key_of(file.path)
        _check_types(entry.provenance)


def _check_types(known: Provenance) -> None:
    for text in (known.source_sha256, known.model, known.created):
        assert text is None or type(text) is str
    assert known.kind is None or isinstance(known.kind, Kind)
    if known.num_tokens is not None:
        assert type(known.num_tokens) is int
        assert 0 <= known.num_tokens < 2**63  # an index keeps it in eight bytes
    assert isinstance(known.recipe, Mapping)
    assert json.dumps(dict(known.recipe), allow_nan=False)
    assert isinstance(known.versions, Mapping)
    assert all(type(text) is str for pair in known.versions.items() for text in pair)


def _pickled(value: _T) -> _T:
    again: _T = pickle.loads(pickle.dumps(value))  # noqa: S301  our own bytes
    return again
