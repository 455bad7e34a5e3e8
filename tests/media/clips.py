"""Clips made in code: every frame carries its index as a pattern of light and dark blocks."""

from __future__ import annotations

from fractions import Fraction
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.video.frame import VideoFrame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["HIGH", "WIDE", "index_of", "made_clip", "picture_of"]

WIDE: Final = 128
HIGH: Final = 96
_BITS: Final = 12
_COLUMNS: Final = 4


def picture_of(index: int, *, wide: int = WIDE, high: int = HIGH) -> NDArray[np.uint8]:
    """(H, W, 3): twelve blocks, four a row, light where the bit of `index` is set."""
    picture = np.full((high, wide, 3), 40, np.uint8)
    for bit in range(_BITS):
        picture[_block(bit, wide, high)] = 210 if index >> bit & 1 else 40
    return picture


def index_of(picture: NDArray[np.uint8]) -> int:
    """The index that `picture` carries."""
    high, wide = picture.shape[:2]
    light = [picture[_block(bit, wide, high)].mean() > 125 for bit in range(_BITS)]
    return sum(1 << bit for bit, is_light in enumerate(light) if is_light)


def _block(bit: int, wide: int, high: int) -> tuple[slice, slice]:
    """The middle of a block: its edges are blurred by compression."""
    rows = _BITS // _COLUMNS
    row, column = divmod(bit, _COLUMNS)
    top, left = row * high // rows, column * wide // _COLUMNS
    down, along = high // rows, wide // _COLUMNS
    return (
        slice(top + down // 8, top + down - down // 8),
        slice(left + along // 8, left + along - along // 8),
    )


def made_clip(
    length: int,
    container: str = "mp4",
    codec: str = "libx264",
    *,
    gop: int = 12,
    shown_at: Sequence[int] | None = None,
    **settings: Any,  # noqa: ANN401
) -> bytes:
    """A clip of `length` frames, thirty a second.

    Args:
        gop: frames from one that stands alone to the next.
        shown_at: the time of each frame, thirtieths of a second; 0, 1, 2, ... where not given.
        settings: `size`, `pixels` (format), `options` of the encoder, `first` (index that the
            first frame carries), `file` (options of the container).
    """
    with NamedTemporaryFile() as file:  # one option reads back what it wrote, by name
        times = list(range(length) if shown_at is None else shown_at)
        _write(file.name, times, (container, codec), gop, settings)
        return file.read()


def _write(
    path: str,
    times: Sequence[int],
    formats: tuple[str, str],
    gop: int,
    settings: Mapping[str, Any],
) -> None:
    container, codec = formats
    with av.open(path, "w", format=container, options=dict(settings.get("file", {}))) as out:
        stream: Any = out.add_stream(codec, rate=30)
        stream.width, stream.height = settings.get("size", (WIDE, HIGH))
        stream.pix_fmt = settings.get("pixels", "yuv420p")
        stream.gop_size = gop
        stream.codec_context.thread_count = 1
        stream.time_base = stream.codec_context.time_base = Fraction(1, 30)
        stream.options = _options(codec, settings.get("options", {}))
        for at, time in enumerate(times):
            picture = picture_of(
                at + settings.get("first", 0), wide=stream.width, high=stream.height
            )
            frame = VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = time
            frame.time_base = Fraction(1, 30)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def _options(codec: str, given: Mapping[str, str]) -> dict[str, str]:
    fast = {"preset": "ultrafast", "crf": "20"} if codec == "libx264" else {}
    return {**fast, **given}
