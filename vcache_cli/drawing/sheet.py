"""Panels drawn beside one another, as the bytes of a PNG file. Bounded in size."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from vcache_cli.drawing.panels import Box, Cell, Panel

    Size = tuple[int, int]
    """Width and height, pixels."""

__all__ = ["draw_sheet", "is_drawing"]

_PANEL: Final = 640
"""Longest side of what a panel shows, pixels."""
_LEAST_CELL: Final = 64
_GAP: Final = 12
_LINE: Final = 20
_MAX_CELLS: Final = 64
_MAX_TEXT: Final = 90
_PAPER: Final = (250, 250, 248)
_INK: Final = (24, 24, 24)
_OUTLINE: Final = (255, 64, 32)
_SOFTWARE: Final = "vcache"
_MARK: Final = b"tEXtSoftware\0" + _SOFTWARE.encode()
_MAGIC: Final = b"\x89PNG\r\n\x1a\n"
_HEAD_BYTES: Final = 256
_SHARP: Final = 4
"""Pictures so many times smaller than their room are enlarged by whole steps: pixels stay sharp."""


def is_drawing(head: bytes) -> bool:
    """True for the beginning of a PNG file that `draw_sheet` made."""
    return head.startswith(_MAGIC) and _MARK in head[:_HEAD_BYTES]


def draw_sheet(panels: Sequence[Panel], *, caption: str = "") -> tuple[bytes, Size]:
    """A PNG of `panels` from left to right, and its size; `caption` stands below."""
    drawn = [_panel(panel) for panel in panels]
    width = sum(image.width for image in drawn) + _GAP * (len(drawn) + 1)
    height = max(image.height for image in drawn) + 2 * _GAP
    sheet = Image.new("RGB", (width, height + (_LINE if caption else 0)), _PAPER)
    left = _GAP
    for image in drawn:
        sheet.paste(image, (left, _GAP))
        left += image.width + _GAP
    if caption:
        _write(ImageDraw.Draw(sheet), (_GAP, height - _GAP // 2), caption)
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", _SOFTWARE)
    out = BytesIO()
    sheet.save(out, "PNG", pnginfo=info)
    return out.getvalue(), sheet.size


def _panel(panel: Panel) -> Image.Image:
    cells = panel.cells[:_MAX_CELLS]
    columns = max(1, min(panel.columns, len(cells)))
    rows = -(-len(cells) // columns)
    most = max(columns, rows)
    room = max(_LEAST_CELL, (_PANEL - _GAP // 2 * (most - 1)) // most)
    drawn = [_cell(cell, room) for cell in cells]
    wide = max(image.width for image in drawn)
    high = max(image.height for image in drawn)
    label = _LINE if any(cell.label for cell in cells) else 0
    width = columns * wide + (columns - 1) * _GAP // 2
    height = _LINE + rows * (high + label + _GAP // 2)
    image = Image.new("RGB", (max(width, _text_width(panel.title)), height), _PAPER)
    pen = ImageDraw.Draw(image)
    _write(pen, (0, 0), panel.title)
    for number, (cell, shown) in enumerate(zip(cells, drawn, strict=True)):
        left = number % columns * (wide + _GAP // 2)
        top = _LINE + number // columns * (high + label + _GAP // 2)
        image.paste(shown, (left, top))
        if cell.label:
            _write(pen, (left, top + shown.height), cell.label)
    return image


def _cell(cell: Cell, room: int) -> Image.Image:
    """The picture within `room` x `room` pixels, its outlines drawn."""
    image = Image.fromarray(cell.rgb)
    longest = max(image.size)
    if room >= _SHARP * longest:
        step = room // longest
        image = image.resize((image.width * step, image.height * step), Image.Resampling.NEAREST)
    else:
        scale = room / longest
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    pen = ImageDraw.Draw(image)
    for box in cell.boxes[:_MAX_CELLS]:
        _outline(pen, box, image.size)
    return image


def _outline(pen: ImageDraw.ImageDraw, box: Box, size: Size) -> None:
    width, height = size
    left, right = (round(side * (width - 1)) for side in (box.left, box.right))
    top, bottom = (round(side * (height - 1)) for side in (box.top, box.bottom))
    if left <= right and top <= bottom:
        pen.rectangle((left, top, right, bottom), outline=_OUTLINE, width=2)
    if box.label:
        pen.rectangle((left, top, left + _text_width(box.label) + 7, top + 17), fill=_OUTLINE)
        _write(pen, (left + 4, top + 1), box.label, _PAPER)


def _write(pen: ImageDraw.ImageDraw, at: Size, text: str, ink: tuple[int, int, int] = _INK) -> None:
    """One line; the font knows no more than ASCII."""
    pen.text(at, _plain(text), fill=ink, font=_font())


def _plain(text: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown.encode("ascii", "replace").decode("ascii")[:_MAX_TEXT]


def _text_width(text: str) -> int:
    return int(_font().getlength(_plain(text))) + 1


def _font() -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(13)
