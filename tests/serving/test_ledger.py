"""Sizes and recency of a directory that others change too."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from vcache_cli.serving.ledger import Ledger
from vcache_cli.targets import OmlxLayout

if TYPE_CHECKING:
    import pytest

LAYOUT = OmlxLayout()


def key(number: int) -> str:
    return f"{number % 16:x}{number:063x}"


def place(root: Path, number: int, *, size: int = 10, used: float | None = None) -> Path:
    path = root / LAYOUT.path_of(key(number))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(size))
    if used is not None:
        os.utime(path, (used, used))
    return path


def order(ledger: Ledger) -> list[str]:
    """Keys as they would be evicted."""
    found = []
    while (oldest := ledger.oldest(keep="")) is not None:
        found.append(oldest)
        ledger.forget(oldest)
    return found


def test_the_start_takes_the_order_from_the_disk(tmp_path: Path) -> None:
    for number, used in ((1, 300.0), (2, 100.0), (3, 200.0)):
        place(tmp_path, number, used=used)
    ledger = Ledger(str(tmp_path), LAYOUT)
    ledger.refresh()
    assert (len(ledger), ledger.total_bytes) == (3, 30)
    assert order(ledger) == [key(2), key(3), key(1)]
    assert ledger.total_bytes == 0


def test_what_others_do_shows_at_the_next_refresh(tmp_path: Path) -> None:
    paths = [place(tmp_path, number) for number in range(4)]
    ledger = Ledger(str(tmp_path), LAYOUT)
    ledger.refresh()
    paths[0].unlink()
    place(tmp_path, 9, size=7)
    os.replace(place(tmp_path, 8, size=100), paths[1])
    ledger.refresh()
    assert ledger.total_bytes == 100 + 10 + 10 + 7
    assert ledger.get(key(0)) is None
    paths[2].parent.rename(tmp_path / "away")
    ledger.refresh()
    assert ledger.total_bytes == 100 + 10 + 7


def test_a_settled_directory_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place(tmp_path, 1)
    os.utime(path.parent, (1e9, 1e9))
    ledger = Ledger(str(tmp_path), LAYOUT)
    ledger.refresh()
    monkeypatch.setattr(os, "scandir", None)
    ledger.refresh()
    assert ledger.total_bytes == 10


def test_a_use_by_others_counts_when_it_matters(tmp_path: Path) -> None:
    """A touch changes no directory, so only a look at the file tells."""
    first, _ = place(tmp_path, 1, used=100.0), place(tmp_path, 2, used=200.0)
    ledger = Ledger(str(tmp_path), LAYOUT)
    ledger.refresh()
    os.utime(first, (300.0, 300.0))
    assert ledger.oldest(keep="") == key(2)
    assert ledger.oldest(keep=key(2)) == key(1)


def test_a_file_that_vanished_is_not_offered(tmp_path: Path) -> None:
    first, _ = place(tmp_path, 1, used=100.0), place(tmp_path, 2, used=200.0)
    ledger = Ledger(str(tmp_path), LAYOUT)
    ledger.refresh()
    first.unlink()
    assert ledger.oldest(keep="") == key(2)
    assert ledger.total_bytes == 10


def test_times_in_the_future_end(tmp_path: Path) -> None:
    future = time.time() + 1e6
    for number in (1, 2):
        place(tmp_path, number, used=future)
    ledger = Ledger(str(tmp_path), LAYOUT)
    ledger.refresh()
    assert sorted(order(ledger)) == [key(1), key(2)]


@settings(max_examples=50)
@given(steps=st.lists(st.tuples(st.sampled_from("pufo"), st.integers(0, 5)), max_size=60))
def test_the_ledger_is_the_directory_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    root = tmp_path_factory.mktemp("ledger")
    ledger = Ledger(str(root), LAYOUT)
    model: list[str] = []
    for moment, (step, number) in enumerate(steps, start=1):
        name = key(number)
        if step == "p":
            path = place(root, number, used=float(moment))
            ledger.add(name, path.stat())
            model = [*(each for each in model if each != name), name]
        elif step == "u" and name in model:
            os.utime(root / LAYOUT.path_of(name), (moment, moment))
            model = [*(each for each in model if each != name), name]
        elif step == "f" and name in model:
            (root / LAYOUT.path_of(name)).unlink()
            model.remove(name)
            ledger.refresh()
        elif step == "o":
            assert ledger.oldest(keep="") == (model[0] if model else None)
        assert ledger.total_bytes == 10 * len(ledger)
    ledger.refresh()
    assert order(ledger) == model
