"""The peer of P3: the script that a user would write today. Arguments: MODEL CORPUS OUT DTYPE."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.parity_torch.conftest import make_loadable

BATCH_SIZE = 8
WORKERS = 2


class Pictures:
    """A data set of files, preprocessed by transformers' own processor."""

    def __init__(self, model: str, corpus: str) -> None:
        make_loadable()
        import transformers

        self.paths = sorted(Path(corpus).glob("*.jpg"))
        kind: Any = getattr(transformers, "SiglipImageProcessorPil", None)
        self.processor = (kind or transformers.SiglipImageProcessor).from_pretrained(model)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, at: int) -> tuple[int, Any]:
        from PIL import Image

        with Image.open(self.paths[at]) as picture:
            out = self.processor(picture.convert("RGB"), return_tensors="np")
        return at, out["pixel_values"][0]


def main(model: str, corpus: str, out: str, dtype: str) -> None:
    """Decode in two processes, encode in this one, write one file for each picture."""
    data = Pictures(model, corpus)
    import torch
    import transformers
    from safetensors.torch import save_file

    loader = torch.utils.data.DataLoader(data, batch_size=BATCH_SIZE, num_workers=WORKERS)
    kind = getattr(torch, dtype)
    tower = transformers.SiglipVisionModel.from_pretrained(model, dtype=kind).eval()
    Path(out).mkdir()
    with torch.inference_mode():
        for numbers, pixels in loader:
            features = tower(pixel_values=pixels.to(kind)).last_hidden_state.to(torch.bfloat16)
            for number, item in zip(numbers, features, strict=True):
                name = f"{int(number):04d}.safetensors"
                save_file({"features": item.clone()}, Path(out) / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
