"""Tables fit the terminal, whatever its width, and are whole in a pipe."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from vcache_cli.cli.blocks import Table, plain_lines
from vcache_cli.cli.narrow import fitted, stacked
from vcache_cli.cli.rich_blocks import print_blocks

KEY = "0123456789abcdef" * 4
MODEL = "mlx-community/Qwen2.5-VL-7B-Instruct-4bit"
SOURCE = "/Volumes/archive/2024/photos/a long name/picture-0001.jpg"
LISTING = Table(
    ("key", "stage", "model", ">size", "source"),
    ((KEY, "features", MODEL, "12.5 KiB", SOURCE), (KEY, "pixels", "b", "1 B", "图片/照片.jpg")),
    heads=(("key", 16),),
    squeezed=("model",),
    spare=("stage", "model"),
    last_width=24,
    last_is_path=True,
)


def shown(table: Table, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    stream = io.StringIO()
    print_blocks([table], stream)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_each_row_is_one_line_that_fits(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    header, *rows = shown(LISTING, width, monkeypatch)[:3]
    assert header.startswith("key ")
    assert all(cell_len(line) <= width for line in (header, *rows))
    for line, row in zip(rows, LISTING.rows, strict=True):
        assert line.startswith(KEY[:16])
        assert line.rstrip().endswith(row[-1][-10:])


def test_what_is_left_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, last = shown(LISTING, 60, monkeypatch)
    assert last == "no room for stage, model: widen the terminal, or pipe this"
    assert "no room" not in "\n".join(shown(LISTING, 160, monkeypatch))


def test_a_middle_is_lost_before_a_column() -> None:
    narrow = fitted(LISTING, 90)
    assert narrow is not None
    assert narrow.names == LISTING.names
    assert narrow.rows[0][2].startswith("mlx-comm")
    assert narrow.rows[0][2].endswith("-4bit")
    assert "…" in narrow.rows[0][2]


def test_a_pipe_gets_every_cell_whole() -> None:
    text = "\n".join(plain_lines([LISTING]))
    for row in LISTING.rows:
        assert all(cell in text for cell in row)


def test_a_table_that_cannot_fit_has_a_cell_a_line() -> None:
    table = Table(("kind", "path"), (("checksum", KEY), ("size\n", KEY)), title="found")
    assert fitted(table, 10) is None
    assert list(stacked(table)) == [
        "found",
        "kind  checksum",
        f"path  {KEY}",
        "",
        "kind  size\\n",
        f"path  {KEY}",
    ]


@given(
    width=st.integers(1, 200),
    cells=st.lists(st.text(max_size=60), min_size=4, max_size=4),
    last_is_path=st.booleans(),
)
def test_what_fits_fits(*, width: int, cells: list[str], last_is_path: bool) -> None:
    table = Table(
        ("a", "b", ">c", "d"),
        (tuple(cells),),
        heads=(("a", 16),),
        squeezed=("b",),
        spare=("c",),
        last_width=8,
        last_is_path=last_is_path,
    )
    narrow = fitted(table, width)
    if narrow is None:
        return
    *firsts, last = (cell_len(cell) for cell in narrow.rows[0])
    room = last if last_is_path else min(last, 8)
    assert sum(firsts) + 2 * len(firsts) + room <= width
