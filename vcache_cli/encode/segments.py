"""Segments of packed tokens: neighbours of one length are computed together."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["runs"]


def runs(bounds: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(begin, count, length) of each run of segments of one length; empty ones are left out.

    >>> list(runs([0, 4, 8, 8, 10]))
    [(0, 2, 4), (8, 1, 2)]
    """
    pairs = [(begin, end - begin) for begin, end in pairwise(bounds) if end > begin]
    for length, group in groupby(pairs, key=lambda pair: pair[1]):
        members = list(group)
        yield members[0][0], len(members), length
