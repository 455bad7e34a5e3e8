"""Pieces of HTML: every text that comes from outside is escaped here. Pure."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.printable import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Cell", "Column", "Row", "bar", "escape", "facts", "item_list", "source", "table"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    css: str = ""
    """``num`` where it is numbers, ``text`` where it is sentences, ``pic`` for pictures."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its HTML, and what it is sorted by."""

    html: str
    value: float | str | None = None
    """None: by what it shows; numbers that are not known sort last."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    cells: tuple[Cell, ...]
    css: str = ""


def escape(text: str) -> str:
    r"""`text` as HTML that shows it, whatever it holds; what would move a cursor is spelled out.

    >>> escape("<b>\x1b[2J</b>")
    '&lt;b&gt;\\x1b[2J&lt;/b&gt;'
    """
    return html.escape(clean(text))


def source(name: str) -> str:
    """The name of a source."""
    return f'<span class="source">{escape(name)}</span>'


def bar(parts: Sequence[tuple[str, float]], told: str = "") -> str:
    """Parts of a whole side by side, as shares of it with their CSS classes.

    Args:
        parts: class and share, 0..1.
        told: for who does not see it; empty: what stands beside it says the same.
    """
    rects, start = [], 0.0
    for css, share in parts:
        rects.append(
            f'<rect class="fill-{css}" x="{start * 100:.3f}%" width="{share * 100:.3f}%"'
            ' height="100%"/>'
        )
        start += share
    role = f'role="img" aria-label="{escape(told)}"' if told else 'aria-hidden="true"'
    return f'<svg class="bar" {role} focusable="false">{"".join(rects)}</svg>'


def table(
    caption: str, columns: Sequence[Column], rows: Sequence[Row], *, more: str = "", css: str = ""
) -> str:
    """A table that can be sorted; nothing where it has no row.

    Args:
        caption: what it shows.
        columns: of each row.
        rows: in the order in which they are shown first.
        more: a sentence on what is left out.
        css: classes beside ``sortable``; ``titled`` where the caption is seen as well.
    """
    if not rows:
        return ""
    heads = "".join(
        f'<th scope="col" role="columnheader"{_css(each.css)}>{escape(each.name)}</th>'
        for each in columns
    )
    body = "".join(_row(row, columns) for row in rows)
    told = f'<p class="more">{escape(more)}</p>' if more else ""
    label = escape(caption)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0">'
        f'<table role="table" class="{f"sortable {css}".strip()}"><caption>{label}</caption>'
        f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table>{told}</div>'
    )


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names with their values, which are HTML."""
    inner = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in pairs)
    return f'<dl class="facts">{inner}</dl>'


def item_list(items: Sequence[str], css: str = "plain") -> str:
    """A list of pieces of HTML."""
    return f'<ul class="{css}">{"".join(f"<li>{each}</li>" for each in items)}</ul>'


def _row(row: Row, columns: Sequence[Column]) -> str:
    cells = "".join(
        f'<td role="cell"{_css(column.css)}{_name(column)}{_value(cell)}>{cell.html}</td>'
        for cell, column in zip(row.cells, columns, strict=True)
    )
    return f'<tr role="row"{_css(row.css)}>{cells}</tr>\n'


def _css(names: str) -> str:
    return f' class="{names}"' if names else ""


def _name(column: Column) -> str:
    """Told beside a number where the heading is far away."""
    return f' data-name="{escape(column.name)}"' if "num" in column.css else ""


def _value(cell: Cell) -> str:
    if cell.value is None:
        return ""
    shown = cell.value if isinstance(cell.value, str) else f"{cell.value:.9g}"
    return f' data-v="{escape(shown)}"'
