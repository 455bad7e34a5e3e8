"""`--events`: one JSON line per item, to a file or to stderr."""

from __future__ import annotations

import errno
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vcache_cli.cli.documents import dump
from vcache_cli.errors import AccessError, StoreFullError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vcache_cli.outcome import Outcome

__all__ = ["Events", "open_events"]


class Events:
    """Writes Outcomes as they come.

    Args:
        write: takes a line; None where nobody wants them.
    """

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """One line for each, whole, so that who follows the file sees it at once.

        Raises:
            StoreFullError: no space is left for it; better no run than one without its events.
            AccessError: it cannot be written for another reason.
        """
        if self._write is None:
            return
        try:
            for outcome in outcomes:
                self._write(dump({"schema": "vcache.outcome/1", **outcome.as_json()}) + "\n")
        except OSError as error:
            full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
            message = f"`--events`: cannot write on: {error.strerror}"
            raise (StoreFullError if full else AccessError)(message) from error


@contextmanager
def open_events(name: str | None) -> Iterator[Events]:
    """The events of a run; ``-`` is stderr, None is nowhere.

    Raises:
        UsageError: the file cannot be written.
    """
    if name is None:
        yield Events()
    elif name == "-":
        yield Events(sys.stderr.write)
    else:
        try:
            # Without a buffer: a line that found no space does not come back at the end.
            stream = open(name, "wb", buffering=0)  # noqa: SIM115  closed below
        except OSError as error:
            raise UsageError(f"`--events`: cannot write {name}: {error.strerror}") from error
        with stream:
            yield Events(lambda line: stream.write(line.encode("ascii")))
