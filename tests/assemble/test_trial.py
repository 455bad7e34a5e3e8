"""A dry run foretells time, room and reasons, and leaves nothing behind."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assemble.corpora import corpus_of
from vcache_cli import WarmOptions, warm
from vcache_cli.assemble import WarmPlan, load_recipe, plan_warm
from vcache_cli.assemble.trial import Sample, Trial, try_items
from vcache_cli.items import FileStat, MediaItem, Pixels

OPTIONS = WarmOptions(isolation="thread", workers=1)


def plan_of(store: Path, model: Path, *paths: Path, options: WarmOptions = OPTIONS) -> WarmPlan:
    return plan_warm(corpus_of(*paths), store=store, model=str(model), options=options)


def item(path: Path | str, size_bytes: int = 1) -> MediaItem:
    return MediaItem(str(path), FileStat(size_bytes, 0, 0, 0, 0))


def test_the_time_is_foretold_of_what_is_to_do(
    media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    first, second = media / "hills.jpg", media / "chart.png"
    list(warm([str(first)], store=store, model=tiny_siglip))
    before = {path: path.stat() for path in store.rglob("*.safetensors")}
    plan = plan_of(store, tiny_siglip, first, second)
    document = plan.as_json()
    assert document["sample"]["items"] == document["items"]["to_do"] == 1
    assert document["seconds_estimate"] > 0
    assert {path: path.stat() for path in store.rglob("*.safetensors")} == before
    again = plan_of(store, tiny_siglip, first)
    assert (again.trial, again.seconds_estimate) == (None, None)


def test_a_trial_ends_with_its_time(media: Path, tiny_siglip: Path) -> None:
    loaded = load_recipe(str(tiny_siglip), OPTIONS)
    slow: Iterator[int] = count(step=2)
    names = ("hills.jpg", "chart.png", "scan.tiff", "coast.avif", "valley.webp")
    items = [item(media / name) for name in names]
    trial = try_items(items, loaded, OPTIONS, clock=lambda: float(next(slow)))
    assert trial is not None
    assert 0 < trial.items < len(items)
    assert try_items([], loaded, OPTIONS) is None


def test_items_of_one_batch_are_told_apart_from_the_start(
    media: Path, tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes of a batch come together: by these alone, its items would take no time."""
    loaded = load_recipe(str(tiny_siglip), OPTIONS)
    kind = type(loaded.encoder)
    encode = vars(kind)["encode"]

    def slow(encoder: object, batch: Sequence[Pixels]) -> object:
        time.sleep(0.01 * len(batch))
        return encode(encoder, batch)

    monkeypatch.setattr(kind, "encode", slow)
    names = ("hills.jpg", "chart.png", "scan.tiff", "coast.avif", "valley.webp")
    trial = try_items([item(media / name) for name in names], loaded, OPTIONS)
    assert trial is not None
    assert trial.item_seconds >= 0.01


def test_a_plan_for_more_machines_takes_no_longer(
    media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    corpus = corpus_of(media / "hills.jpg", media / "chart.png")
    plan = plan_warm(corpus, store=tmp_path / "s", model=str(tiny_siglip), options=OPTIONS, nodes=3)
    scale = plan.as_json()["scale"]
    assert (scale["nodes"], scale["read_requests"]) == (3, 2)
    assert scale["store_bytes"] == pytest.approx(plan.bytes_to_write, abs=2)
    assert scale["seconds"] > plan.load_seconds > 0
    assert 0 < scale["seconds"] <= scale["node_seconds"]
    plan.nodes = None
    assert plan.as_json()["scale"] is None


@given(items=st.integers(1, 10_000), first=st.floats(0, 9), rest=st.floats(0, 99))
def test_a_whole_sample_takes_as_long_as_it_took(items: int, first: float, rest: float) -> None:
    trial = Trial(items, first, first + rest if items > 1 else first)
    assert trial.seconds_for(items) == pytest.approx(
        trial.seconds * max(1, items * (items < 2)), abs=1e-3
    )
    assert trial.seconds_for(items + 1) >= trial.seconds_for(items)


def test_a_sample_is_bounded_and_the_same_each_time() -> None:
    samples = Sample(), Sample()
    for sample in samples:
        for number in range(1_000):
            sample.add(item(f"{number}.png"))
        sample.add(item("huge.tiff", 2**30))
    first, second = samples
    assert first.items == second.items
    assert len(first.items) == 128
    assert (first.seen, first.left_out) == (1_000, 1)
    assert any(int(each.path.removesuffix(".png")) > 500 for each in first.items)


def test_too_little_room_is_told(media: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    small = WarmOptions(isolation="thread", max_size_bytes=1_000)
    plan = plan_of(tmp_path / "store", tiny_siglip, media / "hills.jpg", options=small)
    assert (plan.fits, plan.as_json()["bytes"]["room"]) == (False, 1_000)
    large = WarmOptions(isolation="thread", min_free_bytes=2**62)
    assert (
        plan_of(tmp_path / "store", tiny_siglip, media / "hills.jpg", options=large).fits is False
    )
    assert plan_of(tmp_path / "store", tiny_siglip, media / "hills.jpg").fits


def test_reasons_are_counted_and_the_most_frequent_comes_first(
    samples: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    skips = plan_of(tmp_path / "store", tiny_siglip, samples).as_json()["skips"]
    assert skips[0]["kind"] == "not_media"
    assert [each["items"] for each in skips] == sorted((s["items"] for s in skips), reverse=True)
    assert {each["kind"] for each in skips} >= {"not_media", "unrecognised", "video"}
