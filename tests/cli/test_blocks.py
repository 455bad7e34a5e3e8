"""Text for people: aligned, on one line each, and the same on a terminal."""

from __future__ import annotations

import io

import pytest

from vcache_cli.cli.blocks import Facts, Lines, Table, plain_lines
from vcache_cli.cli.output import is_rich
from vcache_cli.cli.rich_blocks import print_blocks

BLOCKS = (
    Table(("name", ">bytes"), (("a\nb", "1"), ("[red]c[/red]", "1000"))),
    Lines(()),
    Facts((("long name", "x"), ("b", "y:smile:"))),
    Lines(("end\x1b[2J",)),
)


def test_columns_are_aligned_and_names_are_safe() -> None:
    assert list(plain_lines(BLOCKS)) == [
        "name          bytes",
        "a\\nb              1",
        "[red]c[/red]   1000",
        "",
        "long name:  x",
        "b:          y:smile:",
        "",
        "end\\x1b[2J",
    ]


def test_a_table_without_rows_is_left_out() -> None:
    assert list(plain_lines([Table(("a",), ()), Lines(("b",))])) == ["b"]


@pytest.mark.parametrize(
    ("variable", "value", "rich"),
    [("NO_COLOR", "1", False), ("TERM", "dumb", False), ("A", "b", True)],
)
def test_who_wants_no_colour_gets_plain_text(
    monkeypatch: pytest.MonkeyPatch, *, variable: str, value: str, rich: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(variable, value)
    assert is_rich(Screen()) is rich
    assert not is_rich(io.StringIO())


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [12, 20, 40, 100])
def test_a_narrow_terminal_cuts_no_cell(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    stream = io.StringIO()
    rows = (("0123456789abcdef", "12.5 KiB", "/a/long/path/" + "x" * 30),)
    print_blocks([Table(("key", ">size", "source"), rows)], stream)
    shown = "".join(stream.getvalue().split())
    for cell in rows[0]:
        assert cell.replace(" ", "") in shown


def test_a_terminal_shows_names_without_obeying_them() -> None:
    stream = io.StringIO()
    print_blocks(BLOCKS, stream)
    shown = stream.getvalue()
    assert "\x1b" not in shown
    for text in ("a\\nb", "[red]c[/red]", "y:smile:", "end\\x1b[2J"):
        assert text in shown
