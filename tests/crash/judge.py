"""What has to be true of a store after a run over it ended anyhow."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.crash.scenes import contents, run_here
from vcache_cli.assemble import open_root
from vcache_cli.digest import digest_bytes
from vcache_cli.store import DiskStore
from vcache_cli.store.locks import lock_holders, writers_active

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Final

    from tests.crash.scenes import Scene

__all__ = ["Verdict", "judge", "judge_rerun", "reported"]

_OURS: Final = re.compile(
    r"CACHEDIR\.TAG|[0-9a-f]{2}/[0-9a-f]{64}\.safetensors"
    r"|\.vcache/(store\.json|index\.(sqlite(-wal|-shm|-journal)?|damaged)|runs/[^/]+\.jsonl"
    r"|locks/(gc|write)|quarantine/[^/]+|tmp/[0-9a-f]{32})"
)


@dataclass(slots=True)
class Verdict:
    """What is wrong, by kind; each a line for a reader."""

    torn: list[str] = field(default_factory=list)
    """In the place of an entry, and not it; or got, and wrong."""
    lost: list[str] = field(default_factory=list)
    """Reported as durable, or to be kept, and not there."""
    left: list[str] = field(default_factory=list)
    """Locks, litter, a next run that does not complete, evidence that is gone."""

    def add(self, other: Verdict) -> None:
        """Take what the other found as well."""
        self.torn += other.torn
        self.lost += other.lost
        self.left += other.left

    @property
    def is_good(self) -> bool:
        """Nothing is wrong."""
        return not (self.torn or self.lost or self.left)


def reported(store: Path, events: Path | None = None) -> set[str]:
    """Keys that runs told of as stored, in their files or among the events."""
    lines: list[bytes] = []
    for path in [*store.glob(".vcache/runs/*.jsonl"), *([events] if events else [])]:
        if path.exists():
            lines += [line for line in path.read_bytes().split(b"\n")[:-1] if line]
    values = [json.loads(line) for line in lines]
    return {each["key"] for each in values if each.get("status") in {"stored", "present", "copy"}}


def judge(scene: Scene, store: Path, told: Iterable[str] = ()) -> Verdict:
    """Look at the store as a run left it; nothing is changed."""
    verdict, found = Verdict(), contents(store)
    whole = scene.allowed | set(scene.damaged.items())
    verdict.torn += [path for path, digest in found.items() if (path, digest) not in whole]
    wanted = dict(scene.kept)
    for key in told:
        path = f"{key[:2]}/{key}.safetensors"
        wanted[path] = scene.final.get(path, "unknown")
    verdict.lost += [path for path, digest in wanted.items() if found.get(path) != digest]
    if (store / ".vcache/store.json").exists():
        verdict.add(_got(scene, store, found))
    elif wanted:
        verdict.lost.append("the store itself")
    evidence = Counter(digest_bytes(p.read_bytes()) for p in store.glob(".vcache/quarantine/*"))
    if scene.name == "repair":
        everywhere = {*found.values(), *evidence}
        verdict.left += [f"evidence {p}" for p, d in scene.damaged.items() if d not in everywhere]
    return verdict


def _got(scene: Scene, store: Path, found: dict[str, str]) -> Verdict:
    """What a reader, who takes no lock and opens no index, gets."""
    verdict, root = Verdict(), open_root(store)
    reader = DiskStore(root, touch=False)
    for path, digest in found.items():
        got = reader.get(path[3:67])
        if (got is not None) != ((path, digest) in scene.allowed):
            verdict.torn.append(f"get {path}: {reader.findings}")
    if writers_active(root) or lock_holders(root):
        verdict.left.append("a lock is held")
    return verdict


def judge_rerun(scene: Scene, store: Path) -> Verdict:
    """Run the command again, to its end; look at what it makes of the store."""
    verdict, ran = Verdict(), run_here(scene.words(store))
    if ran.code:
        verdict.left.append(f"the next run: {ran.code} {ran.err.strip()}")
        return verdict
    found = contents(store)
    verdict.lost += [path for path in scene.final if path not in found]
    verdict.torn += [p for p, d in found.items() if p in scene.final and d != scene.final[p]]
    verdict.left += [path for path in found if path not in scene.final]
    names = [path for path in store.rglob("*") if not path.is_dir()]
    strange = [n for p in names if not _OURS.fullmatch(n := p.relative_to(store).as_posix())]
    verdict.left += strange
    verdict.left += _litter(store)
    return verdict


def _litter(store: Path) -> list[str]:
    """Temps that a writer does not clear away two hours later."""
    folder, then = store / ".vcache/tmp", time.time() - 7200
    for path in folder.iterdir():
        os.utime(path, (then, then))
    with DiskStore(open_root(store), mode="w"):
        return [f"temp {path.name}" for path in folder.iterdir()]
