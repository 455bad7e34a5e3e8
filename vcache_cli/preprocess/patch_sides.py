"""What pictures and clips that become patches of a grid have in common: sides, and the table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.tabled import Tabled

__all__ = ["PatchSides"]


@dataclass(frozen=True)  # no slots: the table is cached
class PatchSides(Tabled):
    """Resolved settings of patches (N, 3 * T * P * P), merged cell by cell."""

    @cached_property
    def _level_table(self) -> LevelTable:
        stride = self._temporal * self._patch**2
        return LevelTable(self._table, channel_axis=1, channel_stride=stride)

    @property
    def _patch(self) -> int:
        return int(self.settings["patch_size"])

    @property
    def _merge(self) -> int:
        return int(self.settings["merge_size"])

    @property
    def _temporal(self) -> int:
        return int(self.settings["temporal_patch_size"])

    @property
    def _factor(self) -> int:
        return self._patch * self._merge
