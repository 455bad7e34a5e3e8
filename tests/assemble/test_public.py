from __future__ import annotations

from pathlib import Path

import pytest

from vcache_cli.assemble import WarmOptions, check, open_store, warm
from vcache_cli.errors import NothingToDoError


def test_one_source_may_stand_alone_as_text_or_path(
    tmp_path: Path, media: Path, tiny_siglip: Path
) -> None:
    """A text is a sequence of texts, too: its letters are no files, and one of them is the root."""
    picture = media / "hills.jpg"
    spellings: list[Path | str | list[Path] | list[str]]
    spellings = [str(picture), picture, [picture], [str(picture)]]
    for number, sources in enumerate(spellings):
        store = tmp_path / str(number)
        outcomes = list(warm(sources, store=store, model=tiny_siglip))
        assert [outcome.item.path for outcome in outcomes] == [str(picture)]
        assert check(sources, store=store, model=tiny_siglip).coverage == 1.0


def test_what_was_warmed_is_read_by_key(tmp_path: Path, media: Path, tiny_siglip: Path) -> None:
    options = WarmOptions(dtype="float32")
    (outcome,) = warm(media / "chart.png", store=tmp_path / "s", model=tiny_siglip, options=options)
    assert outcome.key
    with open_store(tmp_path / "s") as store:
        entry = store.get(outcome.key)
    assert entry
    assert entry.tensors["features"].dtype == "F32"


def test_a_folder_without_pictures_is_nothing_to_do(tmp_path: Path, tiny_siglip: Path) -> None:
    with pytest.raises(NothingToDoError, match="none of 4 files"):
        list(warm(tiny_siglip, store=tmp_path / "s", model=tiny_siglip))
