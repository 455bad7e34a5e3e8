"""The work on a clip: opened, hashed, its frames chosen and preprocessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.buckets import is_url
from vcache_cli.media.clip_source import ClipSource, open_source
from vcache_cli.media.notices import INEXACT
from vcache_cli.outcome import Failure, Foreseen

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Final

    from vcache_cli.clips import Planner
    from vcache_cli.items import Frames, MediaItem, Pixels
    from vcache_cli.protocols import ClipDecoder, ClipPreprocessor
    from vcache_cli.recipe import Recipe

__all__ = [
    "VIDEO_SKIPPED",
    "ClipReader",
    "ClipWork",
    "FrameWork",
    "clip_fields",
    "frame_fields",
    "no_clips",
]


def no_clips(reason: str) -> Failure:
    """How a video is told that is skipped for `reason`."""
    return Failure("digest", "video", reason, hint="extract frames as PNG files, and warm those")


VIDEO_SKIPPED: Final = no_clips("videos are not taken here")


@dataclass(frozen=True, slots=True)
class ClipReader:
    """Opens the file of a clip and decodes it. Picklable; any thread."""

    decoder: Callable[[], ClipDecoder]
    """Makes it; called once a clip, so that a run without any loads no video library."""
    max_file_bytes: int
    max_part_bytes: int
    """Of a clip inside a container or a bucket, which is held in memory."""

    def opened(self, item: MediaItem) -> AbstractContextManager[ClipSource]:
        """Its bytes.

        Raises:
            ReadError: they cannot be had.
        """
        held = item.part is not None or is_url(item.path)
        most = self.max_part_bytes if held else self.max_file_bytes
        return open_source(item, max_bytes=most)


@dataclass(frozen=True, slots=True)
class ClipWork:
    """What a run does with videos that are entries as a whole. Picklable; any thread."""

    recipe: Recipe
    """That of clips: other settings than those of pictures."""
    preprocessor: ClipPreprocessor
    reader: ClipReader

    def frames(self, clip: ClipSource) -> Frames:
        """The frames that the server takes, in the size that it brings them to.

        Raises:
            MediaError, EncodeError: it cannot be decoded, or the server refuses it.
        """
        return self.reader.decoder().decode(clip.file, self.preprocessor.plan)

    def foresee(self, clip: ClipSource, *, compact: bool) -> Foreseen:
        """Tokens and bytes that would come of it; one frame is decoded for that.

        Raises:
            MediaError, EncodeError: see `frames`.
        """
        facts = self.reader.decoder().measure(clip.file)
        made = self.preprocessor
        return Foreseen(made.num_tokens(facts), made.pixel_bytes(facts, compact=compact))

    def pixels(self, frames: Frames, *, compact: bool) -> Pixels:
        """Of fitted frames.

        Raises:
            EncodeError: the server refuses them.
        """
        return self.preprocessor.compact(frames) if compact else self.preprocessor(frames)


@dataclass(frozen=True, slots=True)
class FrameWork:
    """What a run does with videos of which each frame is an entry. Picklable; any thread."""

    recipe: Recipe
    """Names which frames are taken; their entries are of the recipe of pictures."""
    planner: Planner
    reader: ClipReader

    def frames(self, clip: ClipSource) -> Frames:
        """The frames that the server takes, as large as they are.

        Raises:
            MediaError, EncodeError: it cannot be decoded, or the server refuses it.
        """
        return self.reader.decoder().decode(clip.file, self.planner)


def clip_fields(frames: Frames) -> dict[str, str]:
    """What an entry says of a clip: the times of its frames, and whether they are the server's."""
    exact = not any(kind.partition(": ")[0] in INEXACT for kind in frames.warnings)
    seconds = " ".join(f"{each:.6f}" for each in frames.pts_seconds)
    return {"vcache.exact": str(exact).lower(), "vcache.frame_seconds": seconds}


def frame_fields(frame: Frames) -> dict[str, str]:
    """As `clip_fields`, of a single frame; also which one of its clip it is, from 0."""
    return {**clip_fields(frame), "vcache.frame_index": str(frame.indices[0])}
