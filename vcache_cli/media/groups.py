"""Requests of several pictures, from a file: one JSON line each."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import NothingToDoError, ReadError, UsageError
from vcache_cli.items import FileStat, Group, MediaItem, display_path
from vcache_cli.media.logs import LogRules, log_items
from vcache_cli.media.requests import MAX_PICTURES, find_request
from vcache_cli.protocols import Trickling, batches_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vcache_cli.items import WarmItem
    from vcache_cli.protocols import Source

__all__ = ["GroupFile", "Joined"]


@dataclass(frozen=True, slots=True)
class GroupFile:
    """Ordered pictures of requests: each line is a list of paths, or an object with `images`.

    Paths count from the folder of the file. Empty lines are left out. The file may also be a
    request log, by its first line: then of each request all pictures are a group.
    """

    path: str
    rules: LogRules = field(default_factory=LogRules)
    """What a log may name."""

    def items(self) -> Iterator[WarmItem]:
        """The group of each line, in order; of a log, what it cannot give too.

        Raises:
            UsageError: the file cannot be read, or a line is no such list; it is named.
            NothingToDoError: there is no line.
        """
        found = False
        for number, line in self._lines():
            if not found and _records_request(line):
                yield from self._logged()
                return
            found = True
            yield Group(tuple(self._item(path) for path in self._paths(number, line)))
        if not found:
            raise NothingToDoError(f"no request in `{display_path(self.path)}`")

    def _logged(self) -> Iterator[WarmItem]:
        stat = FileStat.of(os.stat(self.path))
        try:
            yield from log_items(self.path, stat, replace(self.rules, groups="only"))
        except ReadError as error:
            raise UsageError(f"groups `{display_path(self.path)}`: {error}") from error

    def _lines(self) -> Iterator[tuple[int, str]]:
        try:
            with open(self.path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield number, line
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"groups `{display_path(self.path)}`: {reason}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"groups `{display_path(self.path)}`: {error}") from error

    def _paths(self, number: int, line: str) -> list[str]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        paths = value.get("images") if isinstance(value, dict) else value
        if not _is_request(paths):
            raise UsageError(
                f"groups `{display_path(self.path)}`, line {number}: expected a JSON list of 1 to "
                f'{MAX_PICTURES} paths, or {{"images": [...]}}, found {line.strip()!r:.80}'
            )
        return [str(path) for path in paths or ()]

    def _item(self, path: str) -> MediaItem:
        place = os.path.join(os.path.dirname(self.path), path)
        try:
            stat = FileStat.of(os.stat(place))
        except (OSError, ValueError):  # the worker says why it cannot be read
            stat = None
        return MediaItem(place, stat, explicit=True)


def _records_request(line: str) -> bool:
    try:
        return find_request(json.loads(line)) is not None
    except (ValueError, RecursionError):
        return False


def _is_request(paths: Any) -> bool:  # noqa: ANN401  whatever JSON can be
    if not isinstance(paths, list) or not 0 < len(paths) <= MAX_PICTURES:
        return False
    return all(isinstance(path, str) and _is_path(path) for path in paths)


def _is_path(text: str) -> bool:
    try:
        return bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        return False


@dataclass(frozen=True, slots=True)
class Joined:
    """Several sources, one after the other."""

    sources: tuple[Source, ...]

    @property
    def trickles(self) -> bool:
        """True where one of them is fed while it is read."""
        return any(isinstance(each, Trickling) and each.trickles for each in self.sources)

    def items(self) -> Iterator[WarmItem]:
        """The items of each, in turn."""
        for source in self.sources:
            yield from source.items()

    def batches(self) -> Iterator[Sequence[WarmItem]]:
        """The batches of each, in turn."""
        for source in self.sources:
            yield from batches_of(source)
