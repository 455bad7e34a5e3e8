"""Whole runs with a tower that takes each picture at its own size."""

from __future__ import annotations

from pathlib import Path

import pytest

from samples.make_tiny_qwen import make_checkpoint
from tests.e2e.command import entries, vcache


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_pictures_of_all_sizes_are_warmed_in_one_run(
    family: str, media: Path, store: Path, tmp_path: Path
) -> None:
    model = make_checkpoint(tmp_path / family, family=family)
    args = (media, "-m", model, "-s", store, "--stage", "features", "--backend", "numpy", "--json")
    run = vcache("warm", *args)
    assert run.code == 0, run.err
    assert run.items["stored"] + run.items["copy"] + run.items["skipped"] == run.items["total"]
    assert vcache("check", *args).document["coverage"] == 1
    shown = [vcache("inspect", path, "--json").document for path in [*entries(store).values()][:3]]
    assert len({each["num_tokens"] for each in shown}) > 1
    names = {"features", *(("deepstack_0", "deepstack_1") if family == "qwen3_vl" else ())}
    for each in shown:
        shapes = {tensor["name"]: tensor["shape"] for tensor in each["tensors"]}
        assert shapes == {name: [each["num_tokens"], 48] for name in names}
