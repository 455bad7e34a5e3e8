"""How long first tokens took: the first time, and once the server knew the picture."""

from __future__ import annotations

import math
import random
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vcache_cli.items import WarmItem

__all__ = ["Latencies", "Timed", "quantile"]


class Timed(NamedTuple):
    """An item that was sent, and how long its first token took."""

    item: WarmItem
    digest: str
    seconds: float


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which about a `share` of `values` lies, one of them; they are not empty.

    >>> quantile([3.0, 1.0, 2.0], 0.5)
    2.0
    """
    return sorted(values)[min(len(values) - 1, math.floor(share * len(values)))]


@dataclass(slots=True)
class Latencies:
    """Seconds until first tokens, and a sample of the items, each as likely as any other."""

    most: int
    """Items that the sample has at most."""
    first: array[float] = field(default_factory=lambda: array("d"))
    sample: list[Timed] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    """Of the sample: seconds of the first time and of the second."""
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311  no secret

    def add(self, timed: Timed) -> None:
        """Take one item that was sent for the first time."""
        self.first.append(timed.seconds)
        if len(self.sample) < self.most:
            self.sample.append(timed)
        elif self.most and (place := self._random.randrange(len(self.first))) < self.most:
            self.sample[place] = timed

    def as_json(self) -> dict[str, Any] | None:
        """The object ``first_token`` of ``vcache.replay/1``; None where nothing was timed."""
        if not self.first:
            return None
        found: dict[str, Any] = {"cold": _told(self.first)}
        if self.pairs:
            cold, warm = zip(*self.pairs, strict=True)
            found["sample"] = {"cold": _told(cold), "warm": _told(warm)}
        return found


def _told(values: Sequence[float]) -> dict[str, Any]:
    return {
        "items": len(values),
        "median_seconds": round(quantile(values, 0.5), 6),
        "p90_seconds": round(quantile(values, 0.9), 6),
    }
