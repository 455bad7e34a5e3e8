"""What preprocessors share that turn levels into values by one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vcache_cli.preprocess.lookup import value_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Tabled"]


@dataclass(frozen=True)  # no slots: the table is cached
class Tabled:
    """Settings, and the value of each level under them. Picklable, any thread."""

    settings: Mapping[str, Any]
    """Resolved by the family."""

    @cached_property
    def _table(self) -> NDArray[np.float32]:
        return value_table(self.settings)

    def check(self) -> None:
        """See that every level has a value.

        Raises:
            ModelError: one would become infinity or NaN.
        """
        _ = self._table
