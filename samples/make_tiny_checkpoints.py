"""Write a tiny SigLIP or CLIP checkpoint with seeded random weights, laid out as published ones.

Without arguments, writes `tiny-siglip/` beside this script. The weights mean nothing: they
serve to try the tool and to test it. Made with numpy and safetensors alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tensors = dict[str, NDArray[np.float32]]

HERE = Path(__file__).resolve().parent
FAMILIES = ("siglip", "clip")
HIDDEN_SIZE = 32
MLP_SIZE = 64
NUM_HEADS = 4
IMAGE_SIZE = 64
PATCH_SIZE = 8
NUM_PATCHES = (IMAGE_SIZE // PATCH_SIZE) ** 2
VISION_LAYERS = 2
TEXT_LAYERS = 1
VOCABULARY = 64
TEXT_TOKENS = 16
PROJECTION_SIZE = 16

README = """\
# tiny-{family}

**Random weights.** This folder has the layout of a published {title} checkpoint (configuration,
image processor, tensor names), but nothing was ever trained: what it computes means nothing.
It is good for trying `vcache` and for testing it, and for nothing else.

{size} x {size} pixels, patches of {patch}, {layers} vision layers, {hidden} channels, float32.
`make_tiny_checkpoints.py` writes it again, byte for byte.
"""


def draw(rng: np.random.Generator, *shape: int, scale: float) -> NDArray[np.float32]:
    """Normal numbers, cut at two standard deviations."""
    return (rng.normal(0, 1, shape).clip(-2, 2) * scale).astype(np.float32)


def linear(rng: np.random.Generator, name: str, inputs: int, outputs: int) -> Tensors:
    """Weight and bias that keep the scale of what passes through."""
    weight = draw(rng, outputs, inputs, scale=inputs**-0.5)
    return {f"{name}.weight": weight, f"{name}.bias": draw(rng, outputs, scale=0.02)}


def norm(rng: np.random.Generator, name: str) -> Tensors:
    """Weight near 1 and bias near 0."""
    weight = 1 + draw(rng, HIDDEN_SIZE, scale=0.1)
    return {f"{name}.weight": weight, f"{name}.bias": draw(rng, HIDDEN_SIZE, scale=0.05)}


def mlp(rng: np.random.Generator, name: str) -> Tensors:
    """The two layers after an attention."""
    widen = linear(rng, f"{name}.fc1", HIDDEN_SIZE, MLP_SIZE)
    return widen | linear(rng, f"{name}.fc2", MLP_SIZE, HIDDEN_SIZE)


def encoder(rng: np.random.Generator, name: str, *, num_layers: int) -> Tensors:
    """Transformer layers; both families, vision and text, name them alike."""
    tensors: Tensors = {}
    for number in range(num_layers):
        layer = f"{name}.encoder.layers.{number}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            tensors |= linear(rng, f"{layer}.self_attn.{part}", HIDDEN_SIZE, HIDDEN_SIZE)
        tensors |= norm(rng, f"{layer}.layer_norm1") | norm(rng, f"{layer}.layer_norm2")
        tensors |= mlp(rng, f"{layer}.mlp")
    return tensors


def table(rng: np.random.Generator, name: str, rows: int) -> Tensors:
    """An embedding of `rows` rows."""
    return {f"{name}.weight": draw(rng, rows, HIDDEN_SIZE, scale=0.3)}


def patches(rng: np.random.Generator) -> Tensors:
    """The convolution that turns a patch into a token."""
    weight = draw(rng, HIDDEN_SIZE, 3, PATCH_SIZE, PATCH_SIZE, scale=(3 * PATCH_SIZE**2) ** -0.5)
    return {"vision_model.embeddings.patch_embedding.weight": weight}


def text_tower(rng: np.random.Generator, *, scalar: tuple[int, ...]) -> Tensors:
    """The text half, which a vision cache never reads; `scalar` is the shape of the logit scale."""
    return (
        table(rng, "text_model.embeddings.token_embedding", VOCABULARY)
        | table(rng, "text_model.embeddings.position_embedding", TEXT_TOKENS)
        | encoder(rng, "text_model", num_layers=TEXT_LAYERS)
        | norm(rng, "text_model.final_layer_norm")
        | {"logit_scale": np.full(scalar, np.log(10), np.float32)}
    )


def pooling_head(rng: np.random.Generator, name: str) -> Tensors:
    """SigLIP's attention pooling."""
    attention, scale = f"{name}.attention", HIDDEN_SIZE**-0.5
    packed = {
        f"{name}.probe": draw(rng, 1, 1, HIDDEN_SIZE, scale=1),
        f"{attention}.in_proj_weight": draw(rng, 3 * HIDDEN_SIZE, HIDDEN_SIZE, scale=scale),
        f"{attention}.in_proj_bias": draw(rng, 3 * HIDDEN_SIZE, scale=0.02),
    }
    out = linear(rng, f"{attention}.out_proj", HIDDEN_SIZE, HIDDEN_SIZE)
    return packed | out | norm(rng, f"{name}.layernorm") | mlp(rng, f"{name}.mlp")


def siglip_tensors(rng: np.random.Generator) -> Tensors:
    """Every tensor of a `SiglipModel`."""
    bias = draw(rng, HIDDEN_SIZE, scale=0.02)
    return (
        patches(rng)
        | {"vision_model.embeddings.patch_embedding.bias": bias}
        | table(rng, "vision_model.embeddings.position_embedding", NUM_PATCHES)
        | encoder(rng, "vision_model", num_layers=VISION_LAYERS)
        | norm(rng, "vision_model.post_layernorm")
        | pooling_head(rng, "vision_model.head")
        | text_tower(rng, scalar=(1,))
        | linear(rng, "text_model.head", HIDDEN_SIZE, HIDDEN_SIZE)
        | {"logit_bias": np.full(1, -10, np.float32)}
    )


def clip_tensors(rng: np.random.Generator) -> Tensors:
    """Every tensor of a `CLIPModel`."""
    to_shared = (PROJECTION_SIZE, HIDDEN_SIZE)
    return (
        patches(rng)
        | {"vision_model.embeddings.class_embedding": draw(rng, HIDDEN_SIZE, scale=0.5)}
        | table(rng, "vision_model.embeddings.position_embedding", NUM_PATCHES + 1)
        | norm(rng, "vision_model.pre_layrnorm")  # spelt so in every published checkpoint
        | encoder(rng, "vision_model", num_layers=VISION_LAYERS)
        | norm(rng, "vision_model.post_layernorm")
        | {"visual_projection.weight": draw(rng, *to_shared, scale=HIDDEN_SIZE**-0.5)}
        | text_tower(rng, scalar=())
        | {"text_projection.weight": draw(rng, *to_shared, scale=HIDDEN_SIZE**-0.5)}
    )


def config(family: str) -> dict[str, Any]:
    """The content of `config.json`."""
    tower = {
        "hidden_act": "quick_gelu" if family == "clip" else "gelu_pytorch_tanh",
        "hidden_size": HIDDEN_SIZE,
        "intermediate_size": MLP_SIZE,
        "layer_norm_eps": 1e-5 if family == "clip" else 1e-6,
        "num_attention_heads": NUM_HEADS,
    }
    if family == "clip":
        tower["projection_dim"] = PROJECTION_SIZE
    vision = {"image_size": IMAGE_SIZE, "num_channels": 3, "patch_size": PATCH_SIZE}
    tokens = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "vocab_size": VOCABULARY}
    text = tokens | {"max_position_embeddings": TEXT_TOKENS, "num_hidden_layers": TEXT_LAYERS}
    return {
        "architectures": ["CLIPModel" if family == "clip" else "SiglipModel"],
        "initializer_factor": 1.0,
        "model_type": family,
        **({"projection_dim": PROJECTION_SIZE} if family == "clip" else {}),
        "text_config": {"model_type": f"{family}_text_model", **tower, **text},
        "torch_dtype": "float32",
        "vision_config": {
            "model_type": f"{family}_vision_model",
            "num_hidden_layers": VISION_LAYERS,
            **tower,
            **vision,
        },
    }


def image_processor(family: str) -> dict[str, Any]:
    """The content of `preprocessor_config.json`."""
    common = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "resample": 3,
        "rescale_factor": 1 / 255,
    }
    if family == "siglip":
        return common | {
            "image_mean": [0.5, 0.5, 0.5],
            "image_processor_type": "SiglipImageProcessor",
            "image_std": [0.5, 0.5, 0.5],
            "processor_class": "SiglipProcessor",
            "size": {"height": IMAGE_SIZE, "width": IMAGE_SIZE},
        }
    return common | {
        "crop_size": IMAGE_SIZE,
        "do_center_crop": True,
        "do_convert_rgb": True,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_processor_type": "CLIPImageProcessor",
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "size": {"shortest_edge": IMAGE_SIZE},
    }


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write JSON as published checkpoints have it."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", "utf-8")


def write_weights(folder: Path, tensors: Tensors, *, shards: int) -> None:
    """Write one file, or `shards` files and an index; vision tensors are in every shard."""
    metadata = {"format": "pt"}
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata)
        return
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file_name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        mine = {name: tensors[name] for name in names[shard::shards]}
        save_file(mine, folder / file_name, metadata)
        weight_map |= dict.fromkeys(mine, file_name)
    total = {"total_size": sum(tensor.nbytes for tensor in tensors.values())}
    index = {"metadata": total, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)


def make_checkpoint(
    folder: Path, *, family: str = "siglip", shards: int = 1, seed: int = 0
) -> Path:
    """Write a checkpoint into `folder`, made when absent; return `folder`.

    Args:
        folder: where to; files of the same names are replaced.
        family: `siglip` or `clip`.
        shards: number of weight files; more than one adds `model.safetensors.index.json`.
        seed: another seed, other weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    build = {"siglip": siglip_tensors, "clip": clip_tensors}[family]
    write_weights(folder, build(np.random.default_rng(seed)), shards=shards)
    write_json(folder / "config.json", config(family))
    write_json(folder / "preprocessor_config.json", image_processor(family))
    title = {"siglip": "SigLIP", "clip": "CLIP"}[family]
    sizes = {"size": IMAGE_SIZE, "patch": PATCH_SIZE, "hidden": HIDDEN_SIZE}
    text = README.format(family=family, title=title, layers=VISION_LAYERS, **sizes)
    (folder / "README.md").write_text(text, "utf-8")
    return folder


def main() -> None:
    """Read the command line and write what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="default: tiny-FAMILY beside this")
    parser.add_argument("--family", choices=FAMILIES, default="siglip")
    parser.add_argument("--shards", type=int, default=1, help="number of weight files")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other weights")
    options = parser.parse_args()
    folder = options.folder or HERE / f"tiny-{options.family}"
    make_checkpoint(folder, family=options.family, shards=options.shards, seed=options.seed)


if __name__ == "__main__":
    main()
