"""What a prune says is what it does, and afterwards everything agrees."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.e2e.command import Run, entries, keys, vcache


def _use_in_order(store: Path) -> list[str]:
    """Give each entry a last use of its own; the keys, oldest use first."""
    ordered = sorted(entries(store), key=lambda key: key[::-1])
    now = time.time()
    for age, key in enumerate(reversed(ordered), 1):
        os.utime(entries(store)[key], (now - age * 7200, now - age * 7200))
    return ordered


def _check_all_agree(store: Path, corpus: Path, model: Path) -> None:
    held = entries(store)
    sizes = sum(path.stat().st_size for path in held.values())
    listed = vcache("ls", store, "--limit", 1000, "--json").document["entries"]
    assert sorted(keys(listed)) == sorted(held)
    for scan in ([], ["--scan"]):
        stats = vcache("stats", store, *scan, "--json").document
        assert stats["entries"] == len(held)
        assert stats["bytes"]["logical"] == sizes
        assert not stats["index"].get("drift_entries")
    verified = vcache("verify", store, "--level", "data", "--json")
    assert verified.code == 0
    assert verified.document["checked"] == len(held)
    checked = vcache("check", corpus, "-m", model, "-s", store, "--json").document
    assert checked["warm"] == len(held)


def _pruned(store: Path, *policy: str) -> tuple[Run, Run]:
    """A dry run and the deed; the first changes nothing."""
    before = entries(store)
    plan = vcache("prune", store, *policy, "--dry-run", "--json")
    assert entries(store) == before
    done = vcache("prune", store, *policy, "--yes", "--json")
    assert (plan.code, done.code) == (0, 0)
    assert plan.document["plan"] == done.document["plan"]
    planned = set(keys(plan.document["plan"]))
    assert planned == before.keys() - entries(store).keys()
    assert done.document["removed"] == len(planned)
    assert done.document["removed_bytes"] == sum(each["bytes"] for each in plan.document["plan"])
    assert plan.document["after"] == done.document["after"]
    return plan, done


def test_half_of_the_size_removes_the_longest_unused(
    corpus: Path, tiny_siglip: Path, warmed: Path
) -> None:
    ordered = _use_in_order(warmed)
    half = sum(path.stat().st_size for path in entries(warmed).values()) // 2
    plan, _ = _pruned(warmed, "--max-size", str(half))
    assert keys(plan.document["plan"]) == ordered[: len(plan.document["plan"])]
    assert sum(path.stat().st_size for path in entries(warmed).values()) <= half
    assert entries(warmed)
    _check_all_agree(warmed, corpus, tiny_siglip)


def test_any_age_removes_all(corpus: Path, tiny_siglip: Path, warmed: Path) -> None:
    ordered = _use_in_order(warmed)
    plan, _ = _pruned(warmed, "--older-than", "0s")
    assert keys(plan.document["plan"]) == ordered
    assert entries(warmed) == {}
    _check_all_agree(warmed, corpus, tiny_siglip)
    again = vcache("warm", corpus, "-m", tiny_siglip, "-s", warmed, "--json")
    assert again.items["stored"] == again.items["total"]


def test_presence_counts_as_use(corpus: Path, tiny_siglip: Path, warmed: Path) -> None:
    _use_in_order(warmed)
    picture = next(corpus.rglob("*.webp"))
    vcache("warm", picture, "-m", tiny_siglip, "-s", warmed)
    plan = vcache("prune", warmed, "--unused-for", "1h", "--dry-run", "--json").document["plan"]
    kept = vcache("inspect", picture, "-s", warmed, "-q").out.strip()
    assert entries(warmed).keys() - set(keys(plan)) == {kept}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 2),
        (["--max-size", "1"], 2),
        (["--max-size", "a lot", "--yes"], 2),
        (["--key", "0" * 64, "--yes"], 2),
    ],
    ids=["no scope", "nobody to ask", "no size", "no such key"],
)
def test_a_prune_that_makes_no_sense_removes_nothing(
    warmed_once: Path, words: list[str], code: int
) -> None:
    before = entries(warmed_once)
    run = vcache("prune", warmed_once, *words, "--json")
    assert run.code == run.document["error"]["code"] == code
    assert entries(warmed_once) == before
