"""`--events`: one JSON line per item, to a file or to stderr."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from vcache_cli.cli.documents import dump
from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vcache_cli.outcome import Outcome

__all__ = ["Events", "open_events"]


class Events:
    """Writes Outcomes as they come; nothing where there is no stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def write(self, outcome: Outcome) -> None:
        """One line, flushed, so that who follows the file sees it at once."""
        if self._stream is None:
            return
        line = dump({"schema": "vcache.outcome/1", **outcome.as_json()})
        self._stream.write(line + "\n")
        self._stream.flush()


@contextmanager
def open_events(name: str | None) -> Iterator[Events]:
    """The events of a run; ``-`` is stderr, None is nowhere.

    Raises:
        UsageError: the file cannot be written.
    """
    if name is None:
        yield Events()
    elif name == "-":
        yield Events(sys.stderr)
    else:
        try:
            stream = open(name, "w", encoding="utf-8")  # noqa: SIM115  closed below
        except OSError as error:
            raise UsageError(f"`--events`: cannot write {name}: {error.strerror}") from error
        with stream:
            yield Events(stream)
