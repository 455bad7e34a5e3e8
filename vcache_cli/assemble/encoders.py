"""Which encoders can serve which family here, and which is chosen."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli import registry
from vcache_cli.assemble.options import DTYPES
from vcache_cli.assemble.servers import MLX_VLM
from vcache_cli.errors import VcacheError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vcache_cli.protocols import Backend, Tower

__all__ = ["EncoderChoice", "encoder_choices"]


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """One built-in encoder: a family's tower on a backend."""

    family: str
    backend: str
    """Empty where the family has no tower."""
    outputs: tuple[str, ...]
    """What it can give, the default first."""
    compute_dtype: str
    """What it computes in where nothing is asked for, as people name it."""
    chosen: bool
    """Taken here where no backend is named."""
    available: bool
    reason: str
    """Why it cannot be used, or what speaks for or against it."""

    def as_json(self) -> dict[str, Any]:
        """The fields of an encoder in ``vcache.plugins/1``."""
        return {
            "family": self.family,
            "backend": self.backend,
            "outputs": list(self.outputs),
            "compute_dtype": self.compute_dtype,
            "chosen": self.chosen,
            "available": self.available,
            "reason": self.reason,
        }


def encoder_choices() -> Iterator[EncoderChoice]:
    """Every family with every backend; a family without a tower has one line that says so.

    Raises:
        ModelError: no backend runs here.
    """
    from vcache_cli.encode import choose_backend  # needs numpy

    backends: list[Backend] = [
        registry.load("backends", each) for each in registry.names("backends")
    ]
    best = choose_backend(None, backends)
    towers = registry.names("towers")
    for family in registry.names("families"):
        if family not in towers:
            yield _without_tower(family)
            continue
        for backend in backends:
            yield _choice(family, backend, is_best=backend is best)


def _without_tower(family: str) -> EncoderChoice:
    """mlx-vlm's own models encode, where it is installed and has the family."""
    if importlib.util.find_spec("mlx_vlm") is None:
        told = "no tower of its own; stage `pixels` works, and features with `vcache-cli[mlx-vlm]`"
        return EncoderChoice(family, "", (), "", chosen=False, available=False, reason=told)
    told = "no tower of its own: mlx-vlm's models encode"
    return EncoderChoice(
        family, MLX_VLM, ("projected",), "", chosen=True, available=True, reason=told
    )


def _choice(family: str, backend: Backend, *, is_best: bool) -> EncoderChoice:
    told = backend.unavailable()
    outputs: tuple[str, ...] = ()
    try:
        tower: Tower = registry.load("towers", family)
        outputs = tower.outputs
    except VcacheError as error:
        told = told or error.message
    names = {code: name for name, code in DTYPES.items()}
    return EncoderChoice(
        family,
        backend.name,
        outputs,
        names[backend.default_dtype()] if told is None else "",
        chosen=is_best and told is None,
        available=told is None,
        reason=backend.merit() if told is None else told,
    )
