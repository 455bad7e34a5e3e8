"""What a warm would write is foretold by headers: no picture is decoded for it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.assemble.corpora import corpus_of
from vcache_cli import WarmOptions, warm
from vcache_cli.assemble import check_corpus, load_recipe, plan_warm, planning
from vcache_cli.checkpoint import TensorRange
from vcache_cli.items import Stage
from vcache_cli.media import PillowDecoder
from vcache_cli.outcome import Status

PIXELS = WarmOptions(stage=Stage.PIXELS)


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    """A model folder of a family whose pictures keep their size; no weights."""
    folder = tmp_path / "qwen"
    folder.mkdir()
    vision = {"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}
    config = {"model_type": "qwen2_vl", "vision_config": vision}
    (folder / "config.json").write_text(json.dumps(config))
    processor = {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136,
                 "max_pixels": 200_704, "patch_size": 14, "merge_size": 2,
                 "temporal_patch_size": 2}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Pictures of several sizes, one that the server refuses, one cut, one without a header."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, width, height in (("a.png", 300, 200), ("b.jpg", 640, 481), ("thin.png", 1, 300)):
        levels = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
        Image.fromarray(levels).save(folder / name)
    data = (folder / "a.png").read_bytes()
    (folder / "cut.png").write_bytes(data[: len(data) // 2])
    (folder / "headless.png").write_bytes(data[:8])
    return folder


def test_broken_bodies_are_foretold_and_broken_headers_are_not(
    qwen: Path, corpus: Path, tmp_path: Path
) -> None:
    plan = plan_warm(corpus_of(corpus), store=tmp_path / "s", model=str(qwen), options=PIXELS)
    assert (plan.total, plan.to_do, plan.unsupported) == (5, 3, 2)
    loaded = load_recipe(qwen, PIXELS)
    sizes = [(300, 200), (640, 481), (300, 200)]
    assert plan.tokens == sum(loaded.preprocessor.num_tokens(*size) for size in sizes)
    assert plan.as_json()["tokens"] == plan.tokens > 0


def test_bytes_and_tokens_are_those_of_the_entries(
    qwen: Path, corpus: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    for name in ("cut.png", "headless.png"):
        (corpus / name).unlink()
    plan = plan_warm(corpus_of(corpus), store=store, model=str(qwen), options=PIXELS)
    outcomes = list(warm([str(corpus)], store=store, model=qwen, options=PIXELS))
    stored = [each for each in outcomes if each.status is Status.STORED]
    assert len(stored) == plan.to_do == 2
    assert plan.unsupported == 1
    written = sum(each.bytes_written for each in stored)
    assert plan.bytes_to_write == pytest.approx(written, rel=0.02)


def test_a_check_tells_tokens_and_what_the_server_refuses(
    qwen: Path, corpus: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    list(warm([str(corpus / "a.png")], store=store, model=qwen, options=PIXELS))
    report = check_corpus(corpus_of(corpus), store=store, model=str(qwen), options=PIXELS)
    assert (report.warm, report.cold, report.unreadable) == (1, 2, 2)
    by_name = {Path(each["source"]).name: each for each in report.cold_items}
    assert "ratio" in by_name["thin.png"]["reason"]
    assert "tokens" not in by_name["thin.png"]
    assert report.cold_tokens == by_name["b.jpg"]["tokens"] + by_name["cut.png"]["tokens"]


def _untried(*_: object) -> None:
    """For what a plan does beside its trial."""


def test_nothing_is_decoded(
    qwen: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: PillowDecoder, data: bytes) -> None:
        pytest.fail("decoded a picture")

    monkeypatch.setattr(PillowDecoder, "decode", refuse)
    monkeypatch.setattr(planning, "try_items", _untried)
    plan = plan_warm(corpus_of(corpus), store=tmp_path / "s", model=str(qwen), options=PIXELS)
    assert plan.to_do == 3


def test_features_are_foretold_by_tokens(media: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    store, picture = tmp_path / "store", media / "hills.jpg"
    plan = plan_warm(corpus_of(picture), store=store, model=str(tiny_siglip), options=WarmOptions())
    [outcome] = warm([str(picture)], store=store, model=tiny_siglip)
    assert plan.bytes_to_write == pytest.approx(outcome.bytes_written, rel=0.05)


def test_a_plan_and_a_check_read_no_weights_that_are_known(
    media: Path, tiny_siglip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns() + 3600 * 10**9  # what was just written is settled
    monkeypatch.setattr("vcache_cli.encode.fingerprints.time.time_ns", lambda: now)
    store, model, options = tmp_path / "s", str(tiny_siglip), WarmOptions()
    list(warm([str(media / "hills.jpg")], store=store, model=model))

    def refuse(place: TensorRange) -> memoryview:
        pytest.fail(f"read {place}")

    monkeypatch.setattr("vcache_cli.checkpoint.folder.read_tensor", refuse)
    monkeypatch.setattr(planning, "try_items", _untried)
    plan = plan_warm(corpus_of(media), store=store, model=model, options=options)
    assert 0 < plan.present < plan.to_do
    assert plan.bytes_to_write > 0
    assert (
        check_corpus(corpus_of(media), store=store, model=model, options=options).warm
        == plan.present
    )
