"""Sockets of computing: vision towers, what they run on, and where work runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.items import Features, Pixels

__all__ = ["Backend", "Encoder", "Engine", "Session", "Tower", "TowerPlan"]

In = TypeVar("In")
Out = TypeVar("Out")
In_contra = TypeVar("In_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class TowerPlan:
    """What a tower reads of a checkpoint, and what it resolved."""

    settings: Mapping[str, Any]
    """JSON values that decide the arithmetic (sizes, layers, activation, epsilon)."""
    tensors: Mapping[str, str]
    """The tower's own name of each weight, to its name in the checkpoint."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shape that the tower computes with, by its own name."""
    axes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """How to transpose what is stored in another layout, by the tower's own name."""


class Tower(Protocol):
    """Forward pass of one vision tower over a backend's operations. Group: ``vcache.towers``."""

    @property
    def name(self) -> str:
        """The `model_type` that it serves."""
        ...

    @property
    def revision(self) -> int:
        """Bumped by any change of ours that changes features beyond tolerance."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """What it can give, the default first: ``projected``, ``hidden``."""
        ...

    def plan(self, checkpoint: Checkpoint, output: str) -> TowerPlan:
        """What to read for one of `outputs`. Reads JSON and tensor headers only.

        Raises:
            ModelError: no vision part, a missing or misshapen tensor, an unknown setting.
        """
        ...

    def pixel_shape(self, settings: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Shape of the only `pixel_values` that it takes; None where sizes may be mixed."""
        ...

    def feature_shapes(
        self, settings: Mapping[str, Any], num_tokens: int
    ) -> dict[str, tuple[int, ...]]:
        """Shape of each tensor of an item whose `features` have `num_tokens` rows."""
        ...

    def cost(self, settings: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> int:
        """Tokens that pass through the layers for one item, before any merging.

        Raises:
            EncodeError: kind ``pixels_shape``: no pixels of this tower.
        """
        ...

    def forward(
        self,
        ops: Any,  # noqa: ANN401  each backend has its own
        weights: Mapping[str, Any],
        settings: Mapping[str, Any],
        batch: Sequence[Mapping[str, NDArray[Any]]],
    ) -> dict[str, list[NDArray[np.float32]]]:
        """`features` (num_tokens, hidden_size) and more: of each tensor one for each item.

        Args:
            ops: operations of a backend.
            weights: by the tower's own names, as arrays of that backend.
            settings: of the plan.
            batch: tensors of each item, checked by `cost`; of one shape where `pixel_shape`
                says so.
        """
        ...


class Backend(Protocol):
    """A way to compute. Group: ``vcache.backends``."""

    @property
    def name(self) -> str:
        """``numpy``, ``mlx`` or ``torch``."""
        ...

    def unavailable(self) -> str | None:
        """Why it cannot be used here, with what to install; None where it can."""
        ...

    def preference(self) -> int:
        """The higher, the better this backend suits the machine; asked only where available."""
        ...

    def merit(self) -> str:
        """Why its `preference` is what it is on this machine, in a few words."""
        ...

    def default_dtype(self) -> str:
        """``F32``, ``BF16`` or ``F16``: what it computes in where nothing is asked for."""
        ...

    def ops(self, compute_dtype: str) -> Any:  # noqa: ANN401  each backend has its own arrays
        """The small set of operations that towers are written against.

        Raises:
            ModelError: it does not compute in that dtype.
        """
        ...


class Encoder(Protocol):
    """A loaded vision tower."""

    @property
    def fingerprint(self) -> str:
        """Names the weights and resolved settings; revisions and dtypes are the recipe's."""
        ...

    @property
    def pixel_shape(self) -> tuple[int, ...] | None:
        """Shape of the only pixels that it takes; None where it takes several sizes."""
        ...

    def bucket(self, pixels: Pixels) -> Hashable:
        """Items with an equal one may share a batch."""
        ...

    def feature_shapes(self, num_tokens: int) -> Mapping[str, tuple[int, ...]]:
        """Shape of each tensor that an item of `num_tokens` tokens becomes."""
        ...

    @property
    def concurrency(self) -> int:
        """How many threads may call `encode` at once: 1 on an accelerator, cores on a CPU."""
        ...

    @property
    def device(self) -> Mapping[str, str]:
        """``backend``, ``device`` and ``dtype``, as provenance; a run tells them at its end."""
        ...

    @property
    def versions(self) -> Mapping[str, str]:
        """Of the libraries that compute, as provenance."""
        ...

    def encode(self, batch: Sequence[Pixels]) -> list[Features]:
        """Features of each item, in order; the items share one `bucket`.

        Raises:
            EncodeError: the batch cannot be encoded.
        """
        ...


class Session(Protocol[In_contra, Out]):
    """Work under way on an engine. Used by one thread."""

    @property
    def full(self) -> bool:
        """True where nothing more should be submitted before some result was taken."""
        ...

    @property
    def pending(self) -> int:
        """Inputs submitted whose results were not taken yet."""
        ...

    def submit(self, value: In_contra) -> None:
        """Start the work on one input."""
        ...

    def take(self, *, wait: bool) -> list[Out]:
        """Results that are there, in any order; with `wait`, at least one while any is pending."""
        ...


class Engine(Protocol):
    """Where work runs. A bounded number of inputs is in flight, so memory is bounded too."""

    def session(self, work: Callable[[In], Out]) -> AbstractContextManager[Session[In, Out]]:
        """Start workers; leaving the context ends them.

        `work` is picklable and never raises for a bad item: an exception ends the run.
        """
        ...
