"""Write a tiny LLaVA or Gemma 3 checkpoint with seeded random weights, laid out as published ones.

Run as `python -m samples.make_tiny_llava FOLDER`. The weights mean nothing: they serve to try
the tool and to test it. The language model is whole, so that other libraries load the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from samples.make_tiny_checkpoints import (
    HIDDEN_SIZE,
    IMAGE_SIZE,
    VOCABULARY,
    clip_tensors,
    config,
    draw,
    image_processor,
    linear,
    siglip_tensors,
    write_json,
    write_weights,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tensors = dict[str, NDArray[np.float32]]

FAMILIES = ("llava", "gemma3")
LAYOUTS = ("hub", "model", "mlx")
"""`hub` as first published; `model` with one more prefix, as newer libraries name their parts;
`mlx` as converted for MLX, where channels come last in a convolution."""

TEXT_SIZE = 48
TEXT_HEADS = 4
TEXT_MLP_SIZE = 80
IMAGE_TOKEN = VOCABULARY - 1
POOLED_TOKENS = 16
_PATCHES = "vision_tower.vision_model.embeddings.patch_embedding.weight"


def text_norms(rng: np.random.Generator, name: str, family: str) -> Tensors:
    """The norms of a layer; Gemma counts their weights from one, and has more of them."""
    names = ["input_layernorm", "post_attention_layernorm"]
    if family == "gemma3":
        names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    base = 0 if family == "gemma3" else 1
    norms = {
        f"{name}.{each}.weight": base + draw(rng, TEXT_SIZE, scale=0.1).astype(np.float32)
        for each in names
    }
    if family == "gemma3":
        width = TEXT_SIZE // TEXT_HEADS
        for each in ("q_norm", "k_norm"):
            norms[f"{name}.self_attn.{each}.weight"] = draw(rng, width, scale=0.1)
    return norms


def language_model(rng: np.random.Generator, family: str) -> Tensors:
    """One layer of a language model, which a vision cache never reads."""
    layer, scale = "language_model.model.layers.0", TEXT_SIZE**-0.5
    square, wide = (TEXT_SIZE, TEXT_SIZE), (TEXT_MLP_SIZE, TEXT_SIZE)
    shapes = {
        **{f"{layer}.self_attn.{each}_proj.weight": square for each in "qkvo"},
        f"{layer}.mlp.gate_proj.weight": wide,
        f"{layer}.mlp.up_proj.weight": wide,
        f"{layer}.mlp.down_proj.weight": wide[::-1],
        "language_model.model.embed_tokens.weight": (VOCABULARY, TEXT_SIZE),
        "language_model.model.norm.weight": (TEXT_SIZE,),
    }
    if family == "llava":
        shapes["language_model.lm_head.weight"] = (VOCABULARY, TEXT_SIZE)
    drawn = {name: draw(rng, *shape, scale=scale) for name, shape in shapes.items()}
    return drawn | text_norms(rng, layer, family)


def projector(rng: np.random.Generator, family: str, *, num_layers: int, bias: bool) -> Tensors:
    """What leads from the vision tower to the language model."""
    name = "multi_modal_projector"
    if family == "gemma3":
        shape = (HIDDEN_SIZE, TEXT_SIZE)
        return {
            f"{name}.mm_input_projection_weight": draw(rng, *shape, scale=HIDDEN_SIZE**-0.5),
            f"{name}.mm_soft_emb_norm.weight": draw(rng, HIDDEN_SIZE, scale=0.3),
        }
    both = linear(rng, f"{name}.linear_1", num_layers * HIDDEN_SIZE, TEXT_SIZE)
    both |= linear(rng, f"{name}.linear_2", TEXT_SIZE, TEXT_SIZE)
    return {key: value for key, value in both.items() if bias or not key.endswith("bias")}


def vision_tower(rng: np.random.Generator, tower: str) -> Tensors:
    """The vision half of SigLIP or CLIP; a larger model leaves SigLIP's pooling head out."""
    tensors = clip_tensors(rng) if tower == "clip" else siglip_tensors(rng)
    return {
        f"vision_tower.{name}": tensor
        for name, tensor in tensors.items()
        if name.startswith("vision_model.") and not name.startswith("vision_model.head.")
    }


def in_layout(tensors: Tensors, layout: str) -> Tensors:
    """The same tensors under the names, and in the order of axes, of another layout."""
    if layout == "mlx":
        turned = np.ascontiguousarray(tensors[_PATCHES].transpose(0, 2, 3, 1))
        return tensors | {_PATCHES: turned}
    if layout == "model":
        return {_renamed(name): tensor for name, tensor in tensors.items()}
    return tensors


def _renamed(name: str) -> str:
    if name == "language_model.lm_head.weight":
        return "lm_head.weight"
    return f"model.{name}".replace(".language_model.model.", ".language_model.")


def text_config(family: str) -> dict[str, Any]:
    """The content of `text_config`; some published ones leave out what their library assumes."""
    common = {
        "hidden_size": TEXT_SIZE,
        "intermediate_size": TEXT_MLP_SIZE,
        "max_position_embeddings": 256,
        "num_attention_heads": TEXT_HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": TEXT_HEADS,
        "vocab_size": VOCABULARY,
    }
    if family == "llava":
        return common | {"model_type": "llama", "rms_norm_eps": 1e-5}
    width = TEXT_SIZE // TEXT_HEADS
    return common | {
        "head_dim": width,
        "model_type": "gemma3_text",
        "query_pre_attn_scalar": width,
        "rms_norm_eps": 1e-6,
        "sliding_window": 32,
    }


def model_config(family: str, tower: str) -> dict[str, Any]:
    """The content of `config.json`."""
    vision = config(tower)["vision_config"]
    common = {
        "image_token_index": IMAGE_TOKEN,
        "model_type": family,
        "text_config": text_config(family),
        "torch_dtype": "float32",
        "vision_config": vision,
    }
    if family == "gemma3":
        return common | {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "boi_token_index": IMAGE_TOKEN - 2,
            "eoi_token_index": IMAGE_TOKEN - 1,
            "mm_tokens_per_image": POOLED_TOKENS,
            "vision_config": vision | {"vision_use_head": False},
        }
    head = {"vision_use_head": False} if tower == "siglip" else {}
    return common | {
        "architectures": ["LlavaForConditionalGeneration"],
        "projector_hidden_act": "gelu",
        "vision_config": vision | head,
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default" if tower == "clip" else "full",
    }


def processor(family: str, tower: str) -> dict[str, Any]:
    """The content of `preprocessor_config.json`."""
    if family == "llava":
        side = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
        crop = {"crop_size": side} if tower == "clip" else {}
        return image_processor(tower) | crop | {"processor_class": "LlavaProcessor"}
    return image_processor("siglip") | {
        "do_convert_rgb": None,
        "do_pan_and_scan": None,
        "image_processor_type": "Gemma3ImageProcessor",
        "image_seq_length": POOLED_TOKENS,
        "pan_and_scan_max_num_crops": None,
        "pan_and_scan_min_crop_size": None,
        "pan_and_scan_min_ratio_to_activate": None,
        "processor_class": "Gemma3Processor",
        "resample": 2,
    }


def make_checkpoint(
    folder: Path,
    *,
    family: str = "llava",
    tower: str = "clip",
    layout: str = "hub",
    changes: dict[str, Any] | None = None,
) -> Path:
    """Write a checkpoint into `folder`, made when absent; return `folder`.

    Args:
        folder: where to; files of the same names are replaced.
        family: `llava` or `gemma3`, whose tower is always SigLIP.
        tower: `clip` or `siglip`.
        layout: one of `LAYOUTS`.
        changes: what else `config.json` says, such as several layers or no bias; the weights
            follow it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tower = "siglip" if family == "gemma3" else tower
    said = model_config(family, tower) | (changes or {})
    layers = said.get("vision_feature_layer")
    num_layers = len(layers) if isinstance(layers, list) else 1
    bias = said.get("multimodal_projector_bias", True)
    rng = np.random.default_rng(0)
    tensors = (
        vision_tower(rng, tower)
        | projector(rng, family, num_layers=num_layers, bias=bias)
        | language_model(rng, family)
    )
    write_weights(folder, in_layout(tensors, layout), shards=1)
    write_json(folder / "config.json", said)
    write_json(folder / "preprocessor_config.json", processor(family, tower))
    return folder


def main() -> None:
    """Read the command line and write what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--family", choices=FAMILIES, default="llava")
    parser.add_argument("--tower", choices=("clip", "siglip"), default="clip")
    parser.add_argument("--layout", choices=LAYOUTS, default="hub")
    options = parser.parse_args()
    chosen = {"tower": options.tower, "layout": options.layout}
    make_checkpoint(options.folder, family=options.family, **chosen)


if __name__ == "__main__":
    main()
