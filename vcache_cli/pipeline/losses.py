"""What became of an item whose worker process died."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.outcome import Failure, Outcome, Status

if TYPE_CHECKING:
    from vcache_cli.items import Kind, MediaItem, WarmItem
    from vcache_cli.pipeline.trace import Trace
    from vcache_cli.protocols import Loss

__all__ = ["Noted", "lost_outcome"]

_MESSAGES: Final = {
    "crashed": "the decoder crashed: {reason}",
    "timeout": "the decoder does not come to an end: {reason}",
    "memory": "the decoder takes too much memory: {reason}",
}
_HINTS: Final = {
    "crashed": "leave it out; what crashed is tried again only with `--retry-errors`",
    "timeout": "leave it out, or allow more with `--item-timeout` and `--retry-errors`",
    "memory": "leave it out, or allow more with `--item-memory`",
}
_AGAIN: Final = "run it again"


@dataclass(frozen=True, slots=True)
class Noted:
    """What was known of an item before it was decoded. Picklable."""

    source: str
    """Printable name; of a group, of the picture under way."""
    source_sha256: str | None
    kind: Kind | None
    bytes_read: int

    @classmethod
    def of(cls, item: MediaItem, trace: Trace) -> Noted:
        """As far as the trace goes."""
        return cls(item.source, trace.source_sha256, trace.kind, trace.bytes_read)


def lost_outcome(item: WarmItem, loss: Loss, noted: Noted | None) -> Outcome:
    """Failed, and named. A crash of its own making is remembered: the same bytes crash again."""
    reason = loss.reason
    if noted and noted.source != item.source:
        reason = f"{noted.source}: {reason}"
    failure = Failure(
        stage="decode" if noted else "digest",
        kind=f"decoder_{loss.kind}",
        message=_MESSAGES[loss.kind].format(reason=reason),
        hint=_AGAIN if loss.outside else _HINTS[loss.kind],
        transient=loss.outside or loss.kind == "memory",  # which another limit would not meet
    )
    single = noted if len(item.files) == 1 else None  # a group's digest is of all its pictures
    return Outcome(
        item,
        Status.FAILED,
        source_sha256=single.source_sha256 if single else None,
        kind=single.kind if single else None,
        failure=failure,
        bytes_read=single.bytes_read if single else 0,
        seconds={failure.stage: loss.seconds},
    )
