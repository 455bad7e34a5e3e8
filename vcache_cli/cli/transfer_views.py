"""What people see of an export, an import and a merge, and what is wrong with one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.cli.blocks import Block, Facts, Lines
from vcache_cli.cli.errors import Problem, explain, worst
from vcache_cli.cli.text import count, duration
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    from vcache_cli.store.intake import IntakeResult

__all__ = [
    "INTEGRITY_ONLY",
    "export_view",
    "import_problem",
    "import_view",
    "merge_problem",
    "merge_view",
    "told_lines",
]

INTEGRITY_ONLY: Final = (
    "what was stored is whole and lies under its key; "
    "whether it is what your model would compute was not checked"
)
_OF_THE_DISK: Final = frozenset({"io_error"})
_ENDS_IT: Final = frozenset({"store_full", "access"})
"""Kinds of failures that the error at the end tells of."""
_SHOWN: Final = 20
"""Entries that people see told of one by one."""


def export_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """An export: how much, and where it is."""
    number, size_bytes = document["entries"], document["bytes"]
    facts = [("exported", f"{count(number, 'entry', 'entries')}, {format_size(size_bytes)}")]
    if gone := document["vanished"]:
        facts.append(("vanished", f"{count(gone, 'entry', 'entries')}, removed meanwhile"))
    facts.append(("archive", f"{document['file']}, {format_size(document['archive_bytes'])}"))
    facts.append(("manifest", document["manifest_sha256"]))
    facts.append(("time", duration(document["seconds"]["total"])))
    return (Facts(tuple(facts)), told_lines(document))


def import_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """An import: what became of the entries."""
    return (Facts(tuple(_taken(document))), told_lines(document))


def merge_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A merge: what became of the entries."""
    return (Facts(tuple(_taken(document))), told_lines(document))


def import_problem(result: IntakeResult) -> Problem | None:
    """Why an import does not exit with 0: what is wrong with an entry is the archive's doing."""
    return _problem(result, "refused", 16)


def merge_problem(result: IntakeResult) -> Problem | None:
    """Why a merge does not exit with 0."""
    return _problem(result, "left out", 4)


def _problem(result: IntakeResult, verb: str, code: int) -> Problem | None:
    """The worse of what ended it, and of what is wrong with entries, of which the first is told.

    Args:
        result: of the import or merge.
        verb: what became of such entries.
        code: for an entry that is not as it should be.
    """
    ended = explain(result.error) if result.error else None
    kinds = set(result.remarks.failed)
    own = worst(3 if kind in _OF_THE_DISK else code for kind in kinds - _ENDS_IT)
    if not own or (ended and worst((own, ended.code)) == ended.code):
        return ended
    first = result.remarks.failures[0]
    total = result.remarks.failed.total()
    message = f"{count(total, 'entry was', 'entries were')} {verb}; "
    message += f"{first['key']}: {first['message']}"
    kind = {3: "failures", 4: "damage", 16: "refused"}[own]
    again = "run it again" if own == 3 else "take a whole copy"
    return Problem(own, kind, message, f"what was stored is whole; for the others, {again}")


def _taken(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    entries, moved = document["entries"], document["bytes"]
    names = ("stored", "repaired", "present", "kept", "failed")
    parts = [f"{entries[name]:,} {name}" for name in names if entries[name]]
    yield "entries", f"{entries['total']:,}" + (f" ({', '.join(parts)})" if parts else "")
    yield "bytes", f"{format_size(moved['read'])} read, {format_size(moved['written'])} written"
    yield "time", duration(document["seconds"]["total"])
    yield "store", document["store"]


def told_lines(document: Mapping[str, Any]) -> Lines:
    """What is said of single entries."""
    found = [*document["failures"], *document["warnings"]]
    lines = [f"{each['key'][:16]}: {each['kind']}: {each['message']}" for each in found[:_SHOWN]]
    omitted = (document.get(f"{name}_omitted", 0) for name in ("failures", "warnings"))
    more = len(found) - len(lines) + sum(omitted)
    return Lines((*lines, f"and {more:,} more") if more else tuple(lines))
