"""What people see, as values: tables, facts and lines, and their plain text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.cli.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Block", "Facts", "Lines", "Table", "plain_lines"]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names."""

    columns: tuple[str, ...]
    """A name that starts with ``>`` has its column aligned to the right."""
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    heads: tuple[tuple[str, int], ...] = ()
    """Columns of whose cells a terminal shows the first so many characters."""
    squeezed: tuple[str, ...] = ()
    """Columns whose cells lose their middle where a terminal is too narrow."""
    spare: tuple[str, ...] = ()
    """Columns that a terminal too narrow leaves out, the first one first."""
    last_width: int = 16
    """Least width of the last column, which takes what is left and is folded."""
    last_is_path: bool = False
    """The last column is not folded: its cells lose their beginning."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names without the mark."""
        return tuple(name.removeprefix(">") for name in self.columns)

    @property
    def right(self) -> tuple[bool, ...]:
        """Which columns are aligned to the right."""
        return tuple(name.startswith(">") for name in self.columns)


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values; an empty name goes on with what the one before began."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences, one a line."""

    lines: tuple[str, ...]


Block = Table | Facts | Lines


def plain_lines(blocks: Sequence[Block]) -> Iterator[str]:
    """The text of `blocks`, aligned, safe for a terminal; an empty line between blocks."""
    shown = [lines for lines in map(_lines, blocks) if lines]
    for position, lines in enumerate(shown):
        if position:
            yield ""
        yield from lines


def _lines(block: Block) -> list[str]:
    if isinstance(block, Lines):
        return [clean(line) for line in block.lines]
    if isinstance(block, Facts):
        return _aligned([(_label(name), value) for name, value in block.pairs], (False, False))
    if not block.rows:
        return []
    table = _aligned([block.names, *block.rows], block.right)
    return [clean(block.title), *table] if block.title else table


def _label(name: str) -> str:
    return f"{name}:" if name else ""


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
