"""Kind by first bytes, never by name; and words for what was found."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vcache_cli.items import Kind
from vcache_cli.media import claims_media, describe, sniff


def ftyp(major: bytes, *compatible: bytes) -> bytes:
    body = b"ftyp" + major + bytes(4) + b"".join(compatible)
    return (len(body) + 4).to_bytes(4, "big") + body


HEADS = {
    "mp4": (ftyp(b"isom", b"isom", b"avc1"), Kind.VIDEO, "MP4"),
    "mov": (ftyp(b"qt  ", b"qt  "), Kind.VIDEO, "QuickTime"),
    "old-mov": (b"\0\0\x10\0moov" + bytes(20), Kind.VIDEO, "QuickTime"),
    "unknown-brand": (ftyp(b"zzzz"), Kind.VIDEO, "MP4"),
    "matroska": (b"\x1aE\xdf\xa3" + bytes(20), Kind.VIDEO, "Matroska"),
    "avi": (b"RIFF\0\1\0\0AVI LIST", Kind.VIDEO, "AVI"),
    "mpeg-ps": (b"\0\0\1\xba" + bytes(20), Kind.VIDEO, "MPEG-PS"),
    "mpeg-ts": (b"\x47\x40\0\x10" + bytes(20), Kind.VIDEO, "MPEG-TS"),
    "m2ts": (bytes(4) + b"\x47\x40\x11\x10" + bytes(20), Kind.VIDEO, "MPEG-TS"),
    "flv": (b"FLV\1\5", Kind.VIDEO, "FLV"),
    "avif": (ftyp(b"avif", b"mif1"), Kind.IMAGE, "AVIF"),
    "avif-by-compatible-brand": (ftyp(b"mif1", b"avif"), Kind.IMAGE, "AVIF"),
    "heic": (ftyp(b"heic", b"mif1"), Kind.IMAGE, "HEIC"),
    "jxl": (b"\0\0\0\x0cJXL \r\n\x87\n", Kind.IMAGE, "JPEG XL"),
    "sound": (ftyp(b"M4A ", b"isom"), Kind.OTHER, "sound"),
    "wave": (b"RIFF\0\1\0\0WAVEfmt ", Kind.OTHER, "sound"),
    "pdf": (b"%PDF-1.7", Kind.OTHER, "a PDF"),
    "zip": (b"PK\3\4" + bytes(10), Kind.OTHER, "a ZIP archive"),
    "html": (b"\n <html><head>", Kind.OTHER, "HTML"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg">', Kind.OTHER, "SVG"),
    "svg-after-xml": (b'<?xml version="1.0"?>\n<svg width="9">', Kind.OTHER, "SVG"),
    "xml": (b'<?xml version="1.0"?><note/>', Kind.OTHER, "XML"),
    "json": (b'{"a": 1}', Kind.OTHER, "JSON"),
    "text": (b"The free encyclopedia", Kind.OTHER, "text"),
    "text-bm": (b"BMW is a maker of cars and of", Kind.OTHER, "text"),
    "text-g": (b"Good morning", Kind.OTHER, "text"),
    "text-utf8": ("Grüße aus Köln".encode(), Kind.OTHER, "text"),
    "zeros": (bytes(64), Kind.OTHER, "nothing but zeros"),
    "noise": (b"\x01\x02\x03\x04", Kind.OTHER, "unknown data"),
    "empty": (b"", Kind.OTHER, "an empty file"),
    "gif-cut": (b"GIF8", Kind.OTHER, "text"),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_file_is_what_its_first_bytes_say(name: str) -> None:
    head, kind, words = HEADS[name]
    assert (sniff(head), describe(head)) == (kind, words)


@given(st.binary(max_size=64))
@example(b"RIFF")
@example(b"\0\0\0\x08ftyp")
def test_any_bytes_have_a_kind_and_a_description(head: bytes) -> None:
    assert sniff(head) in Kind
    assert describe(head)


@pytest.mark.parametrize(
    ("name", "claims"),
    [("a.jpeg", True), ("A.MOV", True), ("a.heic", True), ("a.md", False), (".jpg", False)],
)
def test_a_name_claims_by_its_ending(name: str, claims: bool) -> None:  # noqa: FBT001
    assert claims_media(name) is claims
