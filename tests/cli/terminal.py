"""A terminal that runs the command, can be resized meanwhile, and shows what is left of it."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyte

__all__ = ["Session", "on_a_terminal"]

LINES = 40
HIDDEN = ("CI", "COLUMNS", "LINES", "NO_COLOR")


@dataclass
class Session:
    """What a terminal was sent, and what it showed."""

    screen: pyte.HistoryScreen
    stream: pyte.Stream = field(init=False)
    sent: str = ""
    code: int = -1
    pictures: list[list[str]] = field(default_factory=list)
    """The screen after each part that was sent, without the lines that had left it."""

    def __post_init__(self) -> None:
        self.stream = pyte.Stream(self.screen)
        self._text = codecs.getincrementaldecoder("utf-8")()

    def feed(self, data: bytes) -> None:
        """Take what the command wrote."""
        text = self._text.decode(data)
        self.sent += text
        self.stream.feed(text)
        self.pictures.append([line.rstrip() for line in self.screen.display])

    @property
    def left(self) -> list[str]:
        """Every line of the terminal at the end, those above the screen too."""
        above = [
            "".join(row[column].data for column in range(self.screen.columns)).rstrip()
            for row in self.screen.history.top
        ]
        shown = [line.rstrip() for line in self.screen.display]
        while shown and not shown[-1]:
            shown.pop()
        return above + shown


def on_a_terminal(
    words: Sequence[str],
    columns: int,
    *,
    resizes: Callable[[str], int | None] = lambda _: None,
    **environ: str,
) -> Session:
    """Run the command there, to its end.

    Args:
        words: its arguments.
        columns: at the beginning.
        resizes: asked after each part with all that was sent; the columns from then on, if any.
        environ: variables besides those of this process.
    """
    main, other = pty.openpty()
    _resize(other, columns)
    kept = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "vcache_cli", *words],
        {**kept, "TERM": "xterm-256color", **environ},
        file_actions=[(os.POSIX_SPAWN_DUP2, other, number) for number in (0, 1, 2)],
    )
    os.close(other)
    session = Session(pyte.HistoryScreen(columns, LINES, history=10_000, ratio=0.5))
    while data := _read(main):
        session.feed(data)
        if wider := resizes(session.sent):
            session.screen.resize(LINES, wider)
            _resize(main, wider)
    os.close(main)
    session.code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return session


def _read(main: int) -> bytes:
    """The next part; none once the command has ended."""
    try:
        return os.read(main, 65536)
    except OSError:  # Linux: the other side is closed
        return b""


def _resize(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
