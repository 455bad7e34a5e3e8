"""Runs that are recorded, and what has to be true of a store after the power failed."""

from __future__ import annotations

import random
import shutil
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tests.crash.power import Disk, Recording, told_in_runs
from tests.crash.scenes import contents, fresh, run_here
from tests.crash.shim import Shim
from tests.store.care import entry, make_store
from vcache_cli.assemble import open_root
from vcache_cli.digest import digest_bytes
from vcache_cli.errors import NotAStoreError
from vcache_cli.store import DiskStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.power import State
    from tests.crash.scenes import Scene

__all__ = ["Outage", "Tried", "recorded_command", "recorded_writer", "tried"]


@dataclass(frozen=True, slots=True)
class Outage:
    """A recorded run and the entries that it made."""

    recording: Recording
    store: str
    """Below the folder that was watched."""
    final: dict[str, str]
    """Path below the store and SHA-256 of each entry."""
    words: tuple[str, ...] = ()
    """The command, to be run again; ``{store}`` is the store. Empty: it was none."""


@dataclass(slots=True)
class Tried:
    """What became of the states."""

    states: int = 0
    reruns: int = 0
    violations: list[str] = field(default_factory=list)


def recorded_command(scene: Scene, folder: Path) -> Outage:
    """A command of which all is recorded, the folders above the store included."""
    base = folder / "watched"
    store = fresh(scene, base / "new" / "store")
    if not scene.store.exists():
        base.mkdir(parents=True)
    before = _files(base)
    shim = Shim(base)
    with shim.installed():
        ran = run_here(scene.words(store))
    if ran.code:
        raise AssertionError(ran.err)
    recording = Recording(before, shim.log, told_in_runs(shim.log))
    again = () if scene.name == "prune" else scene.args  # a state has no times of use
    return Outage(recording, "new/store", contents(store), again)


def recorded_writer(folder: Path, count: int, *, threads: int) -> Outage:
    """Entries put by several threads; each is reported as its future ends."""
    root = make_store(folder / "watched" / "store")
    before = _files(folder / "watched")
    shim, told = Shim(folder / "watched"), list[tuple[int, str]]()
    with shim.installed(), DiskStore(root, mode="w") as store:
        store.put(first := entry(0, tokens=600))
        told.append((shim.moment(), first.key))
        with store.writer(threads=threads) as writer:
            for number in range(1, count):
                made = entry(number, tokens=600)
                writer.submit(made).add_done_callback(partial(_tell, shim, told, made.key))
    return Outage(Recording(before, shim.log, told), "store", contents(root.path))


def _tell(shim: Shim, told: list[tuple[int, str]], key: str, done: Future[int]) -> None:
    done.result()
    told.append((shim.moment(), key))


def _files(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


def tried(outage: Outage, folder: Path, *, most: int, rerun_each: int = 0, seed: int = 1) -> Tried:
    """Open states of every moment of the run.

    Args:
        outage: the run.
        folder: an empty one.
        most: states of one moment.
        rerun_each: the command is run again on each so manieth state; 0: on none.
        seed: which states are drawn.
    """
    found, seen, chance = Tried(), set[tuple[str, frozenset[str]]](), random.Random(seed)
    for moment in outage.recording.moments:
        durable = frozenset(outage.recording.durable(moment))
        for state in Disk(outage.recording, moment).states(chance, most):
            if (state.digest, durable) in seen:
                continue
            seen.add((state.digest, durable))
            found.states += 1
            again = bool(rerun_each) and found.states % rerun_each == 0
            place = folder / "state"
            problems = _problems(outage, state, place, durable, again=again)
            found.reruns += again
            found.violations += [f"moment {moment}: {each}" for each in problems]
            shutil.rmtree(place)
    return found


def _problems(
    outage: Outage, state: State, place: Path, durable: frozenset[str], *, again: bool
) -> list[str]:
    place.mkdir(parents=True)
    state.write(place)
    store = place / outage.store
    got = _got(store, outage)
    wrong = {key for key, path in got.items() if _digest(store / path) != outage.final[path]}
    problems = [f"got, and wrong: {key}" for key in sorted(wrong)]
    problems += [f"reported, and not there: {key}" for key in sorted(durable - got.keys())]
    if again and outage.words:
        ran = run_here([word.format(store=store) for word in outage.words])
        if ran.code or contents(store) != outage.final:
            problems.append(f"the next run: {ran.code} {ran.err.strip()}")
    return problems


def _got(store: Path, outage: Outage) -> dict[str, str]:
    try:
        reader = DiskStore(open_root(store), touch=False)
    except NotAStoreError:
        return {}
    paths = {path[3:67]: path for path in outage.final}
    return {key: path for key, path in paths.items() if reader.get(key) is not None}


def _digest(path: Path) -> str:
    return digest_bytes(path.read_bytes())
