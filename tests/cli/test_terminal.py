"""A real terminal: the bar is gone when the run ends, and only what is to stay is left."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

import pytest

CONTROL = re.compile(r"\x1b\[([?\d;]*)([a-zA-Z])")


def on_a_terminal(words: list[str], columns: int) -> tuple[int, str]:
    """Exit code, and everything that the terminal was sent."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    hidden = ("NO_COLOR", "COLUMNS", "LINES")
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    streams = [(os.POSIX_SPAWN_DUP2, other, number) for number in (0, 1, 2)]
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "vcache_cli", *words],
        {**environ, "TERM": "xterm-256color"},
        file_actions=streams,
    )
    os.close(other)
    sent = b""
    try:
        while data := os.read(main, 65536):
            sent += data
    except OSError:  # Linux: the other side is closed
        pass
    os.close(main)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sent.decode()


def screen_of(sent: str) -> list[str]:
    """The lines that are left on the screen; no line is broken."""
    lines, row, column = [""], 0, 0
    position = 0
    while position < len(sent):
        found = CONTROL.match(sent, position)
        if found:
            position = found.end()
            if found[2] == "A":
                row -= int(found[1] or 1)
            elif found[2] == "K":
                lines[row] = ""
            continue
        char, position = sent[position], position + 1
        if char == "\r":
            column = 0
        elif char == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        else:
            lines[row] = lines[row][:column].ljust(column) + char + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_bar_is_drawn_and_leaves_nothing(
    media: Path, tiny_siglip: Path, tmp_path: Path, columns: int
) -> None:
    words = ["warm", str(media), "-m", str(tiny_siglip), "-s", str(tmp_path / "store")]
    code, sent = on_a_terminal(words, columns)
    assert code == 0
    assert "\u2501" in sent  # the bar
    assert "15 of 15 items" in sent
    assert sent.rfind("\x1b[?25h") > sent.rfind("\x1b[?25l") >= 0  # the cursor is back
    left = screen_of(sent)
    assert not [line for line in left if "\u2501" in line or "of 15 items" in line]
    assert [line for line in left if ": warning: " in line]
    assert any(line.startswith("items") and "13 stored" in line for line in left)


def test_a_narrow_terminal_shows_whole_keys(warmed: Path) -> None:
    code, sent = on_a_terminal(["ls", str(warmed), "--limit", "1"], 40)
    key = min(path.stem for path in warmed.glob("??/*.safetensors"))
    assert code == 0
    assert key[:16] in screen_of(sent)[1]
