from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from tests.assemble.corpora import corpus_of
from tests.e2e.command import many
from vcache_cli import WarmOptions
from vcache_cli.assemble import WarmRun, open_root, open_store, open_warm
from vcache_cli.errors import ModelError, PartialFailureError, StoreFullError, UsageError
from vcache_cli.outcome import Status
from vcache_cli.store.runs import last_run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def _run(store: Path, model: Path, *paths: Path, options: WarmOptions | None = None) -> WarmRun:
    chosen = options or WarmOptions()
    return open_warm(corpus_of(*paths), store=store, model=str(model), options=chosen)


@pytest.mark.processes
def test_the_summary_is_the_sum_of_the_outcomes(
    samples: Path, media: Path, tiny_siglip: Path, store: Path
) -> None:
    with _run(store, tiny_siglip, media, samples / "bad") as run:
        outcomes = list(run)
        fields = run.summary().as_json()
    statuses = [outcome.status for outcome in outcomes]
    assert fields["items"]["total"] == len(outcomes)
    assert (
        fields["items"] | {each.value: statuses.count(each) for each in Status} == fields["items"]
    )
    assert fields["bytes"]["written"] == sum(each.bytes_written for each in outcomes)
    assert fields["interrupted"] is False
    with open_store(store) as reader:
        for outcome in outcomes:
            held = outcome.key is not None and reader.contains(outcome.key)
            assert held == (outcome.status in {Status.STORED, Status.COPY})


def test_the_run_file_tells_the_same(media: Path, tiny_siglip: Path, store: Path) -> None:
    with _run(store, tiny_siglip, media) as run:
        count = len(list(run))
        summary = run.summary().as_json()
    log = last_run(open_root(store))
    assert log is not None
    assert log.id == summary["run"]
    assert log.summary is not None
    assert log.summary["items"]["total"] == count == len(list(log.outcomes()))


def test_a_stopped_run_says_so(media: Path, tiny_siglip: Path, store: Path, tmp_path: Path) -> None:
    """Far more pictures than can be in flight, however slow the disk is."""
    corpus = many(tmp_path / "many", media / "thumbnail.bmp", 200)
    options = WarmOptions(workers=1, batch_size=1)
    with _run(store, tiny_siglip, corpus, options=options) as run:
        for outcome in run:
            if outcome.status is Status.STORED:
                run.stop()
        fields = run.summary().as_json()
    assert fields["interrupted"] is True
    assert 0 < fields["items"]["stored"] < 200


def test_a_left_run_keeps_what_was_stored(media: Path, tiny_siglip: Path, store: Path) -> None:
    with _run(store, tiny_siglip, media) as run:
        stored = next(outcome for outcome in run if outcome.status is Status.STORED)
    assert stored.key
    with open_store(store) as reader:
        assert reader.get(stored.key) is not None
    with _run(store, tiny_siglip, media) as again:
        assert Status.PRESENT in {outcome.status for outcome in again}


def test_the_first_failure_ends_a_strict_run(samples: Path, tiny_siglip: Path, store: Path) -> None:
    options = WarmOptions(on_error="fail")
    with (
        _run(store, tiny_siglip, samples / "bad", options=options) as run,
        pytest.raises(PartialFailureError),
    ):
        list(run)


@pytest.mark.parametrize("on_error", ["skip", "fail"])
def test_workers_end_with_the_run(
    samples: Path, tiny_siglip: Path, store: Path, on_error: Literal["skip", "fail"]
) -> None:
    before = set(threading.enumerate())
    with _run(store, tiny_siglip, samples / "bad", options=WarmOptions(on_error=on_error)) as run:
        with suppress(PartialFailureError):
            list(run)
        assert set(threading.enumerate()) - before
    assert not set(threading.enumerate()) - before


def test_a_budget_that_holds_nothing_ends_the_run(
    media: Path, tiny_siglip: Path, store: Path
) -> None:
    options = WarmOptions(max_size_bytes=100)
    with (
        _run(store, tiny_siglip, media, options=options) as run,
        pytest.raises(StoreFullError),
    ):
        list(run)
    with open_store(store) as reader:
        assert not list(reader.root.path.glob("??/*"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (WarmOptions(max_errors="few"), UsageError),
        (WarmOptions(target="none"), UsageError),
        (WarmOptions(backend="abacus"), ModelError),
        (WarmOptions(output="soup"), ModelError),
    ],
    ids=["max_errors", "target", "backend", "output"],
)
def test_a_choice_that_makes_no_sense_makes_no_store(
    media: Path, tiny_siglip: Path, store: Path, options: WarmOptions, error: type[Exception]
) -> None:
    with pytest.raises(error):
        _run(store, tiny_siglip, media, options=options)
    assert not store.exists()


def test_a_model_of_the_same_numbers_under_another_name_hits(
    media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    """The key names what was computed, never where it lay."""
    with _run(store, tiny_siglip, media / "hills.jpg") as run:
        list(run)
    elsewhere = Path(shutil.copytree(tiny_siglip, tmp_path / "elsewhere"))
    config = (elsewhere / "config.json").read_text("utf-8")
    changed = config.replace("{", '{"transformers_version": "9.9.9",', 1)
    (elsewhere / "config.json").write_text(changed, "utf-8")
    with _run(store, elsewhere, media / "hills.jpg") as run:
        assert [outcome.status for outcome in run] == [Status.PRESENT]
