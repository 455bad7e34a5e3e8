"""Load a vision tower from a checkpoint and run it on a backend."""

from __future__ import annotations

import hashlib
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.digest import canonical_json
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Features

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.ops import Array, Ops
    from vcache_cli.items import Pixels
    from vcache_cli.protocols import Backend, Tower, TowerPlan
    from vcache_cli.tensor import Tensor

__all__ = ["TowerEncoder", "fingerprint", "load_encoder"]

_FORMAT: Final = b"vcache encoder 1\n"
"""Starts every fingerprint; a change of what is hashed changes it."""

_PIXELS: Final = "pixel_values"


def fingerprint(checkpoint: Checkpoint, plan: TowerPlan) -> str:
    """SHA-256, 64 hex, of all that decides what a tower computes; reads each weight once.

    It covers names, dtypes, shapes and bytes of the tensors that the plan reads, by the tower's
    own names, and the plan's settings: the same tower alone, in shards or inside a larger model
    has the same fingerprint.

    Raises:
        ModelError: a weight cannot be read.
    """
    hasher = _Hasher()
    for name, tensor in _weights(checkpoint, plan):
        hasher.add(name, tensor)
    return hasher.finish(plan)


def load_encoder(
    checkpoint: Checkpoint,
    tower: Tower,
    backend: Backend,
    *,
    output: str = "hidden",
    compute_dtype: str = "F32",
) -> TowerEncoder:
    """The vision tower of `checkpoint`, ready to encode; its weights are read once.

    Args:
        checkpoint: opened; only the tensors of its vision tower are read.
        tower: the family's forward pass.
        backend: where to compute.
        output: ``hidden``, the last hidden states after the final norm.
        compute_dtype: ``F32``, or what else the backend computes in.

    Raises:
        ModelError: no such output, backend or dtype; a missing or misshapen tensor.
    """
    if output != "hidden":
        raise ModelError(f"tower `{tower.name}`: expected output `hidden`, got `{output}`")
    ops = backend.ops(compute_dtype)
    plan = tower.plan(checkpoint)
    hasher, weights = _Hasher(), {}
    for name, tensor in _weights(checkpoint, plan):
        hasher.add(name, tensor)
        weights[name] = tensor
    return TowerEncoder(tower, plan.settings, ops, weights, hasher.finish(plan))


def _weights(checkpoint: Checkpoint, plan: TowerPlan) -> Iterator[tuple[str, Tensor]]:
    for name in sorted(plan.tensors):
        yield name, checkpoint.read(plan.tensors[name])


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


@dataclass(eq=False)
class TowerEncoder:
    """A loaded vision tower. `encode` may be called by any thread, `concurrency` at once.

    Where a backend must be driven by one thread (MLX), the encoder has that thread and callers
    wait for it.
    """

    tower: Tower
    settings: Mapping[str, Any]
    ops: Ops
    weights: dict[str, Tensor]
    """As read; each is dropped once the backend holds it."""
    fingerprint: str
    """64 hex; see `fingerprint`."""
    _arrays: dict[str, Array] = field(default_factory=dict)
    _loading: threading.Lock = field(default_factory=threading.Lock)
    _owner: ThreadPoolExecutor | None = None

    def __post_init__(self) -> None:
        """An owner thread where the backend wants one."""
        if self.ops.concurrency == 1:
            self._owner = ThreadPoolExecutor(1, thread_name_prefix="vcache-encoder")

    @property
    def pixel_shape(self) -> tuple[int, int, int]:
        """(C, H, W): the tower's positions are learnt for one size."""
        side = int(self.settings["image_size"])
        return int(self.settings["num_channels"]), side, side

    @property
    def concurrency(self) -> int:
        """How many threads are worth calling `encode` at once."""
        return self.ops.concurrency

    @property
    def device(self) -> Mapping[str, str]:
        """``backend``, ``device``, ``dtype`` and versions."""
        return self.ops.device

    def encode(self, batch: Sequence[Pixels]) -> list[Features]:
        """float32 `features` (num_tokens, hidden_size) and `pooled` of each item, in order.

        Raises:
            EncodeError: pixels that are not the tower's, or features that are not finite.
        """
        pixels = [self._checked(item) for item in batch]
        if self._owner is not None:
            return self._owner.submit(self._encode, pixels).result()
        return self._encode(pixels)

    def _checked(self, item: Pixels) -> NDArray[np.float32]:
        array, expected = item.tensors.get(_PIXELS), self.pixel_shape
        if array is None or array.shape != expected:
            found = "none" if array is None else f"{list(array.shape)}"
            raise EncodeError(
                f"expected `{_PIXELS}` {list(expected)}, got {found}",
                kind="pixels_shape",
                hint="preprocessor_config.json and config.json of the model do not belong together",
            )
        return array

    def _encode(self, pixels: list[NDArray[np.float32]]) -> list[Features]:
        step = self._pass_items(len(pixels))
        done: list[Features] = []
        with self.ops.session():
            for begin in range(0, len(pixels), step):
                done += self._forward(pixels[begin : begin + step])
        return done

    def _pass_items(self, batch_size: int) -> int:
        """Items of one pass, at least one."""
        if self.ops.pass_tokens is None:
            return max(1, batch_size)
        num_tokens: int = (self.settings["image_size"] // self.settings["patch_size"]) ** 2
        return math.ceil(self.ops.pass_tokens / num_tokens)

    def _forward(self, pixels: list[NDArray[np.float32]]) -> list[Features]:
        import numpy as np

        stacked = self.ops.stack(pixels)
        outputs = self.tower.forward(self.ops, self._loaded(), self.settings, stacked)
        columns = {name: self.ops.unstack(value) for name, value in outputs.items()}
        for name, arrays in columns.items():
            if not all(np.isfinite(array).all() for array in arrays):
                raise EncodeError(
                    f"expected finite `{name}`, got infinity or NaN",
                    kind="not_finite",
                    hint="compute in F32, and check the weights",
                )
        return [
            Features({name: arrays[i] for name, arrays in columns.items()})
            for i in range(len(pixels))
        ]

    def _loaded(self) -> dict[str, Array]:
        """The weights in the backend's arrays, made at first use by the thread that computes."""
        with self._loading:
            while self.weights:
                name, tensor = self.weights.popitem()
                self._arrays[name] = self.ops.load(tensor)
        return self._arrays
