"""`--manifest`: the key of each picture that is in the store, for clients that name keys."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vcache_cli.cli.documents import dump
from vcache_cli.errors import AccessError, UsageError
from vcache_cli.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Final

    from vcache_cli.outcome import Outcome

__all__ = ["Manifest", "open_manifest"]

_IN_STORE: Final = frozenset({Status.STORED, Status.PRESENT, Status.COPY})


class Manifest:
    """Writes keys as they are known.

    Args:
        write: takes a line; None where nobody wants them.
    """

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """A line for each entry of items that are in the store; nothing for any other.

        Raises:
            AccessError: it cannot be written.
        """
        if self._write is None:
            return
        try:
            for outcome in outcomes:
                if outcome.status in _IN_STORE:
                    fields = {"source": outcome.item.source, "source_sha256": outcome.source_sha256}
                    for key in outcome.entry_keys:
                        self._write(dump({**fields, "key": key}) + "\n")
        except OSError as error:
            raise AccessError(f"`--manifest`: cannot write on: {error.strerror}") from error


@contextmanager
def open_manifest(name: str | None) -> Iterator[Manifest]:
    """The manifest of a run, in its place once the run has ended; None is nowhere.

    Raises:
        UsageError: the file cannot be written.
    """
    if name is None:
        yield Manifest()
        return
    part = f"{name}.part"
    try:
        stream = open(part, "w", encoding="ascii")  # noqa: SIM115  closed below
    except OSError as error:
        raise UsageError(f"`--manifest`: cannot write {part}: {error.strerror}") from error
    try:
        with stream:
            yield Manifest(stream.write)
    finally:  # an interrupted run has a manifest of what it finished
        os.replace(part, name)
