"""How many items an encoder is given at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.assemble.recipes import LoadedRecipe

__all__ = ["batch_size_of", "concurrency_of"]

_ON_CPU: Final = 8
_ON_ACCELERATOR: Final = 32


def concurrency_of(loaded: LoadedRecipe) -> int:
    """Batches that are encoded at once."""
    return loaded.encoder.concurrency if loaded.encoder else 1


def batch_size_of(loaded: LoadedRecipe, options: WarmOptions) -> int:
    """Items of a full batch; 1 where nothing is encoded."""
    if options.batch_size or loaded.encoder is None:
        return options.batch_size or 1
    on_cpu = loaded.encoder.device.get("device", "").startswith("cpu")
    return _ON_CPU if on_cpu else _ON_ACCELERATOR
