"""The manifest of an export, as values and as JSON. Pure.

It comes in parts, each before the files that it names, so that neither side ever holds a whole
archive, and an importer knows what has to come before a byte of it is there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcache_cli.digest import DIGEST_LENGTH, canonical_json
from vcache_cli.errors import FormatTooNewError, RefusedError
from vcache_cli.store.meta import FORMAT
from vcache_cli.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

__all__ = [
    "END_NAME",
    "EXPORT_FORMAT",
    "MAX_PART_BYTES",
    "MAX_PART_FILES",
    "ArchivedFile",
    "End",
    "Origin",
    "Part",
    "end_of",
    "file_of",
    "part_name",
    "part_of",
]

EXPORT_FORMAT: Final = 1
END_NAME: Final = ".vcache-export/end.json"
MAX_PART_BYTES: Final = 1024 * 1024
"""Of one part of the manifest."""
MAX_PART_FILES: Final = 512
_MAX_OPTIONS_BYTES: Final = 16 * 1024
"""Of a target's options: `store.json` has to stay small enough to be read."""
_NOT_NAMES: Final = frozenset({"", ".", ".."})
_OWN: Final = frozenset({".vcache", ".vcache-export"})
_MAX_SIZE: Final = 2**63 - 1
_TARGET: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_DIGEST: Final = re.compile(rf"[0-9a-f]{{{DIGEST_LENGTH}}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """What the manifest says of one file."""

    path: str
    """Below a store's root, ``/`` between parts; the member's name."""
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Origin:
    """What kind of store the files are of; the same in all parts."""

    target: str
    target_options: Mapping[str, Any] = field(default_factory=dict)
    store_format: int = FORMAT
    vcache_version: str = __version__


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the manifest."""

    number: int
    """Counted from 0."""
    origin: Origin
    files: tuple[ArchivedFile, ...]
    """In the order in which they follow."""

    def encoded(self) -> bytes:
        """Canonical JSON and a newline."""
        return _encoded(
            {
                "format": EXPORT_FORMAT,
                "part": self.number,
                "target": self.origin.target,
                "target_options": dict(self.origin.target_options),
                "store_format": self.origin.store_format,
                "vcache_version": self.origin.vcache_version,
                "files": [
                    {"path": each.path, "bytes": each.size_bytes, "sha256": each.sha256}
                    for each in self.files
                ],
            }
        )


@dataclass(frozen=True, slots=True)
class End:
    """What the last member says: nothing is missing."""

    parts: int
    entries: int
    size_bytes: int
    """Of all entries."""
    sha256: str
    """Of the bytes of all parts, one after another: it stands for every byte of every entry."""

    def encoded(self) -> bytes:
        """Canonical JSON and a newline."""
        return _encoded(
            {
                "format": EXPORT_FORMAT,
                "parts": self.parts,
                "entries": self.entries,
                "bytes": self.size_bytes,
                "sha256": self.sha256,
            }
        )


def part_name(number: int) -> str:
    """Name of the member that is the part of that number.

    >>> part_name(0)
    '.vcache-export/000000.json'
    """
    return f".vcache-export/{number:06d}.json"


def part_of(data: bytes) -> Part:
    """The part in `data`.

    Raises:
        FormatTooNewError: written by a newer vcache, or of a store of one.
        RefusedError: it is none.
    """
    value = _decoded(data)
    origin = Origin(
        target=_text(value, "target", _TARGET),
        target_options=_options(value),
        store_format=_number(value, "store_format"),
        vcache_version=_text(value, "vcache_version", None),
    )
    if origin.store_format > FORMAT:
        raise _too_new("store format", origin.store_format, FORMAT)
    files = value.get("files")
    if type(files) is not list or not len(files) <= MAX_PART_FILES:
        raise _refused(f"`files` should be a list of at most {MAX_PART_FILES}")
    return Part(_number(value, "part"), origin, tuple(file_of(each) for each in files))


def end_of(data: bytes) -> End:
    """The end in `data`.

    Raises:
        FormatTooNewError, RefusedError: as `part_of`.
    """
    value = _decoded(data)
    parts, entries, size_bytes = (_number(value, name) for name in ("parts", "entries", "bytes"))
    return End(parts, entries, size_bytes, _text(value, "sha256", _DIGEST))


def _encoded(value: Mapping[str, Any]) -> bytes:
    return canonical_json(value) + b"\n"


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
        same = _encoded(value) == data  # so no key occurs twice, and no number is odd
    except (ValueError, RecursionError):
        value, same = None, False
    if type(value) is not dict:
        raise _refused(f"expected a JSON object, found {data[:40]!r}")
    version = _number(value, "format")
    if version > EXPORT_FORMAT:
        raise _too_new("export format", version, EXPORT_FORMAT)
    if not same or version != EXPORT_FORMAT:
        raise _refused("it is not as `vcache export` writes it")
    return value


def file_of(value: object) -> ArchivedFile:
    """What a manifest says of one file, where it lies below a store.

    Raises:
        RefusedError: it is no description of one, or of one that lies elsewhere.
    """
    if type(value) is not dict:
        raise _refused(f"a file should be an object, found {value!r:.40}")
    path = _text(value, "path", None)
    parts = path.split("/")
    if "\0" in path or not _NOT_NAMES.isdisjoint(parts) or not _is_unicode(path):
        raise _refused(f"{path!r:.80} is no path below a store")
    if parts[0].casefold() in _OWN:  # some filesystems know no case
        raise _refused(f"{path!r:.80} is vcache's own, and no entry")
    return ArchivedFile(path, _number(value, "bytes"), _text(value, "sha256", _DIGEST))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate, which JSON can spell
        return False
    return True


def _options(value: Mapping[str, Any]) -> dict[str, Any]:
    options = value.get("target_options")
    if type(options) is not dict or len(canonical_json(options)) > _MAX_OPTIONS_BYTES:
        raise _refused("`target_options` should be a small object")
    return options


def _number(value: Mapping[str, Any], name: str) -> int:
    number = value.get(name)
    if type(number) is not int or not 0 <= number <= _MAX_SIZE:
        raise _refused(f"`{name}` should be a number of at least 0, found {number!r:.40}")
    return number


def _text(value: Mapping[str, Any], name: str, pattern: re.Pattern[str] | None) -> str:
    text = value.get(name)
    if type(text) is not str or (pattern is not None and pattern.fullmatch(text) is None):
        raise _refused(f"`{name}` is not what it should be: {text!r:.80}")
    return text


def _refused(reason: str) -> RefusedError:
    return RefusedError(f"a manifest that cannot be used: {reason}")


def _too_new(what: str, found: int, known: int) -> FormatTooNewError:
    return FormatTooNewError(
        f"{what} {found}, this vcache knows up to {known}", hint="upgrade vcache-cli"
    )
