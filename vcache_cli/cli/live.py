"""Lines of a terminal that are drawn again in place, whatever its size becomes."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

__all__ = ["LiveRegion", "visible_width"]

_STYLE: Final = re.compile(r"\x1b\[[\d;]*m")
_HIDE, _SHOW, _ERASE_LINE, _ERASE_DOWN = "\x1b[?25l", "\x1b[?25h", "\x1b[K", "\x1b[J"


def visible_width(line: str) -> int:
    """Columns of a line whose characters are all one wide, without its colours."""
    return len(_STYLE.sub("", line))


class LiveRegion:
    """The last lines of a terminal. One thread at a time.

    Where the terminal gets narrower than what was drawn, it breaks those lines: they then take
    more rows, and all of them are drawn over. A terminal that cuts lines instead loses as many
    of the lines above.

    Args:
        stream: the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._widths: list[int] = []
        """Of the lines that are drawn now; the cursor is at the end of the last one."""
        self._columns = 0

    def size(self) -> os.terminal_size:
        """Columns and lines, as they are now."""
        try:
            found = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):  # no terminal, or a stream without a number
            return shutil.get_terminal_size()
        return found if found.columns and found.lines else shutil.get_terminal_size()

    def draw(self, lines: Sequence[str]) -> None:
        """Show `lines`, none wider than the terminal, in place of those that are shown."""
        columns = self.size().columns
        erase = _ERASE_DOWN if columns < self._columns else ""
        drawn = "\n".join(f"{line}{_ERASE_LINE}" for line in lines)
        self._write(f"{_HIDE}{self._home(columns)}{erase}{drawn}{_ERASE_DOWN}")
        self._widths, self._columns = [visible_width(line) for line in lines], columns

    def print(self, line: str) -> None:
        """Take the lines away, and leave `line` where they began; `draw` shows them below it."""
        self.clear()
        self._write(f"{line}\n")

    def clear(self) -> None:
        """Take the lines away, and show the cursor again."""
        home = self._home(self.size().columns) if self._widths else ""
        self._write(f"{home}{_ERASE_DOWN if home else ''}{_SHOW}")
        self._widths = []

    def _home(self, columns: int) -> str:
        """To the first column of the first line that is shown."""
        rows = sum(max(1, -(-width // columns)) for width in self._widths)
        return f"\r\x1b[{rows - 1}A" if rows > 1 else "\r"

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal was closed: the run goes on
            self._stream.write(text)
            self._stream.flush()
