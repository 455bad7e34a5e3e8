"""Small pictures of files that may be anything: bounded in bytes, pixels, number and time."""

from __future__ import annotations

import base64
import io
import os
import stat
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vcache_cli.report.places import INSIDE, find_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final

    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

__all__ = ["Thumbnail", "Thumbnails", "thumbnail_of"]

_FORMATS: Final = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
"""Decoders of one pass over bytes, without a library of a container behind them."""
_MAX_BYTES: Final = 32 * 1024**2
_MAX_PIXELS: Final = 40_000_000
_MAX_COUNT: Final = 60
_MAX_SECONDS: Final = 10.0
_SIDE: Final = 160
_NOT_AGAIN: Final = frozenset(
    {"bomb", "crashed", "memory", "out_of_memory", "timeout", "too_large", "too_long"}
)
"""Kinds of failures of files that are not tried again here."""
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A small picture, or why there is none."""

    reason: str = ""
    """Empty where there is a picture."""
    jpeg: bytes = b""
    width: int = 0
    height: int = 0
    partial: bool = False
    """Only what could be decoded of a damaged file."""

    @property
    def uri(self) -> str:
        """As a `data:` address."""
        return f"data:image/jpeg;base64,{base64.b64encode(self.jpeg).decode('ascii')}"


@dataclass(slots=True)
class Thumbnails:
    """Makes them, each source once, until there are enough of them.

    Args:
        folder: printable name of the folder that relative sources are meant in.
        draw: makes one of a file's bytes; in this process, unless another one is given.
    """

    folder: str | None = None
    draw: Callable[[bytes], Thumbnail] | None = None
    clock: Callable[[], float] = time.monotonic
    _made: dict[str, Thumbnail] = field(default_factory=dict)
    _spent: float = 0.0

    def of(self, source: str, kind: str = "") -> Thumbnail:
        """The thumbnail of a source.

        Args:
            source: as in the run file.
            kind: of its failure, where it failed.
        """
        if source not in self._made:
            if len(self._made) >= _MAX_COUNT or self._spent > _MAX_SECONDS:
                return Thumbnail("not made: there are many")
            begun = self.clock()
            self._made[source] = self._make(source, kind)
            self._spent += self.clock() - begun
        return self._made[source]

    def make_all(self, sources: Iterable[tuple[str, str]]) -> None:
        """Make those of sources and kinds, as far as the bounds allow, in this order."""
        for source, kind in sources:
            self.of(source, kind)

    def _make(self, source: str, kind: str) -> Thumbnail:
        if kind in _NOT_AGAIN:
            return Thumbnail(f"not opened again: {kind.replace('_', ' ')}")
        path = find_file(source, self.folder)
        if path is None:
            return Thumbnail("inside a file" if INSIDE in source else "not found here")
        try:
            content = _read(path)
        except OSError as error:
            return Thumbnail(error.strerror or "cannot be read")
        if not content:
            return Thumbnail("no picture: an empty file")
        return (self.draw or thumbnail_of)(content)


def _read(path: bytes) -> bytes:
    fd = os.open(path, _FLAGS)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(0, "no regular file")
        if facts.st_size > _MAX_BYTES:
            raise OSError(0, "too large for a thumbnail")
        with open(fd, "rb", closefd=False) as file:
            return file.read(_MAX_BYTES + 1)
    finally:
        os.close(fd)


def thumbnail_of(content: bytes) -> Thumbnail:
    """A thumbnail of a file's bytes; of a damaged file what comes before the damage."""
    import PIL.Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is wrong with the file was told already
        try:
            picture, partial = _decoded(content)
            return _small(picture, partial=partial)
        except PIL.Image.DecompressionBombError:
            return Thumbnail("too many pixels")
        except PIL.UnidentifiedImageError:
            return Thumbnail("no preview of such a file")
        except (OSError, SyntaxError, ValueError, EOFError, MemoryError, OverflowError):
            return Thumbnail("no picture that can be decoded")


def _decoded(content: bytes) -> tuple[Image, bool]:
    """The picture, and whether only a part of it.

    Raises:
        OSError, SyntaxError, ValueError, DecompressionBombError: nothing of it.
    """
    import PIL.Image

    picture = PIL.Image.open(io.BytesIO(content), formats=_FORMATS)
    if picture.width * picture.height > _MAX_PIXELS:
        raise PIL.Image.DecompressionBombError
    picture.draft("RGB", (2 * _SIDE, 2 * _SIDE))
    try:
        picture.load()
    except (OSError, SyntaxError, ValueError, EOFError):
        return _first_part(picture), True
    return picture, False


def _first_part(picture: ImageFile) -> Image:
    """What was decoded before the damage.

    Raises:
        OSError, ValueError: nothing of it.
    """
    picture.tile = []  # nothing is left to do: `load` gives what there is
    picture.load()
    if len(set(picture.convert("L").getextrema())) == 1:
        raise ValueError("blank")
    return picture


def _small(picture: Image, *, partial: bool) -> Thumbnail:
    """On grey where it is transparent, and without what a camera wrote into it."""
    import PIL.Image
    import PIL.ImageOps

    if not partial:
        PIL.ImageOps.exif_transpose(picture, in_place=True)
    picture.thumbnail((_SIDE, _SIDE))
    rgba = picture.convert("RGBA")
    ground = PIL.Image.new("RGBA", rgba.size, (128, 128, 128, 255))
    shown = PIL.Image.alpha_composite(ground, rgba).convert("RGB")
    file = io.BytesIO()
    shown.save(file, "JPEG", quality=72, optimize=True)
    return Thumbnail("", file.getvalue(), shown.width, shown.height, partial)
