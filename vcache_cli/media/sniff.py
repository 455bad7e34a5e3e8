"""What a file is, by its first bytes; what its name claims; how to say what was found."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from vcache_cli.items import Kind
from vcache_cli.media.bmff import AUDIO_BRANDS, AVIF_BRANDS, HEIC_BRANDS, brands

if TYPE_CHECKING:
    from typing import Final

__all__ = ["claims_media", "describe", "format_of", "has_pnm_header", "sniff"]

_IMAGE_FORMATS: Final = frozenset(
    {"JPEG", "PNG", "GIF", "WebP", "AVIF", "HEIC", "TIFF", "BMP", "PNM", "ICO", "JPEG XL",
     "JPEG 2000"}
)  # fmt: skip
_VIDEO_FORMATS: Final = frozenset(
    {"MP4", "QuickTime", "Matroska", "AVI", "MPEG-PS", "MPEG-TS", "FLV", "ASF", "Ogg Theora"}
)

_SIGNATURES: Final = (
    ("JPEG", rb"\xff\xd8\xff"),
    ("PNG", rb"\x89PNG\r\n\x1a\n"),
    ("GIF", rb"GIF8[79]a"),
    ("WebP", rb"RIFF.{4}WEBP"),
    ("TIFF", rb"II[*+]\x00|MM\x00[*+]"),
    ("BMP", rb"BM.{12}[\x0c\x10\x28\x34\x38\x40\x6c\x7c]\x00\x00\x00"),  # a known header size
    ("PNM", rb"P[1-6][\s#]"),
    ("ICO", rb"\x00\x00\x01\x00[^\x00]\x00"),
    ("JPEG XL", rb"\xff\x0a|\x00\x00\x00\x0cJXL \r\n\x87\n"),
    ("JPEG 2000", rb"\xff\x4f\xff\x51|\x00\x00\x00\x0cjP  \r\n\x87\n"),
    ("Matroska", rb"\x1a\x45\xdf\xa3"),
    ("AVI", rb"RIFF.{4}AVI "),
    ("MPEG-PS", rb"\x00\x00\x01[\xba\xb3]"),
    # A first packet that starts a payload, unscrambled; Blu-ray files put four bytes before it.
    ("MPEG-TS", rb"(?:.{4})?\x47(?:\x40[\x00\x10\x11][\x30-\x3f]|[\x40-\x5f].[\x10-\x1f])"),
    ("FLV", rb"FLV\x01"),
    ("ASF", rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11"),
    ("Ogg Theora", rb"OggS.{24}\x80theora|OggS.{25}\x80theora"),
    ("QuickTime", rb"[\x00-\x1f].{3}(?:moov|mdat|wide|skip|free|pnot)"),
    ("a PDF", rb"%PDF-"),
    ("a Photoshop document", rb"8BPS"),
    ("a ZIP archive", rb"PK\x03\x04|PK\x05\x06"),
    ("a gzip file", rb"\x1f\x8b"),
    ("sound", rb"OggS|fLaC|ID3|RIFF.{4}WAVE"),
    ("a program", rb"\x7fELF|MZ|#!|\xcf\xfa\xed\xfe|\xca\xfe\xba\xbe"),
    ("SVG", rb"(?i)(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*)?(?:<!doctype\s+)?<?svg[\s>]"),
    ("HTML", rb"(?i)(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head|body|script|!--)"),
    ("XML", rb"(?i)(?:\xef\xbb\xbf)?\s*<\?xml"),
    ("JSON", rb"(?:\xef\xbb\xbf)?\s*(?:[{]\s*[\"}]|\[\s*[\[{\"\]0-9])"),
)
_COMPILED: Final = tuple((name, re.compile(sign, re.DOTALL)) for name, sign in _SIGNATURES)
_PNM_HEADER_BYTES: Final = 65_536
_PNM_COMMENT: Final = re.compile(rb"#[^\r\n]*(?:[\r\n]|\Z)")
_PNM_BITS: Final = re.compile(rb"(?:\s*[^\s]+\s){3}")
_PNM_LEVELS: Final = re.compile(rb"(?:\s*[^\s]+\s){4}")
_TEXT: Final = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]+")

_EXTENSIONS: Final = frozenset(
    {
        *(".3gp", ".apng", ".avi", ".avif", ".bmp", ".dib", ".flv", ".gif"),
        *(".heic", ".heif", ".ico", ".j2k", ".jfif", ".jp2", ".jpe", ".jpeg"),
        *(".jpg", ".jxl", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg"),
        *(".mpg", ".mpo", ".mts", ".ogv", ".pbm", ".pgm", ".png", ".pnm"),
        *(".ppm", ".tif", ".tiff", ".webm", ".webp", ".wmv"),
    }
)


def format_of(head: bytes) -> str | None:
    """Name of the format that `head`, the first 64 bytes or fewer, belongs to; None if unknown."""
    if head[4:8] == b"ftyp":
        return _iso_format(head)
    return next((name for name, signature in _COMPILED if signature.match(head)), None)


def sniff(head: bytes) -> Kind:
    """The kind of a file by its first 64 bytes or fewer, never by its name."""
    found = format_of(head)
    if found in _IMAGE_FORMATS:
        return Kind.IMAGE
    return Kind.VIDEO if found in _VIDEO_FORMATS else Kind.OTHER


def describe(head: bytes) -> str:
    """What the first bytes look like, to follow "looks like".

    >>> describe(b"<!DOCTYPE html><title>404</title>"), describe(b"")
    ('HTML', 'an empty file')
    """
    if not head:
        return "an empty file"
    if found := format_of(head):
        return found
    if not head.strip(b"\0"):
        return "nothing but zeros"
    return "text" if _TEXT.fullmatch(head) else "unknown data"


def has_pnm_header(data: bytes) -> bool:
    r"""False where the header of a long PNM does not end soon: Pillow reads it byte by byte.

    >>> has_pnm_header(b"P6\n# by hand\n640 480\n255\n" + bytes(100_000))
    True
    >>> has_pnm_header(b"P6\n#" + bytes(100_000))
    False
    """
    if len(data) <= _PNM_HEADER_BYTES:
        return True
    text = _PNM_COMMENT.sub(b"", data[:_PNM_HEADER_BYTES])
    return (_PNM_BITS if data[1:2] in b"14" else _PNM_LEVELS).match(text) is not None


def claims_media(path: str) -> bool:
    """True where the file's name says that it is a picture or a video.

    >>> claims_media("a/b.JPG"), claims_media("notes.txt"), claims_media("noext")
    (True, False, False)
    """
    return os.path.splitext(path)[1].lower() in _EXTENSIONS


def _iso_format(head: bytes) -> str | None:
    found = brands(head)
    if found & AVIF_BRANDS:
        return "AVIF"
    if found & HEIC_BRANDS:
        return "HEIC"
    if head[8:12] in AUDIO_BRANDS:
        return "sound"
    return "QuickTime" if head[8:12] == b"qt  " else "MP4"
