"""Brands of ISO base media files: what tells a picture from a film in the same container."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

__all__ = ["AUDIO_BRANDS", "AVIF_BRANDS", "HEIC_BRANDS", "brands"]

AVIF_BRANDS: Final = frozenset({b"avif", b"avis"})
HEIC_BRANDS: Final = frozenset(
    {b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1"}
)
AUDIO_BRANDS: Final = frozenset({b"M4A ", b"M4B ", b"M4P ", b"F4A ", b"F4B "})


def brands(head: bytes) -> set[bytes]:
    """Major and compatible brands named in `head`, which starts with an ``ftyp`` box.

    >>> sorted(brands(bytes([0, 0, 0, 20]) + b"ftypmif1" + bytes(4) + b"avifnext"))
    [b'avif', b'mif1']
    """
    size_bytes = min(int.from_bytes(head[:4], "big"), len(head))
    compatible = {head[at : at + 4] for at in range(16, size_bytes - 3, 4)}
    return {head[8:12], *compatible}
