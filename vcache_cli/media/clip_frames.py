"""Chosen frames of a clip, by decoding on or by seeking, whichever is less: the same frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

    from av.video.frame import VideoFrame

    from vcache_cli.media.clip_file import ClipFile
    from vcache_cli.media.clip_times import ClipTimes

__all__ = ["LostPlaceError", "in_turn", "with_seeks"]

_SEEK_FRAMES: Final = 16
"""What a seek costs, in frames decoded: buffers are dropped and filled again."""


class LostPlaceError(Exception):
    """A frame came that the packets did not announce: only decoding in turn tells its index."""


def in_turn(frames: Iterator[VideoFrame], indices: Sequence[int]) -> Iterator[VideoFrame]:
    """The frames at `indices`, which never decrease, of all `frames` of a clip.

    Ends early where the clip does.
    """
    wanted = iter(indices)
    index = next(wanted, None)
    for at, frame in enumerate(frames):
        while index == at:
            yield frame
            index = next(wanted, None)
        if index is None:
            return


def with_seeks(clip: ClipFile, times: ClipTimes, indices: Sequence[int]) -> Iterator[VideoFrame]:
    """As `in_turn` of a clip at its beginning; frames are told by their times.

    Raises:
        LostPlaceError: a time was not announced.
        MediaError: a seek failed.
    """
    place = {pts: at for at, pts in enumerate(times.pts)}
    frames, at, frame = clip.frames(), -1, None
    for index in indices:
        start = times.start_of(index)
        if start >= 0 and times.starts[start] > at + 1 + _SEEK_FRAMES:
            clip.seek(times.start_dts[start])
            frames, at = clip.frames(), -1
        while at < index:
            frame = next(frames, None)
            if frame is None:
                return
            at = _place_of(frame, place, at)
        if at != index or frame is None:
            raise LostPlaceError
        yield frame


def _place_of(frame: VideoFrame, place: dict[int, int], before: int) -> int:
    at = place.get(frame.pts) if frame.pts is not None else None
    if at is None or (before >= 0 and at != before + 1):
        raise LostPlaceError
    return at
