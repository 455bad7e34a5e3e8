"""Our towers against transformers' torch towers, with the same weights, in float32.

Every weight and bias is drawn anew, so that none is the zero or the one of a fresh model. CLIP's
reference is its own final norm on all of its last hidden states; see `ClipTower`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import transformers

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import clip, load_encoder, mlx_ops, numpy_backend, siglip, torch_ops
from vcache_cli.items import Pixels
from vcache_cli.protocols import Backend, Tower

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.parity_torch

LIMITS = {"F32": 1e-4, "BF16": 6e-2, "F16": 1e-2}
"""Largest difference, relative to the largest reference value, by the dtype computed in."""

PICTURES = 3
TINY: dict[str, Any] = {
    "hidden_size": 32,
    "image_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "patch_size": 8,
}
REAL = {
    "hidden_size": 192,
    "image_size": 224,
    "intermediate_size": 768,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "patch_size": 16,
}
UNEVEN = {**TINY, "image_size": 62, "intermediate_size": 100, "num_attention_heads": 2}
DEEP = {**TINY, "num_hidden_layers": 12, "layer_norm_eps": 1e-4}
SIZES = {"tiny": TINY, "real": REAL, "uneven": UNEVEN, "deep": DEEP}


@dataclass(frozen=True)
class Case:
    """A model of transformers, and how it is saved."""

    family: str
    form: str
    """``model`` (both halves), ``tower`` or ``projection`` (a tower and what follows it)."""
    size: str
    options: dict[str, Any] = field(default_factory=dict)
    """More of the vision configuration."""
    dtype: str = "float32"
    """Of the saved weights; both sides compute in float32 from them."""
    shard: str = "1GB"

    def __str__(self) -> str:
        told = [f"{name}={value}" for name, value in self.options.items()]
        return "-".join([self.family, self.form, self.size, *told, self.dtype, self.shard])


CASES = [
    *(Case("siglip", form, size) for form in ("model", "tower") for size in SIZES),
    *(Case("clip", form, size) for form in ("model", "tower") for size in SIZES),
    *(
        Case(family, "tower", "tiny", {"hidden_act": act})
        for family in ("siglip", "clip")
        for act in ("gelu", "quick_gelu", "gelu_pytorch_tanh", "gelu_new")
    ),
    *(
        Case(family, "model", "real", dtype=dtype, shard=shard)
        for family in ("siglip", "clip")
        for dtype, shard in (("bfloat16", "1GB"), ("float16", "1GB"), ("float32", "1MB"))
    ),
    Case("siglip", "model", "tiny", dtype="bfloat16", shard="20KB"),
    Case("siglip", "tower", "tiny", {"vision_use_head": False}),
    Case("clip", "projection", "tiny"),
]

CLASSES: dict[tuple[str, str], tuple[str, str]] = {
    ("siglip", "model"): ("SiglipModel", "SiglipConfig"),
    ("siglip", "tower"): ("SiglipVisionModel", "SiglipVisionConfig"),
    ("clip", "model"): ("CLIPModel", "CLIPConfig"),
    ("clip", "tower"): ("CLIPVisionModel", "CLIPVisionConfig"),
    ("clip", "projection"): ("CLIPVisionModelWithProjection", "CLIPVisionConfig"),
}
TOWERS: dict[str, Tower] = {"siglip": siglip.TOWER, "clip": clip.TOWER}
BACKENDS: dict[str, tuple[Backend, str]] = {
    "numpy": (numpy_backend.BACKEND, "F32"),
    "mlx": (mlx_ops.BACKEND, "F32"),
    "torch": (torch_ops.BACKEND, "F32"),
    "torch in bfloat16": (torch_ops.BACKEND, "BF16"),
    "torch in float16": (torch_ops.BACKEND, "F16"),
}
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 50,
}


def built(case: Case) -> Any:  # noqa: ANN401  a torch module
    """The model with weights drawn anew, in the dtype that it is saved in."""
    model_name, config_name = CLASSES[case.family, case.form]
    vision = {**SIZES[case.size], **case.options}
    parts = {"vision_config": vision, "text_config": TEXT} if case.form == "model" else vision
    torch.manual_seed(len(str(case)))
    model = getattr(transformers, model_name)(getattr(transformers, config_name)(**parts)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_norm = "norm" in name and name.endswith("weight")
            spread = 0.2 if weight.dim() < 2 else weight[0].numel() ** -0.5
            weight.copy_(is_norm + spread * torch.randn_like(weight))
    return model.to(getattr(torch, case.dtype))


def reference(case: Case, model: Any, pixels: NDArray[np.float32]) -> dict[str, Any]:  # noqa: ANN401
    """What torch makes of the pixels in float32."""
    tower = (model if case.form == "tower" else model.vision_model).to(torch.float32)
    with torch.no_grad():
        out = tower(pixel_values=torch.from_numpy(pixels))
        hidden = out.last_hidden_state
        features = tower.post_layernorm(hidden) if case.family == "clip" else hidden
    named = {"features": features, "pooled": out.pooler_output}
    return {name: value.numpy() for name, value in named.items() if value is not None}


@dataclass
class Tally:
    """Figures of one backend over all cases."""

    cases: int = 0
    values: int = 0
    largest: float = 0.0


@pytest.fixture(scope="module")
def tallies() -> Iterator[dict[str, Tally]]:
    """Prints what was compared, when all is done."""
    found = {name: Tally() for name in BACKENDS}
    yield found
    for name, tally in found.items():
        print(
            f"\nfeatures, {name} against torch {torch.__version__} (float32): {tally.cases} "
            f"models x {PICTURES} pictures, {tally.values} values, "
            f"largest relative error {tally.largest:.2e}"
        )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_features_are_those_of_torch(case: Case, tmp_path: Path, tallies: dict[str, Tally]) -> None:
    model = built(case)
    model.save_pretrained(tmp_path, max_shard_size=case.shard)
    assert case.shard == "1GB" or list(tmp_path.glob("*.index.json"))
    side = SIZES[case.size]["image_size"]
    shape = (PICTURES, 3, side, side)
    pixels = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    expected = reference(case, model, pixels)
    checkpoint, tower = open_checkpoint(str(tmp_path)), TOWERS[case.family]
    for name, (backend, dtype) in BACKENDS.items():
        encoder = load_encoder(checkpoint, tower, backend, compute_dtype=dtype)
        found = encoder.encode([Pixels({"pixel_values": one}, 0) for one in pixels])
        assert found[0].tensors.keys() == expected.keys()
        tally = tallies[name]
        tally.cases += 1
        for key, value in expected.items():
            ours = np.stack([item.tensors[key] for item in found])
            assert ours.shape == value.shape
            tally.values += value.size
            error = float(np.abs(ours - value).max() / np.abs(value).max())
            tally.largest = max(tally.largest, error)
            assert error < LIMITS[dtype]
