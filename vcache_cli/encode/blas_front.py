"""A real BLAS in front of MLX on a Linux CPU, before MLX is imported.

The library that MLX brings there computes 4 or 5 GFLOP/s; OpenBLAS or MKL compute a hundred and
more. What is loaded first, for everyone to see, is what MLX's matrix products then call.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

__all__ = ["FIX", "BlasFront", "put_blas_in_front"]

VARIABLE: Final = "VCACHE_BLAS"
"""Path of a library, read from the environment only: loading it runs its code."""
_SYSTEM: Final = ("openblas", "mkl_rt")
_NEEDED: Final = "cblas_sgemm"
FIX: Final = "pip install 'vcache-cli[mkl]', or install your system's libopenblas"
"""What to do where MLX has its own."""


@dataclass(frozen=True, slots=True)
class BlasFront:
    """Which library MLX's matrix products call."""

    library: str | None
    """Path or name; None for the one that MLX brings."""
    reason: str = ""
    """Why it is MLX's own."""

    @property
    def name(self) -> str:
        """For people: the library's file name, or ``bundled``."""
        return Path(self.library).name if self.library else "bundled"


@cache
def put_blas_in_front() -> BlasFront:
    """Load a BLAS for MLX to find; once in a process, and before MLX is imported.

    Raises:
        ModelError: `VCACHE_BLAS` names what cannot be loaded, or is no BLAS.
    """
    if sys.platform != "linux":
        return BlasFront(None, "MLX needs none on this system")
    if "mlx.core" in sys.modules:
        return BlasFront(None, "it was imported before another could be put in front")
    named = os.environ.get(VARIABLE, "")
    if named:
        reason = _load(named)
        if reason:
            raise ModelError(f"{VARIABLE}={named}: {reason}", hint="name an OpenBLAS or MKL")
        return BlasFront(named)
    for library in _found():
        if not _load(library):
            return BlasFront(library)
    return BlasFront(None, "no OpenBLAS and no MKL was found")


def _load(library: str) -> str:
    """Load for all; the reason where that fails."""
    try:
        handle = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    return "" if hasattr(handle, _NEEDED) else f"expected `{_NEEDED}` in it, found none"


def _found() -> Iterator[str]:
    """The system's, then the one of the extra `mkl`."""
    for name in _SYSTEM:
        library = ctypes.util.find_library(name)
        if library:
            yield library
    try:
        files = metadata.files("mkl") or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if file.name.startswith("libmkl_rt.so"):
            yield os.fspath(file.locate())
