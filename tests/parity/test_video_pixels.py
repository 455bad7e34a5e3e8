"""Pixels of clips against the video processor of mlx-vlm, and its way round where it has none."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.parity.filmed import CLIPS, FAMILIES, PUBLISHED, QWEN, filmed, made, written
from tests.parity.fixtures import differing
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.errors import EncodeError
from vcache_cli.items import Frames
from vcache_cli.preprocess.profiles import MLX_VLM_0_7

if TYPE_CHECKING:
    from pathlib import Path

    from tests.parity.tally import Tally

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

VARIANTS: dict[str, dict[str, Any]] = {
    "published": {},
    "bare": {"image_mean": None, "image_std": None, "size": None, "min_pixels": None},
    "small": {"min_pixels": 784, "max_pixels": 60_000},
    "large": {"min_pixels": 400_000},
    "not-normalised": {"do_normalize": False},
    "not-rescaled": {"do_rescale": False},
    "another-grid": {"patch_size": 8, "merge_size": 3, "temporal_patch_size": 3},
    "slow": {"fps": 0.5, "min_frames": 2, "max_frames": 6},
    "null-rates": {"fps": None, "min_frames": None, "max_frames": None},
}


def server_processor(folder: Path, name: str) -> Any:  # noqa: ANN401  untyped library
    module = importlib.import_module("mlx_vlm.models.qwen3_vl.processing_qwen3_vl")
    side = QWEN[name].patch_size
    settings = module._qwen_vl_video_kwargs(folder, default_patch_size=side)
    return module.Qwen3VLVideoProcessor(**settings)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", QWEN)
def test_pixels_equal_those_of_the_video_processor(
    name: str, variant: str, tmp_path: Path, tally: Tally
) -> None:
    """The frames are those that `load_video` takes by the processor's own wishes."""
    folder = written(tmp_path, name, {**PUBLISHED[name], **VARIANTS[variant]})
    theirs = server_processor(folder, name)
    settings = QWEN[name].resolve(open_checkpoint(str(folder)), MLX_VLM_0_7, {})
    ours = QWEN[name].preprocessor(settings, MLX_VLM_0_7)
    assert_sampling(theirs, settings["sampling"])
    for count, height, width in CLIPS:
        rgb, facts = filmed(count, height, width)
        try:
            indices = list(ours.plan(facts).indices)
        except EncodeError as error:
            if error.item_kind != "sampling":
                with pytest.raises(ValueError, match=r"height|ratio"):
                    theirs([rgb.transpose(0, 3, 1, 2)])
            continue
        expected = theirs([rgb[indices].transpose(0, 3, 1, 2)])
        found = ours.processed([made(ours, rgb, facts)])
        assert set(found) == set(expected)
        wrong = sum(differing(found[each], expected[each]) for each in found)
        fixture = f"{variant} {count} x {height} x {width}"
        values = sum(each.size for each in found.values())
        tally.add(MLX_VLM_0_7.name, f"{name}, clips", fixture, differing=wrong, values=values)
        assert wrong == 0, fixture


def assert_sampling(theirs: Any, ours: dict[str, Any]) -> None:  # noqa: ANN401
    utils = importlib.import_module("mlx_vlm.utils")

    class Processor:
        video_processor = theirs

    resolved = utils.resolve_video_sampling(Processor(), {})
    for name in ("fps", "min_frames", "max_frames"):
        assert getattr(resolved, name) == ours[name]


@pytest.mark.parametrize("name", ["smolvlm", "internvl"])
def test_frames_become_pictures_where_there_is_no_video_processor(
    name: str, tmp_path: Path
) -> None:
    """Each is what the family makes of a picture, which is compared with the server's elsewhere."""
    video = importlib.import_module("mlx_vlm.generate.video")
    folder = written(tmp_path, name, PUBLISHED[name])
    family = FAMILIES[name]
    settings = family.resolve(open_checkpoint(str(folder)), MLX_VLM_0_7, {})
    ours = family.preprocessor(settings, MLX_VLM_0_7)
    picture = family.pictures.preprocessor(settings, MLX_VLM_0_7)
    rgb, facts = filmed(90, 48, 64)
    sampled = np.linspace(0, 89, 24).round().astype(int).tolist()
    assert list(ours.plan(facts).indices) == video.subsample_evenly(sampled, 16)
    pixels = ours(Frames(rgb[:3]))
    parts = [picture(Frames(rgb[at : at + 1])).tensors["pixel_values"] for at in range(3)]
    assert np.array_equal(pixels.tensors["pixel_values"], np.concatenate(parts))
