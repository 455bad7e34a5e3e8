"""Thumbnails decoded in a process of its own: a picture that crashes a decoder costs its own."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.engines import Limits, ProcessEngine
from vcache_cli.errors import VcacheError
from vcache_cli.report.thumbnails import Thumbnail, thumbnail_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

    from vcache_cli.protocols import Loss, Session

__all__ = ["drawn_apart"]

_LIMITS: Final = Limits(seconds=10.0, memory_bytes=1 << 30)
_LOST: Final = {
    "crashed": "it crashed its decoder",
    "timeout": "decoding it took too long",
    "memory": "decoding it took too much memory",
}


@contextmanager
def drawn_apart(
    draw: Callable[[bytes], Thumbnail] = thumbnail_of,
) -> Iterator[Callable[[bytes], Thumbnail]]:
    """What calls `draw`, which is picklable, in a process that starts with the first picture."""
    with ProcessEngine(1, _LIMITS).session(_Draw(draw)) as session:
        yield _Apart(session)


@dataclass(frozen=True, slots=True)
class _Draw:
    """The work, as a worker does it."""

    draw: Callable[[bytes], Thumbnail]

    def __call__(self, content: bytes) -> Thumbnail:
        return self.draw(content)

    def noting(self, note: Callable[[object], None]) -> Callable[[bytes], Thumbnail]:
        """Nothing has to be known of it."""
        del note
        return self

    def lost(self, content: bytes, loss: Loss, noted: object) -> Thumbnail:
        """A place without a picture."""
        del content, noted
        return Thumbnail(_LOST[loss.kind])


@dataclass(slots=True)
class _Apart:
    session: Session[bytes, Thumbnail]

    def __call__(self, content: bytes) -> Thumbnail:
        self.session.submit(content)
        try:
            return self.session.take(wait=True)[0]
        except VcacheError:  # no process can be started: a page without pictures is a page
            return Thumbnail("no process to decode it in")
