"""Backends: which can be used, which would be chosen, and how fast each is."""

from __future__ import annotations

import importlib.util
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vcache_cli import registry
from vcache_cli.doctor.checks import Check, State
from vcache_cli.encode.blas_front import FIX, put_blas_in_front
from vcache_cli.errors import ModelError
from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from vcache_cli.protocols import Backend

__all__ = ["Backends", "check_backends", "measure_backends"]

_ROWS: Final = 256
_WIDTH: Final = 1024
_BUDGET_SECONDS: Final = 0.1
"""For each backend, after the first product; one is always measured."""


@dataclass(frozen=True, slots=True)
class Backends:
    """What can encode here."""

    chosen: str | None = None
    """What a warm would take by itself."""
    unavailable: dict[str, str] = field(default_factory=dict)
    """Backend to the reason."""
    gflops: dict[str, float] = field(default_factory=dict)
    """Float32 matrix products, 10^9 operations per second, one thread of vcache."""
    device: dict[str, str] = field(default_factory=dict)
    """Of the chosen backend."""
    mlx_blas: Check | None = None
    """Which BLAS answers MLX on this CPU; None where MLX needs none."""

    def as_json(self) -> dict[str, Any]:
        """The field `backend` of ``vcache.doctor/1``."""
        if self.chosen is None:
            return {}
        parts = {name: self.device.get(name) for name in ("device", "blas")}
        gflops = self.gflops.get(self.chosen)
        found = {"name": self.chosen, **parts, "gflops": gflops}
        return {name: part for name, part in found.items() if part is not None}


def measure_backends() -> Backends:
    """Each installed backend, measured where it can be used; well under a second each."""
    usable: list[tuple[int, str, Backend]] = []
    result = Backends(mlx_blas=_front())
    for name, backend in _installed(result.unavailable):
        reason = backend.unavailable()
        if reason:
            result.unavailable[name] = reason
        else:
            usable.append((backend.preference(), name, backend))
    for _, name, backend in usable:
        result.gflops[name] = round(_gflops(backend.ops("F32")), 1)
    if not usable:
        return result
    _, chosen, backend = max(usable, key=lambda each: each[:2])
    ops = backend.ops("F32")
    device = {**ops.device, **ops.versions}
    return Backends(chosen, result.unavailable, result.gflops, device, result.mlx_blas)


def check_backends(found: Backends) -> list[Check]:
    """One check for the choice, one for each backend that cannot be used."""
    checks = [
        Check(f"backend_{name}", State.WARN, f"not available: {reason}", _fix(name))
        for name, reason in sorted(found.unavailable.items())
    ]
    if found.chosen is None:
        fix = "pip install --force-reinstall numpy"
        return [Check("backend", State.FAIL, "nothing here can encode", fix), *checks]
    speeds = ", ".join(f"{name} {speed:g} GFLOP/s" for name, speed in sorted(found.gflops.items()))
    if found.mlx_blas:
        checks.append(_with_speed(found.mlx_blas, found.gflops.get("mlx")))
    return [Check("backend", State.OK, f"{found.chosen} is chosen ({speeds})"), *checks]


def _front() -> Check | None:
    """Before MLX is imported, let it find a real BLAS."""
    if sys.platform != "linux" or importlib.util.find_spec("mlx") is None:
        return None
    try:
        front = put_blas_in_front()
    except ModelError as error:
        return Check("mlx_blas", State.FAIL, error.message, error.hint)
    if front.library:
        return Check("mlx_blas", State.OK, f"{front.library} answers MLX on the CPU")
    return Check("mlx_blas", State.WARN, f"MLX has its own BLAS on the CPU: {front.reason}", FIX)


def _with_speed(check: Check, gflops: float | None) -> Check:
    if gflops is None:
        return check
    return replace(check, message=f"{check.message}, at {gflops:g} GFLOP/s")


def _installed(unavailable: dict[str, str]) -> Iterator[tuple[str, Backend]]:
    for name in registry.names("backends"):
        try:
            yield name, registry.load("backends", name)
        except ModelError as error:
            unavailable[name] = error.message


def _fix(name: str) -> str:
    if name == "mlx" and sys.platform == "linux":
        return "pip install 'vcache-cli[cpu]', or [cuda12] or [cuda13]; the other backends work"
    if name in {"mlx", "numpy"}:
        return f"pip install --upgrade --force-reinstall {name}"
    if name == "torch":
        return "pip install 'vcache-cli[torch]', or do without: the other backends work"
    return f"update or remove the package that brings it, or leave --backend {name} alone"


def _gflops(ops: Any) -> float:  # noqa: ANN401  each backend has its own arrays
    zeros = Tensor("F32", (_ROWS, _WIDTH), bytes(4 * _ROWS * _WIDTH)).numpy()
    weight = ops.load(Tensor("F32", (_WIDTH, _WIDTH), bytes(4 * _WIDTH * _WIDTH)))
    batch = ops.stack([zeros])
    ops.unstack(ops.linear(batch, weight, None))  # the first one loads and compiles
    done, started = 0, time.perf_counter()
    while not done or time.perf_counter() - started < _BUDGET_SECONDS:
        ops.unstack(ops.linear(batch, weight, None))
        done += 1
    return 2e-9 * _ROWS * _WIDTH * _WIDTH * done / (time.perf_counter() - started)
