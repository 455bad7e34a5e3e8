"""Seconds of `make soak`: all roles at once on one store, in threads of this process."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from tests.soak.ground import Ground, lay_ground
from tests.soak.run import faults, soak_in_threads


def test_all_at_once_nothing_is_wrong_lost_or_stuck(tiny_siglip: Path, tmp_path: Path) -> None:
    ground = Ground(tmp_path, tiny_siglip, 0.0, uses_commands=False)
    lay_ground(ground, pictures=24)
    results = soak_in_threads(replace(ground, ends_at=time.time() + 1))
    trouble = ground.events("trouble")
    assert not any(faults(results).values()), trouble.read_text() if trouble.exists() else results
    for name in ("warmer 0", "warmer 1"):
        assert results[name].get("stored", 0) + results[name].get("present", 0) > 0
    assert results["pruner 0"].get("removed", 0) + results["pruner 0"].get("busy", 0) > 0
    assert results["pruner 0"]["audits"] > 0
    assert results["verifier 0"]["checked"] > 0
    assert all(results[f"reader {number}"]["checked"] > 0 for number in range(3))
