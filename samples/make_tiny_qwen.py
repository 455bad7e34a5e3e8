"""Write a tiny checkpoint of a Qwen family with seeded random weights, laid out as published.

    python -m samples.make_tiny_qwen FOLDER --family qwen2_5_vl

The vision tower is whole; of the language model there are a few tensors, for a reader to leave
alone. The weights mean nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from samples.make_tiny_checkpoints import draw, linear, write_json, write_weights

if TYPE_CHECKING:
    from samples.make_tiny_checkpoints import Tensors

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
CLASSES = {
    "qwen2_vl": "Qwen2VLForConditionalGeneration",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen3_vl": "Qwen3VLForConditionalGeneration",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
}
CHANNELS = 32
MLP_CHANNELS = 72
MERGED = 4 * CHANNELS
TEXT_CHANNELS = 48
NUM_HEADS = 4
NUM_LAYERS = 4
NUM_POSITIONS = 64
VOCABULARY = 64
DEEPSTACK = (0, 2)
FULL_ATTENTION = (1, 3)
CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]

README = """\
# tiny-{family}

**Random weights.** This folder has the layout of a published {family} checkpoint (configuration,
image processor, tensor names), but nothing was ever trained and most of the language model is
missing. It is good for trying `vcache` and for testing it, and for nothing else.
`make_tiny_qwen.py` writes it again, byte for byte.
"""


def is_newer(family: str) -> bool:
    """Whether it is one of the third generation: patches of 16, a table of positions."""
    return family.startswith("qwen3")


def norm(rng: np.random.Generator, name: str, channels: int, *, bias: bool = True) -> Tensors:
    """Weight near 1, and a bias near 0 where the norm has one."""
    tensors = {f"{name}.weight": 1 + draw(rng, channels, scale=0.1)}
    return tensors | ({f"{name}.bias": draw(rng, channels, scale=0.05)} if bias else {})


def patches(rng: np.random.Generator, family: str, prefix: str) -> Tensors:
    """The convolution over two frames, and what the third generation adds to it."""
    side = 16 if is_newer(family) else 14
    shape = (CHANNELS, 3, 2, side, side)
    tensors = {f"{prefix}patch_embed.proj.weight": draw(rng, *shape, scale=(6 * side**2) ** -0.5)}
    if is_newer(family):
        tensors[f"{prefix}patch_embed.proj.bias"] = draw(rng, CHANNELS, scale=0.02)
        tensors[f"{prefix}pos_embed.weight"] = draw(rng, NUM_POSITIONS, CHANNELS, scale=0.3)
    return tensors


def block(rng: np.random.Generator, family: str, name: str) -> Tensors:
    """One layer."""
    has_bias = family != "qwen2_5_vl"
    tensors = norm(rng, f"{name}.norm1", CHANNELS, bias=has_bias)
    tensors |= norm(rng, f"{name}.norm2", CHANNELS, bias=has_bias)
    tensors |= linear(rng, f"{name}.attn.qkv", CHANNELS, 3 * CHANNELS)
    tensors |= linear(rng, f"{name}.attn.proj", CHANNELS, CHANNELS)
    if family == "qwen2_5_vl":
        tensors |= linear(rng, f"{name}.mlp.gate_proj", CHANNELS, MLP_CHANNELS)
        tensors |= linear(rng, f"{name}.mlp.up_proj", CHANNELS, MLP_CHANNELS)
        return tensors | linear(rng, f"{name}.mlp.down_proj", MLP_CHANNELS, CHANNELS)
    first, second = ("linear_fc1", "linear_fc2") if is_newer(family) else ("fc1", "fc2")
    wide = MLP_CHANNELS if is_newer(family) else 2 * CHANNELS
    tensors |= linear(rng, f"{name}.mlp.{first}", CHANNELS, wide)
    return tensors | linear(rng, f"{name}.mlp.{second}", wide, CHANNELS)


def merger(rng: np.random.Generator, family: str, name: str, *, norm_channels: int) -> Tensors:
    """What makes one token of four patches."""
    if is_newer(family):
        tensors = norm(rng, f"{name}.norm", norm_channels)
        parts = ("linear_fc1", "linear_fc2")
    else:
        tensors = norm(rng, f"{name}.ln_q", norm_channels, bias=family == "qwen2_vl")
        parts = ("mlp.0", "mlp.2")
    tensors |= linear(rng, f"{name}.{parts[0]}", MERGED, MERGED)
    return tensors | linear(rng, f"{name}.{parts[1]}", MERGED, TEXT_CHANNELS)


def qwen_tensors(rng: np.random.Generator, family: str) -> Tensors:
    """The vision tower under its published names, and two tensors of the language model."""
    newer = is_newer(family)
    prefix = "model.visual." if newer else "visual."
    tensors = patches(rng, family, prefix)
    for number in range(NUM_LAYERS):
        tensors |= block(rng, family, f"{prefix}blocks.{number}")
    tensors |= merger(rng, family, f"{prefix}merger", norm_channels=CHANNELS)
    if family == "qwen3_vl":
        for number in range(len(DEEPSTACK)):
            name = f"{prefix}deepstack_merger_list.{number}"
            tensors |= merger(rng, family, name, norm_channels=MERGED)
    text = "model.language_model" if newer else "model"
    table = draw(rng, VOCABULARY, TEXT_CHANNELS, scale=0.3)
    return tensors | {
        f"{text}.embed_tokens.weight": table,
        f"{text}.norm.weight": 1 + draw(rng, TEXT_CHANNELS, scale=0.1),
    }


def vision_config(family: str) -> dict[str, Any]:
    """The vision part of `config.json`, with what the published ones say and no more."""
    common = {
        "depth": NUM_LAYERS,
        "num_heads": NUM_HEADS,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    if family == "qwen2_vl":
        sizes = {"embed_dim": CHANNELS, "hidden_size": TEXT_CHANNELS, "mlp_ratio": 2}
        return {**common, **sizes, "in_chans": 3, "patch_size": 14, "spatial_patch_size": 14}
    sizes = {
        "hidden_size": CHANNELS,
        "intermediate_size": MLP_CHANNELS,
        "out_hidden_size": TEXT_CHANNELS,
    }
    if family == "qwen2_5_vl":
        return {
            **common,
            **sizes,
            "fullatt_block_indexes": [*FULL_ATTENTION],
            "hidden_act": "silu",
            "in_chans": 3,
            "patch_size": 14,
            "spatial_patch_size": 14,
            "tokens_per_second": 2,
            "window_size": 112,
        }
    return {
        **common,
        **sizes,
        "deepstack_visual_indexes": [*DEEPSTACK] if family == "qwen3_vl" else [],
        "hidden_act": "gelu_pytorch_tanh",
        "in_channels": 3,
        "model_type": family,
        "num_position_embeddings": NUM_POSITIONS,
        "patch_size": 16,
    }


def config(family: str) -> dict[str, Any]:
    """The content of `config.json`: the older two have the text settings at the root."""
    text: dict[str, Any] = {
        "hidden_act": "silu",
        "hidden_size": TEXT_CHANNELS,
        "intermediate_size": MLP_CHANNELS,
        "max_position_embeddings": 4096,
        "num_attention_heads": NUM_HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "vocab_size": VOCABULARY,
    }
    common = {
        "architectures": [CLASSES[family]],
        "image_token_id": 60,
        "model_type": family,
        "tie_word_embeddings": True,
        "video_token_id": 61,
        "vision_config": vision_config(family),
        "vision_end_token_id": 59,
        "vision_start_token_id": 58,
    }
    if is_newer(family):
        return common | {"text_config": text | {"model_type": f"{family}_text"}}
    rope = {"mrope_section": [2, 2, 2], "type": "mrope"}
    return common | text | {"rope_scaling": rope, "torch_dtype": "float32"}


def image_processor(family: str) -> dict[str, Any]:
    """The content of `preprocessor_config.json`."""
    newer = is_newer(family)
    common = {
        "image_mean": [0.5] * 3 if newer else CLIP_MEAN,
        "image_processor_type": "Qwen2VLImageProcessorFast" if newer else "Qwen2VLImageProcessor",
        "image_std": [0.5] * 3 if newer else CLIP_STD,
        "merge_size": 2,
        "patch_size": 16 if newer else 14,
        "processor_class": CLASSES[family].replace("ForConditionalGeneration", "Processor"),
        "temporal_patch_size": 2,
    }
    if newer:
        return common | {"size": {"longest_edge": 16_777_216, "shortest_edge": 65_536}}
    return common | {"max_pixels": 12_845_056, "min_pixels": 3136}


def make_checkpoint(folder: Path, *, family: str, shards: int = 1, seed: int = 0) -> Path:
    """Write a checkpoint into `folder`, made when absent; return `folder`.

    Args:
        folder: where to; files of the same names are replaced.
        family: one of `FAMILIES`.
        shards: number of weight files; more than one adds `model.safetensors.index.json`.
        seed: another seed, other weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = qwen_tensors(np.random.default_rng(seed), family)
    write_weights(folder, tensors, shards=shards)
    write_json(folder / "config.json", config(family))
    write_json(folder / "preprocessor_config.json", image_processor(family))
    (folder / "README.md").write_text(README.format(family=family), "utf-8")
    return folder


def main() -> None:
    """Read the command line and write what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--family", choices=FAMILIES, default="qwen2_5_vl")
    parser.add_argument("--shards", type=int, default=1, help="number of weight files")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other weights")
    options = parser.parse_args()
    make_checkpoint(options.folder, family=options.family, shards=options.shards, seed=options.seed)


if __name__ == "__main__":
    main()
