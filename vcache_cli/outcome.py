"""What became of one item: every item that enters a run leaves as exactly one Outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from vcache_cli.items import Kind, display_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vcache_cli.folders import FolderFiles
    from vcache_cli.items import WarmItem

__all__ = ["Failure", "Foreseen", "Notice", "Outcome", "PresentFiles", "Status", "lines_of"]


class Status(StrEnum):
    """The five ways in which an item leaves a run."""

    STORED = "stored"
    PRESENT = "present"
    COPY = "copy"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an item failed or was skipped."""

    stage: str
    """``discover``, ``digest``, ``decode``, ``preprocess``, ``encode``, ``write`` or ``send``."""
    kind: str
    """Machine-readable, such as ``truncated`` or ``not_media``."""
    message: str
    """For people; does not repeat the item's name."""
    hint: str = ""
    transient: bool = False
    """Trying the same bytes again may succeed; such failures are not remembered."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a user should know of an item that did not fail."""

    kind: str
    """Such as ``alpha_dropped``."""
    message: str


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What an item would become, by the sizes of its pictures alone."""

    num_tokens: int
    """Tokens that the language model would see."""
    pixel_bytes: int
    """Bytes of the pixels, in the form in which the target keeps them."""


_NO_SECONDS: Final[Mapping[str, float]] = {}
_PRESENT: Final = (
    '{"source":%s,"status":"present","source_sha256":%s,"key":%s,'
    '"kind":"%s","bytes":{"read":0,"written":0},"seconds":{}}'
)
"""The line of a picture or video that was there."""


class Outcome(NamedTuple):  # made a hundred thousand times a second where nothing changed
    """What became of one item. Picklable; crosses machines."""

    item: WarmItem
    status: Status
    key: str | None = None
    """The entry's key, where one was computed: set for failed items too; `failure` decides."""
    source_sha256: str | None = None
    """Of a group: the digest of `members_sha256`."""
    kind: Kind | None = None
    failure: Failure | None = None
    """Set where the status is ``failed`` or ``skipped``."""
    notices: tuple[Notice, ...] = ()
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: Mapping[str, float] = _NO_SECONDS
    """Seconds spent per stage: ``digest``, ``decode``, ``preprocess``, ``encode``, ``write``."""
    members_sha256: tuple[str, ...] = ()
    """Digests of a group's pictures, as far as they were read."""
    foreseen: Foreseen | None = None
    """Of an item that is only looked up, and not there."""
    keys: tuple[str, ...] = ()
    """Of a clip each of whose frames is an entry: those of all of them; `key` is then None."""

    @property
    def entry_keys(self) -> tuple[str, ...]:
        """The keys of all entries that the item has, or would have."""
        return self.keys if self.key is None else (self.key,)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.outcome/1``; unknown ones are left out."""
        value: dict[str, Any] = {
            "source": self.item.source,
            "status": self.status.value,
            "source_sha256": self.source_sha256,
            "key": self.key,
            "keys": list(self.keys) or None,
            "kind": self.kind.value if self.kind else None,
            "bytes": {"read": self.bytes_read, "written": self.bytes_written},
            "seconds": {stage: round(spent, 6) for stage, spent in self.seconds.items()},
        }
        if self.failure:
            value["error"] = {
                "stage": self.failure.stage,
                "kind": self.failure.kind,
                "message": self.failure.message,
                "hint": self.failure.hint or None,
            }
            value["error"] = {k: v for k, v in value["error"].items() if v is not None}
        if self.notices:
            value["warnings"] = [{"kind": n.kind, "message": n.message} for n in self.notices]
        return {name: part for name, part in value.items() if part is not None}

    def as_line(self) -> str:
        """`as_json` as compact JSON in one line of ASCII."""
        key, digest, kind = self.key, self.source_sha256, self.kind
        if self.status is not Status.PRESENT or self.notices or self.bytes_read or self.seconds:
            return json.dumps(self.as_json(), separators=(",", ":"))
        if key is None or digest is None or kind is None:
            return json.dumps(self.as_json(), separators=(",", ":"))
        # Spelled out: of a corpus that was warmed before, all lines are such.
        return _PRESENT % (_quoted(self.item.source), _quoted(digest), _quoted(key), kind)


@dataclass(frozen=True, slots=True, eq=False)
class PresentFiles(Sequence[Outcome]):
    """Outcomes of pictures of one folder that were there; each is made when it is asked for."""

    files: FolderFiles
    digests: Sequence[str]
    """`Outcome.source_sha256` of each."""
    keys: Sequence[str]
    """`Outcome.key` of each."""

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> Outcome: ...

    @overload
    def __getitem__(self, place: slice) -> PresentFiles: ...

    def __getitem__(self, place: int | slice) -> Outcome | PresentFiles:
        """The Outcome of a picture, or fewer of them."""
        if isinstance(place, slice):
            return PresentFiles(self.files[place], self.digests[place], self.keys[place])
        digest, key = self.digests[place], self.keys[place]
        return Outcome(self.files[place], Status.PRESENT, key, digest, Kind.IMAGE)

    def chosen(self, wanted: Iterable[object]) -> PresentFiles:
        """Those whose turn in `wanted` is true."""
        marks = tuple(wanted)
        digests, keys = compress(self.digests, marks), compress(self.keys, marks)
        return PresentFiles(self.files.chosen(marks), tuple(digests), tuple(keys))

    def as_lines(self) -> list[str]:
        """`Outcome.as_line` of each."""
        # All names at once: none holds a `/`, and JSON leaves that as it is.
        folder = _quoted(display_path(self.files.prefix))[:-1]
        names = _quoted(display_path("/".join(self.files.names)))[1:-1].split("/")
        begin, after_name, after_digest, end = (_PRESENT % (*"\0\0\0", Kind.IMAGE)).split("\0")
        begin, after_name = f"{begin}{folder}", f'"{after_name}"'
        after_digest = f'"{after_digest}'
        # Put together by an f-string, which takes half the time of `%`.
        columns = zip(names, self.digests, map(_quoted, self.keys), strict=True)
        return [
            f"{begin}{name}{after_name}{digest}{after_digest}{key}{end}"
            for name, digest, key in columns
        ]


def lines_of(outcomes: Sequence[Outcome]) -> list[str]:
    """The line of each."""
    if isinstance(outcomes, PresentFiles):
        return outcomes.as_lines()
    return [outcome.as_line() for outcome in outcomes]
