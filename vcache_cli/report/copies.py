"""Sources that are the same picture: which, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.report.fold import HELD, packed
from vcache_cli.report.lines import Line

if TYPE_CHECKING:
    from typing import Final

    from vcache_cli.report.fold import RunFold
    from vcache_cli.store.run_file import Run

__all__ = ["list_copies"]

_SHOWN_SOURCES: Final = 10


def list_copies(run: Run, fold: RunFold) -> dict[str, Any]:
    """``duplicates`` of ``vcache.report/1``: the most often found first.

    The file is read again, for these keys alone: what is found once need not be kept.
    """
    found: dict[bytes | str, dict[str, Any]] = {}
    repeated = fold.repeated()
    for value in run.outcomes() if repeated else ():
        line = Line.of(value)
        if line is None or line.status not in HELD or packed(line.key) not in repeated:
            continue
        same = found.setdefault(packed(line.key), {"key": line.key, "items": 0, "sources": []})
        same["items"] += 1
        if len(same["sources"]) < _SHOWN_SOURCES:
            same["sources"].append(line.source)
    listed = sorted(found.values(), key=lambda each: (-each["items"], each["sources"]))
    fields: dict[str, Any] = {"repeats": fold.repeats, "duplicates": listed}
    told = sum(each["items"] - 1 for each in listed)
    if fold.repeats > told:
        fields["duplicates_omitted"] = fold.repeats - told
    return fields
