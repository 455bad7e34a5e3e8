"""A corpus of many formats, and a store that was warmed with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from samples import make_samples
from tests.e2e.command import aged, vcache

COUNT = 24
"""Every way in which the samples store a picture, and a few of them twice."""


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of ten formats in nested folders; read only."""
    folder = tmp_path_factory.mktemp("corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_samples, "MAX_SIDE_PX", 256)  # drawing takes longer than warming
        make_samples.make_corpus(folder, count=COUNT)
    return aged(folder)


@pytest.fixture(scope="session")
def warmed_once(corpus: Path, tiny_siglip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the corpus; copy it before changing it."""
    store = tmp_path_factory.mktemp("warmed") / "store"
    run = vcache("warm", corpus, "-m", tiny_siglip, "-s", store, "--json")
    assert run.code == 0
    assert run.items["stored"] == run.items["total"] == COUNT
    return store


@pytest.fixture
def warmed(warmed_once: Path, tmp_path: Path) -> Path:
    """A store of the corpus of the test's own."""
    return Path(shutil.copytree(warmed_once, tmp_path / "warmed"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where a store is not yet."""
    return tmp_path / "store"
