"""The size of a JPEG XL picture by its header: its plug-in decodes the whole to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.errors import MediaError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

__all__ = ["jxl_exif", "jxl_size"]

_SIGNATURE: Final = b"\xff\x0a"
_TIFF: Final = (b"II*\0", b"MM\0*")
_HEADER_BYTES: Final = 24
"""More than the size and the orientation can take."""
_SIDE_BITS: Final = (9, 13, 18, 30)
_RATIOS: Final = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
"""Width to height, for a picture that names only its height."""


def jxl_exif(data: bytes) -> bytes:
    """The EXIF block that turns the picture once more; empty where there is none.

    The codestream has its own orientation, which the format lets win. Pillow's plug-in turns by
    that one, and leaves the block to be turned by. A repacked JPEG is turned once.
    """
    found = {name: data[start:end] for name, start, end in _boxes(data)}
    if b"jbrd" in found:
        return b""
    block = found.get(b"Exif", b"")
    return block[4:] if block[4:8] in _TIFF else block  # some leave out the offset of its start


def jxl_size(data: bytes) -> tuple[int, int]:
    """Width and height, pixels, turned as the codestream says.

    Raises:
        MediaError: kind ``corrupt``: there is no header.
    """
    start = _codestream(data)
    header = data[start : start + _HEADER_BYTES]
    if not header.startswith(_SIGNATURE):
        raise MediaError("starts like JPEG XL, but has no header", kind="corrupt")
    bits = _Bits(int.from_bytes(header[2:].ljust(_HEADER_BYTES, b"\0"), "little"))
    small = bool(bits.take(1))
    height = bits.side(small=small)
    ratio = bits.take(3)
    width = height * _RATIOS[ratio - 1][0] // _RATIOS[ratio - 1][1] if ratio else 0
    width = width or bits.side(small=small)
    plain = bits.take(1)
    orientation = 1 + bits.take(3) if not plain and bits.take(1) else 1
    return (height, width) if orientation > 4 else (width, height)


class _Bits:
    """Bits, least first."""

    def __init__(self, value: int) -> None:
        self._value = value

    def take(self, count: int) -> int:
        """The next `count` bits as a number."""
        taken = self._value & ((1 << count) - 1)
        self._value >>= count
        return taken

    def side(self, *, small: bool) -> int:
        """A side, pixels."""
        if small:
            return 8 * (1 + self.take(5))
        return 1 + self.take(_SIDE_BITS[self.take(2)])


def _codestream(data: bytes) -> int:
    """Where the codestream starts: at once, or in the first box that carries a part of it."""
    if data.startswith(_SIGNATURE):
        return 0
    starts = {name: start for name, start, _ in reversed(list(_boxes(data)))}
    if b"jxlc" in starts:
        return starts[b"jxlc"]
    return starts[b"jxlp"] + 4 if b"jxlp" in starts else len(data)  # 4: the part's number


def _boxes(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name of each box, where its content starts, and where it ends."""
    at = 0
    while at + 8 <= len(data):
        size_bytes, name, head = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8], 8
        if size_bytes == 1:
            size_bytes, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        end = at + size_bytes if size_bytes else len(data)  # 0: to the end of the file
        if end < at + head:
            return
        yield name, at + head, end
        at = end
