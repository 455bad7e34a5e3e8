"""The work on a clip: opened, hashed, its frames chosen and preprocessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.media.clip_source import ClipSource, open_source
from vcache_cli.media.notices import INEXACT
from vcache_cli.outcome import Failure, Foreseen

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Final

    from vcache_cli.items import Frames, MediaItem, Pixels
    from vcache_cli.protocols import ClipDecoder, ClipPreprocessor
    from vcache_cli.recipe import Recipe

__all__ = ["VIDEO_SKIPPED", "ClipWork", "clip_fields", "no_clips"]


def no_clips(reason: str) -> Failure:
    """How a video is told that is skipped for `reason`."""
    return Failure("digest", "video", reason, hint="extract frames as PNG files, and warm those")


VIDEO_SKIPPED: Final = no_clips("videos are not taken here")


@dataclass(frozen=True, slots=True)
class ClipWork:
    """What a run does with videos. Picklable; any thread."""

    recipe: Recipe
    """That of clips: other settings than those of pictures."""
    preprocessor: ClipPreprocessor
    decoder: Callable[[], ClipDecoder]
    """Makes it; called once a clip, so that a run without any loads no video library."""
    max_file_bytes: int

    def opened(self, item: MediaItem) -> AbstractContextManager[ClipSource]:
        """Its bytes.

        Raises:
            ReadError: they cannot be had.
        """
        return open_source(item, max_bytes=self.max_file_bytes)

    def frames(self, clip: ClipSource) -> Frames:
        """The frames that the server takes, in the size that it brings them to.

        Raises:
            MediaError, EncodeError: it cannot be decoded, or the server refuses it.
        """
        return self.decoder().decode(clip.file, self.preprocessor.plan)

    def foresee(self, clip: ClipSource, *, compact: bool) -> Foreseen:
        """Tokens and bytes that would come of it; one frame is decoded for that.

        Raises:
            MediaError, EncodeError: see `frames`.
        """
        facts = self.decoder().measure(clip.file)
        made = self.preprocessor
        return Foreseen(made.num_tokens(facts), made.pixel_bytes(facts, compact=compact))

    def pixels(self, frames: Frames, *, compact: bool) -> Pixels:
        """Of fitted frames.

        Raises:
            EncodeError: the server refuses them.
        """
        return self.preprocessor.compact(frames) if compact else self.preprocessor(frames)


def clip_fields(frames: Frames) -> dict[str, str]:
    """What an entry says of a clip: the times of its frames, and whether they are the server's."""
    exact = not any(kind.partition(": ")[0] in INEXACT for kind in frames.warnings)
    seconds = " ".join(f"{each:.6f}" for each in frames.pts_seconds)
    return {"vcache.exact": str(exact).lower(), "vcache.frame_seconds": seconds}
