"""What to do after a warm: lines that can be copied. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from vcache_cli.buckets import is_url
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

__all__ = ["next_steps", "repair_command"]

_ONCE: Final = frozenset({"-", "@-"})
"""Sources that are gone once they were read."""

_INTERRUPTED: Final = frozenset({130, 143})
_SOME_FAILED: Final = 3


def next_steps(
    document: Mapping[str, Any], code: int, words: Sequence[str], note: str = ""
) -> Iterator[str]:
    """Each step, a command or a sentence; none where nothing is left to do.

    Args:
        document: ``vcache.warm/1``.
        code: how the run exits; where a limit or a fault ended it, its own hint says what to do.
        words: the command line that made it, without ``vcache``.
        note: what the target wants to be done; empty: nothing.
    """
    again = tuple(words[:1]) == ("warm",) and not _ONCE & set(words)
    if code in _INTERRUPTED and again:
        yield f"{_line(words)}  # goes on where this run ended"
    if code == _SOME_FAILED and again:
        retry = [] if "--retry-errors" in words else ["--retry-errors"]
        yield f"{_line([words[0], *retry, *words[1:]])}  # once they are mended"
    if code == _SOME_FAILED and not is_url(document["store"]):
        where = ["report", "--store", document["store"], "--out", "report.html"]
        yield f"{_line(where)}  # what failed, and why"
    if note:
        yield note


def repair_command(store: object) -> str:
    """What moves the damaged entries of a store aside.

    >>> repair_command("my store")
    "vcache verify --repair --store 'my store'"
    """
    return _line(["verify", "--repair", "--store", display_path(str(store))])


def _line(words: Sequence[str]) -> str:
    return shlex.join(["vcache", *words])
