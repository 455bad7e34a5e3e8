"""Tables on a terminal that is too narrow for them. Pure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from vcache_cli.cli.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Final

    from vcache_cli.cli.blocks import Table

__all__ = ["fitted", "stacked"]

_PADDING: Final = 2
"""Cells between two columns."""
_LEAST: Final = 16
"""Least width of a column whose cells lose their middle, cells."""


def fitted(table: Table, width: int) -> Table | None:
    """`table` within `width` cells, by the means that it allows; None where they do not do.

    Cells are clean then.
    """
    whole = replace(table, rows=tuple(tuple(map(clean, row)) for row in table.rows))
    for name, length in table.heads:
        whole = _changed(whole, name, partial(_head, length=length))
    for left_out in range(len(table.spare) + 1):
        fewer = _without(whole, table.spare[:left_out])
        squeezed = _squeezed(fewer, width)
        if _excess(squeezed, width) <= 0:
            return _with_short_paths(squeezed, width) if table.last_is_path else squeezed
    return None


def stacked(table: Table) -> Iterator[str]:
    """Each row as lines of their own, a cell a line, an empty line between rows."""
    longest = max(map(len, table.names))
    if table.title:
        yield clean(table.title)
    for number, row in enumerate(table.rows):
        if number:
            yield ""
        for name, cell in zip(table.names, row, strict=True):
            yield f"{name.ljust(longest)}  {clean(cell)}".rstrip()


def _head(cell: str, length: int) -> str:
    return cell[:length]


def _widths(table: Table) -> list[int]:
    columns = zip(table.names, *table.rows, strict=True)
    return [max(map(cell_len, column)) for column in columns]


def _excess(table: Table, width: int) -> int:
    """Cells that are missing for all columns but the last, and the last one's least."""
    *firsts, last = _widths(table)
    return sum(firsts) + _PADDING * len(firsts) + min(last, table.last_width) - width


def _squeezed(table: Table, width: int) -> Table:
    for name in table.squeezed:
        excess = _excess(table, width)
        if name in table.names and excess > 0:
            room = max(_LEAST, _widths(table)[table.names.index(name)] - excess)
            table = _changed(table, name, partial(_without_middle, room=room))
    return table


def _with_short_paths(table: Table, width: int) -> Table:
    *firsts, _ = _widths(table)
    room = width - sum(firsts) - _PADDING * len(firsts)
    return _changed(table, table.names[-1], lambda cell: _without_beginning(cell, room))


def _changed(table: Table, name: str, change: Callable[[str], str]) -> Table:
    place = table.names.index(name)
    rows = tuple((*row[:place], change(row[place]), *row[place + 1 :]) for row in table.rows)
    return replace(table, rows=rows)


def _without(table: Table, names: Sequence[str]) -> Table:
    kept = [place for place, name in enumerate(table.names) if name not in names]
    columns = tuple(table.columns[place] for place in kept)
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return replace(table, columns=columns, rows=rows)


def _without_middle(cell: str, room: int) -> str:
    if cell_len(cell) <= room:
        return cell
    head = (room - 1) // 2
    return f"{set_cell_size(cell, head)}…{_ending(cell, room - 1 - head)}"


def _without_beginning(cell: str, room: int) -> str:
    return cell if cell_len(cell) <= room else f"…{_ending(cell, room - 1)}"


def _ending(cell: str, room: int) -> str:
    """The last characters of `cell` that `room` cells can show."""
    while cell and cell_len(cell) > room:
        cell = cell[1:]
    return cell
