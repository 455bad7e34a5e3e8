from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vcache_cli.assemble.options import WarmOptions
from vcache_cli.assemble.passes import make_workers
from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
from vcache_cli.engines import Limits, ProcessEngine, ThreadEngine
from vcache_cli.errors import UsageError
from vcache_cli.items import Stage
from vcache_cli.targets.mlx_vlm import MlxVlmTarget


@pytest.fixture
def loaded(tiny_siglip: Path) -> LoadedRecipe:
    """A recipe of our own target and family."""
    return load_recipe(tiny_siglip, WarmOptions(stage=Stage.PIXELS))


@pytest.mark.processes
def test_items_are_decoded_in_limited_processes(loaded: LoadedRecipe) -> None:
    options = WarmOptions(workers=3, item_timeout_seconds=7.0, item_memory_bytes=5)
    assert make_workers(loaded, options) == ProcessEngine(3, Limits(7.0, 5))


def test_threads_are_had_for_the_asking(loaded: LoadedRecipe) -> None:
    options = WarmOptions(workers=3, isolation="thread")
    assert make_workers(loaded, options) == ThreadEngine(3)


def test_a_servers_own_code_stays_in_this_process(loaded: LoadedRecipe) -> None:
    theirs = replace(loaded, target=MlxVlmTarget())
    assert isinstance(make_workers(theirs, WarmOptions()), ThreadEngine)


@pytest.mark.parametrize("name", ["item_timeout_seconds", "item_memory_bytes"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    given: dict[str, Any] = {name: 0}
    with pytest.raises(UsageError, match=name):
        WarmOptions(**given)
