"""P2: encode with a SigLIP-base tower in numpy, against mlx-vlm's own on the same CPU.

Needs mlx-vlm: `.venv-parity`, which `make parity` makes. The peer takes most of a minute, so it
encodes one batch a round, and we several, in as many threads as the encoder declares, with one BLAS
thread each, as a warm does it. Figures are seconds for each picture.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.measure import report
from tests.bench.pictures import encode_all, make_pixels, make_siglip, skip_without
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import load_encoder, numpy_backend, siglip
from vcache_cli.items import Pixels

BATCH_SIZE = 4
BATCHES = 4
"""Of ours, shared by the threads that the encoder declares."""
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


def timed(work: Callable[[], object], count: int) -> float:
    """Seconds for each of `count` pictures."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) / count


def main() -> None:
    """Batches of one size on both sides."""
    skip_without("mlx_vlm", "mlx")
    pixels = make_pixels(BATCHES * BATCH_SIZE)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = make_siglip(Path(name) / "model")
        encoder = load_encoder(open_checkpoint(str(folder)), siglip.TOWER, numpy_backend.BACKEND)
        tower = mlx_tower(folder)
        run_mlx(tower, pixels[:1])
        ours, peer = list[float](), list[float]()
        for _ in range(ROUNDS):
            encode_all(encoder, pixels[: 2 * BATCH_SIZE], BATCH_SIZE)  # the peer's took its cache
            ours.append(timed(partial(encode_all, encoder, pixels, BATCH_SIZE), len(pixels)))
            peer.append(timed(partial(run_mlx, tower, pixels[:BATCH_SIZE]), BATCH_SIZE))
    name = "P2 encode float32, numpy / mlx-vlm"
    report(name, statistics.median(ours), statistics.median(peer), unit="s", rounds=ROUNDS)


if __name__ == "__main__":
    main()
