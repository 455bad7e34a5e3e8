"""Pictures and models that several benches need, made in code."""

from __future__ import annotations

import importlib.util
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

from vcache_cli.encode import TowerEncoder
from vcache_cli.encode.transformer import layer_shapes, linear_shapes, mlp_shapes, norm_shapes
from vcache_cli.items import Pixels

__all__ = ["SMALL", "encode_all", "make_jpegs", "make_pixels", "make_siglip", "skip_without"]

SIZES = ((640, 480), (1280, 720), (1920, 1080), (2560, 1920), (4000, 3000))
"""0.3 to 12 megapixels."""

BASE = {
    "hidden_size": 768,
    "image_size": 224,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "patch_size": 16,
}
SMALL = {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 2}
"""A tower so small that decoding decides."""


def make_jpegs(folder: Path, count: int) -> None:
    """JPEGs of all `SIZES`, soft like photographs, each of its own content."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        size = SIZES[number % len(SIZES)]
        coarse = rng.integers(0, 256, (size[1] // 16, size[0] // 16, 3), np.uint8)
        picture = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
        picture.save(folder / f"{number:04d}.jpg", quality=90)


def siglip_shapes(settings: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Every tensor of the tower and its pooling head."""
    hidden, side = settings["hidden_size"], settings["patch_size"]
    return {
        "embeddings.patch_embedding.weight": (hidden, 3, side, side),
        "embeddings.patch_embedding.bias": (hidden,),
        "embeddings.position_embedding.weight": ((settings["image_size"] // side) ** 2, hidden),
        **layer_shapes(settings),
        **norm_shapes("post_layernorm", hidden),
        "head.probe": (1, 1, hidden),
        "head.attention.in_proj_weight": (3 * hidden, hidden),
        "head.attention.in_proj_bias": (3 * hidden,),
        **linear_shapes("head.attention.out_proj", hidden, hidden),
        **norm_shapes("head.layernorm", hidden),
        **mlp_shapes("head.mlp", settings),
    }


def make_siglip(folder: Path, **vision: int) -> Path:
    """A SigLIP vision tower of random weights, base-sized but for what `vision` says."""
    folder.mkdir()
    settings = {**BASE, **vision}
    rng = np.random.default_rng(0)
    weights = {
        f"vision_model.{name}": rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        + np.float32("norm" in name and name.endswith("weight"))
        for name, shape in siglip_shapes(settings).items()
    }
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = {"model_type": "siglip", "vision_config": {"model_type": "siglip_vision_model"}}
    config["vision_config"] |= vision  # type: ignore[operator]
    (folder / "config.json").write_text(json.dumps(config))
    processor = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_processor_type": "SiglipImageProcessor",
        "image_std": [0.5, 0.5, 0.5],
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"height": 224, "width": 224},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def make_pixels(count: int) -> list[Pixels]:
    """Noise of the size that the tower takes."""
    rng = np.random.default_rng(0)
    shape = (3, 224, 224)
    return [
        Pixels({"pixel_values": rng.standard_normal(shape, dtype=np.float32)}, 196)
        for _ in range(count)
    ]


def encode_all(encoder: TowerEncoder, pixels: list[Pixels], batch_size: int) -> None:
    """As a warm does it: as many threads as the encoder allows, a batch each."""
    batches = [pixels[at : at + batch_size] for at in range(0, len(pixels), batch_size)]
    with ThreadPoolExecutor(encoder.concurrency) as pool:
        list(pool.map(encoder.encode, batches))


def skip_without(*modules: str) -> None:
    """End this bench, with the reason, where a library that it compares with is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} not installed", file=sys.stderr)
        raise SystemExit(0)
