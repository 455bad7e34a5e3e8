"""The section of the page about an earlier run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.report.markup import Cell, Column, Row, escape, item_list, source, table
from vcache_cli.report.words import changed, moment, valued
from vcache_cli.wording import count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

__all__ = ["comparison"]

_MORE_IS_BETTER: Final = frozenset({"hit rate", "coverage", "items per second"})
_LESS_IS_BETTER: Final = frozenset({"failed", "warnings", "time"})


def comparison(report: Mapping[str, Any]) -> str:
    """Numbers beside those of an earlier run, and whose fate changed."""
    found = report.get("comparison")
    if not found:
        return ""
    rows = [
        Row(
            (Cell(escape(each["name"])), _change(each), _side(each, "before"), _side(each, "after"))
        )
        for each in found["changes"]
        if each.get("before") or each.get("after")
    ]
    columns = [Column("figure"), *(Column(name, "num") for name in ("change", "before", "now"))]
    told = f"Compared with run <code>{escape(found['run'])}</code> of {moment(found['started'])}."
    if found.get("recipe_differs"):
        told += " Its recipe was another one: its entries are not those of this run."
    lists = _changed_list("Fails now, and did not then", found, "newly_failed")
    lists += _changed_list("Failed then, and does not now", found, "mended")
    return f'<p class="told">{told}</p>{table("Then and now", columns, rows)}{lists}'


def _side(each: Mapping[str, Any], side: str) -> Cell:
    return Cell(valued(each.get(side), each["unit"]), each.get(side, ""))


def _change(each: Mapping[str, Any]) -> Cell:
    shown = changed(each)
    difference = each.get("after", 0) - each.get("before", 0)
    good = difference if each["name"] in _MORE_IS_BETTER else -difference
    judged = each["name"] in _MORE_IS_BETTER | _LESS_IS_BETTER and shown
    css = ("better" if good > 0 else "worse") if judged else ""
    return Cell(f'<span class="{css}">{shown}</span>' if css else shown, difference)


def _changed_list(title: str, found: Mapping[str, Any], name: str) -> str:
    sources = found[name]
    if not sources:
        return ""
    total = len(sources) + found.get(f"{name}_omitted", 0)
    listed = item_list([source(each) for each in sources[:1000]])
    opened = " open" if len(sources) <= 10 else ""
    head = f"<h3>{title}</h3><details{opened}><summary>{count(total, 'item')}</summary>"
    return f"{head}{listed}</details>"
