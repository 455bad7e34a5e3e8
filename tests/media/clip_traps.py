"""Clips that look simple and are not; each makes the bytes of one trap."""

from __future__ import annotations

import struct
from fractions import Fraction
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.stream import Disposition
from av.video.frame import VideoFrame

from tests.media.clips import HIGH, WIDE, made_clip, picture_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["STEADY", "edited", "sound_only", "turned", "with_cover", "with_second"]

_TURNS: Final = {
    90: (0, 1, 0, -1, 0, 0, 0, 0),
    180: (-1, 0, 0, 0, -1, 0, 0, 0),
    270: (0, -1, 0, 1, 0, 0, 0, 0),
}
"""The first eight numbers of a display matrix, by the clockwise turn that it asks for."""


def turned(clip: bytes, degrees: int) -> bytes:
    """An MP4 whose display matrix asks for a clockwise turn."""
    at = clip.index(b"tkhd") + 4 + 40
    matrix = struct.pack(">8i", *(value * 65536 for value in _TURNS[degrees]))
    return clip[:at] + matrix + clip[at + len(matrix) :]


def edited(clip: bytes, first: int) -> bytes:
    """An MP4 whose edit list leaves out its first frames, thirty a second."""
    at = clip.index(b"elst") + 4 + 8 + 4
    scale_at = clip.index(b"mdhd") + 4 + 12
    (scale,) = struct.unpack(">i", clip[scale_at : scale_at + 4])
    return clip[:at] + struct.pack(">i", first * scale // 30) + clip[at + 4 :]


def with_cover(container: str, *, before: bool) -> bytes:
    """A clip with a cover picture as a second stream of video, or as the first."""

    def add(out: Any) -> None:  # noqa: ANN401
        cover = out.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 64, "yuvj420p"
        cover.disposition = Disposition.attached_pic
        streams.append(cover)

    streams: list[Any] = []
    data = BytesIO()
    with av.open(data, "w", format=container) as out:
        if before:
            add(out)
        main = _stream(out)
        if not before:
            add(out)
        picture = np.full((64, 64, 3), 250, np.uint8)
        out.mux(streams[0].encode(VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(streams[0].encode(None))
        _fill(out, main, 0)
    return data.getvalue()


def with_second() -> bytes:
    """A clip with another stream of video behind its first."""
    data = BytesIO()
    with av.open(data, "w", format="mp4") as out:
        streams = [_stream(out), _stream(out)]
        for at, stream in enumerate(streams):
            _fill(out, stream, at * 1000)
    return data.getvalue()


def sound_only() -> bytes:
    """An MP4 without pictures."""
    data = BytesIO()
    with av.open(data, "w", format="mp4") as out:
        stream: Any = out.add_stream("aac", rate=16000)
        silence = np.zeros((1, 1024), np.float32)
        for at in range(8):
            frame = AudioFrame.from_ndarray(silence, format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 16000, at * 1024
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return data.getvalue()


def _stream(out: Any) -> Any:  # noqa: ANN401
    stream = out.add_stream("libx264", rate=30)
    stream.width, stream.height, stream.pix_fmt, stream.gop_size = WIDE, HIGH, "yuv420p", 12
    stream.options = {"preset": "ultrafast", "crf": "20"}
    stream.time_base = stream.codec_context.time_base = Fraction(1, 30)
    return stream


def _fill(out: Any, stream: Any, first: int) -> None:  # noqa: ANN401
    for at in range(90):
        frame = VideoFrame.from_ndarray(picture_of(first + at), format="rgb24")
        frame.pts, frame.time_base = at, Fraction(1, 30)
        out.mux(stream.encode(frame))
    out.mux(stream.encode(None))


def _cut(clip: bytes, part: float) -> bytes:
    return clip[: int(len(clip) * part)]


_REORDERED: Final[dict[str, Any]] = {"options": {"preset": "medium", "bf": "3"}}
_FRONT: Final[dict[str, Any]] = {"file": {"movflags": "faststart"}}

STEADY: Final[Mapping[str, Callable[[], bytes]]] = {
    "mp4": lambda: made_clip(90),
    "mp4-reordered": lambda: made_clip(90, **_REORDERED),
    "mp4-hevc": lambda: made_clip(
        90, codec="libx265", options={"x265-params": "log-level=none", "preset": "ultrafast"}
    ),
    "mp4-one-gop": lambda: made_clip(90, gop=250),
    "mp4-mpeg4": lambda: made_clip(90, codec="mpeg4"),
    "mov-mjpeg": lambda: made_clip(90, "mov", "mjpeg", pixels="yuvj420p"),
    "mov-front": lambda: made_clip(90, "mov", **_FRONT),
    "mkv": lambda: made_clip(90, "matroska"),
    "mkv-reordered": lambda: made_clip(90, "matroska", **_REORDERED),
    "webm-vp8": lambda: made_clip(90, "webm", "libvpx"),
    "webm-vp9": lambda: made_clip(90, "webm", "libvpx-vp9"),
    "avi": lambda: made_clip(90, "avi", "mpeg4"),
    "avi-reordered": lambda: made_clip(90, "avi", "mpeg4", options={"bf": "2"}),
    "ts": lambda: made_clip(90, "mpegts"),
    "ts-reordered": lambda: made_clip(90, "mpegts", **_REORDERED),
    "flv": lambda: made_clip(90, "flv"),
    "starts-late-mp4": lambda: made_clip(90, shown_at=range(150, 240)),
    "starts-late-mkv": lambda: made_clip(90, "matroska", shown_at=range(150, 240)),
    "starts-late-ts": lambda: made_clip(90, "mpegts", shown_at=range(150, 240)),
    "cover-behind": lambda: with_cover("mp4", before=False),
    "cover-before": lambda: with_cover("mp4", before=True),
    "two-streams": with_second,
    "turned-90": lambda: turned(made_clip(90), 90),
    "turned-180": lambda: turned(made_clip(90), 180),
    "turned-270": lambda: turned(made_clip(90), 270),
    "full-range": lambda: made_clip(90, pixels="yuvj420p"),
    "every-colour": lambda: made_clip(90, pixels="yuv444p"),
    "odd-width": lambda: made_clip(90, pixels="yuv444p", size=(121, 97)),
    "even-odd": lambda: made_clip(90, size=(322, 242)),
    "one-frame": lambda: made_clip(1),
    "two-frames": lambda: made_clip(2),
    "three-frames": lambda: made_clip(3, "matroska"),
}
"""Every trap whose frames all servers number alike, by name."""
