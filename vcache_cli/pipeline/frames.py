"""Clips of which each frame is an entry of its own: parted by a worker, put together at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from vcache_cli.digest import digest_json
from vcache_cli.items import MediaItem
from vcache_cli.outcome import Outcome, Status
from vcache_cli.pipeline.clips import frame_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vcache_cli.items import FileStat, Frames
    from vcache_cli.outcome import Failure
    from vcache_cli.pipeline.trace import Trace

__all__ = ["Bundle", "Bundles", "Still", "frame_source", "stills_of"]


@dataclass(frozen=True, slots=True)
class _FramePart:
    """A frame that is worked on, by the clip that it is of. A `Part` of which nothing is read."""

    name: str
    bundle: int
    """Number of the bundle in the run."""

    @property
    def locator(self) -> str:
        return self.name

    @property
    def size_bytes(self) -> int:
        return 0

    def read(
        self, path: str, stat: FileStat | None, limit_of: Callable[[bytes], int | None]
    ) -> bytes | None:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Still:
    """A frame whose entry is not there yet. Picklable."""

    item: MediaItem
    """Names it; the clip's own before `Bundles.begin`."""
    key: str
    source_sha256: str
    """Of the clip."""
    frame: Frames
    """One."""

    @property
    def fields(self) -> Mapping[str, str]:
        """What the entry says of where it comes from."""
        return frame_fields(self.frame)


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A clip with what is missing of its frames."""

    trace: Trace
    """Of the clip; `keys` are those of all its frames."""
    stills: tuple[Still, ...]


def stills_of(frames: Frames) -> Iterator[Frames]:
    """Each frame alone."""
    for at, seconds in enumerate(frames.pts_seconds):
        yield replace(
            frames,
            rgb=frames.rgb[at : at + 1],
            pts_seconds=(seconds,),
            indices=frames.indices[at : at + 1],
        )


def frame_source(source_sha256: str, number: int) -> str:
    """The digest under which the key of a clip's entry `number`, from 0, is remembered."""
    return digest_json({"clip": source_sha256, "entry": number})


@dataclass(slots=True, eq=False)
class _Open:
    trace: Trace
    left: int
    statuses: Counter[Status] = field(default_factory=Counter)
    failure: Failure | None = None

    def add(self, outcome: Outcome) -> None:
        self.left -= 1
        self.statuses[outcome.status] += 1
        self.trace.bytes_written += outcome.bytes_written
        for stage, seconds in outcome.seconds.items():
            self.trace.spend(stage, seconds)
        if outcome.failure and self.failure is None:
            name = outcome.item.files[0].name
            self.failure = replace(outcome.failure, message=f"{name}: {outcome.failure.message}")

    def whole(self) -> Outcome:
        """Failed where one frame did; stored where one was written."""
        order = (Status.FAILED, Status.STORED, Status.COPY)
        status = next((each for each in order if self.statuses[each]), Status.PRESENT)
        return self.trace.end(status, self.failure)


class Bundles:
    """Clips whose frames are under way, until each is one Outcome. One thread."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._numbers = count()

    def begin(self, bundle: Bundle) -> list[Still]:
        """Its frames, each under a name of its own, to be worked on."""
        number = next(self._numbers)
        self._open[number] = _Open(bundle.trace, len(bundle.stills))
        return [replace(each, item=_named(each, number)) for each in bundle.stills]

    def fold(self, outcome: Outcome) -> Outcome | None:
        """`outcome` itself, where it is of no frame; that of the clip with its last frame."""
        part = outcome.item.part if isinstance(outcome.item, MediaItem) else None
        if not isinstance(part, _FramePart):
            return outcome
        clip = self._open[part.bundle]
        clip.add(outcome)
        return None if clip.left else self._open.pop(part.bundle).whole()


def _named(still: Still, bundle: int) -> MediaItem:
    part = _FramePart(f"frame {still.frame.indices[0]}", bundle)
    return replace(still.item, stat=None, part=part)
