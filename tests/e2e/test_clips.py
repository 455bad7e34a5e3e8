"""Whole runs over a folder with videos in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vcache_cli as vcache_library
from samples.make_tiny_qwen import make_checkpoint
from tests.e2e.command import entries, vcache
from tests.media.clip_traps import sound_only
from tests.media.clips import made_clip


@pytest.fixture
def corpus(media: Path, tmp_path: Path) -> Path:
    """Pictures, and three clips: one plain, one of varying distances, one without pictures."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for path in sorted(media.glob("*.jpg"))[:2]:
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "plain.mp4").write_bytes(made_clip(90))
    unsteady = sorted({at + at // 9 + (at % 7 == 3) * 2 for at in range(90)})
    clip = made_clip(len(unsteady), shown_at=unsteady)
    (folder / "unsteady.mp4").write_bytes(clip)
    (folder / "sound.mp4").write_bytes(sound_only())
    return folder


@pytest.mark.parametrize("stage", ["pixels", "features"])
@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_clips_are_warmed_once(
    family: str, stage: str, corpus: Path, store: Path, tmp_path: Path
) -> None:
    model = make_checkpoint(tmp_path / "model", family=family)
    args = (corpus, "-m", model, "-s", store, "--stage", stage, "--backend", "numpy", "--json",
            "--profile", "mlx-vlm-0.7", "--force-profile", "--num-frames", "6")  # fmt: skip
    first = vcache("warm", *args)
    assert first.code == 3, first.err  # the clip without pictures
    assert first.items["failed"] == 1
    assert vcache("check", *args, "--fail-under", "0%").document["warm"] == first.items["stored"]
    again = vcache("warm", *args)
    assert again.items["present"] == first.items["stored"]
    assert again.items["stored"] == 0
    slower = vcache("warm", *args[:-1], "4")
    assert slower.items["stored"] == 2  # the clips, by other frames
    opened = vcache_library.open_store(store)
    clips = [opened.get(path.stem) for path in entries(store).values()]
    told = [each.metadata for each in clips if each and "vcache.frame_seconds" in each.metadata]
    assert sorted(each["vcache.exact"] for each in told) == ["false", "false", "true", "true"]
    assert {len(each["vcache.frame_seconds"].split()) for each in told} == {4, 6}


def test_a_clip_is_stored_under_the_names_of_the_server(
    corpus: Path, store: Path, tmp_path: Path
) -> None:
    model = make_checkpoint(tmp_path / "model", family="qwen3_vl")
    run = vcache("warm", corpus / "plain.mp4", "-m", model, "-s", store, "--stage", "pixels",
                 "--profile", "mlx-vlm-0.7", "--force-profile", "--json")  # fmt: skip
    assert run.code == 0, run.err
    (path,) = entries(store).values()
    assert vcache("inspect", path, "--json").code == 0
    entry = vcache_library.open_store(store).get(path.stem)
    assert entry is not None
    assert set(entry.tensors) == {"pixel_values_videos", "video_grid_thw"}
    assert entry.numpy("video_grid_thw")[0] == 3  # six frames, two a time
    assert np.prod(entry.numpy("video_grid_thw")) == len(entry.numpy("pixel_values_videos"))


def test_frames_cannot_be_asked_for_of_a_model_without_clips(
    media: Path, store: Path, tiny_siglip: Path
) -> None:
    run = vcache("warm", media, "-m", tiny_siglip, "-s", store, "--fps", "2")
    assert run.code == 15
    assert "take no videos" in run.err


def test_the_key_of_a_corpus_names_its_videos_and_how_frames_are_taken(
    corpus: Path, tmp_path: Path
) -> None:
    model = make_checkpoint(tmp_path / "model", family="qwen3_vl")
    args = ("-m", model, "--stage", "pixels", "--json")
    first = vcache("key", corpus, *args).document
    assert first["items"] == 5  # one of the clips cannot be decoded
    others = [vcache("key", corpus, *args, "--num-frames", "4").document["key"]]
    (corpus / "plain.mp4").write_bytes(made_clip(30))
    others.append(vcache("key", corpus, *args).document["key"])
    assert len({first["key"], *others}) == 3


@pytest.mark.parametrize("stage", ["pixels", "features"])
def test_clips_are_computed_anew(stage: str, corpus: Path, store: Path, tmp_path: Path) -> None:
    """With the frames that were asked for then, whatever the model's settings ask for now."""
    model = make_checkpoint(tmp_path / "model", family="qwen3_vl")
    args = (corpus, "-m", model, "-s", store, "--stage", stage, "--backend", "numpy")
    assert vcache("warm", *args).code == 3  # the clip without pictures
    assert vcache("warm", *args, "--num-frames", "6").code == 3
    verified = vcache("verify", store, "--level", "recompute", "--model", model, "--json")
    assert verified.code == 0, verified.err
    told = verified.document["recomputed"]
    assert told["compared"] == told["within_tolerance"] == 6
    assert not told["not_recomputable"]
    assert not told["drifted"]
    (corpus / "plain.mp4").write_bytes(made_clip(30))
    again = vcache("verify", store, "--level", "recompute", "--model", model, "--json")
    assert again.document["recomputed"]["not_recomputable"] == {"source_changed": 2}


def test_a_server_that_may_take_other_frames_gets_no_videos(
    corpus: Path, store: Path, tmp_path: Path
) -> None:
    model = make_checkpoint(tmp_path / "model", family="qwen2_5_vl")
    args = (corpus, "-m", model, "-s", store, "--target", "vllm-ec", "--backend", "numpy")
    run = vcache("warm", *args)
    assert run.code == 0, run.err
    assert "3 videos skipped: target `vllm-ec` takes no videos here" in run.err
    assert vcache("warm", *args, "--json").document["skips"] == {"video": 3}  # from the memo
    refused = vcache("warm", *args, "--fps", "2")
    assert refused.code == 15
    assert "`vllm-ec` takes no videos" in refused.err
