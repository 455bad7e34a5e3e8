"""P2: encode with a SigLIP-base tower in numpy, against mlx-vlm's own on the same CPU.

Needs mlx-vlm: `.venv-parity`, which `make parity` makes. The peer takes most of a minute.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.measure import compare
from tests.bench.pictures import encode_all, make_pixels, make_siglip, skip_without
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import load_encoder, numpy_ops, siglip
from vcache_cli.items import Pixels

BATCH_SIZE = 4
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "1"))


def mlx_tower(folder: Path) -> Any:  # noqa: ANN401  an mlx module
    """The vision tower of gemma3, which is SigLIP's."""
    import mlx.core as mx
    from mlx_vlm.models.gemma3.config import VisionConfig
    from mlx_vlm.models.gemma3.vision import VisionModel

    config = VisionConfig(
        model_type="siglip_vision_model",
        num_hidden_layers=12,
        hidden_size=768,
        intermediate_size=3072,
        num_attention_heads=12,
        patch_size=16,
        image_size=224,
    )
    tower = VisionModel(config)
    weights: Any = mx.load(str(folder / "model.safetensors"))
    kept = {name: array for name, array in weights.items() if ".head." not in name}
    tower.load_weights(list(tower.sanitize(kept).items()))
    return tower


def run_mlx(tower: Any, pixels: list[Pixels]) -> None:  # noqa: ANN401  as above
    """One batch, channels last."""
    import mlx.core as mx
    import numpy as np

    batch = np.stack([item.tensors["pixel_values"].transpose(1, 2, 0) for item in pixels])
    mx.eval(tower(mx.array(batch)))


def main() -> None:
    """One batch on each side."""
    skip_without("mlx_vlm", "mlx")
    pixels = make_pixels(BATCH_SIZE)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = make_siglip(Path(name) / "model")
        ours = load_encoder(open_checkpoint(str(folder)), siglip.TOWER, numpy_ops.BACKEND)
        compare(
            "P2 encode float32, numpy / mlx-vlm",
            partial(encode_all, ours, pixels, BATCH_SIZE // 2),
            partial(run_mlx, mlx_tower(folder), pixels),
            unit="s",
            rounds=ROUNDS,
        )


if __name__ == "__main__":
    main()
