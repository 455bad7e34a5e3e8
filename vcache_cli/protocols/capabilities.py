"""Capabilities: what some targets and sources have, and others know nothing of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from vcache_cli.protocols.storage import WarmTarget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.items import Features, Pixels
    from vcache_cli.protocols.storage import Evidence
    from vcache_cli.recipe import Recipe
    from vcache_cli.tensor import Tensor

__all__ = [
    "Annotator",
    "Bounded",
    "Exclusive",
    "FeatureTarget",
    "GroupTarget",
    "LevelTarget",
    "LooseKeys",
    "ManyKeys",
    "ManyPaths",
    "Numerics",
    "Optioned",
    "Trickling",
]


@runtime_checkable
class LevelTarget(Protocol):
    """A target that also keeps pixels as uint8 levels with their tables.

    A capability of `Target`; its key needs no pixels.
    """

    def level_tensors(self, recipe: Recipe, pixels: Pixels) -> dict[str, Tensor]:
        """As `WarmTarget.tensors`, of pixels that `Preprocessor.compact` gave."""
        ...


@runtime_checkable
class GroupTarget(WarmTarget, Protocol):
    """A target that can also hold the ordered pictures of one request as one entry."""

    def group_tensors(
        self, recipe: Recipe, values: Sequence[Pixels | Features]
    ) -> dict[str, Tensor]:
        """As `tensors`, of a request's pictures in order."""
        ...


@runtime_checkable
class Annotator(Protocol):
    """A target whose files say more of a picture than its tensors. A capability of `Target`."""

    def metadata(self, recipe: Recipe, evidence: Evidence) -> Mapping[str, str]:
        """Fields of the file by the consumer's names; `evidence` is complete."""
        ...


@runtime_checkable
class Optioned(Protocol):
    """A target whose keys depend on more than recipe and picture. A capability of `Target`."""

    def options(self, given: Mapping[str, Any], checkpoint: Checkpoint) -> Mapping[str, Any]:
        """The recipe's `target_options`, JSON values, defaults filled in.

        Args:
            given: what the caller chose, by name; ``groups`` is ``also`` or ``only`` where
                requests are warmed whole.
            checkpoint: of the model that the server loads.

        Raises:
            UsageError: an option that makes no sense.
            ModelError: a model whose features the server does not look up.
            RefusedError: entries that would harm the server.
        """
        ...


@runtime_checkable
class Bounded(Protocol):
    """A target whose server deletes entries once a store is full. A capability of `Target`."""

    @property
    def max_store_bytes(self) -> int:
        """The most that a warm may fill a store to."""
        ...

    @property
    def note(self) -> str:
        """What a user has to do, after a warm, before the server sees it; empty: nothing."""
        ...


@runtime_checkable
class Exclusive(Protocol):
    """A target whose server takes each entry of a store for its own model's.

    A capability of `Target`: a store of it is filled for one model.
    """

    def store_options(self, recipe: Recipe) -> Mapping[str, Any]:
        """What all entries of a store have in common, JSON values; kept in the store."""
        ...


@runtime_checkable
class FeatureTarget(Protocol):
    """A target that holds features and no pixels. A capability of `Target`."""

    @property
    def output(self) -> str:
        """The output of a tower that the server takes: ``projected`` or ``hidden``."""
        ...


@runtime_checkable
class LooseKeys(Protocol):
    """A target whose keys leave parts of the recipe out. A capability of `Target`.

    Its server would take an entry of older weights or other settings for a hit.
    """

    def is_current(self, recipe: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
        """Whether what was made by the recipe `found` would be made alike by `recipe`, as JSON."""
        ...


@runtime_checkable
class ManyKeys(Protocol):
    """A target that makes many keys faster than one after the other. A capability of `Target`.

    Its key follows from the digest.
    """

    def keys(self, recipe: Recipe, digests: Sequence[str]) -> list[str]:
        """`WarmTarget.key` of each content, in order."""
        ...


@runtime_checkable
class ManyPaths(Protocol):
    """A layout that tells many paths faster than one after the other. A capability of `Layout`."""

    def paths_of(self, keys: Sequence[str]) -> list[str]:
        """`Layout.path_of` of each, in order.

        Raises:
            ValueError: one is not a key of this layout.
        """
        ...


@runtime_checkable
class Numerics(Protocol):
    """A target that wants features of one backend's numerics. A capability of `Target`."""

    @property
    def backend(self) -> str:
        """Taken where the caller names none."""
        ...


@runtime_checkable
class Trickling(Protocol):
    """A source that may be fed while it is read. A capability of `Source`."""

    @property
    def trickles(self) -> bool:
        """True where the next item may be long in coming: none waits for those after it."""
        ...
