"""P1, P1b: encode with a SigLIP-base tower, against transformers on torch with two threads.

Needs torch and transformers: `.venv-parity-torch`, which `make parity-torch` makes.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.measure import compare
from tests.bench.pictures import encode_all, make_pixels, make_siglip, skip_without
from tests.parity_torch.conftest import make_loadable
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode import load_encoder, numpy_backend, siglip, torch_ops
from vcache_cli.encode.processor import has_bfloat16_units
from vcache_cli.items import Pixels

BATCH_SIZE = 8
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "5"))
PICTURES = 2 * BATCH_SIZE


def torch_tower(folder: Path, dtype: str) -> Any:  # noqa: ANN401  a torch module
    """The peer: what a user would load."""
    make_loadable()
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    model = transformers.SiglipVisionModel.from_pretrained(folder, dtype=getattr(torch, dtype))
    return model.eval()


def run_torch(model: Any, pixels: list[Pixels]) -> None:  # noqa: ANN401  as above
    """Batch after batch in one thread, on all cores."""
    import numpy as np
    import torch

    with torch.inference_mode():
        for at in range(0, len(pixels), BATCH_SIZE):
            batch = np.stack(
                [item.tensors["pixel_values"] for item in pixels[at : at + BATCH_SIZE]]
            )
            model(pixel_values=torch.from_numpy(batch).to(model.dtype)).last_hidden_state.float()


def main() -> None:
    """Both precisions."""
    skip_without("torch", "transformers")
    pixels = make_pixels(PICTURES)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = make_siglip(Path(name) / "model")
        checkpoint = open_checkpoint(str(folder))
        plain = load_encoder(checkpoint, siglip.TOWER, numpy_backend.BACKEND)
        compare(
            "P1 encode float32, numpy / torch through transformers",
            partial(encode_all, plain, pixels, BATCH_SIZE),
            partial(run_torch, torch_tower(folder, "float32"), pixels),
            unit="s",
            rounds=ROUNDS,
        )
        if not has_bfloat16_units():
            return
        best = load_encoder(checkpoint, siglip.TOWER, torch_ops.BACKEND, compute_dtype="BF16")
        compare(
            "P1b encode bfloat16, torch / torch through transformers",
            partial(encode_all, best, pixels, BATCH_SIZE),
            partial(run_torch, torch_tower(folder, "bfloat16"), pixels),
            unit="s",
            rounds=ROUNDS,
        )


if __name__ == "__main__":
    main()
