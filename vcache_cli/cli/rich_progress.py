"""Progress as a live bar on a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vcache_cli.cli.progress import Tally
from vcache_cli.cli.rich_blocks import console
from vcache_cli.cli.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Final, Self

    from vcache_cli.outcome import Outcome

__all__ = ["RichProgress"]

_BAR_WIDTH: Final = 24
_WIDE_BAR_WIDTH: Final = 60
"""Above the line."""


class RichProgress:
    """A bar with a line; redrawn by rich's own thread, gone when the run ends.

    Args:
        stream: the terminal.
        total: items that there are; None while that is not known.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        stream: TextIO,
        total: Callable[[], int | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._clock = clock
        self._console = console(stream)
        self._tally = Tally(total, clock())
        self._live = Live(
            console=self._console,
            get_renderable=self._picture,
            refresh_per_second=8,
            transient=True,
        )

    def __enter__(self) -> Self:
        """Draw it."""
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wipe it away, and show the cursor again."""
        self._live.stop()

    def add(self, outcome: Outcome) -> None:
        """Take one Outcome into account; drawing is the thread's."""
        self._tally.add(outcome)

    def say(self, text: str) -> None:
        """One line above the bar."""
        self._console.print(Text(clean(text)), soft_wrap=True)

    def _picture(self) -> Table:
        """The bar beside the line, or above it where the terminal is too narrow for both."""
        told = self._tally.describe(self._clock())
        width = self._console.width
        grid = Table.grid(padding=(0, 1))
        if _BAR_WIDTH + 1 + len(told) <= width:
            grid.add_row(self._bar(_BAR_WIDTH), Text(told))
        else:
            grid.add_row(self._bar(min(width, _WIDE_BAR_WIDTH)))
            grid.add_row(Text(told))
        return grid

    def _bar(self, width: int) -> ProgressBar:
        total = self._total()
        return ProgressBar(
            total=None if total is None else max(total, 1),
            completed=self._tally.done,
            pulse=total is None,
            width=width,
        )
