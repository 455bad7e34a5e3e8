"""Sockets of storing: targets with their layouts, tiers, and what runs remember."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vcache_cli.entry import Entry
    from vcache_cli.folders import FolderFiles
    from vcache_cli.header import HeaderLimits
    from vcache_cli.items import Features, FileStat, Frames, Kind, Pixels
    from vcache_cli.outcome import Failure
    from vcache_cli.recipe import Recipe
    from vcache_cli.tensor import Tensor

__all__ = [
    "Evidence",
    "FolderMemo",
    "KeyFrom",
    "Layout",
    "Memo",
    "OwnDirectory",
    "Recall",
    "Seen",
    "Target",
    "Tier",
    "Unit",
    "WarmTarget",
]

KeyFrom = Literal["digest", "frames", "pixels"]
"""After which step a target's key can be computed."""

Unit = Literal["item", "group"]
"""What one entry of a target holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What is known of an item when its key is asked for; later steps are None before they ran."""

    source_sha256: str
    frames: Frames | None = None
    pixels: Pixels | None = None
    members: tuple[Evidence, ...] = ()
    """Of a group: what is known of each of its pictures, in order; the fields above are None."""
    processed: Callable[[Sequence[Pixels]], Mapping[str, Any]] | None = None
    """`Preprocessor.processed`, for keys that a server derives from what its processor gives."""

    @property
    def pictures(self) -> tuple[Evidence, ...]:
        """The pictures that the entry is of: the item itself, or the group's."""
        return self.members or (self,)


class Layout(Protocol):
    """The pure path and packing half of a target. No I/O; any thread; picklable."""

    @property
    def limits(self) -> HeaderLimits:
        """What this layout's files may hold."""
        ...

    @property
    def checksum_field(self) -> str | None:
        """Metadata field of the XXH3-128 of the whole file, its own 32 digits read as ``0``.

        None where files carry no checksum: "structure only".
        """
        ...

    @property
    def checksum_required(self) -> bool:
        """False where a file may lack its checksum: the consumer's own, beside those of ours."""
        ...

    @property
    def shards(self) -> tuple[str, ...] | None:
        """Names of the directories, directly below the root, that hold entries.

        None where any directory there may: entries then stand among strangers' files, and only
        those of our own user are counted or removed.
        """
        ...

    def path_of(self, key: str) -> str:
        """Path of the entry below the root, ``/`` between parts. Never leaves the root.

        Raises:
            ValueError: not a key of this layout.
        """
        ...

    def key_of(self, path: str) -> str | None:
        """The key whose entry lies at `path` below the root; None for a foreign file."""
        ...

    def pack(self, entry: Entry) -> tuple[dict[str, str], Mapping[str, Tensor]]:
        """Metadata (without the checksum) and tensors of the file, by name."""
        ...

    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        """The entry in a file found at `path` below the root.

        `tensors` may be empty where only the header was read.

        Raises:
            InvalidEntryError: the metadata does not describe an entry, or not the one of `path`
                (finding ``key_mismatch``).
        """
        ...


@runtime_checkable
class OwnDirectory(Protocol):
    """A layout that gives each entry a directory of its own. A capability of `Layout`."""

    def directory_of(self, key: str) -> str:
        """Path of the entry's directory below the root; nothing else belongs there.

        Raises:
            ValueError: not a key of this layout.
        """
        ...

    def is_telling(self, directory: str) -> bool:
        """True where that name alone says that the server made the directory, be it empty."""
        ...


@runtime_checkable
class Target(Protocol):
    """A consumer's whole contract. Group: ``vcache.targets``. Holds nothing; picklable.

    This much is enough to look after the consumer's stores; `WarmTarget` fills them too.
    """

    @property
    def name(self) -> str:
        """Such as ``native``: lowercase letters, digits and ``-``. Stores name their target so."""
        ...

    @property
    def key_from(self) -> KeyFrom:
        """After which step the consumer's key can be computed."""
        ...

    @property
    def unit(self) -> Unit:
        """What one entry holds: an item, or the ordered images of a request."""
        ...

    @property
    def profile(self) -> str | None:
        """The decode rule: name of the profile that the consumer decodes by; None: any will do."""
        ...

    @property
    def layout(self) -> Layout:
        """Its path and packing half, with the limits of its files."""
        ...


@runtime_checkable
class WarmTarget(Target, Protocol):
    """A target whose stores can be filled, not only looked after. Pure; any thread."""

    def key(self, recipe: Recipe, evidence: Evidence) -> str:
        """The key under which the consumer looks the entry up."""
        ...

    def tensors(self, recipe: Recipe, value: Pixels | Features) -> dict[str, Tensor]:
        """The tensors to store, by the consumer's names and in the recipe's stored dtype."""
        ...


class Tier(Protocol):
    """Somewhere entries can be."""

    def get(self, key: str) -> Entry | None:
        """The entry; None where it is absent, damaged or half-known."""
        ...

    def put(self, entry: Entry) -> int:
        """Keep the entry, replacing what was there; bytes written."""
        ...

    def contains(self, key: str) -> bool:
        """True where a get would find a file; says nothing of damage."""
        ...


class Seen(NamedTuple):
    """What an earlier run learnt of a file."""

    source_sha256: str
    kind: Kind


class Recall(NamedTuple):
    """What is remembered of one unchanged file."""

    seen: Seen
    key: str | None
    """The entry key of its content under the context that was asked for."""


class Memo(Protocol):
    """What earlier runs learnt. A hint only: it never proves presence. One thread."""

    def recall(
        self, files: Sequence[tuple[str, FileStat]], context: str | None
    ) -> list[Recall | None]:
        """`unchanged` and `known` of many files at once, in order; the fast way.

        Args:
            files: absolute paths, with the stats of now.
            context: see `known`; None where no key is wanted.
        """
        ...

    def unchanged(self, path: str, stat: FileStat) -> Seen | None:
        """What was learnt of that path, where its stat is still the same."""
        ...

    def known(self, source_sha256: str, context: str) -> str | None:
        """The entry key of known content; `context` digests recipe and library versions."""
        ...

    def failed(self, source_sha256: str, context: str) -> Failure | None:
        """The permanent failure that this content met before."""
        ...


@runtime_checkable
class FolderMemo(Protocol):
    """A memo that answers for the files of a folder together. A capability of `Memo`."""

    def digests_of(self, files: FolderFiles) -> Sequence[str]:
        """Content of each file, in order; empty where `unchanged` names no picture."""
        ...

    def known_among(self, digests: Sequence[str], context: str) -> Sequence[str]:
        """`known` of each content, in order; empty where it is not."""
        ...
