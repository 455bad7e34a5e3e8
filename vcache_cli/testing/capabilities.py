"""The contracts of what some layouts are able to do besides: capabilities, each with its tests."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.entry import Entry
from vcache_cli.protocols import Examiner, Layout, OwnDirectory, StoredFile
from vcache_cli.testing.audit import watch_io
from vcache_cli.testing.files import file_of
from vcache_cli.testing.layouts import LayoutTests, examples
from vcache_cli.testing.strategies import (
    changed_metadata,
    hostile_texts,
    stored_files,
    texts_near,
)

__all__ = ["ExaminerTests", "OwnDirectoryTests"]

_NOT_TELLING = ("", ".", "..", ".vcache", ".VCACHE", "tmp", "lost+found", "a", "my photos")


class OwnDirectoryTests(LayoutTests):
    """What a layout does that gives each entry a directory of its own."""

    @pytest.fixture
    def directories(self, layout: Layout) -> OwnDirectory:
        """The layout, known to have the capability."""
        assert isinstance(layout, OwnDirectory)
        return layout

    def test_a_directory_holds_one_entry(
        self, layout: Layout, directories: OwnDirectory, entries: Sequence[Entry]
    ) -> None:
        """It is the one that the entry's file lies in, so that an emptied one can be removed."""
        found = [directories.directory_of(entry.key) for entry in entries]
        assert len(set(found)) == len(entries)
        for entry, directory in zip(entries, found, strict=True):
            assert layout.path_of(entry.key).rpartition("/")[0] == directory

    @examples
    @given(data=st.data())
    def test_no_text_makes_a_directory_without_a_place_in_it(
        self,
        layout: Layout,
        directories: OwnDirectory,
        entries: Sequence[Entry],
        data: st.DataObject,
    ) -> None:
        """`directory_of` refuses what `path_of` refuses."""
        key = data.draw(texts_near([entry.key for entry in entries]))
        try:
            directory = directories.directory_of(key)
        except ValueError:
            with pytest.raises(ValueError):  # noqa: PT011  each layout has its own words
                layout.path_of(key)
            return
        assert layout.path_of(key).rpartition("/")[0] == directory

    @pytest.mark.parametrize("name", _NOT_TELLING)
    def test_a_name_that_anyone_may_choose_tells_nothing(
        self, directories: OwnDirectory, name: str
    ) -> None:
        """An empty directory is removed only where its name says that the server made it."""
        assert not directories.is_telling(name)

    @examples
    @given(name=hostile_texts())
    def test_any_name_gets_an_answer(self, directories: OwnDirectory, name: str) -> None:
        """Strangers' directories have any name."""
        assert directories.is_telling(name) in {True, False}


class ExaminerTests(LayoutTests):
    """What a layout does that knows its server's view of a store."""

    @pytest.fixture
    def examiner(self, layout: Layout) -> Examiner:
        """The layout, known to have the capability."""
        assert isinstance(layout, Examiner)
        return layout

    @examples
    @given(data=st.data())
    def test_hostile_files_are_examined_and_never_raise(
        self, layout: Layout, examiner: Examiner, entries: Sequence[Entry], data: st.DataObject
    ) -> None:
        """The view names files that are there, each in one list at most."""
        file = file_of(data.draw(st.sampled_from(entries)), layout)
        metadata = changed_metadata(file.metadata)
        files = data.draw(
            st.lists(
                stored_files([file.path], metadata, file.tensors),
                max_size=6,
                unique_by=lambda each: each.path,
            )
        )
        view = examiner.examine(files, is_folder=lambda path: "/" in path, now=1e9)
        known = {id(each) for each in files}
        listed = [id(each) for each in (*view.indexed, *view.unindexed)]
        assert known.issuperset(listed)
        assert len(set(listed)) == len(listed)
        assert {found.path for found in view.findings} <= {each.path for each in files}
        assert all(found.kind for found in view.findings)
        assert 0 <= view.evicts_next <= len(view.indexed)
        for each in files:
            assert json.dumps(dict(examiner.describe(each)), allow_nan=False)

    @examples
    @given(text=hostile_texts(), model=hostile_texts())
    def test_keys_of_an_image_are_keys_of_the_layout(
        self, layout: Layout, examiner: Examiner, text: str, model: str
    ) -> None:
        """What is no hash has none; a model's name is any text that a header can hold."""
        name = model.encode("utf-8", "replace").decode()
        for key, why in examiner.keys_of(text, [name]).items():
            assert layout.key_of(layout.path_of(key)) == key
            assert why

    def test_examining_does_no_input_or_output(
        self, layout: Layout, examiner: Examiner, entries: Sequence[Entry]
    ) -> None:
        """Listing and headers are given; of the machine it only asks what `is_folder` answers."""
        files = [
            StoredFile(file.path, len(file.data), metadata=file.metadata)
            for file in (file_of(entry, layout) for entry in entries)
        ]
        for watched in (False, True):  # the first round may import
            with watch_io() as found:
                examiner.examine(iter(files), is_folder=lambda _: False, now=1e9)
                examiner.describe(files[0])
            assert not watched or found == []
