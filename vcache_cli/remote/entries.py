"""What a manifest says of one entry. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.errors import RefusedError
from vcache_cli.quantity import format_time, parse_time
from vcache_cli.store.archive_parts import ArchivedFile, file_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.entry import Entry
    from vcache_cli.store.rows import EntryRow

__all__ = ["RemoteEntry"]

_MAX_TEXT: Final = 512
_MAX_INTEGER: Final = 2**53
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_FIELDS: Final = frozenset(
    {"path", "bytes", "sha256", "stage", "kind", "model", "tokens", "source_sha256", "created"}
)


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """One entry: its file, and what its pusher's index knew of it. The latter only chooses."""

    file: ArchivedFile
    stage: str | None = None
    kind: str | None = None
    model: str | None = None
    num_tokens: int | None = None
    source_sha256: str | None = None
    created_seconds: int | None = None
    pushed_seconds: float = 0.0
    """When the push began that has it, since 1970; not of the entry, and so not in its line."""

    @classmethod
    def of(cls, file: ArchivedFile, row: EntryRow | None) -> RemoteEntry:
        """From the row of a store's index, where there is one."""
        if row is None:
            return cls(file)
        return cls(
            file,
            stage=_short(row.stage),
            kind=_short(row.kind),
            model=_short(row.model),
            num_tokens=row.num_tokens,
            source_sha256=row.source_sha256,
            created_seconds=row.created_seconds,
        )

    @classmethod
    def made(cls, file: ArchivedFile, entry: Entry) -> RemoteEntry:
        """Of an entry that was just made, and whose file that is."""
        known = entry.provenance
        return cls(
            file,
            stage=entry.stage.value,
            kind=known.kind.value if known.kind else None,
            model=_short(known.model),
            num_tokens=known.num_tokens,
            source_sha256=known.source_sha256,
            created_seconds=None if known.created is None else int(parse_time(known.created)),
        )

    @property
    def age_from_seconds(self) -> float:
        """When it came to be; when it was pushed, where that is not known."""
        return self.pushed_seconds if self.created_seconds is None else self.created_seconds

    def as_line(self) -> dict[str, Any]:
        """The fields of its line; what is not known is left out."""
        value = {
            "path": self.file.path,
            "bytes": self.file.size_bytes,
            "sha256": self.file.sha256,
            "stage": self.stage,
            "kind": self.kind,
            "model": self.model,
            "tokens": self.num_tokens,
            "source_sha256": self.source_sha256,
            "created": self.created_seconds,
        }
        return {name: part for name, part in value.items() if part is not None}

    @classmethod
    def parse(cls, value: Mapping[str, Any], pushed_seconds: float) -> RemoteEntry:
        """From the fields of a line, which may have been made to harm.

        Raises:
            RefusedError: they are not as `as_line` makes them.
        """
        if not value.keys() <= _FIELDS:
            raise RefusedError("a manifest that cannot be used: a line has fields of its own")
        source = value.get("source_sha256")
        if source is not None and (type(source) is not str or not _DIGEST.fullmatch(source)):
            raise RefusedError("a manifest that cannot be used: `source_sha256` is no digest")
        return cls(
            file_of(dict(value)),
            stage=_text(value, "stage"),
            kind=_text(value, "kind"),
            model=_text(value, "model"),
            num_tokens=_number(value, "tokens"),
            source_sha256=source,
            created_seconds=_number(value, "created"),
            pushed_seconds=pushed_seconds,
        )

    def as_json(self, key: str) -> dict[str, Any]:
        """An entry of ``vcache.ls/1``."""
        created = self.created_seconds
        value = {
            "key": key,
            "path": self.file.path,
            "stage": self.stage,
            "kind": self.kind,
            "model": self.model,
            "bytes": self.file.size_bytes,
            "created": None if created is None else format_time(created),
            "used": format_time(self.pushed_seconds),
            "num_tokens": self.num_tokens,
            "source_sha256": self.source_sha256,
        }
        return {name: part for name, part in value.items() if part is not None}


def _short(text: str | None) -> str | None:
    return None if text is None else text[:_MAX_TEXT]


def _text(value: Mapping[str, Any], name: str) -> str | None:
    text = value.get(name)
    if text is not None and (type(text) is not str or len(text) > _MAX_TEXT):
        raise RefusedError(f"a manifest that cannot be used: `{name}` should be a short text")
    return text


def _number(value: Mapping[str, Any], name: str) -> int | None:
    number = value.get(name)
    if number is not None and (type(number) is not int or not 0 <= number <= _MAX_INTEGER):
        raise RefusedError(f"a manifest that cannot be used: `{name}` should be a number")
    return number
