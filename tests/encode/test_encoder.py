"""A loaded tower: its fingerprint, what it reads, and features that depend on nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from vcache_cli.checkpoint import Checkpoint, open_checkpoint, weights
from vcache_cli.encode import (
    clip,
    fingerprint,
    load_encoder,
    mlx_ops,
    numpy_backend,
    numpy_ops,
    siglip,
)
from vcache_cli.encode.encoder import TowerEncoder
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Features, Pixels
from vcache_cli.protocols import Backend, Tower
from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

Folders = Callable[..., Path]
TOWERS: dict[str, Tower] = {"siglip": siglip.TOWER, "clip": clip.TOWER}
BACKENDS = [
    pytest.param(numpy_backend.BACKEND, id="numpy"),
    pytest.param(mlx_ops.BACKEND, id="mlx", marks=pytest.mark.needs_mlx),
]
TOLERANCE = 1e-5
"""Of the largest feature, between batch sizes; stated for the recipe."""


def load(folder: Path, backend: Backend = numpy_backend.BACKEND, **options: Any) -> TowerEncoder:  # noqa: ANN401
    """A SigLIP tower."""
    return load_encoder(open_checkpoint(str(folder)), siglip.TOWER, backend, **options)


def stacked(features: list[Features]) -> NDArray[np.float32]:
    """All features as one array."""
    return np.stack([item.tensors["features"] for item in features])


def difference(one: list[Features], other: list[Features]) -> float:
    """Largest difference relative to the largest feature."""
    a, b = stacked(one), stacked(other)
    return float(np.abs(a - b).max() / np.abs(a).max())


@pytest.mark.parametrize("family", TOWERS)
def test_shards_and_one_file_give_the_same(
    family: str, checkpoint_folder: Folders, pictures: list[Pixels]
) -> None:
    single, several = (
        load_encoder(open_checkpoint(str(folder)), TOWERS[family], numpy_backend.BACKEND)
        for folder in (checkpoint_folder(family), checkpoint_folder(family, shards=4))
    )
    assert single.fingerprint == several.fingerprint
    assert difference(single.encode(pictures), several.encode(pictures)) == 0


def test_the_fingerprint_needs_no_backend(tiny_siglip: Path) -> None:
    checkpoint = open_checkpoint(str(tiny_siglip))
    plan = siglip.TOWER.plan(checkpoint, "hidden")
    assert fingerprint(checkpoint, plan) == load(tiny_siglip).fingerprint


def test_the_fingerprint_is_what_it_was(tiny_siglip: Path) -> None:
    """A change here makes every store of features obsolete."""
    known = "e4deaf6b7cacda78ac558064b6372bb522b4059015ddccc8f8aeb340b6d6be3e"
    assert load(tiny_siglip).fingerprint == known


def changed_weight(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["vision_model.post_layernorm.bias"][0] += 1
    save_file(tensors, folder / "model.safetensors")


def changed_setting(folder: Path) -> None:
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace("1e-06", "1e-05"))


def changed_dtype(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = "vision_model.post_layernorm.bias"
    save_file(tensors | {name: tensors[name].astype(np.float16)}, folder / "model.safetensors")


@pytest.mark.parametrize("change", [changed_weight, changed_setting, changed_dtype])
def test_what_changes_features_changes_the_fingerprint(
    change: Callable[[Path], None], checkpoint_folder: Folders, tiny_siglip: Path
) -> None:
    folder = checkpoint_folder("siglip")
    change(folder)
    assert load(folder).fingerprint != load(tiny_siglip).fingerprint


def test_a_change_of_the_text_part_does_not(checkpoint_folder: Folders, tiny_siglip: Path) -> None:
    assert load(checkpoint_folder("siglip", seed=0)).fingerprint == load(tiny_siglip).fingerprint
    folder = checkpoint_folder("siglip")
    tensors = load_file(folder / "model.safetensors")
    tensors["text_model.head.bias"] += 1
    save_file(tensors, folder / "model.safetensors")
    assert load(folder).fingerprint == load(tiny_siglip).fingerprint


def test_each_vision_weight_is_read_once_and_nothing_else(
    tiny_siglip: Path, pictures: list[Pixels], monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[tuple[int, int]] = []
    read = weights.read_range

    def recorded(file: Any, offset: int, size_bytes: int) -> memoryview:  # noqa: ANN401
        places.append((offset, size_bytes))
        return read(file, offset, size_bytes)

    monkeypatch.setattr(weights, "read_range", recorded)
    load(tiny_siglip).encode(pictures)
    checkpoint = open_checkpoint(str(tiny_siglip))
    vision = siglip.TOWER.plan(checkpoint).tensors.values()
    expected = [
        (checkpoint.tensors[name].offset, checkpoint.tensors[name].size_bytes) for name in vision
    ]
    assert sorted(places[2 : 2 + len(expected)]) == sorted(expected)
    assert len(places) == 2 + len(expected) + 2  # one header read by each of the two who opened


@pytest.mark.parametrize("backend", BACKENDS)
def test_features_do_not_depend_on_the_batch(
    backend: Backend, tiny_siglip: Path, pictures: list[Pixels]
) -> None:
    encoder = load(tiny_siglip, backend)
    alone = [encoder.encode([item])[0] for item in pictures]
    for size in (2, 3, 7, 10):
        batches = [pictures[begin : begin + size] for begin in range(0, len(pictures), size)]
        together = [item for batch in batches for item in encoder.encode(batch)]
        assert difference(alone, together) < TOLERANCE


@pytest.mark.needs_mlx
def test_both_backends_give_the_same(tiny_siglip: Path, pictures: list[Pixels]) -> None:
    one = load(tiny_siglip).encode(pictures)
    other = load(tiny_siglip, mlx_ops.BACKEND).encode(pictures)
    assert difference(one, other) < TOLERANCE


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_threads_get_what_one_gets(
    backend: Backend, tiny_siglip: Path, pictures: list[Pixels]
) -> None:
    """Also where the backend itself must stay in one thread."""
    expected = load(tiny_siglip, backend).encode(pictures)
    encoder = load(tiny_siglip, backend)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(encoder.encode, [pictures] * 12))
    assert all(difference(expected, result) == 0 for result in results)


@pytest.mark.needs_mlx
def test_mlx_stays_in_one_thread(tiny_siglip: Path, pictures: list[Pixels]) -> None:
    seen: set[int] = set()

    class Watched(mlx_ops.MlxOps):
        def load(self, tensor: Tensor) -> Any:  # noqa: ANN401
            seen.add(threading.get_ident())
            return super().load(tensor)

        def unstack(self, batch: Any) -> list[NDArray[np.float32]]:  # noqa: ANN401
            seen.add(threading.get_ident())
            return super().unstack(batch)

    encoder = load(tiny_siglip)
    watched = TowerEncoder(
        encoder.tower, encoder.output, encoder.plan, Watched("F32"), encoder.weights
    )
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(watched.encode, [pictures[:1]] * 6))
    assert len(seen) == 1
    assert watched.concurrency == 1


def test_features_are_float32_of_their_own(tiny_siglip: Path, pictures: list[Pixels]) -> None:
    for item in load(tiny_siglip).encode(pictures):
        for array in item.tensors.values():
            assert array.dtype == np.float32
            assert array.base is None, "a view would keep the whole batch in memory"


def test_an_empty_batch_gives_nothing(tiny_siglip: Path) -> None:
    assert load(tiny_siglip).encode([]) == []


@pytest.mark.parametrize(
    ("tensors", "found"),
    [
        ({"pixel_values": np.zeros((3, 64, 32), np.float32)}, r"\[3, 64, 32\]"),
        ({"pixel_values": np.zeros((1, 64, 64), np.float32)}, r"\[1, 64, 64\]"),
        ({"other": np.zeros(1, np.float32)}, "none"),
    ],
)
def test_pixels_of_another_size_are_refused(
    tensors: dict[str, NDArray[np.float32]], found: str, tiny_siglip: Path
) -> None:
    with pytest.raises(EncodeError, match=rf"expected `pixel_values` \[3, 64, 64\], got {found}"):
        load(tiny_siglip).encode([Pixels(tensors, 64)])


@pytest.mark.parametrize("level", [np.nan, np.inf, np.finfo(np.float32).max])
def test_features_that_are_not_finite_are_refused_without_a_warning(
    tiny_siglip: Path, level: float
) -> None:
    pixels = Pixels({"pixel_values": np.full((3, 64, 64), level, np.float32)}, 64)
    with pytest.raises(EncodeError, match="expected finite `features`") as caught:
        load(tiny_siglip).encode([pixels])
    assert caught.value.item_kind == "not_finite"


def test_another_output_is_refused(tiny_siglip: Path) -> None:
    with pytest.raises(ModelError, match="expected output `hidden`, got `projected`"):
        load(tiny_siglip, output="projected")


def test_a_model_without_weights_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected weights"):
        load_encoder(
            Checkpoint(tmp_path, "m", {"vision_config": {}}, {}, {}),
            siglip.TOWER,
            numpy_backend.BACKEND,
        )


class FullBackend(numpy_backend.NumpyBackend):
    """A device whose memory ends after a few weights."""

    def ops(self, compute_dtype: str) -> Any:  # noqa: ANN401
        """As MLX and torch tell of it."""
        loaded: list[Tensor] = []

        class FullOps(numpy_ops.NumpyOps):
            def load(self, tensor: Tensor) -> NDArray[np.float32]:
                loaded.append(tensor)
                if len(loaded) > 5:
                    raise RuntimeError("[malloc] Unable to allocate 10 bytes")
                return super().load(tensor)

        assert compute_dtype == "F32"
        return FullOps()


def test_weights_that_do_not_fit_end_the_run_and_not_one_picture_after_the_other(
    tiny_siglip: Path, pictures: list[Pixels]
) -> None:
    encoder = load(tiny_siglip, FullBackend())
    for _ in range(2):
        with pytest.raises(ModelError, match="not enough memory for its weights"):
            encoder.encode(pictures[:2])


def test_a_weight_that_does_not_fit_is_named(
    tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(place: weights.TensorRange) -> memoryview:
        raise MemoryError(place.size_bytes)

    monkeypatch.setattr("vcache_cli.checkpoint.folder.read_tensor", full)
    with pytest.raises(
        ModelError, match=r"model\.safetensors: not enough memory for `vision_model"
    ):
        load(tiny_siglip)
