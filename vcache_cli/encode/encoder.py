"""Load a vision tower from a checkpoint and run it on a backend."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vcache_cli.encode.exhaustion import as_memory_error
from vcache_cli.encode.weights import TowerWeights
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.items import Features

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.fingerprints import FingerprintMemo
    from vcache_cli.encode.ops import Array, Ops
    from vcache_cli.items import Pixels
    from vcache_cli.protocols import Backend, Tower, TowerPlan

__all__ = ["TowerEncoder", "load_encoder"]


def load_encoder(  # noqa: PLR0913  the choices of a run, each by its name
    checkpoint: Checkpoint,
    tower: Tower,
    backend: Backend,
    *,
    output: str | None = None,
    compute_dtype: str | None = None,
    memo: FingerprintMemo | None = None,
) -> TowerEncoder:
    """The vision tower of `checkpoint`, ready to encode; its weights are read once.

    Args:
        checkpoint: opened; only the tensors of its vision tower are read.
        tower: the family's forward pass.
        backend: where to compute.
        output: one of the tower's; None is its first.
        compute_dtype: ``F32``, ``BF16`` or ``F16``; None is what suits the backend.
        memo: where it knows the fingerprint, weights are read at the first `encode`.

    Raises:
        ModelError: no such output, backend or dtype; a missing or misshapen tensor.
    """
    output = tower.outputs[0] if output is None else output
    if output not in tower.outputs:
        known = " or ".join(f"`{each}`" for each in tower.outputs)
        raise ModelError(f"tower `{tower.name}`: expected output {known}, got `{output}`")
    ops = backend.ops(compute_dtype or backend.default_dtype())
    plan = tower.plan(checkpoint, output)
    return TowerEncoder(tower, output, plan, ops, TowerWeights(checkpoint, plan, memo))


@dataclass(eq=False)
class TowerEncoder:
    """A loaded vision tower. `encode` may be called by any thread, `concurrency` at once.

    Where a backend must be driven by one thread (MLX), the encoder has that thread and callers
    wait for it.
    """

    tower: Tower
    output: str
    """One of the tower's."""
    plan: TowerPlan
    ops: Ops
    weights: TowerWeights
    """Given to the backend at the first `encode`."""
    _arrays: dict[str, Array] | None = None
    _loading: threading.Lock = field(default_factory=threading.Lock)
    _owner: ThreadPoolExecutor | None = None

    def __post_init__(self) -> None:
        """An owner thread where the backend wants one."""
        if self.ops.concurrency == 1:
            self._owner = ThreadPoolExecutor(1, thread_name_prefix="vcache-encoder")

    @property
    def fingerprint(self) -> str:
        """64 hex; see `weights.fingerprint`."""
        return self.weights.fingerprint

    @property
    def compute_dtype(self) -> str:
        """``F32``, ``BF16`` or ``F16``."""
        return self.ops.device["dtype"]

    @property
    def pixel_shape(self) -> tuple[int, ...] | None:
        """Shape of the only pixels that the tower takes; None where sizes may be mixed."""
        return self.tower.pixel_shape(self.plan.settings)

    def bucket(self, pixels: Pixels) -> Hashable:
        """Items of one shape; where sizes may be mixed, of less than twice each other's tokens."""
        return pixels.num_tokens.bit_length() if self.pixel_shape is None else pixels.shape_key

    def feature_shapes(self, num_tokens: int) -> Mapping[str, tuple[int, ...]]:
        """Shape of each tensor that an item of `num_tokens` tokens becomes."""
        return self.tower.feature_shapes(self.plan.settings, num_tokens)

    @property
    def concurrency(self) -> int:
        """How many threads are worth calling `encode` at once."""
        return self.ops.concurrency

    @property
    def device(self) -> Mapping[str, str]:
        """``backend``, ``device`` and ``dtype``."""
        return self.ops.device

    @property
    def versions(self) -> Mapping[str, str]:
        """Of the backend's libraries, which are loaded for it."""
        return self.ops.versions

    def costs(self, batch: Sequence[Pixels]) -> list[int]:
        """Tokens through the layers for each item; see `Tower.cost`.

        Raises:
            EncodeError: pixels that are not the tower's.
        """
        return [self.tower.cost(self.plan.settings, item.tensors) for item in batch]

    def encode(self, batch: Sequence[Pixels]) -> list[Features]:
        """float32 tensors of each item, in order, as the tower says.

        Raises:
            EncodeError: pixels that are not the tower's, or features that are not finite.
        """
        costs = self.costs(batch)
        if self._owner is not None:
            return self._owner.submit(self._encode, batch, costs).result()
        return self._encode(batch, costs)

    def _encode(self, batch: Sequence[Pixels], costs: Sequence[int]) -> list[Features]:
        done: list[Features] = []
        with self.ops.session():
            for begin, end in _passes(costs, self.ops.pass_tokens):
                done += self._forward(batch[begin:end])
        return done

    def _forward(self, batch: Sequence[Pixels]) -> list[Features]:
        import numpy as np

        items = [item.tensors for item in batch]
        columns = self.tower.forward(self.ops, self._loaded(), self.plan.settings, items)
        for name, arrays in columns.items():
            if not all(np.isfinite(array).all() for array in arrays):
                raise EncodeError(
                    f"expected finite `{name}`, got infinity or NaN",
                    kind="not_finite",
                    hint="compute in float32, and check the weights",
                )
        features = [
            Features({name: arrays[i] for name, arrays in columns.items()})
            for i in range(len(batch))
        ]
        if self.pixel_shape is None:
            _check_tokens(batch, features)
        return features

    def _loaded(self) -> dict[str, Array]:
        """The weights in the backend's arrays, made at first use by the thread that computes.

        Raises:
            ModelError: they cannot be read, or do not fit into memory: no batch is small enough.
        """
        with self._loading:
            if self._arrays is None:
                self._arrays = self._load()
        return self._arrays

    def _load(self) -> dict[str, Array]:
        try:
            with as_memory_error():
                return {name: self.ops.load(each) for name, each in self.weights.take()}
        except MemoryError as error:
            raise ModelError(
                f"tower `{self.tower.name}`: not enough memory for its weights on "
                f"{self.device['device']}",
                hint="compute in bfloat16 where the backend can, or on a machine with more memory",
            ) from error


def _check_tokens(batch: Sequence[Pixels], features: Sequence[Features]) -> None:
    """Tokens that are not those foretold belong to patches in another order."""
    for pixels, found in zip(batch, features, strict=True):
        if pixels.num_tokens != found.num_tokens:
            raise EncodeError(
                f"expected {pixels.num_tokens} tokens, got {found.num_tokens}",
                kind="pixels_shape",
                hint="preprocessor_config.json and config.json of the model do not belong together",
            )


def _passes(costs: Sequence[int], pass_tokens: int | None) -> Iterator[tuple[int, int]]:
    """(begin, end) of the items of each pass: at least one, and no more once it is full."""
    begin = tokens = 0
    for end, cost in enumerate(costs, 1):
        tokens += cost
        if end == len(costs) or (pass_tokens is not None and tokens >= pass_tokens):
            yield begin, end
            begin, tokens = end, 0
