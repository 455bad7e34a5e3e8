"""A real terminal: what is drawn is whole at every size, and only what is to stay is left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyte
import pytest

from tests.cli.terminal import LINES, Session, on_a_terminal
from vcache_cli.cli.live import LiveRegion, visible_width
from vcache_cli.cli.live_progress import LiveProgress
from vcache_cli.cli.tally import Tally
from vcache_cli.items import MediaItem
from vcache_cli.outcome import Outcome, Status

STAGES = ("read", "decode", "preprocess", "encode", "write")
LANES = {"prepare": 2, "encode": 1, "write": 4}


def drawn(picture: list[str]) -> list[str]:
    """The lines of a screen that are drawn again and again."""
    return [line for line in picture if "\u2501" in line or re.search(r"items?, ", line)]


def assert_whole(session: Session) -> None:
    """No screen ever showed a live line twice, or a part of one that was drawn before."""
    for picture in session.pictures:
        live = drawn(picture)
        assert len([line for line in live if re.search(r"items?, ", line)]) <= 1, picture
        assert len([line for line in live if re.fullmatch(r"[\u2501\u254c]+ +\d+%", line)]) <= 1
        for stage in STAGES:
            assert len([line for line in live if line.startswith(f"  {stage} ")]) <= 1


def warm_words(source: Path, model: Path, store: Path) -> list[str]:
    return ["warm", str(source), "-m", str(model), "-s", str(store), "--isolation", "thread"]


@pytest.fixture
def mixed(media: Path, tmp_path: Path) -> Path:
    """Good pictures, and one that is damaged."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name in ("hills.jpg", "press.jpg", "chart.png"):
        (folder / name).symlink_to(media / name)
    (folder / "bad.jpg").write_bytes(b"\xff\xd8\xff")
    return folder


def starts(lines: list[str], beginning: str) -> int:
    """Where the first line that begins so stands."""
    return next(row for row, line in enumerate(lines) if line.startswith(beginning))


@pytest.mark.parametrize("columns", [80, 140])
def test_a_bar_leaves_nothing_but_what_happened_what_failed_and_what_to_do(
    mixed: Path, tiny_siglip: Path, tmp_path: Path, columns: int
) -> None:
    session = on_a_terminal(warm_words(mixed, tiny_siglip, tmp_path / "store"), columns)
    assert session.code == 3
    assert "\u2501" in session.sent  # the bar
    assert "4 of 4 items" in session.sent
    assert session.sent.rfind("\x1b[?25h") > session.sent.rfind("\x1b[?25l") >= 0
    assert_whole(session)
    left = session.left
    assert drawn(left) == []
    order = ["items", "failed: 1 ", "error: 1 of 4 items failed", "hint: ", "next: vcache warm "]
    rows = [starts(left, beginning) for beginning in order]
    assert rows == sorted(rows)
    assert "--retry-errors" in "".join(left[rows[-1] :])


def test_a_terminal_resized_while_it_is_drawn_on_stays_whole(
    media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    resized: list[int] = []

    def resize(sent: str) -> int | None:
        if resized or "\x1b[?25l" not in sent:
            return None
        resized.append(80)
        return 80

    words = warm_words(media, tiny_siglip, tmp_path / "store")
    session = on_a_terminal(words, 140, resizes=resize)
    assert (session.code, resized) == (0, [80])
    assert_whole(session)
    assert drawn(session.left) == []


def test_without_colours_there_is_a_bar_all_the_same(
    mixed: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    words = warm_words(mixed, tiny_siglip, tmp_path / "store")
    session = on_a_terminal(words, 80, NO_COLOR="1")
    assert "4 of 4 items" in session.sent
    assert "\u2501" in session.sent
    assert re.search(r"\x1b\[[\d;]+m", session.sent) is None


def test_a_log_is_calm(mixed: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    words = warm_words(mixed, tiny_siglip, tmp_path / "store")
    assert "\x1b[?25l" not in on_a_terminal(words, 80, CI="true").sent


def test_a_pipe_gets_plain_lines_and_the_result_alone(
    mixed: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    words = warm_words(mixed, tiny_siglip, tmp_path / "store")
    done = subprocess.run(
        [sys.executable, "-m", "vcache_cli", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stdout.startswith("items: ")
    assert "next:" not in done.stdout
    assert done.stderr.splitlines()[-1].startswith("next: vcache report ")


def test_a_narrow_terminal_shows_whole_keys(warmed: Path) -> None:
    session = on_a_terminal(["ls", str(warmed), "--limit", "1"], 40)
    key = min(path.stem for path in warmed.glob("??/*.safetensors"))
    assert session.code == 0
    assert key[:16] in " ".join(session.left)


class Wired:
    """A stream into a session, as a terminal of some size."""

    encoding = "utf-8"

    def __init__(self, columns: int) -> None:
        self.session = Session(pyte.HistoryScreen(columns, LINES, history=1000, ratio=0.5))

    def write(self, text: str) -> None:
        self.session.feed(text.replace("\n", "\r\n").encode())

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


@pytest.fixture
def resize(monkeypatch: pytest.MonkeyPatch) -> Callable[[Wired, int], None]:
    def to(wired: Wired, columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", str(LINES))
        wired.session.screen.resize(LINES, columns)

    return to


def test_stages_are_drawn_in_place_while_lines_stay_above_and_sizes_change(
    resize: Callable[[Wired, int], None],
) -> None:
    now = [0.0]
    wired = Wired(140)
    resize(wired, 140)
    progress = LiveProgress(wired, Tally(lambda: 600, 0.0, LANES), clock=lambda: now[0])  # type: ignore[arg-type]
    sizes = iter((140, 80, 100, 80, 140, 120))
    with progress:
        for number in range(600):
            now[0] += 0.1
            seconds = {"digest": 0.01, "decode": 0.05, "preprocess": 0.02, "encode": 0.09}
            progress.add([Outcome(MediaItem("a"), Status.STORED, seconds=seconds)])
            if number % 100 == 0:
                with progress._lock:
                    resize(wired, next(sizes))
                progress.say(f"line {number}")
    session = wired.session
    assert_whole(session)
    assert [line for line in session.left if line] == [f"line {n}" for n in range(0, 600, 100)]
    last = drawn(session.pictures[-2])
    assert [line.split()[0] for line in last[2:]] == list(STAGES)
    assert [line for line in last if line.endswith("slowest")] == [
        line for line in last if line.startswith("  encode ")
    ]
    assert max(map(len, last)) < 80


def test_lines_that_a_narrower_terminal_breaks_are_all_drawn_over() -> None:
    class Narrowing(Wired):
        columns = 60

    wired = Narrowing(60)
    region = LiveRegion(wired)  # type: ignore[arg-type]
    region.size = lambda: os.terminal_size((wired.columns, LINES))  # type: ignore[method-assign]
    region.draw(["x" * 59, "y" * 30])
    wired.columns = 20  # three rows and two of them, in a terminal that breaks lines
    region.draw(["z"])
    assert wired.session.sent.endswith("\r\x1b[4A\x1b[Jz\x1b[K\x1b[J")


def test_colours_have_no_width() -> None:
    assert visible_width("\x1b[36mab\x1b[0mc") == 3
