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
    from typing import Self

    from vcache_cli.outcome import Outcome

__all__ = ["RichProgress"]


class RichProgress:
    """A bar with a line; redrawn by rich's own thread, gone when the run ends.

    Args:
        stream: the terminal.
        total: items that there are; None while that is not known.
    """

    def __init__(self, stream: TextIO, total: Callable[[], int | None]) -> None:
        self._total = total
        self._tally = Tally(total, time.monotonic())
        self._live = Live(
            console=console(stream),
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
        self._live.console.print(Text(clean(text)), soft_wrap=True)

    def _picture(self) -> Table:
        total = self._total()
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=24)
        grid.add_column(overflow="ellipsis", no_wrap=True)
        pulsing = total is None
        bar = ProgressBar(
            total=None if pulsing else max(total or 1, 1),
            completed=self._tally.done,
            pulse=pulsing,
            width=24,
        )
        grid.add_row(bar, Text(self._tally.describe(time.monotonic())))
        return grid
