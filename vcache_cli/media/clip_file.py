"""An encoded clip, open for reading: its one stream of moving pictures, and nothing else."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import av
import av.error
from av.stream import Disposition

from vcache_cli.errors import MediaError
from vcache_cli.media.sniff import describe, format_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO, Final

    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

__all__ = ["AGAIN", "ClipFile", "open_clip"]

AGAIN: Final = "copy or download it again"

_DEMUXERS: Final = {
    "ASF": "asf",
    "AVI": "avi",
    "FLV": "flv",
    "MP4": "mov",
    "MPEG-PS": "mpeg",
    "MPEG-TS": "mpegts",
    "Matroska": "matroska",
    "Ogg Theora": "ogg",
    "QuickTime": "mov",
}
"""By the name that `format_of` gives. Named outright, so that no playlist opens other files."""

_HEAD_BYTES: Final = 64
_BUFFER_BYTES: Final = 256 * 1024
_MAX_BAD_PACKETS: Final = 512
"""Damaged in a row: as many as OpenCV reads on over."""
_AV_ERRORS: Final = (
    *(av.error.FFmpegError, OSError, EOFError, ValueError, TypeError, IndexError),
    *(RuntimeError, OverflowError, ArithmeticError, AttributeError, NotImplementedError),
)
"""What PyAV raises on damaged files, some of it by way of Python's own types."""


@dataclass(slots=True, eq=False)
class ClipFile:
    """A clip at some place of its packets. One thread; closed by `open_clip`."""

    container: InputContainer
    stream: VideoStream
    bad_packets: int = 0
    """Packets so far that did not decode."""

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """Packets with pictures, in the order of the file, from here to where it ends."""
        with _told():
            for packet in self.container.demux(self.stream):
                if packet.size:
                    yield packet

    def frames(self) -> Iterator[VideoFrame]:
        """Frames in the order of their times, from here to where the file ends, or is cut off.

        Raises:
            MediaError: kind ``corrupt``: packet after packet is damaged.
        """
        bad = 0
        try:
            for packet in self.container.demux(self.stream):
                try:
                    yield from packet.decode()
                    bad = 0
                except av.error.EOFError:
                    return
                except av.error.FFmpegError:
                    bad, self.bad_packets = bad + 1, self.bad_packets + 1
                    if bad > _MAX_BAD_PACKETS:
                        raise
        except (av.error.InvalidDataError, av.error.EOFError) as error:
            if bad > _MAX_BAD_PACKETS:
                raise _media_error(error) from error

    def seek(self, timestamp: int) -> None:
        """To the last packet at or before `timestamp`, of the stream, from which one can decode.

        Raises:
            MediaError: the file cannot be sought in.
        """
        with _told():
            self.container.seek(timestamp, stream=self.stream, backward=True)


@contextmanager
def open_clip(source: BinaryIO, *, max_pixels: int) -> Iterator[ClipFile]:
    """The clip in `source`, from its first packet; closed at the end, `source` is not.

    Args:
        source: can be sought in; read from its beginning.
        max_pixels: of a frame; no decoder makes a larger one.

    Raises:
        MediaError: kind ``not_media``, ``no_video``, ``corrupt``, ``truncated`` or ``memory``.
    """
    source.seek(0)
    head = source.read(_HEAD_BYTES)
    demuxer = _DEMUXERS.get(format_of(head) or "")
    if demuxer is None:
        raise MediaError(f"not a video: looks like {describe(head)}", kind="not_media")
    source.seek(0)
    with _told():
        container = av.open(source, "r", format=demuxer, buffer_size=_BUFFER_BYTES)
    try:
        with _told():
            stream = _moving_pictures(container)
            stream.codec_context.thread_count = 1
            stream.codec_context.options = {"max_pixels": str(max_pixels)}
        yield ClipFile(container, stream)
    finally:
        container.close()


def _moving_pictures(container: InputContainer) -> VideoStream:
    """The first stream that is no cover, which is what every server takes."""
    streams = container.streams.video
    for stream in streams:
        if not stream.disposition & Disposition.attached_pic:
            return stream
    found = "only a cover picture" if streams else "no video stream, only sound or text"
    raise MediaError(found, kind="no_video", hint="leave it out of the corpus")


@contextmanager
def _told() -> Iterator[None]:
    """What PyAV raises, as a MediaError."""
    try:
        yield
    except MemoryError as error:
        raise MediaError("not enough memory to decode it", kind="memory") from error
    except _AV_ERRORS as error:
        raise _media_error(error) from error


def _media_error(error: Exception) -> MediaError:
    text = str(getattr(error, "strerror", None) or error)  # FFmpeg's words, without its call
    text = " ".join(text.split()) or type(error).__name__
    if isinstance(error, EOFError):
        return MediaError(f"cut short: {text}", kind="truncated", hint=AGAIN)
    return MediaError(f"damaged: {text}", kind="corrupt", hint=AGAIN)
