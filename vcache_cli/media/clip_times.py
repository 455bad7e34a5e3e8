"""When the frames of a clip are shown, by its packets alone: nothing is decoded for it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from vcache_cli.errors import MediaError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from vcache_cli.media.clip_file import ClipFile

__all__ = ["MAX_PACKETS", "ClipTimes", "clip_times"]

MAX_PACKETS: Final = 4_000_000
"""Eighteen hours at sixty frames a second."""

_HIDDEN_FRAMES: Final = frozenset({"vp8"})
"""Codecs whose packets are not one frame each: some show nothing."""


@dataclass(frozen=True, slots=True)
class ClipTimes:
    """The frames that come out of a clip, in the order in which they are shown."""

    num_frames: int
    """Packets that show a frame."""
    pts: tuple[int, ...] = ()
    """Of each frame, in the stream's time base; empty where packets do not tell."""
    starts: tuple[int, ...] = ()
    """Indices of frames at which decoding can start, rising."""
    start_dts: tuple[int, ...] = ()
    """Where to seek to for each of `starts`."""

    @property
    def can_seek(self) -> bool:
        """True where a frame can be told by its time."""
        return bool(self.pts and self.starts)

    def start_of(self, index: int) -> int:
        """Which of `starts` is the last at or before frame `index`; -1 where none is."""
        return bisect_right(self.starts, index) - 1

    @property
    def is_steady(self) -> bool:
        """False where frames follow each other at distances that differ by more than rounding."""
        if len(self.pts) < 3:
            return True
        first, step = self.pts[0], (self.pts[-1] - self.pts[0]) / (len(self.pts) - 1)
        allowed = max(1.5, step / 50)
        return all(abs(first + step * at - pts) <= allowed for at, pts in enumerate(self.pts))


def clip_times(clip: ClipFile) -> ClipTimes:
    """Read all packets of `clip`, to the end or to where it is cut off.

    Raises:
        MediaError: kind ``too_long``: more packets than any clip should have.
    """
    shown: list[tuple[int | None, int | None, bool]] = []
    try:
        shown.extend(
            (packet.pts, packet.dts, packet.is_keyframe)
            for packet in islice(clip.packets(), MAX_PACKETS)
            if not packet.is_discard
        )
    except MediaError as error:
        if error.item_kind not in {"corrupt", "truncated"}:
            raise
    if len(shown) == MAX_PACKETS:
        message = f"as many as the limit of {MAX_PACKETS} frames"
        raise MediaError(message, kind="too_long", hint="cut the video into parts")
    if clip.stream.codec_context.name in _HIDDEN_FRAMES:
        return ClipTimes(len(shown))
    return _times(shown)


def _times(shown: Sequence[tuple[int | None, int | None, bool]]) -> ClipTimes:
    pts = sorted(pts for pts, _, _ in shown if pts is not None)
    if len(pts) < len(shown) or len(set(pts)) < len(pts):
        return ClipTimes(len(shown))
    place = {value: at for at, value in enumerate(pts)}
    keys = sorted(
        (place[each], dts if dts is not None else each)
        for each, dts, is_key in shown
        if is_key and each is not None
    )
    starts, dts = tuple(at for at, _ in keys), tuple(dts for _, dts in keys)
    return ClipTimes(len(shown), tuple(pts), starts, dts)
