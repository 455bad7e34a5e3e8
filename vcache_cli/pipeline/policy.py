"""When a run gives up because of failing items."""

from __future__ import annotations

from dataclasses import dataclass

from vcache_cli.errors import PartialFailureError, UsageError

__all__ = ["ErrorPolicy"]

_MIN_ITEMS_FOR_SHARE = 20
"""A share of fewer items says nothing yet."""


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """How many failing items a run bears."""

    max_failed: int | None = None
    """Most failing items; None is any number."""
    max_share: float | None = None
    """Largest share of failing items, 0..1, asked once 20 items are done."""

    @classmethod
    def parse(cls, on_error: str, max_errors: str | None) -> ErrorPolicy:
        """The policy of `--on-error skip|fail` and `--max-errors N|P%`.

        Raises:
            UsageError: neither a number nor a percentage.

        >>> ErrorPolicy.parse("skip", "5%")
        ErrorPolicy(max_failed=None, max_share=0.05)
        """
        if on_error == "fail":
            return cls(max_failed=0)
        if max_errors is None:
            return cls()
        try:
            if max_errors.endswith("%"):
                return cls(max_share=_share(max_errors))
            return cls(max_failed=_count(max_errors))
        except ValueError:
            raise UsageError(
                f"`{max_errors}` is neither a number of items nor a percentage such as `5%`"
            ) from None

    def check(self, *, failed: int, done: int) -> None:
        """Nothing while the run may go on.

        Raises:
            PartialFailureError: more failed than the policy bears.
        """
        if self.max_failed is not None and failed > self.max_failed:
            raise _too_many(failed, self.max_failed)
        if self.max_share is None or done < _MIN_ITEMS_FOR_SHARE:
            return
        if failed > self.max_share * done:
            raise PartialFailureError(
                f"{failed} of {done} items failed, at most {self.max_share * 100:g}% were to",
                hint="mend or leave out what failed, or raise --max-errors to go on",
            )


def _too_many(failed: int, most: int) -> PartialFailureError:
    items = "1 item" if failed == 1 else f"{failed:,} items"
    if most:
        return PartialFailureError(
            f"{items} failed, at most {most:,} were to",
            hint="mend or leave out what failed, or raise --max-errors to go on",
        )
    return PartialFailureError(
        f"{items} failed, and the run was to end at the first",
        hint="mend or leave out what failed; --on-error skip without --max-errors 0 goes on",
    )


def _share(text: str) -> float:
    share = float(text[:-1]) / 100
    if not 0 <= share <= 1:
        raise ValueError(text)
    return share


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise ValueError(text)
    return count
