"""Encode by mlx-vlm's own code on a CPU: with a real BLAS in front of MLX, against its own.

A whole model with a SigLIP-base vision part. Needs mlx-vlm, and an OpenBLAS or MKL that is found
or named in `VCACHE_BLAS`. The peer takes most of a minute. Which BLAS answers is settled once in
a process, so each side is a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.measure import report
from tests.bench.pictures import skip_without

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.encode.mlx_vlm import ModelOwner, RequestPixels

ROOT = Path(__file__).resolve().parents[2]
SIDE = 224
VISION = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": SIDE,
    "patch_size": 16,
}
PROCESSOR = {"size": {"height": SIDE, "width": SIDE}, "image_seq_length": 196}
COUNTS = {"front": 8, "stock": 1}
"""Pictures that each side encodes, after one that does not count where there are several."""


def encode(folder: str, side: str) -> None:
    """Print the BLAS that answers and the seconds for each picture."""
    if side == "stock":
        import mlx.core  # noqa: F401  too late for another BLAS from here on
    import numpy as np

    from vcache_cli.checkpoint import open_checkpoint
    from vcache_cli.encode.mlx_vlm import ModelOwner, ServerPreprocessor, load_server_encoder
    from vcache_cli.items import Frames

    owner = ModelOwner(open_checkpoint(folder))
    preprocessor = ServerPreprocessor(owner)
    draw = np.random.default_rng(0)
    pictures = draw.integers(0, 256, (COUNTS[side] + 1, 1, 300, 400, 3), dtype=np.uint8)
    pixels = [preprocessor(Frames(each)) for each in pictures]
    if side == "stock":
        print("bundled", timed(lambda: owner.run(lambda: plain(owner, pixels[0]))))
        return
    encoder = load_server_encoder(owner, preprocessor)
    encoder.encode(pixels[:1])
    print(encoder.versions["blas"], timed(lambda: encoder.encode(pixels[1:])) / COUNTS[side])


def plain(owner: ModelOwner, pixels: RequestPixels) -> None:
    """Features as a server would have them, by nothing of ours."""
    import mlx.core as mx

    from vcache_cli.encode.mlx_vlm.pictures import to_arrays
    from vcache_cli.encode.mlx_vlm.splitting import features_of

    inputs = {name: to_arrays(value) for name, value in pixels.inputs.items()}
    mx.eval(features_of(owner.loaded.model, inputs))


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def run(folder: Path, side: str) -> tuple[str, float]:
    """The BLAS and the seconds of one side."""
    command = [sys.executable, "-m", "tests.bench.bench_encode_adapter", str(folder), side]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    blas, seconds = done.stdout.split()[-2:]
    return blas, float(seconds)


def main() -> None:
    """One line; skipped where no other BLAS is found."""
    skip_without("mlx_vlm", "mlx")
    from tests.parity.tiny_models import make_model

    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = make_model(Path(name), "paligemma", vision=VISION, processor=PROCESSOR)
        blas, ours = run(folder, "front")
        if blas == "bundled":
            print("skipped: no OpenBLAS and no MKL; name one in VCACHE_BLAS", file=sys.stderr)
            return
        _, peer = run(folder, "stock")
        report(f"adapter float32, {blas} / stock mlx-vlm", ours, peer, unit="s", rounds=1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        encode(*sys.argv[1:])
    else:
        main()
