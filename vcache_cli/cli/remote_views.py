"""What people see of a push and a pull, and what is wrong with one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.cli.blocks import Block, Facts
from vcache_cli.cli.errors import Problem, explain, worst
from vcache_cli.cli.text import count, duration
from vcache_cli.cli.transfer_views import told_lines
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    from vcache_cli.errors import VcacheError
    from vcache_cli.store.remarks import Remarks

__all__ = ["pull_problem", "pull_view", "push_problem", "push_view"]

_CODES: Final = {"io_error": 3, "digest": 4, "missing": 4, "size": 4}
"""Any other kind is of bytes that are the manifest's, and no entry: such were made to harm."""
_ENDS_IT: Final = frozenset({"store_full", "access"})
_NAMES: Final = ("pushed", "stored", "repaired", "present", "kept", "failed")


def push_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A push: how much, and under which name."""
    return (Facts(tuple(_facts(document, "written"))), told_lines(document))


def pull_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A pull: what became of the entries."""
    return (Facts(tuple(_facts(document, "read"))), told_lines(document))


def push_problem(remarks: Remarks, error: VcacheError | None) -> Problem | None:
    """Why a push does not exit with 0."""
    codes = {kind: 3 if kind == "io_error" else 4 for kind in remarks.failed}
    hint = "run it again: what was written is not written twice; `vcache verify` finds damage"
    return _problem(remarks, error, codes, ("left out", hint))


def pull_problem(remarks: Remarks, error: Exception | None) -> Problem | None:
    """Why a pull does not exit with 0."""
    kinds = set(remarks.failed) - _ENDS_IT
    codes = {kind: _CODES.get(kind, 16) for kind in kinds}
    hint = "what was stored is whole; `vcache prune URL --key KEY --yes` removes a damaged one,"
    hint += " and who has the entry can push it again"
    return _problem(remarks, error, codes, ("not stored", hint))


def _problem(
    remarks: Remarks,
    error: Exception | None,
    codes: Mapping[str, int],
    words: tuple[str, str],
) -> Problem | None:
    ended, own = explain(error) if error else None, worst(codes.values())
    if not own or (ended and worst((own, ended.code)) == ended.code):
        return ended
    first = next(each for each in remarks.failures if codes.get(each["kind"]) == own)
    message = f"{count(remarks.failed.total(), 'entry was', 'entries were')} {words[0]}; "
    message += f"{first['key']}: {first['message']}"
    kind = {3: "failures", 4: "damage", 16: "refused"}[own]
    return Problem(own, kind, message, words[1])


def _facts(document: Mapping[str, Any], moved: str) -> Iterator[tuple[str, str]]:
    entries, seconds = document["entries"], document["seconds"]["total"]
    parts = [f"{entries[name]:,} {name}" for name in _NAMES if entries.get(name)]
    yield "entries", f"{entries['total']:,}" + (f" ({', '.join(parts)})" if parts else "")
    yield "moved", format_size(document["bytes"][moved])
    yield "time", duration(seconds)
    if run := document.get("run"):
        yield "run", run
    yield "bucket", document["url"]
    yield "store", document["store"]
