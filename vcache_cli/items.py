"""The values that flow through a warm: MediaItem, Group, Frames, Pixels, Features."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from vcache_cli.buckets import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.levels import LevelTable

__all__ = [
    "Features",
    "FileStat",
    "Frames",
    "Group",
    "Kind",
    "MediaItem",
    "Part",
    "Pixels",
    "Stage",
    "Trouble",
    "WarmItem",
    "display_path",
]


_INSIDE: Final = "::"
"""Between a container and a part of it."""


class Kind(StrEnum):
    """What an item is, by its first bytes, never by its name."""

    IMAGE = "image"
    VIDEO = "video"
    OTHER = "other"


class Stage(StrEnum):
    """How far an entry goes."""

    PIXELS = "pixels"
    FEATURES = "features"


def display_path(path: str) -> str:
    r"""`path` as text that is safe to print and to put in JSON: other bytes appear as ``\xNN``.

    >>> display_path("caf\udce9")
    'caf\\xe9'
    """
    if path.isascii():
        return path
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class FileStat(NamedTuple):
    """What tells an unchanged file without opening it."""

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileStat:
        """The part of a stat result that matters."""
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev)


class Part(Protocol):
    """Where in a container an item lies: a member, a cell, a piece of a line. A picklable value."""

    @property
    def name(self) -> str:
        """As the container spells it. It is printed, and never a path of a file."""
        ...

    @property
    def locator(self) -> str:
        """Tells it from all others of the same container."""
        ...

    @property
    def size_bytes(self) -> int:
        """As many as are read of the container; 0 where that is not known."""
        ...

    def read(
        self, path: str, stat: FileStat | None, limit_of: Callable[[bytes], int | None]
    ) -> bytes | None:
        """Its bytes, out of the container at `path`, if its first bytes say so.

        Args:
            path: of the container.
            stat: of the container when the part was found; None where that does not matter.
            limit_of: given the first 64 bytes or fewer, the most bytes to take; None for none.

        Raises:
            ItemError: it cannot be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why what was found cannot be an item: known before anything of it is read."""

    kind: str
    message: str
    hint: str = ""
    skipped: bool = False
    """True where the corpus is as well without it."""
    warns: bool = True
    """False for what is skipped without a word."""


@dataclass(frozen=True, slots=True)
class MediaItem:
    """One image or video found, not yet read. Picklable; crosses machines."""

    path: str
    """The file's path as the operating system spells it (``surrogateescape`` text), or the URL of
    an object in a bucket."""
    stat: FileStat | None = None
    """As found; None where the file could not be examined (the worker then says why)."""
    explicit: bool = False
    """True where the user named the file itself, so that a non-picture is an error."""
    part: Part | None = None
    """Set where the file is a container: which part of it. `stat` is the container's."""
    trouble: Trouble | None = None
    """Set where there is nothing to read, only something to tell."""

    @property
    def name(self) -> str:
        """What the item itself is called: the member of a container, or the file."""
        return self.part.name if self.part else self.path

    @property
    def absolute_path(self) -> str:
        """The path from the root of the filesystem, or the URL: what memos are kept under."""
        place = self.path if is_url(self.path) else os.path.abspath(self.path)
        return f"{place}{_INSIDE}{self.part.locator}" if self.part else place

    @property
    def locator(self) -> str:
        """`path`, and the part of a container: no two items of a corpus share it."""
        return f"{self.path}{_INSIDE}{self.part.locator}" if self.part else self.path

    @property
    def source(self) -> str:
        """Printable name of the item."""
        place = display_path(self.path)
        return f"{place}{_INSIDE}{display_path(self.part.name)}" if self.part else place

    @property
    def size_bytes(self) -> int:
        """Bytes to read for it; 0 where that is not known."""
        if self.part:
            return self.part.size_bytes
        return self.stat.size_bytes if self.stat else 0

    @property
    def files(self) -> tuple[MediaItem, ...]:
        """The item itself; see `Group.files`."""
        return (self,)


@dataclass(frozen=True, slots=True)
class Group:
    """The ordered images of one request, where a server keys requests."""

    items: tuple[MediaItem, ...]

    @property
    def path(self) -> str:
        """Names the group among others: its pictures' paths."""
        return "\0".join(each.locator for each in self.items)

    @property
    def locator(self) -> str:
        """As `path`."""
        return self.path

    @property
    def source(self) -> str:
        """Printable name of the group."""
        return " + ".join(each.source for each in self.items)

    @property
    def explicit(self) -> bool:
        """Always: whoever lists pictures of a request means each of them."""
        return True

    @property
    def files(self) -> tuple[MediaItem, ...]:
        """Its pictures, in order."""
        return self.items


WarmItem: TypeAlias = MediaItem | Group
"""What enters a run, and leaves it as one Outcome."""


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Decoded pictures of one media item; an image is a clip of one frame."""

    rgb: NDArray[np.uint8]
    """(T, H, W, 3) uint8, orientation applied as the profile says."""
    pts_seconds: tuple[float, ...] = (0.0,)
    """Presentation time of each frame, seconds from the start; (0.0,) for an image."""
    warnings: tuple[str, ...] = ()
    """Kinds of information that the server's own rule loses here, such as ``alpha_dropped``; what
    a decoder warned of as ``decoder_warned: text``."""
    key_rgb: tuple[int, int, int] | None = None
    """The one colour that the file marks transparent, where the loader leaves the mark standing:
    an image processor that composites on white then paints it white."""
    indices: tuple[int, ...] = (0,)
    """Which frame of its clip each is, from 0."""

    @property
    def width(self) -> int:
        """Width in pixels."""
        return int(self.rgb.shape[2])

    @property
    def height(self) -> int:
        """Height in pixels."""
        return int(self.rgb.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Pixels:
    """What an encoder takes for one item."""

    tensors: Mapping[str, NDArray[Any]]
    """By the names that the server's processor uses, without its batch axis. `pixel_values` is
    float32: (C, H, W) for families of one picture per item, tiles (T, C, H, W) for those that
    cut it, patches (N, D) for those with a grid."""
    num_tokens: int
    """Tokens that the language model will see for this item."""
    tables: Mapping[str, LevelTable] = field(default_factory=dict)
    """Compact form: a tensor that has a table is uint8 levels. Encoders take none such."""

    def expanded(self) -> Pixels:
        """The same pixels with every table applied."""
        if not self.tables:
            return self
        tensors = {
            name: self.tables[name].expand(array) if name in self.tables else array
            for name, array in self.tensors.items()
        }
        return Pixels(tensors, self.num_tokens)

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(int(array.nbytes) for array in self.tensors.values())

    @property
    def shape_key(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes: items with the same one can share a batch."""
        return tuple(sorted((name, tuple(array.shape)) for name, array in self.tensors.items()))


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What an encoder gives for one item, in the dtype that it computed in."""

    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """`features` (num_tokens, hidden_size), and where the family has them `pooled`
    (hidden_size,) and `deepstack_0..n`; no batch axis. Made by a server's own code, `features`
    has more axes where the server's has, and is `features.0..n` where that is a list."""

    @property
    def num_tokens(self) -> int:
        """Rows of `features`, whatever the axes before the last."""
        parts = (each for name, each in self.tensors.items() if name.startswith("features"))
        return sum(math.prod(part.shape[:-1]) for part in parts)
