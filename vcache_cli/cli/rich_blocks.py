"""The same blocks on a terminal, with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from vcache_cli.cli.blocks import Block, Facts, Lines, Table, plain_lines
from vcache_cli.cli.narrow import fitted, stacked
from vcache_cli.cli.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["console", "print_blocks"]


def console(stream: TextIO) -> Console:
    """A console that prints names as they are: no markup, no emoji, no guessing."""
    return Console(file=stream, markup=False, emoji=False, highlight=False)


def print_blocks(blocks: Sequence[Block], stream: TextIO) -> None:
    """Print `blocks`, an empty line between them."""
    screen = console(stream)
    shown = [block for block in blocks if any(plain_lines([block]))]
    for position, block in enumerate(shown):
        if position:
            screen.print()
        if isinstance(block, Lines):
            _print_lines(screen, map(clean, block.lines))
        elif isinstance(block, Facts):
            screen.print(_facts(block))
        else:
            _print_table(screen, block)


def _print_lines(screen: Console, lines: Iterable[str]) -> None:
    """The terminal breaks lines that are too long: nothing is cut, and they can be copied."""
    for line in lines:
        screen.print(Text(line), soft_wrap=True)


def _print_table(screen: Console, block: Table) -> None:
    narrow = fitted(block, screen.width)
    if narrow is None:
        _print_lines(screen, stacked(block))
        return
    screen.print(_table(narrow))
    if missing := [name for name in block.names if name not in narrow.names]:
        told = f"no room for {', '.join(missing)}: widen the terminal, or pipe this"
        screen.print(Text(told, style="dim"), soft_wrap=True)


def _facts(block: Facts) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in block.pairs:
        grid.add_row(Text(clean(name)), Text(clean(value)))
    return grid


def _table(block: Table) -> RichTable:
    table = RichTable(
        title=Text(clean(block.title)) if block.title else None,
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    last = len(block.names) - 1
    keeps_lines = block.last_is_path
    for number, (name, right) in enumerate(zip(block.names, block.right, strict=True)):
        table.add_column(
            Text(name),
            justify="right" if right else "left",
            # The last one is a name or a sentence, and takes what is left.
            no_wrap=number < last or keeps_lines,
            overflow="fold",
        )
    for row in block.rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    return table
