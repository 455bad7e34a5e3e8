"""A short, seeded slice of `make fuzz`; and that the campaign would see a reader that is lax."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fuzz.campaign import Campaign, Tally
from tests.fuzz.mlx_reader import MlxReader
from vcache_cli.header import parse


def slice_of(folder: Path, *, cases: int, asks_mlx: bool = False, to_first: bool = False) -> Tally:
    campaign = Campaign(9, folder, asks_mlx=asks_mlx)
    return campaign.run(seconds=60, cases=cases, to_first=to_first)


def test_what_we_take_the_reference_takes_and_reads_the_same(tmp_path: Path) -> None:
    tally = slice_of(tmp_path, cases=600)
    assert tally.cases == 600
    assert tally.accepted > 50
    assert tally.entries > 5
    assert (tally.dangerous, tally.crashes) == ([], [])


@pytest.mark.needs_mlx
def test_what_we_take_mlx_takes_and_reads_the_same(tmp_path: Path) -> None:
    tally = slice_of(tmp_path, cases=250, asks_mlx=True)
    assert tally.asked_mlx > 20
    assert (tally.dangerous, tally.crashes) == ([], [])


def test_a_file_that_ends_the_process_is_told_and_another_begins() -> None:
    reader = MlxReader((sys.executable, "-S", "-c", "import os; input(); os._exit(9)"))
    assert list(reader.answers(["a", "b"])) == ["crashed: exit status 9"] * 2
    reader.close()


@pytest.mark.parametrize("check", ["_check_cover", "_check_zeros", "_check_surrogates"])
def test_a_reader_without_one_of_its_checks_is_found_out(
    check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a clean campaign would say nothing."""
    monkeypatch.setattr(parse, check, lambda *_: None)
    assert slice_of(tmp_path, cases=3000, to_first=True).dangerous
