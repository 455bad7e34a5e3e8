"""What an entry holds does not depend on what else is warmed, nor on by how many at once."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from samples import make_tiny_checkpoints, make_tiny_qwen
from vcache_cli import open_store
from vcache_cli.assemble import warm
from vcache_cli.assemble.options import WarmOptions
from vcache_cli.outcome import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAR = 1e-5
"""Relative to the largest value. Real towers are wide enough that numpy gives the same bits."""
SIZES = [(64, 64), (200, 90), (33, 47), (300, 240), (31, 300), (70, 50), (64, 64), (128, 128)]
RUNS = [(1, 1), (1, 4), (3, 4), (8, 1), (8, 4)]
"""Pictures of a batch, and workers."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    for number, (width, height) in enumerate(SIZES + SIZES[:3]):
        noise = rng.integers(0, 256, (height, width, 3), np.uint8)
        Image.fromarray(noise).save(folder / f"{number}.png")
    return folder


@pytest.fixture(scope="module", params=["siglip", "qwen2_5_vl"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family, folder = str(request.param), tmp_path_factory.mktemp("m")
    if family.startswith("qwen"):
        return make_tiny_qwen.make_checkpoint(folder, family=family)
    return make_tiny_checkpoints.make_checkpoint(folder, family=family)


def warmed(
    corpus: Path, store: Path, model: Path, options: WarmOptions
) -> dict[tuple[str, str], NDArray[Any]]:
    """Every tensor, by key and name."""
    outcomes = list(warm([str(corpus)], store=store, model=model, options=options))
    assert {each.status for each in outcomes} == {Status.STORED}
    with open_store(store) as opened:
        entries = [opened.get(str(each.key)) for each in outcomes]
    return {
        (entry.key, name): entry.numpy(name)
        for entry in entries
        if entry is not None
        for name in entry.tensors
    }


@pytest.mark.parametrize(
    "backend", ["numpy", pytest.param("mlx", marks=pytest.mark.needs_mlx), "torch"]
)
def test_features_do_not_depend_on_batch_mates_or_workers(
    corpus: Path, tmp_path: Path, model: Path, backend: str
) -> None:
    if backend == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    found = [
        warmed(
            corpus,
            tmp_path / f"{batch_size}-{workers}",
            model,
            WarmOptions(
                backend=backend,
                batch_size=batch_size,
                workers=workers,
                dtype="float32",
                compute_dtype="float32",
            ),
        )
        for batch_size, workers in RUNS
    ]
    assert len(found[0]) >= len(SIZES)
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        for name, expected in found[0].items():
            error = np.abs(other[name] - expected).max()
            assert error <= NEAR * np.abs(expected).max(), name
