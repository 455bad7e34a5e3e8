"""A sheet is a PNG of a bounded size, and known as ours."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.examples import ON_DISK
from vcache_cli.drawing import Box, Cell, Panel, draw_sheet, is_drawing


def cell(height: int, width: int, label: str = "", *boxes: Box) -> Cell:
    return Cell(np.full((height, width, 3), 90, np.uint8), label, boxes)


def test_a_sheet_is_a_png_that_is_known_again() -> None:
    box = Box(0.1, 0.2, 0.9, 0.8, "seen")
    png, size = draw_sheet([Panel("a", (cell(40, 30, "x", box),))], caption="b\x1b[2J")
    assert is_drawing(png[:256])
    with Image.open(BytesIO(png)) as image:
        assert (image.format, image.size) == ("PNG", size)
        assert (255, 64, 32) in {colour for _, colour in image.getcolors(2**24) or ()}


def test_another_png_is_not_ours() -> None:
    out = BytesIO()
    Image.new("RGB", (4, 4)).save(out, "PNG")
    assert not is_drawing(out.getvalue()[:256])
    assert not is_drawing(b"")


@ON_DISK
@given(
    sides=st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 3000)), min_size=1, max_size=3),
    columns=st.integers(-1, 100),
    label=st.text(max_size=200),
)
def test_any_panel_has_a_bounded_size(
    *, sides: list[tuple[int, int]], columns: int, label: str
) -> None:
    panel = Panel(label, tuple(cell(*side, label) for side in sides), columns)
    _, (width, height) = draw_sheet([panel, panel], caption=label)
    assert 0 < width < 3000
    assert 0 < height < 1500


def test_of_very_many_cells_some_are_drawn() -> None:
    _, (width, height) = draw_sheet([Panel("a", (cell(8, 8),) * 500, 25)])
    assert max(width, height) < 5000
