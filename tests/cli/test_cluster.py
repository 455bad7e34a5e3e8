"""`--engine ray` where there is no Ray, or no sense in what was asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.running import Vcache


def test_without_ray_the_extra_is_named(
    media: Path, tiny_siglip: Path, tmp_path: Path, vcache: Vcache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    store = tmp_path / "store"
    ended = vcache("warm", media, "--model", tiny_siglip, "--store", store, "--engine", "ray")
    assert ended.code == 15
    assert "vcache-cli[ray]" in ended.err
    assert not ended.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--engine", "dask"), "`dask`; available: local, ray"),
        (("--engine", "ray", "--on-full", "prune"), "--on-full prune"),
        (("--engine", "ray", "--encoder-resources", "TPU=1"), "`TPU=1`"),
        (("--engine", "ray", "--encoder-resources", "CPU=0.5"), "`CPU=0.5`"),
        (("--engine", "ray", "--ray-address", "here"), "`here`"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    media: Path, tiny_siglip: Path, vcache: Vcache, words: tuple[str, ...], told: str
) -> None:
    ended = vcache("warm", media, "--model", tiny_siglip, "--store", "store", *words)
    assert ended.code == 2
    assert told in ended.err
