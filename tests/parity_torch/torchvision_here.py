"""torchvision beside a torch of another build: its compiled operators are not used here."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

__all__ = ["torchvision"]


def torchvision() -> Any:  # noqa: ANN401  untyped library
    """The package; two operators that it describes as it loads need to be known by name."""
    library = importlib.import_module("torch").library
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):  # the build that fits brings them
            library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")
    return importlib.import_module("torchvision")
