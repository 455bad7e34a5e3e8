"""Tiny checkpoints in every layout that published ones have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from samples.make_tiny_checkpoints import make_checkpoint
from vcache_cli.items import Pixels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tensors = dict[str, NDArray[Any]]
    Rebuild = Callable[[dict[str, Any], Tensors], tuple[dict[str, Any], Tensors]]


@pytest.fixture
def checkpoint_folder(tmp_path: Path) -> Callable[..., Path]:
    """Makes a checkpoint folder, then rebuilds its config and tensors by a function of both."""

    def make(family: str, rebuild: Rebuild | None = None, **options: Any) -> Path:  # noqa: ANN401
        folder = make_checkpoint(
            tmp_path / f"{family}-{len(list(tmp_path.iterdir()))}", family=family, **options
        )
        if rebuild is not None:
            config = json.loads((folder / "config.json").read_text())
            config, tensors = rebuild(config, load_file(folder / "model.safetensors"))
            (folder / "config.json").write_text(json.dumps(config))
            save_file(tensors, folder / "model.safetensors")
        return folder

    return make


@pytest.fixture(scope="session")
def pictures() -> list[Pixels]:
    """Ten pictures of noise, of the size that the tiny checkpoints take."""
    rng = np.random.default_rng(7)
    return [
        Pixels({"pixel_values": rng.standard_normal((3, 64, 64), dtype=np.float32)}, 64)
        for _ in range(10)
    ]
