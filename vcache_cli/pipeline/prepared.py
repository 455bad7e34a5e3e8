"""What a worker makes of an item, and how it says that there is nothing to make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from vcache_cli.outcome import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.items import Pixels
    from vcache_cli.pipeline.trace import Trace
    from vcache_cli.recipe import Recipe

__all__ = ["NOT_MEDIA", "NOT_STORED", "Prepared"]

NOT_MEDIA: Final = Failure(
    stage="digest", kind="not_media", message="not a picture or a video, by its first bytes"
)
NOT_STORED: Final = Failure(
    stage="write", kind="not_stored", message="no entry under its key", hint="run `vcache warm`"
)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """An item or a group that is ready to be encoded."""

    trace: Trace
    key: str
    pixels: tuple[Pixels, ...]
    """Of each of its pictures, in order."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the target's file says beside its tensors."""
    recipe: Recipe | None = None
    """Set where it is not that of the run's pictures."""
