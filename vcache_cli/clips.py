"""What passes between the decoder of a clip and the preprocessing that chooses its frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ClipFacts", "ClipPlan", "Planner"]


@dataclass(frozen=True, slots=True)
class ClipFacts:
    """What a server knows of a clip before it chooses frames."""

    num_frames: int
    """As the server counts or estimates them; some may not be there."""
    fps: float
    """Frames per second; 0.0 where it is not known."""
    duration_seconds: float
    width: int
    """Of a frame as it is delivered, pixels."""
    height: int
    delivered: int | None = None
    """How many of the chosen frames there were, where the clip ended before the last of them."""


@dataclass(frozen=True, slots=True, eq=False)
class ClipPlan:
    """Which frames of a clip are taken, and what each of them becomes at once."""

    indices: tuple[int, ...]
    """From 0, never decreasing, each below `ClipFacts.num_frames`."""
    size: tuple[int, int]
    """Height and width of a frame once `fit`, pixels."""
    fit: Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
    """(H, W, 3) of the source to (height, width, 3)."""


class Planner(Protocol):
    """Chooses frames of a clip."""

    def __call__(self, facts: ClipFacts, /) -> ClipPlan:
        """The plan; asked for again, with `delivered`, where a clip ended early.

        Raises:
            EncodeError: the server refuses such a clip.
        """
        ...
