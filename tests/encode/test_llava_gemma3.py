"""What the towers of LLaVA and Gemma 3 read, give, and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from samples.make_tiny_llava import POOLED_TOKENS, TEXT_SIZE, make_checkpoint
from tests.encode.five_pictures import five_pixels
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import gemma3, llava, load_encoder, mlx_ops, numpy_backend
from vcache_cli.encode.encoder import TowerEncoder
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Pixels
from vcache_cli.protocols import Backend, Tower

TOWERS: dict[str, Tower] = {"llava": llava.TOWER, "gemma3": gemma3.TOWER}
HIDDEN = 32
PATCHES = 64
CHANGES: dict[str, list[dict[str, Any]]] = {
    "llava": [
        {},
        {"vision_feature_layer": [-2, -1]},
        {"vision_feature_select_strategy": "full"},
        {"multimodal_projector_bias": False},
    ],
    "gemma3": [{}, {"mm_tokens_per_image": 9}],
}
CASES = [(family, changes) for family, each in CHANGES.items() for changes in each]


def load(
    folder: Path, *, output: str | None = None, backend: Backend = numpy_backend.BACKEND
) -> TowerEncoder:
    """The encoder of the folder's family."""
    checkpoint = open_checkpoint(str(folder))
    tower = TOWERS[checkpoint.config["model_type"]]
    return load_encoder(checkpoint, tower, backend, output=output, compute_dtype="F32")


def features(encoder: TowerEncoder, pixels: list[Pixels]) -> list[np.ndarray[Any, Any]]:
    """Of each picture."""
    return [each.tensors["features"] for each in encoder.encode(pixels)]


def rewrite_config(folder: Path, **changes: object) -> Path:
    """`folder`, whose configuration now says something else; the weights stay."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


@pytest.mark.parametrize(("family", "changes"), CASES, ids=str)
def test_a_row_is_given_for_each_token_that_the_preprocessor_counts(
    family: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    folder = make_checkpoint(tmp_path, family=family, changes=changes)
    pixels = five_pixels(folder)
    encoder = load(folder)
    assert encoder.output == "projected"
    for each, found in zip(pixels, features(encoder, pixels), strict=True):
        assert found.shape == (each.num_tokens, TEXT_SIZE)
        assert encoder.feature_shapes(each.num_tokens) == {"features": found.shape}


@pytest.mark.parametrize(("family", "changes"), CASES, ids=str)
def test_numpy_and_mlx_agree(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path, family=family, changes=changes)
    pixels = five_pixels(folder)
    for output in ("projected", "hidden"):
        ours, theirs = (
            np.stack(features(load(folder, output=output, backend=each), pixels))
            for each in (numpy_backend.BACKEND, mlx_ops.BACKEND)
        )
        assert np.abs(ours - theirs).max() < 1e-5 * np.abs(ours).max()


@pytest.mark.parametrize(
    ("family", "tower"), [("llava", "clip"), ("llava", "siglip"), ("gemma3", "siglip")]
)
def test_a_model_is_the_same_in_every_published_layout(
    family: str, tower: str, tmp_path: Path
) -> None:
    """Names do not count; that a convolution is stored channels last is the file's matter."""
    folders = {
        layout: make_checkpoint(tmp_path / layout, family=family, tower=tower, layout=layout)
        for layout in ("hub", "model", "mlx")
    }
    pixels = five_pixels(folders["hub"])
    encoders = {layout: load(folder) for layout, folder in folders.items()}
    assert encoders["hub"].fingerprint == encoders["model"].fingerprint
    found = [np.stack(features(encoder, pixels)) for encoder in encoders.values()]
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_layers_beyond_the_one_read_out_are_not_read(tmp_path: Path) -> None:
    """Nor does a change of them make a different encoder."""
    folder = make_checkpoint(tmp_path)
    tensors = load(folder).plan.tensors
    assert any("layers.0" in name for name in tensors)
    assert not any("layers.1" in name or "post_layernorm" in name for name in tensors)
    before = load(folder).fingerprint
    weights = load_file(folder / "model.safetensors")
    weights["vision_tower.vision_model.encoder.layers.1.mlp.fc1.bias"] += 1
    save_file(weights, folder / "model.safetensors")
    assert load(folder).fingerprint == before


def test_hidden_reads_no_projector_and_gives_what_it_takes(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "llava", changes={"vision_feature_layer": [-1, -2]})
    encoder = load(folder, output="hidden")
    assert not any("projector" in name for name in encoder.plan.tensors.values())
    (found, *_) = features(encoder, five_pixels(folder))
    assert found.shape == (PATCHES, 2 * HIDDEN)
    folder = make_checkpoint(tmp_path / "gemma3", family="gemma3")
    encoder = load(folder, output="hidden")
    assert not any("projector" in name for name in encoder.plan.tensors.values())
    assert features(encoder, five_pixels(folder))[0].shape == (PATCHES, HIDDEN)
    assert load(folder).fingerprint != encoder.fingerprint


def test_crops_of_a_picture_follow_each_other(tmp_path: Path) -> None:
    """A picture with its crops is one item: each is encoded as it would be alone."""
    folder = make_checkpoint(tmp_path, family="gemma3")
    pixels = five_pixels(folder)
    encoder = load(folder)
    crops = np.stack([each.tensors["pixel_values"] for each in pixels[:3]])
    both = [Pixels({"pixel_values": crops}, 3 * POOLED_TOKENS)] * 2
    alone = np.concatenate(features(encoder, pixels[:3]))
    for found in features(encoder, both):
        assert found.shape == alone.shape
        assert np.allclose(found, alone, atol=1e-5)


@pytest.mark.parametrize("family", TOWERS)
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 64, 64), (64, 64), (2, 1, 3, 64, 64)])
def test_pixels_of_another_shape_are_refused(
    family: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    encoder = load(make_checkpoint(tmp_path, family=family))
    with pytest.raises(EncodeError, match=r"expected `pixel_values` \[3, 64, 64\]"):
        encoder.encode([Pixels({"pixel_values": np.zeros(shape, np.float32)}, 1)])


REFUSALS: dict[str, tuple[str, dict[str, Any], str]] = {
    "layer": ("llava", {"vision_feature_layer": 3}, "`vision_feature_layer` as one or more"),
    "no layer": ("llava", {"vision_feature_layer": []}, "`vision_feature_layer` as one or more"),
    "far layer": ("llava", {"vision_feature_layer": -4}, "-3 to 2"),
    "truth": ("llava", {"vision_feature_layer": True}, "found True"),
    "strategy": ("llava", {"vision_feature_select_strategy": "cls"}, "`default` or `full`"),
    "act": ("llava", {"projector_hidden_act": "relu6"}, "found 'relu6'"),
    "act list": ("llava", {"projector_hidden_act": []}, "`projector_hidden_act` as one of"),
    "tower": ("llava", {"vision_config": {"model_type": "pixtral"}}, "found 'pixtral'"),
    "no tower": ("llava", {"vision_config": None}, "`vision_config` as a `model_type`"),
    "layers": ("llava", {"vision_feature_layer": [-1, -2]}, r"linear_1.weight` \[48, 64\]"),
    "many tokens": ("gemma3", {"mm_tokens_per_image": 65}, "the 64 patches of a picture"),
    "no tokens": ("gemma3", {"mm_tokens_per_image": 0}, "from 1 to"),
    "text tokens": ("gemma3", {"mm_tokens_per_image": "16"}, "found '16'"),
}


@pytest.mark.parametrize(("family", "changes", "told"), REFUSALS.values(), ids=REFUSALS)
def test_what_a_configuration_cannot_mean_is_named(
    family: str, changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    folder = rewrite_config(make_checkpoint(tmp_path, family=family), **changes)
    with pytest.raises(ModelError, match=told):
        load(folder)


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("llava", "multi_modal_projector.linear_1.weight"),
        ("llava", "multi_modal_projector.linear_2.bias"),
        ("llava", "vision_tower.vision_model.pre_layrnorm.weight"),
        ("gemma3", "multi_modal_projector.mm_soft_emb_norm.weight"),
        ("gemma3", "multi_modal_projector.mm_input_projection_weight"),
        ("gemma3", "vision_tower.vision_model.post_layernorm.bias"),
    ],
)
@pytest.mark.parametrize("damage", ["gone", "misshapen"])
def test_a_tensor_that_does_not_fit_is_named(
    family: str, name: str, damage: str, tmp_path: Path
) -> None:
    folder = make_checkpoint(tmp_path, family=family)
    weights = load_file(folder / "model.safetensors")
    if damage == "gone":
        del weights[name]
    else:
        weights[name] = np.zeros((3, 5, 7), np.float32)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ModelError, match=name.rpartition(".")[2]):
        load(folder)


@pytest.mark.parametrize("backend", [numpy_backend.BACKEND, mlx_ops.BACKEND])
def test_join_puts_channels_side_by_side(backend: Backend) -> None:
    ops = backend.ops("F32")
    parts = [np.full((2, 3, width), width, np.float32) for width in (1, 2)]
    joined = ops.unstack(ops.join([ops.stack(part) for part in parts]))
    assert np.array_equal(np.stack(joined), np.concatenate(parts, axis=-1))
