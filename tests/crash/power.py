"""What a disk may hold after the power failed: a model over the log of a run's calls.

What a file was given is kept whole, in part, as zeros or not at all until an `fsync` of the file
that began later has ended. A name that was made, moved or removed is kept or not until an `fsync`
of its directory has. Each is chosen for itself: real file systems lose less.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.digest import digest_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Final

    from tests.crash.shim import Call

__all__ = ["FATES", "Disk", "Recording", "State", "told_in_runs"]

FATES: Final = ("whole", "absent", "zero", "partial")
"""What becomes of bytes that were not synced."""
Content = bytes | int | None
"""What a file held before, the number of one made since, or None for a directory."""
_NAMING: Final = frozenset({"create", "mkdir", "rename", "link", "unlink", "rmdir"})
_ALL_OF: Final = 5
"""Of so many names that may be lost or not, every choice is made."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a run did below a folder."""

    before: dict[str, bytes | None]
    """Paths below the folder, with what files held; None for a directory. All of it durable."""
    log: Sequence[Call]
    told: Sequence[tuple[int, str]]
    """Moments at which keys were reported as durable."""

    @property
    def moments(self) -> list[int]:
        """Every moment at which a change began or ended, or a key was reported, and 0."""
        changes = [call for call in self.log if call.name in _NAMING | {"write", "fsync"}]
        ends = (each for call in changes for each in (call.begun, call.ended))
        return sorted({0, *ends, *(when for when, _ in self.told)})

    def durable(self, moment: int) -> set[str]:
        """Keys that had been reported by then."""
        return {key for when, key in self.told if when <= moment}


def told_in_runs(log: Sequence[Call]) -> list[tuple[int, str]]:
    """When run files told of keys as stored: what a user saw at that moment."""
    told = []
    for call in log:
        if call.name == "write" and "/runs/" in call.path and call.ended:
            for line in call.data.decode("ascii").splitlines():
                value = json.loads(line)
                if value.get("status") == "stored":
                    told.append((call.ended, value["key"]))
    return told


@dataclass(frozen=True, slots=True)
class State:
    """One that the disk may be in."""

    files: dict[str, bytes | None]
    """As `Recording.before`."""

    @property
    def digest(self) -> str:
        """Tells it from others."""
        parts = [
            f"{path}\0{'/' if data is None else digest_bytes(data)}\n"
            for path, data in sorted(self.files.items())
        ]
        return digest_bytes("".join(parts).encode())

    def write(self, folder: Path) -> None:
        """Make it in an empty folder."""
        for path, data in sorted(self.files.items()):
            if data is None:
                (folder / path).mkdir(mode=0o700)
            else:
                (folder / path).write_bytes(data)


class Disk:
    """The disk at one moment of a run, after which the power failed."""

    def __init__(self, recording: Recording, moment: int) -> None:
        self._before: dict[str, Content] = dict(recording.before)
        done = [call for call in recording.log if call.begun <= moment and call.ended]
        self._syncs = [c for c in done if c.name == "fsync" and c.ended <= moment]
        naming = [call for call in done if call.name in _NAMING]
        self._naming = sorted(naming, key=lambda call: call.ended)
        self._contents = list(_contents(self._naming, self._before))
        self._open = [n for n, c in enumerate(self._naming) if not self._is_kept(c, moment)]
        self._writes: defaultdict[int, list[tuple[bytes, bool]]] = defaultdict(list)
        for call in done:
            if call.name == "write":
                self._writes[call.number].append((call.data, self._is_synced(call)))

    def _is_kept(self, call: Call, moment: int) -> bool:
        if call.ended > moment:
            return False
        folder = (call.target or call.path).rpartition("/")[0]
        return any(s.path == folder and s.begun > call.ended for s in self._syncs)

    def _is_synced(self, call: Call) -> bool:
        return any(s.number == call.number and s.begun > call.ended for s in self._syncs)

    def states(self, chance: random.Random, most: int) -> Iterator[State]:
        """States that it may be in: all, or as many as asked for, those that cost most first."""
        choices = self._choices(chance)
        for lost, fate in itertools.islice(choices, most):
            yield self._state(lost, fate, chance)

    def _choices(self, chance: random.Random) -> Iterator[tuple[set[int], str]]:
        every = set(self._open)
        if len(every) <= _ALL_OF:
            for count in range(len(every) + 1):
                for lost in itertools.combinations(sorted(every), count):
                    yield from ((set(lost), fate) for fate in FATES)
        for fate in FATES:
            yield set(), fate
            yield every, fate
        for one in sorted(every):
            yield {one}, "whole"
            yield every - {one}, "absent"
        while True:
            yield {each for each in every if chance.random() < 0.5}, "any"

    def _state(self, lost: set[int], fate: str, chance: random.Random) -> State:
        names = dict(self._before)
        for number, (call, content) in enumerate(zip(self._naming, self._contents, strict=True)):
            if number not in lost:
                _name(call, names, content)
        files: dict[str, bytes | None] = {}
        for path, held in sorted(names.items()):
            above = path.rpartition("/")[0]
            if above and files.get(above, b"") is not None:
                continue  # its directory has no name any more
            chosen = fate if fate != "any" else chance.choice(FATES)
            files[path] = self._held(held, chosen) if isinstance(held, int) else held
        return State(files)

    def _held(self, number: int, fate: str) -> bytes:
        writes = self._writes[number]
        kept = b"".join(data for data, synced in writes if synced)
        rest = b"".join(data for data, synced in writes if not synced)
        if fate == "absent":
            return kept
        if fate == "zero":
            return kept + bytes(len(rest))
        return kept + rest[: len(rest) // 2] if fate == "partial" else kept + rest


def _contents(naming: Sequence[Call], before: dict[str, Content]) -> Iterator[Content]:
    """What each call gives a name to, as it was while the power was on."""
    names = dict(before)
    for call in naming:
        content = call.number if call.name == "create" else names.get(call.path)
        yield content
        _name(call, names, content)


def _name(call: Call, names: dict[str, Content], content: Content) -> None:
    if call.name in {"create", "mkdir"} or call.target:
        names[call.target or call.path] = content
    if call.name in {"rename", "unlink", "rmdir"}:
        names.pop(call.path, None)
