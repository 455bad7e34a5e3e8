"""torchvision as transformers loads it, beside whichever build of torch is here."""

from __future__ import annotations

import importlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path


def make_loadable() -> None:
    """Let torchvision load where its compiled operators do not fit torch's build.

    A plain CPU build of torch may come from another index than torchvision. None of its operators
    is used here, but two have to be known by name as it loads, and so does all of transformers.
    """
    found = find_spec("torchvision")
    if found is None or found.origin is None or find_spec("torch") is None:
        return
    torch = importlib.import_module("torch")
    operators = [*Path(found.origin).parent.glob("_C*.so")]
    with suppress(OSError):
        for each in operators:
            torch.ops.load_library(each)
            return
    for name in ("nms", "qnms"):
        with suppress(RuntimeError):  # known already
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")


make_loadable()
