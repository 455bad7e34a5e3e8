"""The weights of a tower: what names them, and when they are read."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING

from vcache_cli.digest import canonical_json
from vcache_cli.encode.fingerprints import memo_key, stamps
from vcache_cli.errors import ModelError
from vcache_cli.tensor import ITEMSIZE_BYTES, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.fingerprints import FingerprintMemo
    from vcache_cli.protocols import TowerPlan

__all__ = ["TowerWeights", "fingerprint"]

_FORMAT: Final = b"vcache encoder 1\n"
"""Starts every fingerprint; a change of what is hashed changes it."""

_CHECKED_ELEMENTS: Final = 1 << 20
"""Elements that are looked at at once."""

_EXPONENTS: Final = {"BF16": ("<u2", 0x7F80), "F16": ("<u2", 0x7C00), "F32": ("<u4", 0x7F800000)}
"""Bits that are all set in infinity and NaN, and in no other number."""


def fingerprint(checkpoint: Checkpoint, plan: TowerPlan) -> str:
    """SHA-256, 64 hex, of all that decides what a tower computes; reads each weight once.

    It covers names, dtypes, shapes and bytes of the tensors that the plan reads, by the tower's
    own names, and the plan's settings: the same tower alone, in shards or inside a larger model
    has the same fingerprint.

    Raises:
        ModelError: a weight cannot be read, or is not finite.
    """
    hasher = _Hasher()
    for name, tensor in _read(checkpoint, plan):
        hasher.add(name, tensor)
    return hasher.finish(plan)


class TowerWeights:
    """The weights of one plan. Any thread.

    Args:
        checkpoint: opened.
        plan: which tensors, and their layout.
        memo: what is known of files that did not change; where it knows these, nothing is read
            before the weights are taken, and what it knows is held against them then.

    Raises:
        ModelError: a weight cannot be read, or is not finite.
    """

    def __init__(
        self, checkpoint: Checkpoint, plan: TowerPlan, memo: FingerprintMemo | None = None
    ) -> None:
        self._checkpoint = checkpoint
        self._plan = plan
        self._lock = threading.Lock()
        self._held: dict[str, Tensor] | None = None
        self._files = stamps(checkpoint, plan)
        self._memo = memo
        self._key = memo_key(checkpoint, plan, self._files, version=_FORMAT.decode())
        self.fingerprint = (memo.get(self._key) if memo else None) or self._hashed()
        """64 hex; see `fingerprint`."""

    def _hashed(self) -> str:
        """Read everything; it is held until it is taken."""
        hasher = _Hasher()
        self._held = dict(self._read(hasher))
        found = hasher.finish(self._plan)
        if self._memo:
            self._memo.put(self._key, found, self._files)
        return found

    def _read(self, hasher: _Hasher) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in _read(self._checkpoint, self._plan):
            hasher.add(name, tensor)
            yield name, tensor
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        """The files are still those that the fingerprint names."""
        if stamps(self._checkpoint, self._plan) != self._files:
            raise ModelError(
                f"{self._checkpoint.folder}: weight files changed while they were in use",
                hint="run it again when the checkpoint is complete",
            )

    def take(self) -> Iterator[tuple[str, Tensor]]:
        """Each weight once, in the layout that the tower computes with; it is not kept.

        Raises:
            ModelError: a weight cannot be read, or changed since the fingerprint was known.
        """
        with self._lock:
            for name, tensor in self._taken():
                yield name, _transposed(tensor, self._plan.axes.get(name))

    def _taken(self) -> Iterator[tuple[str, Tensor]]:
        held, self._held = self._held, None
        if held is None:
            hasher = _Hasher()
            yield from self._read(hasher)
            self._check_known(hasher.finish(self._plan))
            return
        while held:
            yield held.popitem()

    def _check_known(self, found: str) -> None:
        """No entry is ever named after weights that did not make it."""
        if found == self.fingerprint or self._memo is None:
            return
        self._memo.forget(self._key)
        raise ModelError(
            f"{self._checkpoint.folder}: expected weights of the remembered fingerprint "
            f"{self.fingerprint[:12]}, found {found[:12]}",
            hint="it is forgotten now: run it again",
        )


def _read(checkpoint: Checkpoint, plan: TowerPlan) -> Iterator[tuple[str, Tensor]]:
    for name in sorted(plan.tensors):
        stored = plan.tensors[name]
        tensor = checkpoint.read(stored)
        if not _is_finite(tensor):
            path = checkpoint.tensors[stored].path
            raise ModelError(
                f"{path}: expected finite numbers in `{stored}`, found infinity or NaN",
                hint="the checkpoint is damaged: download it again",
            )
        yield name, tensor


def _is_finite(tensor: Tensor) -> bool:
    if tensor.dtype not in _EXPONENTS:
        return True
    import numpy as np

    code, exponent = _EXPONENTS[tensor.dtype]
    bits = np.frombuffer(tensor.data, code)
    for begin in range(0, bits.size, _CHECKED_ELEMENTS):
        part = bits[begin : begin + _CHECKED_ELEMENTS]
        if ((part & exponent) == exponent).any():
            return False
    return True


def _transposed(tensor: Tensor, axes: tuple[int, ...] | None) -> Tensor:
    if not axes:
        return tensor
    import numpy as np

    bits = np.frombuffer(tensor.data, f"V{ITEMSIZE_BYTES[tensor.dtype]}").reshape(tensor.shape)
    turned = np.ascontiguousarray(bits.transpose(axes))
    return Tensor(tensor.dtype, turned.shape, turned.tobytes())


class _Hasher:
    """The one definition of what a fingerprint covers."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256(_FORMAT)

    def add(self, name: str, tensor: Tensor) -> None:
        """Tensors come sorted by name; what stands before the bytes says how many follow."""
        self._sha256.update(canonical_json([name, tensor.dtype, list(tensor.shape)]) + b"\n")
        self._sha256.update(tensor.data)

    def finish(self, plan: TowerPlan) -> str:
        self._sha256.update(canonical_json(dict(plan.settings)))
        return self._sha256.hexdigest()
