"""What pictures and clips that become patches of a grid have in common: sides, and the table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vcache_cli.levels import LevelTable
from vcache_cli.preprocess.lookup import value_table

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PatchSides"]


@dataclass(frozen=True)  # no slots: the table is cached
class PatchSides:
    """Resolved settings of patches (N, 3 * T * P * P), merged cell by cell."""

    settings: Mapping[str, Any]
    """Resolved by the family."""

    @cached_property
    def _table(self) -> LevelTable:
        stride = self._temporal * self._patch**2
        return LevelTable(value_table(self.settings), channel_axis=1, channel_stride=stride)

    def check(self) -> None:
        """See that every level has a value.

        Raises:
            ModelError: one would become infinity or NaN.
        """
        _ = self._table

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
