"""Draws the pictures of the README from runs of the command on the samples.

    python samples/make_pictures.py

Each command runs on a terminal of its own; what is left of it there becomes an SVG. The bar of a
run is gone when the run ends, so `warm.svg` shows one moment of it as well: the last one at which
something was left to do.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 92
HIDDEN = ("CI", "COLUMNS", "LINES", "NO_COLOR")
MOVES = re.compile(r"\x1b\[(?:\?\d+[hl]|\d*[AJK])|\r")
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fetched from the network where they are named; the reader's own one will do."""
FRAME = re.compile(r"\x1b\[\?25l")


def run(words: list[str], store: Path) -> str:
    """Everything that the command sent to its terminal."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "vcache_cli", *words],
        {**kept, "TERM": "xterm-256color", "VCACHE_STORE": str(store)},
        file_actions=[(os.POSIX_SPAWN_DUP2, other, number) for number in (0, 1, 2)],
    )
    os.close(other)
    sent = b""
    try:
        while data := os.read(main, 65536):
            sent += data
    except OSError:  # Linux: the other side is closed
        pass
    os.close(main)
    os.waitpid(child, 0)
    return sent.decode()


def moment(sent: str) -> list[str]:
    """The lines that were drawn last before all was done, coloured."""
    frames = [MOVES.sub("", each).splitlines() for each in FRAME.split(sent)[1:]]
    going = [each for each in frames if re.search(r"\b(\d+) of (?!\1 )\d+ items", " ".join(each))]
    drawn = going[-1] if going else frames[-1]
    return [line for line in drawn if "\u2501" in line or "items," in line]


def left(sent: str) -> list[str]:
    """The lines that stayed."""
    lines = [MOVES.sub("", line) for line in sent.splitlines()]
    live = [line for line in lines if "\u2501" in line or re.search(r"items?, ", line)]
    return [line for line in lines if line.strip() and line not in live]


def draw(path: Path, blocks: list[tuple[str, list[str]]]) -> None:
    """An SVG of commands with what each showed."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115  until the end
    for command, lines in blocks:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        for line in lines:
            console.print(Text.from_ansi(line))
    drawn = FONTS.sub("", console.export_svg(title="vcache", unique_id="vcache"))
    path.write_text("\n".join(map(str.rstrip, drawn.splitlines())) + "\n", encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)}")


def main() -> None:
    """Make samples/warm.svg."""
    os.chdir(ROOT)
    warm = ["warm", "samples/media", "--model", "samples/tiny-siglip"]
    check = ["check", "samples/media", "--model", "samples/tiny-siglip"]
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        first, second = run(warm, store), run(check, store)
    told = [line.replace(str(store), "~/.cache/vcache") for line in left(first)]
    checked = left(second)
    draw(
        ROOT / "samples/warm.svg",
        [
            (" ".join(["vcache", *warm]), [*moment(first), "", *told]),
            (" ".join(["vcache", *check]), checked),
        ],
    )


if __name__ == "__main__":
    main()
