"""The index may vanish or be anything at all: it costs time, never data."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.command import entries, keys, vcache


def _garbage(index: Path) -> None:
    index.write_bytes(b"no database at all")


def _cut(index: Path) -> None:
    data = index.read_bytes()
    index.write_bytes(data[: len(data) // 2])


def _riddled(index: Path) -> None:
    data, rng = bytearray(index.read_bytes()), random.Random(1)
    for place in rng.sample(range(4096, len(data)), len(data) // 50):
        data[place] ^= 0xFF
    index.write_bytes(data)


@pytest.mark.parametrize("damage", [_garbage, _cut, _riddled])
def test_a_damaged_index_is_made_again_from_the_entries(
    damage: Callable[[Path], None], corpus: Path, tiny_siglip: Path, warmed: Path
) -> None:
    damage(warmed / ".vcache/index.sqlite")
    held = entries(warmed)
    listed = vcache("ls", warmed, "--limit", 1000, "--json")
    assert listed.code == 0
    assert sorted(keys(listed.document["entries"])) == sorted(held)
    if (warmed / ".vcache/index.sqlite").exists():  # else moved aside, when the damage was met late
        damage(warmed / ".vcache/index.sqlite")
    again = vcache("warm", corpus, "-m", tiny_siglip, "-s", warmed, "--json")
    assert again.code == 0
    assert (again.items["stored"], again.items["present"]) == (0, len(held))
    assert vcache("stats", warmed, "--scan", "--json").document["entries"] == len(held)
    assert vcache("verify", warmed, "-q").code == 0


def test_an_index_that_knows_too_much_or_too_little_is_corrected(
    corpus: Path, tiny_siglip: Path, warmed: Path
) -> None:
    held = entries(warmed)
    lost, doubled, *_ = held
    held[lost].unlink()
    stranger = "f" * 64
    (warmed / "ff").mkdir(exist_ok=True)
    shutil.copyfile(held[doubled], warmed / "ff" / f"{stranger}.safetensors")
    verified = vcache("verify", warmed, "--json")
    assert verified.code == 4
    assert stranger in keys(verified.document["problems"])
    assert vcache("verify", warmed, "--repair", "-q").code == 0
    kept = entries(warmed)
    assert kept.keys() == held.keys() - {lost}
    assert vcache("stats", warmed, "--json").document["entries"] == len(kept)
    again = vcache("warm", corpus, "-m", tiny_siglip, "-s", warmed, "--json")
    assert again.items["stored"] == 1
