from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipeline.fakes import FakeEncoder
from vcache_cli.assemble.batching import batch_size_of
from vcache_cli.assemble.options import WarmOptions
from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
from vcache_cli.items import Stage


@pytest.fixture
def pixels_alone(tiny_siglip: Path) -> LoadedRecipe:
    return load_recipe(tiny_siglip, WarmOptions(stage=Stage.PIXELS))


@pytest.mark.parametrize(
    ("device", "size"), [("cpu x86_64", 8), ("cpu", 8), ("cuda:0 a card", 32), ("gpu a chip", 32)]
)
@pytest.mark.parametrize("processors", [1, 16])
def test_batches_are_small_where_a_processor_encodes_however_many_there_are(
    pixels_alone: LoadedRecipe, device: str, size: int, processors: int
) -> None:
    encoder = FakeEncoder(concurrency=processors, device={"device": device})
    assert batch_size_of(replace(pixels_alone, encoder=encoder), WarmOptions()) == size


def test_a_batch_is_as_large_as_was_asked_for(pixels_alone: LoadedRecipe) -> None:
    loaded = replace(pixels_alone, encoder=FakeEncoder(device={"device": "gpu"}))
    assert batch_size_of(loaded, WarmOptions(batch_size=3)) == 3


def test_where_nothing_is_encoded_items_come_one_by_one(pixels_alone: LoadedRecipe) -> None:
    assert batch_size_of(pixels_alone, WarmOptions()) == 1
