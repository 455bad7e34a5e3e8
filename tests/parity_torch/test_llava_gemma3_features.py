"""LLaVA's and Gemma 3's features against transformers on torch, with the same weights.

transformers loads the very folder: the tiny checkpoints in both published layouts, and larger
ones as it saves them. Pictures of five sizes go through the family's own preprocessing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import transformers

from samples.make_tiny_llava import make_checkpoint
from tests.encode.five_pictures import five_pixels
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import gemma3, llava, load_encoder, mlx_ops, numpy_backend, torch_ops
from vcache_cli.items import Pixels
from vcache_cli.protocols import Backend, Tower

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = [pytest.mark.parity_torch, pytest.mark.filterwarnings("ignore")]

LIMIT = 1e-4
"""Largest difference in float32, relative to the largest reference value."""

NARROW_LIMIT = 6e-2
"""The same in bfloat16, against torch in bfloat16."""

TOWERS: dict[str, Tower] = {"llava": llava.TOWER, "gemma3": gemma3.TOWER}
BACKENDS: dict[str, Backend] = {
    "numpy": numpy_backend.BACKEND,
    "mlx": mlx_ops.BACKEND,
    "torch": torch_ops.BACKEND,
}
REAL = {
    "hidden_size": 192,
    "image_size": 224,
    "intermediate_size": 768,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "patch_size": 16,
}


@dataclass(frozen=True)
class Case:
    """A checkpoint, and what its configuration says besides."""

    family: str
    tower: str = "clip"
    layout: str = "hub"
    """One of the tiny checkpoints', or ``saved``: larger, written by transformers."""
    changes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        told = [f"{name.split('_')[-1]}={value}" for name, value in self.changes.items()]
        return "-".join([self.family, self.tower, self.layout, *told])


def layered(tower: str, layer: object, strategy: str, layout: str = "hub") -> Case:
    """LLaVA, read out after `layer`."""
    changes = {"vision_feature_layer": layer, "vision_feature_select_strategy": strategy}
    return Case("llava", tower, layout, changes)


CASES = [
    *(Case("llava", tower, layout) for tower in ("clip", "siglip") for layout in ("hub", "model")),
    *(layered("clip", layer, "default") for layer in (-1, [0], 1, 2, -3, [-2, -1], [2, 0, 1])),
    *(layered("siglip", layer, "full") for layer in (-1, [0], [-1, -3])),
    layered("clip", -2, "full"),
    layered("siglip", -2, "default"),
    *(Case("llava", changes={"projector_hidden_act": act}) for act in ("gelu_new", "quick_gelu")),
    Case("llava", changes={"multimodal_projector_bias": False}),
    layered("clip", [-2, 3, -1], "default", "saved"),
    layered("siglip", -1, "full", "saved"),
    *(Case("gemma3", "siglip", layout) for layout in ("hub", "model", "saved")),
    *(Case("gemma3", "siglip", changes={"mm_tokens_per_image": n}) for n in (1, 4, 9, 36, 64)),
]


def written(case: Case, folder: Path) -> Path:
    """The checkpoint; the larger ones with weights drawn anew and text of no size."""
    tiny = make_checkpoint(
        folder / "tiny",
        family=case.family,
        tower=case.tower,
        changes=case.changes,
        layout="hub" if case.layout == "saved" else case.layout,
    )
    if case.layout != "saved":
        return tiny
    config = json.loads((tiny / "config.json").read_text())
    config["vision_config"] |= REAL
    kind = transformers.CONFIG_MAPPING[case.family]
    torch.manual_seed(1)
    model = transformers.AutoModelForImageTextToText.from_config(kind.from_dict(config))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            base = "norm" in name and name.endswith("weight") and "mm_soft" not in name
            spread = 0.2 if weight.dim() < 2 else weight[0].numel() ** -0.5
            weight.copy_(base + spread * torch.randn_like(weight))
    model.save_pretrained(folder / "saved")
    settings = json.loads((tiny / "preprocessor_config.json").read_text())
    side = {"height": REAL["image_size"], "width": REAL["image_size"]}
    settings["size"] = {"shortest_edge": side["width"]} if "crop_size" in settings else side
    if "crop_size" in settings:
        settings["crop_size"] = side
    (folder / "saved" / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder / "saved"


def reference(
    folder: Path, pixels: list[Pixels], dtype: torch.dtype = torch.float32
) -> dict[str, NDArray[np.float32]]:
    """What torch makes of the pixels: by output, (N, tokens, width)."""
    model, told = transformers.AutoModelForImageTextToText.from_pretrained(
        folder, dtype=dtype, output_loading_info=True
    )
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    seen: list[Any] = []
    model.model.multi_modal_projector.register_forward_pre_hook(
        lambda _module, args: seen.append(args[0])
    )
    values = np.stack([each.tensors["pixel_values"] for each in pixels])
    with torch.no_grad():
        out = model.eval().model.get_image_features(torch.from_numpy(values).to(dtype))
    projected = [*out.pooler_output]
    both = {"projected": torch.stack(projected), "hidden": seen[0]}
    return {name: value.float().numpy() for name, value in both.items()}


def encoded(
    case: Case, folder: Path, pixels: list[Pixels], *, backend: Backend, output: str, dtype: str
) -> NDArray[np.float32]:
    """What we make of them."""
    encoder = load_encoder(
        open_checkpoint(str(folder)),
        TOWERS[case.family],
        backend,
        output=output,
        compute_dtype=dtype,
    )
    found = np.stack([each.tensors["features"] for each in encoder.encode(pixels)])
    assert encoder.feature_shapes(found.shape[1]) == {"features": found.shape[1:]}
    return found


def error_of(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Relative to the largest value."""
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@dataclass
class Tally:
    """Figures of one comparison over all cases."""

    cases: int = 0
    values: int = 0
    largest: float = 0.0

    def add(self, found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
        """Count one in; its error."""
        error = error_of(found, expected)
        self.cases += 1
        self.values += expected.size
        self.largest = max(self.largest, error)
        return error


@pytest.fixture(scope="module")
def tallies() -> Iterator[dict[str, Tally]]:
    """Prints what was compared, when all is done."""
    found: dict[str, Tally] = {}
    yield found
    for name, tally in sorted(found.items()):
        print(
            f"\nfeatures, {name}: {tally.cases} comparisons x 5 pictures, "
            f"{tally.values} values, largest relative error {tally.largest:.2e}"
        )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_features_are_those_of_torch(case: Case, tmp_path: Path, tallies: dict[str, Tally]) -> None:
    folder = written(case, tmp_path)
    pixels = five_pixels(folder)
    expected = reference(folder, pixels)
    for output, value in expected.items():
        ours = {
            name: encoded(case, folder, pixels, backend=backend, output=output, dtype="F32")
            for name, backend in BACKENDS.items()
        }
        for name, found in ours.items():
            told = f"{case.family} F32, {name} against transformers {transformers.__version__}"
            assert tallies.setdefault(told, Tally()).add(found, value) < LIMIT
        for one, other in (("mlx", "numpy"), ("torch", "numpy"), ("torch", "mlx")):
            told = f"{case.family} F32, {one} against {other}"
            assert tallies.setdefault(told, Tally()).add(ours[one], ours[other]) < LIMIT
    if "projected" in expected:
        tokens = {each.num_tokens for each in pixels}
        assert tokens == {expected["projected"].shape[1]}


@pytest.mark.parametrize("case", [CASES[0], CASES[2], Case("gemma3", "siglip", "saved")], ids=str)
def test_features_in_bfloat16_are_near_those_of_torch(
    case: Case, tmp_path: Path, tallies: dict[str, Tally]
) -> None:
    folder = written(case, tmp_path)
    pixels = five_pixels(folder)
    exact, narrow = reference(folder, pixels), reference(folder, pixels, torch.bfloat16)
    for output, value in narrow.items():
        told = f"{case.family} BF16, torch against torch in F32"
        tallies.setdefault(told, Tally()).add(value, exact[output])
        for name in ("mlx", "torch"):
            found = encoded(
                case, folder, pixels, backend=BACKENDS[name], output=output, dtype="BF16"
            )
            told = f"{case.family} BF16, {name} against transformers in BF16"
            assert tallies.setdefault(told, Tally()).add(found, value) < NARROW_LIMIT
