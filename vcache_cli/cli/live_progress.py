"""Progress as lines of a terminal that are drawn again several times a second."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, TextIO

from vcache_cli.cli.live import LiveRegion
from vcache_cli.cli.tally import Tally
from vcache_cli.cli.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Final, Self

    from vcache_cli.cli.tally import Share
    from vcache_cli.outcome import Outcome

__all__ = ["LiveProgress", "Pen", "picture"]

_EVERY_SECONDS: Final = 0.125
_MAX_COLUMNS: Final = 79
"""Lines stay narrower than almost any terminal: making one narrower then breaks none of them."""
_MIN_COLUMNS: Final = 12
"""Of a terminal that has room for a bar."""
_MIN_LINES: Final = 12
"""Of a terminal that has room for the stages."""
_LABEL: Final = len("preprocess")
_SLOWEST: Final = ", slowest"
_CYAN, _YELLOW, _GREY, _RED, _PLAIN = "36", "33", "90", "31", "0"


class Pen:
    """Draws bars and colours as the terminal can show them.

    Args:
        stream: the terminal.
        colour: False where its user wants none.
    """

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        self._colour = colour
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
        unicode = encoding.startswith("utf")
        self._full = "\u2501" if unicode else "#"
        self._rest = self._full if colour else ("\u254c" if unicode else "-")

    def bar(self, width: int, share: float, style: str = _CYAN) -> str:
        """A bar of `width` columns, filled to a share of 0..1."""
        filled = min(width, int(width * share + 0.5))
        rest = self._rest * (width - filled)
        return self.colour(self._full * filled, style) + self.colour(rest, _GREY)

    def colour(self, text: str, style: str) -> str:
        """The text in a colour, where there are colours."""
        return f"\x1b[{style}m{text}\x1b[{_PLAIN}m" if self._colour and text else text


def picture(tally: Tally, now: float, pen: Pen, size: os.terminal_size) -> list[str]:
    """What a terminal of that size shows; no line is wider, nor are there more of them. Pure."""
    columns = max(1, min(size.columns - 1, _MAX_COLUMNS))
    total, lines = tally.total(), []
    if total and columns >= _MIN_COLUMNS:
        told = f" {tally.done / total:4.0%}"
        lines.append(pen.bar(max(1, columns - len(told)), tally.done / total) + told)
    lines += _wrapped(tally.parts(now), columns)
    if size.lines >= _MIN_LINES:
        lines += [_stage_line(each, pen, columns) for each in tally.shares(now)]
    return [line for line in lines if line][: max(1, size.lines - 1)]


def _wrapped(parts: Sequence[str], columns: int) -> list[str]:
    """The parts with commas between, broken at these."""
    lines = [""]
    for number, part in enumerate(parts):
        text = part if number == len(parts) - 1 else f"{part},"
        longer = f"{lines[-1]} {text}".lstrip()
        if len(longer) <= columns or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(text)
    return [line[:columns] for line in lines]


def _stage_line(share: Share, pen: Pen, columns: int) -> str:
    """``decode      ━━━━━━╌╌╌╌  61% busy``, and which is the slowest one."""
    head, tail = f"  {share.stage:<{_LABEL}}  ", f" {share.share:4.0%} busy"
    mark = _SLOWEST if share.slowest else ""
    width = columns - len(head) - len(tail) - len(_SLOWEST)
    if width < 1:
        return f"{head.strip()}{tail}"[:columns]
    style = _YELLOW if share.slowest else _CYAN
    return f"{head}{pen.bar(width, share.share, style)}{tail}{pen.colour(mark, _YELLOW)}"


class LiveProgress:
    """A bar, what has happened, and how busy each stage is; gone when the run ends.

    Args:
        stream: the terminal.
        tally: counts nothing yet; its clock is `clock`.
        clock: seconds that only grow.
    """

    def __init__(
        self, stream: TextIO, tally: Tally, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tally = tally
        self._clock = clock
        self._region = LiveRegion(stream)
        self._pen = Pen(stream, colour=not os.environ.get("NO_COLOR"))
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._notes: deque[str] = deque()
        self._thread = threading.Thread(target=self._repeat, name="progress", daemon=True)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wipe it away, and show the cursor again."""
        self._ended.set()
        self._thread.join()
        with self._lock:
            self._draw()
            self._region.clear()

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Take Outcomes into account."""
        self._tally.add(outcomes)

    def say(self, text: str) -> None:
        """One line above that stays."""
        with self._lock:
            self._region.print(clean(text))
            self._draw()

    def note(self, text: str) -> None:
        """As `say`, a moment later: also from within a signal handler."""
        self._notes.append(text)

    def _repeat(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        while self._notes:
            self._region.print(clean(self._notes.popleft()))
        now = self._clock()
        self._region.draw(picture(self._tally, now, self._pen, self._region.size()))
