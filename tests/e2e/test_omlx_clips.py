"""Clips of which oMLX makes pictures: each frame an entry, as a reader of its rules looks it up.

The one family that oMLX treats so needs mlx-vlm's own code, and is tried in `tests/parity`; here
the frames are those of a family that has a tower.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.cli.running import running
from tests.e2e.command import aged
from tests.e2e.omlx_lookup import Engine, clip_indices, clip_pictures
from tests.e2e.test_omlx_warm import LEAST, MOST, tiny_model
from tests.media.clip_traps import sound_only
from tests.media.clips import index_of, made_clip
from tests.media.containers import clip_uri, filmed_chat, log
from vcache_cli import open_store, registry
from vcache_cli.preprocess.video_stills import OmlxStills

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.running import Vcache

FAMILY = "qwen2_5_vl"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"), FAMILY)


@pytest.fixture(autouse=True)
def frames_are_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if oMLX took frames of this family's clips."""
    load = registry.load
    stills: Callable[[str, str], object] = lambda group, name: (  # noqa: E731
        OmlxStills(FAMILY) if (group, name) == ("clips", FAMILY) else load(group, name)
    )
    monkeypatch.setattr(registry, "load", stills)
    monkeypatch.setenv("VCACHE_ISOLATION", "thread")


@pytest.fixture
def words(model: Path, tmp_path: Path) -> tuple[object, ...]:
    store = tmp_path / "vision_features"
    return ("-m", model, "--target", "omlx", "-s", store, "--backend", "numpy", "--json")


def clip_at(path: Path, length: int, **settings: Any) -> Path:  # noqa: ANN401  of `made_clip`
    path.write_bytes(made_clip(length, **settings))
    return path


@pytest.fixture
def vcache(capsys: pytest.CaptureFixture[str]) -> Vcache:
    return running(capsys)


def test_every_frame_that_the_server_takes_hits(
    vcache: Vcache, words: tuple[object, ...], model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "clips"
    folder.mkdir()
    lengths = {1: 1000, 2: 1100, 15: 1200, 16: 1300, 17: 1400, 90: 1500}  # to what each begins with
    clips = {
        length: clip_at(folder / f"{length}.mp4", length, first=first)
        for length, first in lengths.items()
    }
    run = vcache("warm", folder, *words)
    assert run.code == 0, run.err
    assert run.document["items"]["stored"] == len(lengths)
    engine = Engine(tmp_path / "vision_features", str(model), LEAST, MOST)
    asked = hits = 0
    for length, path in clips.items():
        pictures = clip_pictures(path.read_bytes())
        seen = [index_of(np.array(each)) - lengths[length] for each in pictures]
        assert seen == clip_indices(length)
        answers = [engine.answer([each]) for each in pictures]
        asked += len(answers)
        hits += sum(each.hit == "images" and each.skips_processor for each in answers)
        assert engine.answer(pictures).hit == "images"  # the request as it comes
        assert engine.answer([*pictures, pictures[0]]).hit == "images"
    assert (hits, asked) == (66, 66)


def test_a_clip_is_present_when_all_its_frames_are(
    vcache: Vcache, words: tuple[object, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "clips"
    folder.mkdir()
    clip_at(folder / "a.mp4", 40)
    (folder / "b.mp4").write_bytes((folder / "a.mp4").read_bytes())
    aged(folder)
    first = vcache("warm", folder, *words)
    assert first.document["items"]["stored"] == first.document["items"]["copy"] == 1
    again = vcache("warm", folder, *words)
    assert again.document["items"]["present"] == 2
    assert again.document["bytes"] == {"read": 0, "written": 0}
    assert vcache("check", folder, *words).code == 0
    files = sorted((tmp_path / "vision_features").glob("?/*.safetensors"))
    assert len(files) == 16
    files[3].unlink()
    missed = vcache("check", folder / "a.mp4", *words)
    assert missed.code == 5
    (cold,) = missed.document["cold_items"]
    assert cold["reason"] == "1 of 16 frames: no entry under its key"
    assert cold["tokens"] > 0
    mended = vcache("warm", folder / "a.mp4", *words)
    assert mended.document["items"]["stored"] == 1
    assert mended.document["bytes"]["written"] == files[3].stat().st_size


def test_a_frame_is_the_entry_of_the_same_picture(
    vcache: Vcache, words: tuple[object, ...], tmp_path: Path
) -> None:
    clip = clip_at(tmp_path / "a.mp4", 5)
    clip_pictures(clip.read_bytes())[2].save(tmp_path / "frame.png")
    assert vcache("warm", clip, *words).code == 0
    assert vcache("check", tmp_path / "frame.png", *words).document["warm"] == 1
    assert vcache("warm", tmp_path / "frame.png", *words).document["items"]["present"] == 1


def test_an_entry_says_of_which_frame_it_is_and_whether_it_is_exact(
    vcache: Vcache, words: tuple[object, ...], tmp_path: Path
) -> None:
    unsteady = clip_at(tmp_path / "a.mp4", 3, shown_at=[0, 1, 5])
    run = vcache("warm", unsteady, *words)
    assert [each["kind"] for each in run.document["warnings"]] == ["clip_variable_rate"]
    store = open_store(tmp_path / "vision_features")
    paths = (tmp_path / "vision_features").glob("?/*.safetensors")
    entries = [entry for path in paths if (entry := store.get(path.stem))]
    told = {(e.metadata["vcache.frame_index"], e.metadata["vcache.exact"]) for e in entries}
    assert told == {("0", "false"), ("1", "false"), ("2", "false")}
    assert all(json.loads(entry.metadata["grid_thw"])[0] == 1 for entry in entries)


def test_frames_are_computed_anew(
    vcache: Vcache, words: tuple[object, ...], model: Path, tmp_path: Path
) -> None:
    clip_at(tmp_path / "a.mp4", 20)
    assert vcache("warm", tmp_path / "a.mp4", *words).code == 0
    store = tmp_path / "vision_features"
    run = vcache("verify", store, "--level", "recompute", "--model", model, "--json")
    assert run.code == 0, run.out
    told = run.document["recomputed"]
    assert told["compared"] == told["within_tolerance"] == 16
    assert not told["drifted"]
    assert not told["not_recomputable"]


def test_the_server_takes_up_to_so_many_frames_whatever_the_rate(
    vcache: Vcache, words: tuple[object, ...], model: Path, tmp_path: Path
) -> None:
    clip = clip_at(tmp_path / "a.mp4", 40)
    refused = vcache("warm", clip, *words, "--fps", "2")
    assert refused.code == 15
    assert "--max-frames" in refused.document["error"]["hint"]
    assert vcache("warm", clip, *words, "--max-frames", "4").code == 0
    engine = Engine(tmp_path / "vision_features", str(model), LEAST, MOST)
    assert engine.answer(clip_pictures(clip.read_bytes(), 4)).hit == "images"
    assert engine.answer(clip_pictures(clip.read_bytes(), 5)).hit == "none"


def test_a_clip_without_pictures_fails_alone(
    vcache: Vcache, words: tuple[object, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "clips"
    folder.mkdir()
    clip_at(folder / "a.mp4", 3)
    (folder / "b.mp4").write_bytes(sound_only())
    run = vcache("warm", folder, *words)
    assert run.code == 3
    assert run.document["items"] | {"skipped": 0} == run.document["items"]
    assert (run.document["items"]["stored"], run.document["items"]["failed"]) == (1, 1)


def test_clips_of_a_log_are_the_same_entries(
    vcache: Vcache, words: tuple[object, ...], tmp_path: Path
) -> None:
    clip = clip_at(tmp_path / "a.mp4", 20)
    assert vcache("warm", clip, *words).code == 0
    path = log(tmp_path / "l.jsonl", [filmed_chat(clip_uri(clip.read_bytes()))])
    assert vcache("warm", path, *words).document["items"]["present"] == 1
