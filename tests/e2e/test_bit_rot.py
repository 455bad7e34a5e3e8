"""One flipped bit anywhere in a file: found, missed, quarantined, refilled."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.e2e.command import entries, vcache
from vcache_cli import open_store

FLIPPED = 20


def test_every_flipped_bit_is_found_and_mended(
    corpus: Path, tiny_siglip: Path, warmed: Path
) -> None:
    damaged = _flip_bits(warmed)
    with open_store(warmed) as reader:
        assert {key for key in entries(warmed) if reader.get(key) is None} == damaged
    for _ in range(2):  # looking mends nothing
        found = vcache("verify", warmed, "--level", "data", "--json")
        assert found.code == found.document["error"]["code"] == 4
        assert {each["key"] for each in found.document["problems"]} == damaged
        assert len(found.document["problems"]) == FLIPPED
        assert found.document["checked"] - found.document["ok"] == FLIPPED

    repaired = vcache("verify", warmed, "--level", "data", "--repair", "--json")
    assert repaired.code == 0
    assert len(repaired.document["problems"]) == FLIPPED
    assert not damaged & entries(warmed).keys()
    evidence = [path for path in (warmed / ".vcache/quarantine").rglob("*") if path.is_file()]
    assert len([path for path in evidence if path.suffix != ".json"]) == FLIPPED

    refilled = vcache("warm", corpus, "-m", tiny_siglip, "-s", warmed, "--json")
    assert refilled.items["stored"] == FLIPPED
    assert refilled.items["present"] == refilled.items["total"] - FLIPPED
    assert vcache("verify", warmed, "--level", "data", "-q").code == 0
    assert vcache("check", corpus, "-m", tiny_siglip, "-s", warmed, "-q").code == 0


def _flip_bits(store: Path) -> set[str]:
    rng = random.Random(os.urandom(8))
    chosen = rng.sample(sorted(entries(store).items()), FLIPPED)
    for _, path in chosen:
        data = bytearray(path.read_bytes())
        bit = rng.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        times = path.stat().st_atime_ns, path.stat().st_mtime_ns
        path.chmod(0o600)
        path.write_bytes(data)  # in place, as a disk does it
        os.utime(path, ns=times)
    return {key for key, _ in chosen}
