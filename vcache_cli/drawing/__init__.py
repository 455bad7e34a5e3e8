"""What a model sees of a picture, as a picture: pixels turned back, features as colours."""

from __future__ import annotations

from vcache_cli.drawing.features import feature_colours, feature_grid
from vcache_cli.drawing.panels import Box, Cell, Panel
from vcache_cli.drawing.pixels import grid_times, levels_of, pictures_of
from vcache_cli.drawing.sheet import draw_sheet, is_drawing

__all__ = [
    "Box",
    "Cell",
    "Panel",
    "draw_sheet",
    "feature_colours",
    "feature_grid",
    "grid_times",
    "is_drawing",
    "levels_of",
    "pictures_of",
]
