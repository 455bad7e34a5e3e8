from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.assemble.corpora import copied, corpus_of
from vcache_cli import Stage, WarmOptions
from vcache_cli.assemble import corpus_key
from vcache_cli.errors import NothingToDoError

NAMES = ("hills.jpg", "chart.png", "valley.webp")


@pytest.fixture
def pictures(media: Path) -> list[Path]:
    return [media / name for name in NAMES]


@pytest.fixture
def key(tiny_siglip: Path, pictures: list[Path]) -> str:
    return _key(tiny_siglip, *pictures)


def _key(model: Path, *paths: Path, options: WarmOptions | None = None) -> str:
    found = corpus_key(corpus_of(*paths), model=str(model), options=options or WarmOptions())
    return found.key


def test_names_order_dates_and_copies_play_no_part(
    key: str, pictures: list[Path], tiny_siglip: Path, tmp_path: Path
) -> None:
    moved = copied(tmp_path / "moved", pictures, prefix="z-")
    assert _key(tiny_siglip, moved) == key
    assert _key(tiny_siglip, *reversed(pictures)) == key
    for path in moved.iterdir():
        os.utime(path, (1, 1))
    assert _key(tiny_siglip, moved, *pictures) == key


def test_where_the_model_lies_plays_no_part(
    key: str, pictures: list[Path], tiny_siglip: Path, tmp_path: Path
) -> None:
    elsewhere = copied(tmp_path / "another-name", list(tiny_siglip.iterdir()))
    assert _key(elsewhere, *pictures) == key


def test_content_plays_its_part(
    key: str, pictures: list[Path], tiny_siglip: Path, tmp_path: Path
) -> None:
    changed = copied(tmp_path / "changed", pictures)
    with (changed / "hills.jpg").open("ab") as file:
        file.write(b"!")
    others = {
        _key(tiny_siglip, changed),
        _key(tiny_siglip, *pictures[:2]),
        _key(tiny_siglip, *pictures, changed / "hills.jpg"),
    }
    assert len(others | {key}) == 4


def test_the_recipe_plays_its_part(key: str, pictures: list[Path], tiny_siglip: Path) -> None:
    choices = (WarmOptions(dtype="float32"), WarmOptions(stage=Stage.PIXELS))
    others = {_key(tiny_siglip, *pictures, options=each) for each in choices}
    assert len(others | {key}) == 3


def test_how_the_work_is_done_plays_no_part(
    key: str, pictures: list[Path], tiny_siglip: Path
) -> None:
    options = WarmOptions(workers=1, batch_size=3, backend="numpy", on_error="fail")
    assert _key(tiny_siglip, *pictures, options=options) == key


def test_what_cannot_be_read_is_told_and_not_in_the_key(
    key: str, pictures: list[Path], tiny_siglip: Path, tmp_path: Path
) -> None:
    gone, text = tmp_path / "gone.jpg", tmp_path / "notes.txt"
    text.write_text("no picture", "utf-8")
    found = corpus_key(corpus_of(*pictures, gone), model=str(tiny_siglip), options=WarmOptions())
    assert (found.key, found.items, found.unreadable) == (key, 3, 1)
    assert found.as_json()["failures"][0]["source"] == str(gone)
    assert _key(tiny_siglip, *pictures, text) == key
    with pytest.raises(NothingToDoError):
        _key(tiny_siglip, gone)
