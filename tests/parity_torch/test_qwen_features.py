"""Our towers over a grid against transformers' torch towers, with the same weights.

Every weight and bias is drawn anew. Tensors are saved under the names that published checkpoints
have, and pixels are noise: five sizes of picture and four clips, alone and in one batch.
"""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import (
    load_encoder,
    mlx_ops,
    numpy_backend,
    qwen2_5_vl,
    qwen2_vl,
    qwen3_5,
    qwen3_vl,
    torch_ops,
)
from vcache_cli.items import Features, Pixels
from vcache_cli.protocols import Backend, Tower

pytestmark = pytest.mark.parity_torch

LIMIT = 1e-4
"""Largest difference in float32, relative to the largest reference value."""

NARROW_LIMIT = 6e-2
"""The same where both sides compute in bfloat16."""

GRIDS = [(1, 2, 2), (1, 8, 8), (1, 6, 22), (1, 18, 10), (1, 14, 26)]
"""Five pictures: one token, whole windows, wider than high, higher than wide, cut windows."""

CLIPS = [(2, 10, 6), (3, 2, 2), (5, 6, 14), (17, 4, 8)]
"""Clips of several steps in time, of which none sees another."""

PICTURE_NAMES = ("pixel_values", "image_grid_thw")
CLIP_NAMES = ("pixel_values_videos", "video_grid_thw")

TOWERS: dict[str, Tower] = {
    "qwen2_vl": qwen2_vl.TOWER,
    "qwen2_5_vl": qwen2_5_vl.TOWER,
    "qwen3_vl": qwen3_vl.TOWER,
    "qwen3_5": qwen3_5.TOWER,
}
BACKENDS: dict[str, Backend] = {
    "numpy": numpy_backend.BACKEND,
    "mlx": mlx_ops.BACKEND,
    "torch": torch_ops.BACKEND,
}
NARROW = [name for name in BACKENDS if name != "numpy"]
"""Backends that compute in bfloat16 too."""

CLASSES = {
    "qwen2_vl": "Qwen2VisionTransformerPretrainedModel",
    "qwen2_5_vl": "Qwen2_5_VisionTransformerPretrainedModel",
    "qwen3_vl": "Qwen3VLVisionModel",
    "qwen3_5": "Qwen3_5VisionModel",
}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"depth": 3, "num_heads": 2, "patch_size": 4, "hidden_size": 32},
    "real": {"depth": 5, "num_heads": 2, "hidden_size": 160},
}
EXTRA: dict[str, dict[str, Any]] = {
    "qwen2_vl": {},
    "qwen2_5_vl": {"fullatt_block_indexes": [1, 3], "intermediate_size": 172},
    "qwen3_vl": {"deepstack_visual_indexes": [0, 2], "intermediate_size": 172},
    "qwen3_5": {"intermediate_size": 172},
}


@dataclass(frozen=True)
class Case:
    """A tower of transformers, and how it is saved."""

    family: str
    size: str = "tiny"
    layout: str = "first"
    """``first`` as first published, ``later`` with one more prefix, ``mlx``, or ``alone``."""
    dtype: str = "float32"
    """Of the saved weights; both sides compute in float32 from them."""
    options: dict[str, Any] = field(default_factory=dict)
    """More of the configuration."""

    def __str__(self) -> str:
        told = [f"{name}={value}" for name, value in self.options.items()]
        return "-".join([self.family, self.size, self.layout, self.dtype, *told])


CASES = [
    *(Case(family, size) for family in TOWERS for size in SIZES),
    *(Case(family, layout=each) for family in TOWERS for each in ("later", "mlx", "alone")),
    *(Case(family, dtype=dtype) for family in TOWERS for dtype in ("bfloat16", "float16")),
    Case("qwen2_vl", options={"mlp_ratio": 3, "hidden_act": "gelu"}),
    Case("qwen2_5_vl", options={"window_size": 24, "fullatt_block_indexes": []}),
    Case("qwen2_5_vl", options={"spatial_merge_size": 1, "window_size": 20}),
    Case("qwen3_vl", options={"deepstack_visual_indexes": [2, 0, 1]}),
    Case("qwen3_vl", options={"deepstack_visual_indexes": []}),
    Case("qwen3_5", options={"num_position_embeddings": 50}),
    Case("qwen3_5", options={"rope_parameters": {"rope_theta": 500.0, "rope_type": "axial"}}),
]
PREFIXES = {"first": "visual.", "later": "model.visual.", "mlx": "vision_tower.", "alone": ""}


def vision_config(case: Case) -> dict[str, Any]:
    """The configuration of the vision part, as published ones spell it."""
    config = SIZES[case.size] | EXTRA[case.family] | {"out_hidden_size": 56} | case.options
    if case.family.startswith("qwen3"):
        config = {"num_position_embeddings": 81} | config
    if case.family == "qwen2_5_vl" and case.size == "tiny":
        config = {"window_size": 32} | config
    if case.family == "qwen2_vl":
        config |= {"embed_dim": config["hidden_size"], "hidden_size": config["out_hidden_size"]}
        del config["out_hidden_size"]
    return config


def built(case: Case) -> Any:  # noqa: ANN401  a torch module
    """The tower with weights drawn anew, in the dtype that it is saved in."""
    module = importlib.import_module(f"transformers.models.{case.family}.modeling_{case.family}")
    kind = getattr(module, CLASSES[case.family])
    torch.manual_seed(len(str(case)))
    model = kind(kind.config_class(**vision_config(case))).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_norm = ("norm" in name or "ln_q" in name) and name.endswith("weight")
            spread = 0.2 if weight.dim() < 2 else weight[0].numel() ** -0.5
            weight.copy_(is_norm + spread * torch.randn_like(weight))
    return narrowed(model, getattr(torch, case.dtype))


def narrowed(model: Any, dtype: torch.dtype) -> Any:  # noqa: ANN401
    """The weights in another dtype; the frequencies stay in float32, as transformers keeps them."""
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)
    return model


def saved(case: Case, model: Any, folder: Path) -> Path:  # noqa: ANN401
    """The tower as a checkpoint."""
    prefix = PREFIXES[case.layout]
    tensors = {prefix + name: value.contiguous() for name, value in model.state_dict().items()}
    if case.layout == "mlx":
        patches = f"{prefix}patch_embed.proj.weight"
        tensors[patches] = tensors[patches].permute(0, 2, 3, 4, 1).contiguous()
    save_file(tensors, folder / "model.safetensors")
    vision = vision_config(case)
    config: dict[str, Any] = {"model_type": case.family, "vision_config": vision}
    if case.layout == "alone":
        config = vision | {"model_type": f"{case.family}_vision"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def pictures(model: Any, grids: Sequence[tuple[int, int, int]]) -> list[Pixels]:  # noqa: ANN401
    """Noise in each grid, as the processor lays it out; sides rounded to whole tokens."""
    rng = np.random.default_rng(3)
    config, items = model.config, []
    width = config.in_channels * config.temporal_patch_size * config.patch_size**2
    for frames, height, columns in grids:
        patches = rng.standard_normal((frames * height * columns, width), dtype=np.float32)
        grid = np.array([frames, height, columns], np.int64)
        num_tokens = len(patches) // config.spatial_merge_size**2
        names = CLIP_NAMES if frames > 1 else PICTURE_NAMES
        items.append(Pixels(dict(zip(names, (patches, grid), strict=True)), num_tokens))
    return items


def reference(model: Any, item: Pixels) -> dict[str, torch.Tensor]:  # noqa: ANN401
    """What torch makes of one item, in the dtype of the model."""
    patches, grid = (torch.from_numpy(value) for value in item.tensors.values())
    with torch.no_grad():
        out = model(patches, grid_thw=grid[None])
    stacked = getattr(out, "deepstack_features", None) or []
    named = {f"deepstack_{number}": value for number, value in enumerate(stacked)}
    return {"features": out.pooler_output, **named}


def largest_error(found: Sequence[Features], expected: Sequence[Mapping[str, Any]]) -> float:
    """The largest difference of any tensor, relative to its largest reference value."""
    worst = 0.0
    for item, known in zip(found, expected, strict=True):
        assert item.tensors.keys() == known.keys()
        for name, value in known.items():
            assert item.tensors[name].shape == value.shape
            error = np.abs(item.tensors[name] - value).max() / np.abs(value).max()
            worst = max(worst, float(error))
    return worst


@dataclass
class Tally:
    """Figures of one pair over all cases."""

    towers: int = 0
    largest: float = 0.0

    def add(self, error: float) -> None:
        """One more tower."""
        self.towers += 1
        self.largest = max(self.largest, error)


@pytest.fixture(scope="module")
def tallies() -> Iterator[defaultdict[str, Tally]]:
    """Prints what was compared, when all is done."""
    found: defaultdict[str, Tally] = defaultdict(Tally)
    yield found
    for pair, tally in sorted(found.items()):
        print(
            f"\n{pair}: {tally.towers} towers x {len(GRIDS + CLIPS)} sizes, "
            f"largest relative error {tally.largest:.2e}"
        )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_features_are_those_of_torch(
    case: Case, tmp_path: Path, tallies: defaultdict[str, Tally]
) -> None:
    model = built(case)
    checkpoint = open_checkpoint(str(saved(case, model, tmp_path)))
    items = pictures(model, [*GRIDS, *CLIPS])
    model = narrowed(model, torch.float32)
    expected = [
        {name: value.numpy() for name, value in reference(model, item).items()} for item in items
    ]
    results: dict[str, list[Features]] = {}
    for name, backend in BACKENDS.items():
        encoder = load_encoder(checkpoint, TOWERS[case.family], backend, compute_dtype="F32")
        results[name] = encoder.encode(items)
        alone = [encoder.encode([item])[0] for item in items]
        error = max(largest_error(each, expected) for each in (results[name], alone))
        tallies[
            f"{case.family}, {name} against transformers on torch {torch.__version__}, float32"
        ].add(error)
        assert error < LIMIT
    for first, second in combinations(results, 2):
        error = largest_error(results[first], [item.tensors for item in results[second]])
        tallies[f"{case.family}, {first} against {second}, float32"].add(error)
        assert error < LIMIT


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("family", TOWERS)
def test_features_in_bfloat16_are_near_those_of_torch(
    family: str, size: str, name: str, tmp_path: Path, tallies: defaultdict[str, Tally]
) -> None:
    """Both sides round after each step, not after the same ones."""
    case = Case(family, size, dtype="bfloat16")
    model = built(case)
    checkpoint = open_checkpoint(str(saved(case, model, tmp_path)))
    items = pictures(model, [*GRIDS, *CLIPS])
    expected = [
        {each: value.float().numpy() for each, value in reference(model, item).items()}
        for item in items
    ]
    encoder = load_encoder(checkpoint, TOWERS[family], BACKENDS[name], compute_dtype="BF16")
    error = largest_error(encoder.encode(items), expected)
    tallies[f"{family}, {name} against transformers on torch {torch.__version__}, bfloat16"].add(
        error
    )
    assert error < NARROW_LIMIT
