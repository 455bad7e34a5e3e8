"""Differing values of a session, told once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

__all__ = ["Row", "Tally"]


@dataclass
class Row:
    """The sums of one profile and one family."""

    fixtures: set[str] = field(default_factory=set)
    cases: int = 0
    values: int = 0
    differing: int = 0


class Tally:
    """Differing values of a session, by profile and family; printed as one table when it ends."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}

    def add(
        self, profile: str, family: str, fixture: str, *, differing: int, values: int = 1
    ) -> None:
        """Count one comparison.

        Args:
            profile: whose rules.
            family: of the model; `decode`, or whatever else was compared.
            fixture: what it was compared on.
            differing: values that were not the same bits.
            values: compared values.
        """
        row = self.rows.setdefault((profile, family), Row())
        row.fixtures.add(fixture)
        row.cases += 1
        row.values += values
        row.differing += differing

    def packed(self) -> list[tuple[str, str, list[str], int, int, int]]:
        """The rows as plain values, which another process can be sent."""
        return [
            (*place, sorted(row.fixtures), row.cases, row.values, row.differing)
            for place, row in self.rows.items()
        ]

    def merge(self, packed: Iterable[tuple[str, str, list[str], int, int, int]]) -> None:
        """Add the rows of another process."""
        for profile, family, fixtures, cases, values, differing in packed:
            row = self.rows.setdefault((profile, family), Row())
            row.fixtures.update(fixtures)
            row.cases += cases
            row.values += values
            row.differing += differing

    def lines(self) -> Iterator[str]:
        """The table; the last line is the total."""
        shape = "{:22} {:28} {:>8} {:>8} {:>14} {:>9}"
        yield shape.format("profile", "family", "fixtures", "cases", "values", "differing")
        for (profile, family), row in sorted(self.rows.items()):
            counts = (len(row.fixtures), row.cases, row.values, row.differing)
            yield shape.format(profile, family, *(f"{count:,}" for count in counts))
        rows = self.rows.values()
        fixtures = {name for row in rows for name in row.fixtures}
        sums = (sum(row.cases for row in rows), sum(row.values for row in rows),
                sum(row.differing for row in rows))  # fmt: skip
        yield shape.format("total", "", *(f"{count:,}" for count in (len(fixtures), *sums)))
