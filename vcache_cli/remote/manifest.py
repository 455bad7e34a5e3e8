"""The manifest of a push: a head, a line for each entry, an end. As values and as bytes. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.digest import canonical_json
from vcache_cli.errors import FormatTooNewError, RefusedError
from vcache_cli.remote.entries import RemoteEntry
from vcache_cli.store.archive_parts import Origin
from vcache_cli.store.meta import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vcache_cli.remote.names import ManifestName

__all__ = ["MAX_MANIFEST_BYTES", "REMOTE_FORMAT", "Manifest", "manifest_of"]

REMOTE_FORMAT: Final = 1
MAX_MANIFEST_BYTES: Final = 1024**3
_MAX_LINE_BYTES: Final = 64 * 1024
_MAX_OPTIONS_BYTES: Final = 16 * 1024
_MAX_TEXT: Final = 64
_ADVICE: Final = "take it from a store that you trust, or have the manifest removed"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one push says that a store needs."""

    name: ManifestName
    origin: Origin
    entries: tuple[RemoteEntry, ...]
    """In the order of their paths, each path once."""
    warm_run: str = ""
    """The warm run whose entries were pushed; empty where it was not one run's."""

    def encoded(self) -> bytes:
        """Canonical JSON lines."""
        head = {
            "format": REMOTE_FORMAT,
            "run": self.name.run,
            "warm_run": self.warm_run,
            "target": self.origin.target,
            "target_options": dict(self.origin.target_options),
            "store_format": self.origin.store_format,
            "vcache_version": self.origin.vcache_version,
            "entries": len(self.entries),
            "bytes": sum(each.file.size_bytes for each in self.entries),
        }
        lines = [canonical_json(head), *(canonical_json(each.as_line()) for each in self.entries)]
        body = b"\n".join(lines) + b"\n"
        end = {"end": True, "sha256": hashlib.sha256(body).hexdigest()}
        return body + canonical_json(end) + b"\n"

    @property
    def contents(self) -> dict[str, str]:
        """Digest by path."""
        return {each.file.path: each.file.sha256 for each in self.entries}


def manifest_of(data: bytes, name: ManifestName) -> Manifest:
    """The manifest in `data`, which anybody may have written.

    Raises:
        FormatTooNewError: written by a newer vcache.
        RefusedError: it is none, is cut off, or names something outside of a store.
    """
    body, _, end = data[:-1].rpartition(b"\n")
    body += b"\n"
    lines = _lines(body)
    head = _parsed(next(lines, b""))
    _check_format(head)
    told = {"end": True, "sha256": hashlib.sha256(body).hexdigest()}
    if not data.endswith(b"\n") or end != canonical_json(told):
        raise _refused("it is cut off, or its bytes were changed")
    if head.get("run") != name.run:
        raise _refused("it is another push's than its name says")
    entries = tuple(_entries(lines, name.pushed_seconds))
    if head.get("entries") != len(entries):
        raise _refused("it does not have as many entries as it says")
    return Manifest(name, _origin(head), entries, _text(head, "warm_run"))


def _lines(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        end = body.index(b"\n", at)
        if end - at > _MAX_LINE_BYTES:
            raise _refused("a line is too long")
        yield body[at:end]
        at = end + 1


def _entries(lines: Iterator[bytes], pushed_seconds: float) -> Iterator[RemoteEntry]:
    last = ""
    for line in lines:
        entry = RemoteEntry.parse(_parsed(line), pushed_seconds)
        if entry.file.path <= last:
            raise _refused("an entry comes twice, or out of order")
        last = entry.file.path
        yield entry


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
        same = canonical_json(value) == line  # so no key occurs twice, and no number is odd
    except (ValueError, RecursionError):
        value, same = None, False
    if type(value) is not dict or not same:
        raise _refused(f"not as `vcache push` writes it: {line[:40]!r}")
    return value


def _check_format(head: Mapping[str, Any]) -> None:
    for field, known in (("format", REMOTE_FORMAT), ("store_format", FORMAT)):
        found = head.get(field)
        if type(found) is not int or found < 1:
            raise _refused(f"`{field}` should be a number of at least 1")
        if found > known:
            raise FormatTooNewError(
                f"a manifest of {field} {found}, this vcache knows up to {known}",
                hint="upgrade vcache-cli",
            )


def _origin(head: Mapping[str, Any]) -> Origin:
    options = head.get("target_options")
    if type(options) is not dict or len(canonical_json(options)) > _MAX_OPTIONS_BYTES:
        raise _refused("`target_options` should be a small object")
    texts = (_text(head, "target"), _text(head, "vcache_version"))
    return Origin(texts[0], options, head["store_format"], texts[1])


def _text(head: Mapping[str, Any], name: str) -> str:
    text = head.get(name)
    if type(text) is not str or len(text) > _MAX_TEXT or not text.isprintable():
        raise _refused(f"`{name}` should be a short text")
    return text


def _refused(reason: str) -> RefusedError:
    return RefusedError(f"a manifest that cannot be used: {reason}", hint=_ADVICE)
