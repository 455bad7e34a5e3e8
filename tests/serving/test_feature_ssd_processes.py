"""Several processes over one directory, and one that is killed in the middle."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.patience import PATIENCE_SECONDS
from tests.serving.feature_case import MODEL, entries, features, image, temps
from tests.serving.feature_loop import IMAGES, LIMIT_ENTRIES
from tests.serving.omlx_files import rules_met
from vcache_cli.serving import VisionFeatureSSDCache
from vcache_cli.store import StoreMeta, StoreRoot
from vcache_cli.store.prune import PruneScope, plan_prune
from vcache_cli.targets import OmlxLayout

ROOT = Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("VCACHE_SOAK_SECONDS", "2"))
NO_LIMIT = 10 * 1024**3


def start(root: Path, seconds: float, seed: int, limit_bytes: int) -> subprocess.Popen[str]:
    """A process that has begun."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.serving.feature_loop"),
            *(str(root), str(seconds), str(seed), str(limit_bytes)),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def said(process: subprocess.Popen[str]) -> dict[str, int]:
    """What the process counted, once it has ended well and without a word of trouble."""
    text, trouble = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, trouble
    assert trouble == ""
    facts: dict[str, int] = json.loads(text.splitlines()[-1])
    return facts


def entry_bytes(folder: Path) -> int:
    """Bytes of the largest file that the loop writes."""
    with VisionFeatureSSDCache(folder) as cache:
        cache.put(image(0), MODEL, features(0))
    return entries(folder)[0].stat().st_size + 32


def prune(root: Path, max_size_bytes: int) -> int:
    """Entries that a prune beside the servers removed."""
    store = StoreRoot(root, OmlxLayout(), StoreMeta(1, "", "omlx"))
    plan = plan_prune(store, PruneScope(max_size_bytes=max_size_bytes), grace_seconds=0)
    result = plan.execute()
    assert result.failed == ()
    return len(result.removed)


def check_all(root: Path) -> None:
    """Every file is whole and right, and the sizes add up."""
    for path in entries(root):
        rules_met(root, path)
    with VisionFeatureSSDCache(root, max_memory_entries=0) as cache:
        assert cache.size_bytes == sum(path.stat().st_size for path in entries(root))
        found = {number: cache.get(image(number), MODEL) for number in range(IMAGES)}
        assert cache.stats["errors"] == 0
    present = {number: value for number, value in found.items() if value is not None}
    assert len(present) == len(entries(root))
    for number, value in present.items():
        np.testing.assert_array_equal(value, features(number))


def test_beyond_many_processes_share_a_directory(tmp_path: Path) -> None:
    """Puts, gets, removals, evictions and prunes: no wrong value, no error, sizes add up."""
    faulthandler.cancel_dump_traceback_later()  # a minute here is no deadlock
    limit_bytes = LIMIT_ENTRIES * entry_bytes(tmp_path / "probe")
    root = tmp_path / "store"
    processes = [start(root, SECONDS, seed, limit_bytes) for seed in (1, 2)]
    most = pruned = 0
    watched = VisionFeatureSSDCache(root, limit_bytes)
    while any(process.poll() is None for process in processes):
        most = max(most, watched.size_bytes)
        pruned += prune(root, limit_bytes * 3 // 4)
        time.sleep(0.3)
    counted = [said(process) for process in processes]
    assert pruned + sum(facts["evictions"] for facts in counted) > 0  # in turns that luck decides
    for facts in counted:
        assert facts["wrong"] == facts["errors"] == 0
        assert facts["saves"] == facts["puts"] > 0
        assert facts["found"] > 0
    assert watched.size_bytes == sum(path.stat().st_size for path in entries(root))
    most = max(most, watched.size_bytes)
    assert most <= limit_bytes * (1 + 4 / LIMIT_ENTRIES), "more than what others had in flight"
    watched.put(image(0), MODEL, features(0))
    watched.close()
    assert sum(path.stat().st_size for path in entries(root)) <= limit_bytes
    check_all(root)
    assert temps(root) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_process_tears_nothing_and_loses_nothing_flushed(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    other = start(tmp_path, 1.2, 100 + seed, NO_LIMIT)
    for kill in range(2):
        process = start(tmp_path, 30.0, 10 * seed + kill, NO_LIMIT)
        time.sleep(chance.uniform(0.1, 0.5))
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)
    facts = said(other)
    assert facts["wrong"] == facts["errors"] == 0
    check_all(tmp_path)


def test_what_was_flushed_survives_a_kill(tmp_path: Path) -> None:
    code = f"""
import time
from tests.serving.feature_case import MODEL, features, image
from vcache_cli.serving import VisionFeatureSSDCache
cache = VisionFeatureSSDCache({str(tmp_path)!r})
for number in range(50):
    cache.put(image(number), MODEL, features(number))
cache.flush()
print("flushed", flush=True)
for number in range(50, 99999):
    cache.put(image(number), MODEL, features(number))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "flushed\n"
    time.sleep(0.1)
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    with VisionFeatureSSDCache(tmp_path) as cache:
        for number in range(50):
            np.testing.assert_array_equal(cache.get(image(number), MODEL), features(number))
    for path in entries(tmp_path):
        rules_met(tmp_path, path)


def test_a_process_that_ends_without_close_writes_what_it_accepted(tmp_path: Path) -> None:
    code = f"""
from tests.serving.feature_case import MODEL, features, image
from vcache_cli.serving import VisionFeatureSSDCache
cache = VisionFeatureSSDCache({str(tmp_path)!r})
for number in range(30):
    cache.put(image(number), MODEL, features(number))
"""
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert len(entries(tmp_path)) == 30
