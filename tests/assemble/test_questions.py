"""`check_corpus` and `plan_warm` foretell what a warm then does, and change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assemble.corpora import corpus_of
from vcache_cli import WarmOptions, warm
from vcache_cli.assemble import WarmPlan, check_corpus, create_root, plan_warm
from vcache_cli.errors import ModelError, NotAStoreError, UsageError
from vcache_cli.outcome import Status

OPTIONS = WarmOptions()


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.safetensors")}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def _plan(store: Path, model: Path, *paths: Path, options: WarmOptions = OPTIONS) -> WarmPlan:
    return plan_warm(corpus_of(*paths), store=store, model=str(model), options=options)


def test_a_plan_makes_no_store(media: Path, tiny_siglip: Path, store: Path) -> None:
    plan = _plan(store, tiny_siglip, media)
    assert not store.exists()
    assert plan.present == 0
    assert plan.bytes_free is not None
    assert plan.bytes_free > 0


def test_a_plan_foretells_counts_and_bytes(media: Path, tiny_siglip: Path, store: Path) -> None:
    plan = _plan(store, tiny_siglip, media)
    outcomes = list(warm([str(media)], store=store, model=tiny_siglip))
    made = [each for each in outcomes if each.status in {Status.STORED, Status.COPY}]
    assert plan.total == len(outcomes)
    assert plan.to_do == len(made)
    assert plan.unsupported == plan.total - plan.to_do
    assert plan.bytes_to_read == sum(each.bytes_read for each in made)
    [size] = {path.stat().st_size for path in _files(store)}
    assert plan.as_json()["bytes"]["to_write_estimate"] == pytest.approx(size * plan.to_do, rel=0.1)
    after = _plan(store, tiny_siglip, media)
    assert (after.to_do, after.present, after.unsupported) == (0, plan.to_do, plan.unsupported)


def test_coverage_counts_what_a_server_could_be_asked(
    samples: Path, media: Path, tiny_siglip: Path, store: Path
) -> None:
    kept = media / "hills.jpg"
    list(warm([str(kept)], store=store, model=tiny_siglip))
    before = _files(store)
    corpus = corpus_of(kept, media / "chart.png", media / "clip.mp4", samples / "bad")
    report = check_corpus(corpus, store=store, model=str(tiny_siglip), options=OPTIONS)
    assert (report.warm, report.skipped) == (1, 1)
    assert report.cold + report.unreadable == 4
    assert report.coverage == 1 / 5
    assert str(kept) not in {item["source"] for item in report.cold_items}
    assert _files(store) == before


def test_another_recipe_misses(media: Path, tiny_siglip: Path, store: Path) -> None:
    picture = media / "hills.jpg"
    list(warm([str(picture)], store=store, model=tiny_siglip))
    other = WarmOptions(dtype="float32")
    report = check_corpus(corpus_of(picture), store=store, model=str(tiny_siglip), options=other)
    assert (report.warm, report.cold) == (0, 1)
    assert _plan(store, tiny_siglip, picture, options=other).to_do == 1
    [told] = [item["reason"] for item in report.cold_items]
    assert told.endswith("one is there with stored_dtype BF16, not F32")


def test_a_store_of_another_target_is_not_asked(
    media: Path, tiny_siglip: Path, store: Path
) -> None:
    corpus = corpus_of(media / "hills.jpg")
    create_root(store, target="omlx")
    for ask in (check_corpus, plan_warm):
        with pytest.raises(UsageError, match="is a store of target `omlx`, not `na") as caught:
            ask(corpus, store=store, model=str(tiny_siglip), options=OPTIONS)
        assert caught.value.hint == "say `--target omlx`, or name another --store"


def test_a_check_needs_a_store_and_a_model(media: Path, tiny_siglip: Path, store: Path) -> None:
    corpus = corpus_of(media / "hills.jpg")
    with pytest.raises(NotAStoreError):
        check_corpus(corpus, store=store, model=str(tiny_siglip), options=OPTIONS)
    with pytest.raises(ModelError):
        check_corpus(corpus, store=store, model=str(media), options=OPTIONS)
    for options in (WarmOptions(target="none"), WarmOptions(profile="none")):
        with pytest.raises(UsageError, match="none"):
            _plan(store, tiny_siglip, media, options=options)
    assert not store.exists()
