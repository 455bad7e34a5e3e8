"""Encoded clips to chosen RGB frames by a profile's rules, with PyAV.

One thread per decoder. A frame is brought to its size as it comes, so that memory holds one
frame of the source and what is kept, whatever the length of the clip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.clips import ClipFacts
from vcache_cli.errors import EncodeError, MediaError, ModelError
from vcache_cli.items import Frames
from vcache_cli.media import notices
from vcache_cli.media.clip_file import AGAIN, open_clip
from vcache_cli.media.clip_frames import LostPlaceError, in_turn, with_seeks
from vcache_cli.media.clip_times import clip_times

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO, Final

    from av.video.frame import VideoFrame
    from numpy.typing import NDArray

    from vcache_cli.clips import ClipPlan, Planner
    from vcache_cli.media.clip_file import ClipFile
    from vcache_cli.media.clip_times import ClipTimes
    from vcache_cli.profile import Profile

__all__ = ["OPENCV", "PYAV", "VideoDecoder"]

OPENCV: Final = "opencv"
"""Frames as OpenCV gives them: turned as the display matrix says, counted or estimated."""
PYAV: Final = "pyav"
"""Frames as transformers reads them with PyAV: not turned, counted by the container."""

_WITHOUT_INDEX: Final = frozenset({"asf", "mpeg", "mpegts", "ogg"})
"""Containers in which a seek goes by bytes."""


@dataclass(frozen=True, slots=True)
class VideoDecoder:
    """Chosen frames of a clip, as a profile's server would get them. Picklable; any thread."""

    profile: Profile
    max_pixels: int = 178_956_970
    """Of a frame of the source."""
    max_file_bytes: int = 16 * 1024**3
    max_frames: int = 4096
    """Taken of a clip."""
    max_seconds: float = 24 * 3600.0
    max_clip_bytes: int = 4 * 1024**3
    """Of all taken frames, in the size that they are brought to."""

    def __post_init__(self) -> None:
        """Check that the profile's rules are known.

        Raises:
            ModelError: they are not.
        """
        if self.profile.clips not in {OPENCV, PYAV}:
            raise ModelError(
                f"profile `{self.profile.name}`: unknown clip rule `{self.profile.clips}`"
            )

    def measure(self, source: BinaryIO) -> ClipFacts:
        """What the server knows of the clip in `source`; one frame is decoded for it.

        Raises:
            MediaError: see `decode`.
        """
        return self._survey(source).facts

    def decode(self, source: BinaryIO, planner: Planner) -> Frames:
        """The frames that `planner` chooses of the clip in `source`, each as its plan fits it.

        Args:
            source: can be sought in; its bytes are read more than once.
            planner: of the server's sampling and sizes.

        Raises:
            MediaError: kind ``not_media``, ``no_video``, ``unsupported``, ``too_large``,
                ``too_long``, ``bomb``, ``truncated``, ``corrupt`` or ``memory``; a message of a
                limit names it.
            EncodeError: the planner refuses the clip.
        """
        survey = self._survey(source)
        plan = planner(survey.facts)
        self._check_plan(plan)
        taken = self._taken(source, survey, plan)
        given, asked = len(taken.pts_seconds), len(plan.indices)
        if given < asked:
            again = _planned_again(planner, replace(survey.facts, delivered=given), asked)
            if (again.size, len(again.indices)) != (plan.size, given):
                warnings = taken.warnings  # which the second time would not be short of any
                taken = replace(self._taken(source, survey, again), warnings=warnings)
        return taken

    def _survey(self, source: BinaryIO) -> _Survey:
        size_bytes = source.seek(0, 2)
        if size_bytes > self.max_file_bytes:
            message = f"{size_bytes} bytes, more than the limit of {self.max_file_bytes}"
            raise MediaError(message, kind="too_large", hint="raise it with `--max-file-size`")
        with open_clip(source, max_pixels=self.max_pixels) as clip:
            self._check_stream(clip)
            times = clip_times(clip)
        with open_clip(source, max_pixels=self.max_pixels) as clip:
            first = next(clip.frames(), None)
            if first is None:
                raise _no_frame(clip, self.max_pixels)
            return _survey(clip, times, first, self.profile.clips)

    def _check_stream(self, clip: ClipFile) -> None:
        context = clip.stream.codec_context
        pixels = context.width * context.height
        if pixels > self.max_pixels:
            raise MediaError(
                f"{context.width} x {context.height} = {pixels} pixels, the limit is "
                f"{self.max_pixels}",
                kind="bomb",
                hint="leave it out, or raise the limit with `--max-pixels`",
            )
        seconds = (clip.container.duration or 0) / 1_000_000
        if seconds > self.max_seconds:
            message = f"{seconds:.0f} seconds, the limit is {self.max_seconds:.0f}"
            raise MediaError(message, kind="too_long", hint="cut the video into parts")

    def _check_plan(self, plan: ClipPlan) -> None:
        count = len(plan.indices)
        hint = "take fewer with `--fps`, `--num-frames` or `--max-frames`"
        if count > self.max_frames:
            message = f"{count} frames would be taken, the limit is {self.max_frames}"
            raise MediaError(message, kind="too_large", hint=hint)
        size_bytes = 3 * count * math.prod(plan.size)
        if size_bytes > self.max_clip_bytes:
            message = f"{count} frames of {size_bytes} bytes, the limit is {self.max_clip_bytes}"
            raise MediaError(message, kind="too_large", hint=hint)

    def _taken(self, source: BinaryIO, survey: _Survey, plan: ClipPlan) -> Frames:
        if survey.times.can_seek:
            try:
                with open_clip(source, max_pixels=self.max_pixels) as clip:
                    found = with_seeks(clip, survey.times, plan.indices)
                    return _collected(clip, found, plan, survey)
            except LostPlaceError:
                pass  # all over again: what is told by time cannot be trusted here
        with open_clip(source, max_pixels=self.max_pixels) as clip:
            return _collected(clip, in_turn(clip.frames(), plan.indices), plan, survey)


def _no_frame(clip: ClipFile, max_pixels: int) -> MediaError:
    told = "not one frame can be decoded"
    if not clip.bad_packets:
        return MediaError(told, kind="truncated", hint=AGAIN)
    told += f": damaged, or of more pixels than the limit of {max_pixels}"  # the codec's own size
    return MediaError(told, kind="corrupt", hint=AGAIN)


def _planned_again(planner: Planner, facts: ClipFacts, asked: int) -> ClipPlan:
    """The plan for as many frames as there were."""
    try:
        return planner(facts)
    except EncodeError as error:
        message = f"ends early: gave {facts.delivered} of {asked} frames: {error.message}"
        raise EncodeError(message, kind=error.item_kind, hint=AGAIN) from error


@dataclass(frozen=True, slots=True)
class _Survey:
    """A clip before its frames are taken."""

    facts: ClipFacts
    times: ClipTimes
    quarter_turns: int
    """Anticlockwise, to be applied to every frame."""
    start_pts: int
    warnings: tuple[str, ...]


def _survey(clip: ClipFile, times: ClipTimes, first: VideoFrame, rule: str) -> _Survey:
    warnings = _warnings(clip, times, first, rule)
    turns = first.rotation // 90 % 4 if rule == OPENCV and first.rotation % 90 == 0 else 0
    wide, high = first.width, first.height
    if turns % 2:
        wide, high = high, wide
    count, fps = _count_and_rate(clip, times, rule)
    facts = ClipFacts(count, fps, count / fps if fps else 0.0, wide, high)
    return _Survey(facts, times, turns, first.pts or 0, warnings)


def _count_and_rate(clip: ClipFile, times: ClipTimes, rule: str) -> tuple[int, float]:
    """Frames, and frames per second, as the server finds them."""
    stream = clip.stream
    if rule == PYAV:
        return stream.frames or times.num_frames, float(stream.average_rate or 0)
    fps = float(stream.average_rate or stream.guessed_rate or 1)
    if stream.frames:
        return stream.frames, fps
    seconds = (clip.container.duration or 0) / 1_000_000
    if not seconds and stream.duration and stream.time_base:
        seconds = float(stream.duration * stream.time_base)
    return math.floor(seconds * fps + 0.5) or times.num_frames, fps


def _warnings(clip: ClipFile, times: ClipTimes, first: VideoFrame, rule: str) -> tuple[str, ...]:
    parts, turned = first.format.components, first.rotation % 360 != 0
    halved = any((each.width, each.height) != (first.width, first.height) for each in parts)
    opencv = rule == OPENCV
    tests = (
        (notices.CLIP_UNSTEADY, opencv and not times.is_steady),
        (notices.CLIP_SEEKS, opencv and clip.container.format.name in _WITHOUT_INDEX),
        (notices.CLIP_DEEP, opencv and any(each.bits > 8 for each in parts)),
        (notices.CLIP_ODD, opencv and halved and (first.width % 2 or first.height % 2)),
        (f"{notices.CLIP_COUNTED}: {times.num_frames}", not opencv and not clip.stream.frames),
        (notices.CLIP_NOT_TURNED, turned and (not opencv or first.rotation % 90 != 0)),
    )
    return tuple(kind for kind, holds in tests if holds)


def _collected(
    clip: ClipFile, found: Iterator[VideoFrame], plan: ClipPlan, survey: _Survey
) -> Frames:
    rgb = np.empty((len(plan.indices), *plan.size, 3), np.uint8)
    seconds: list[float] = []
    base = float(clip.stream.time_base or 0)
    for frame in found:
        rgb[len(seconds)] = plan.fit(_levels(frame, survey.quarter_turns))
        seconds.append(((frame.pts or 0) - survey.start_pts) * base)
    warnings = survey.warnings
    if len(seconds) < len(plan.indices):
        if not seconds:
            raise MediaError("none of the chosen frames is there", kind="truncated", hint=AGAIN)
        text = f"gave {len(seconds)} of {len(plan.indices)} frames"
        warnings = (*warnings, f"{notices.CLIP_SHORT}: {text}")
    if clip.bad_packets:
        warnings = (*warnings, f"{notices.CLIP_DAMAGED}: {clip.bad_packets} packets")
    taken = plan.indices[: len(seconds)]
    return Frames(rgb[: len(seconds)], tuple(seconds), warnings, indices=taken)


def _levels(frame: VideoFrame, quarter_turns: int) -> NDArray[np.uint8]:
    levels: NDArray[Any] = frame.to_ndarray(format="rgb24")
    return np.rot90(levels, quarter_turns) if quarter_turns else levels
