"""The roles of a soak: two that warm, one that prunes and audits, one that verifies, readers.

Each works until the end and returns what it counted. Whoever warms notes what was reported
durable; the one who prunes is the only one who removes, so it can tell what has to be there.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tests.soak.ground import OPTIONS, Ground
from vcache_cli import open_store, warm
from vcache_cli.assemble import open_root
from vcache_cli.entry import Entry
from vcache_cli.errors import LockBusyError
from vcache_cli.store import DiskStore
from vcache_cli.store.locks import gc_lock
from vcache_cli.store.prune import PruneScope, plan_prune
from vcache_cli.store.verify import VerifyOptions, verify_store

__all__ = ["ROLES"]

STUCK_SECONDS: Final = 120.0
"""A command that takes longer counts as a deadlock."""
LEAST_GETS: Final = 200
"""Of a reader, however short the soak is: some of them find an entry."""
HELD: Final = 20
"""Entries that a reader keeps while they are pruned."""
TOLERANCE: Final = 2.0**-7
"""Of the largest value: features differ by a rounding of bfloat16 with the batch."""

Counts = dict[str, float]


def vcache(ground: Ground, *words: object) -> tuple[int, dict[str, Any], str]:
    """Run the command; exit code, document, stderr. Code -1: it was stuck."""
    line = [sys.executable, "-m", "vcache_cli", *map(str, words), "--json"]
    try:
        done = subprocess.run(
            line,
            cwd=ground.folder,  # no settings of a project
            capture_output=True,
            text=True,
            timeout=STUCK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, {}, "stuck"
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def note(ground: Ground, book: str, **event: object) -> None:
    """Append one line; others read it once it is whole."""
    with ground.events(book).open("a", encoding="ascii") as file:
        file.write(json.dumps(event) + "\n")


def rounds(ground: Ground, least: int = 1) -> Iterator[None]:
    """Until the end comes; so many at least."""
    for _ in range(least):
        yield
    while time.time() < ground.ends_at:
        yield


# --- those who warm ---------------------------------------------------------------------------


def warmer(ground: Ground, number: int) -> Counts:
    """Warms pictures drawn by lot, again and again."""
    rng, role = random.Random(f"{ground.seed} {number}"), f"warmer-{number}"
    counts: Counter[str] = Counter()
    for _ in rounds(ground):
        drawn = [str(path) for path in ground.pictures() if rng.random() < 0.5]
        begun = time.time()
        by_command = ground.uses_commands and number % 2 == 0
        reported = _by_command(ground, drawn, counts) if by_command else _by_library(ground, drawn)
        for status, keys in reported.items():
            counts[status] += len(keys)
        durable = [*reported.get("stored", ()), *reported.get("present", ())]
        note(ground, role, begun=begun, keys=durable)
        counts["rounds"] += 1
    return dict(counts)


def _by_library(ground: Ground, drawn: Sequence[str]) -> Mapping[str, list[str]]:
    reported: dict[str, list[str]] = {}
    for outcome in warm(drawn, store=ground.store, model=ground.model, options=OPTIONS):
        reported.setdefault(outcome.status.value, []).append(outcome.key or "")
    return reported


def _by_command(
    ground: Ground, drawn: Sequence[str], counts: Counter[str]
) -> Mapping[str, list[str]]:
    where = ("-m", ground.model, "-s", ground.store, "--isolation", "thread", "--workers", 1)
    code, document, err = vcache(ground, "warm", *drawn, *where)
    if code:
        counts["stuck" if code < 0 else "bad_exits"] += 1
        note(ground, "trouble", role="warmer", code=code, err=err[-500:])
        return {}
    reported: dict[str, list[str]] = {}
    log = ground.store / ".vcache" / "runs" / f"{document['run']}.jsonl"
    for line in log.read_text(encoding="ascii").splitlines():
        value = json.loads(line)
        if "status" in value:
            reported.setdefault(value["status"], []).append(value["key"])
    return reported


# --- the one who prunes and audits ------------------------------------------------------------


def pruner(ground: Ground, number: int) -> Counts:
    """Prunes to a size drawn by lot; between two prunes nothing reported durable may be gone."""
    rng, counts = random.Random(f"{ground.seed} prune"), Counter[str]()
    removed_until: dict[str, float] = {}
    root = open_root(ground.store)
    for _ in rounds(ground):
        time.sleep(rng.uniform(0.05, 0.5) * (6 if ground.uses_commands else 1))
        counts["lost"] += len(_lost(ground, removed_until))
        counts["audits"] += 1
        scope = PruneScope(max_size_bytes=rng.randrange(1, _size(ground)))
        try:
            if counts["audits"] % 8 == 3:
                counts["second_refused"] += _second_is_refused(ground)
                counts["second_tried"] += 1
            if ground.uses_commands and rng.random() < 0.3:
                keys = _pruned_by_command(ground, scope, counts)
            else:
                done = plan_prune(root, scope, grace_seconds=0.0).execute()
                keys = [each.key for each in done.removed if each.is_entry]
        except LockBusyError:  # the one who verifies repairs
            counts["busy"] += 1
            continue
        counts["removed"] += len(keys)
        removed_until.update(dict.fromkeys(keys, time.time()))
    counts["lost"] += len(_lost(ground, removed_until))
    return dict(counts)


def _size(ground: Ground) -> int:
    """Bytes of all entries that there can be."""
    return sum(path.stat().st_size for path in ground.truth.glob("??/*.safetensors"))


def _pruned_by_command(ground: Ground, scope: PruneScope, counts: Counter[str]) -> list[str]:
    size = ("--max-size", scope.max_size_bytes or 0)
    code, document, err = vcache(ground, "prune", ground.store, *size, "--grace", "0s", "--yes")
    if code not in {0, 11}:  # 11: the one who verifies repairs
        counts["stuck" if code < 0 else "bad_exits"] += 1
        note(ground, "trouble", role="pruner", code=code, err=err[-500:])
    return [row["key"] for row in document.get("plan", ()) if "key" in row]


def _lost(ground: Ground, removed_until: Mapping[str, float]) -> list[str]:
    """Keys that were durable after the last prune that removed them, and are not there."""
    due: dict[str, float] = {}
    for path in ground.folder.glob("warmer-*.jsonl"):
        for line in path.read_text(encoding="ascii").splitlines()[-50:]:
            with suppress(ValueError):  # it is being written
                event = json.loads(line)
                for key in event["keys"]:
                    due[key] = max(event["begun"], due.get(key, 0.0))
    store = DiskStore(open_root(ground.store), touch=False)
    wanted = [key for key, begun in due.items() if begun > removed_until.get(key, 0.0)]
    gone = [key for key in wanted if not store.contains(key)]
    for key in gone:
        note(ground, "trouble", role="audit", key=key, begun=due[key])
    return gone


def _second_is_refused(ground: Ground) -> bool:
    """While one prunes, another is told so at once."""
    with gc_lock(open_root(ground.store)):
        if not ground.uses_commands:
            try:
                with gc_lock(open_root(ground.store)):
                    return False
            except LockBusyError as error:
                return "prune" in error.message
        words = ("prune", ground.store, "--max-size", 1, "--grace", "0s", "--yes")
        code, _, err = vcache(ground, *words)
    return code == 11 and "prune" in err


# --- the one who verifies ---------------------------------------------------------------------


def verifier(ground: Ground, number: int) -> Counts:
    """Verifies everything, now and then with repair; damage never shows."""
    counts: Counter[str] = Counter()
    for _ in rounds(ground):
        repair = counts["rounds"] % 4 == 3
        counts["rounds"] += 1
        try:
            if ground.uses_commands:
                code, document, err = vcache(
                    ground, "verify", ground.store, *(["--repair"] if repair else [])
                )
                counts["checked"] += document.get("checked", 0)
                if code not in {0, 11}:
                    counts["stuck" if code < 0 else "bad_exits"] += 1
                    note(ground, "trouble", role="verifier", code=code, err=err[-500:])
            else:
                options = VerifyOptions(repair=repair, threads=1)
                report = verify_store(open_root(ground.store), options)
                counts["checked"] += report.checked
                counts["bad_exits"] += len(report.damage)
        except LockBusyError:
            counts["busy"] += 1
    return dict(counts)


# --- those who read ---------------------------------------------------------------------------


def reader(ground: Ground, number: int) -> Counts:
    """Gets entries drawn by lot and compares every byte; keeps some, and compares them again.

    The same get of a store that nobody else uses is timed in turn: where a machine is busy, both
    are slow, and only a reader that waits for somebody is slower than that.
    """
    rng = random.Random(f"{ground.seed} read {number}")
    truth = _truth(ground)
    keys = sorted(truth)
    counts: Counter[str] = Counter()
    taken: dict[str, list[float]] = {"get": [], "alone": []}
    held: deque[tuple[str, Entry]] = deque(maxlen=HELD)
    with open_store(ground.store) as store, open_store(ground.truth) as alone:
        for _ in rounds(ground, LEAST_GETS):
            key = rng.choice(keys)
            entry = _timed(store, key, taken["get"])
            _timed(alone, key, taken["alone"])
            counts["gets"] += 1
            if entry is None:
                counts["misses"] += 1
            else:
                _compare(truth[key], entry, counts)
                held.append((key, entry))
            if held and counts["gets"] % 16 == 0:  # it may be pruned or replaced by now
                kept, before = rng.choice(held)
                _compare(truth[kept], before, counts)
            time.sleep(0.002)
        findings = list(store.findings)
    for found in findings[:5]:
        note(ground, "trouble", role="reader", kind=found.kind, told=found.message)
    return {**counts, "findings": len(findings), **_latencies(taken)}


def _timed(store: DiskStore, key: str, taken: list[float]) -> Entry | None:
    begun = time.perf_counter()
    entry = store.get(key)
    taken.append(time.perf_counter() - begun)
    return entry


def _latencies(taken: Mapping[str, list[float]]) -> Counts:
    """Milliseconds that half, 99.9 % and all of the gets took at most."""
    found = {}
    for name, seconds in taken.items():
        ordered = sorted(seconds) or [0.0]
        for label, share in (("p50", 0.5), ("p999", 0.999), ("max", 1.0)):
            at = min(len(ordered) - 1, int(share * len(ordered)))
            found[f"{name}_ms_{label}"] = round(1000 * ordered[at], 2)
    return found


def _truth(ground: Ground) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    with open_store(ground.truth) as store:
        root = store.root
        keys = [path.stem for path in root.path.glob("??/*.safetensors")]
        found = {key: store.get(key) for key in keys}
    truth = {key: _arrays(entry) for key, entry in found.items() if entry is not None}
    for one, other in pairwise(truth.values()):  # else one in the place of another would not show
        if all(_is_close(array, other[name], 4 * TOLERANCE) for name, array in one.items()):
            raise AssertionError("pictures that cannot be told apart")
    return truth


def _arrays(entry: Entry) -> dict[str, np.ndarray[Any, Any]]:
    return {name: entry.numpy(name) for name in entry.tensors}


def _compare(
    wanted: Mapping[str, np.ndarray[Any, Any]], entry: Entry, counts: Counter[str]
) -> None:
    counts["checked"] += 1
    found = _arrays(entry)
    if wanted.keys() != found.keys() or any(
        not _is_close(array, found[name]) for name, array in wanted.items()
    ):
        counts["wrong"] += 1
    elif any(not np.array_equal(array, found[name]) for name, array in wanted.items()):
        counts["within_tolerance"] += 1


def _is_close(
    wanted: np.ndarray[Any, Any], found: np.ndarray[Any, Any], tolerance: float = TOLERANCE
) -> bool:
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return False
    bound = tolerance * float(np.abs(wanted).max(initial=0))
    return bool(np.abs(wanted - found).max(initial=0) <= bound)


ROLES: Final[Mapping[str, Callable[[Ground, int], Counts]]] = {
    "warmer": warmer,
    "pruner": pruner,
    "verifier": verifier,
    "reader": reader,
}
