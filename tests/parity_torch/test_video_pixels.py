"""Pixels of clips against the video processors of transformers, all of which run on torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.parity.filmed import CLIPS, FAMILIES, PUBLISHED, filmed, made, written
from tests.parity.fixtures import differing
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from vcache_cli.clips import ClipFacts

pytestmark = [pytest.mark.parity_torch, pytest.mark.filterwarnings("ignore")]

PROCESSORS = {
    "qwen2_vl": "Qwen2VLVideoProcessor",
    "qwen2_5_vl": "Qwen2VLVideoProcessor",
    "qwen3_vl": "Qwen3VLVideoProcessor",
    "qwen3_5": "Qwen3VLVideoProcessor",
    "smolvlm": "SmolVLMVideoProcessor",
    "internvl": "InternVLVideoProcessor",
}
VARIANTS: dict[str, dict[str, Any]] = {
    "published": {},
    "sampled": {"do_sample_frames": True, "fps": 2},
    "counted": {"do_sample_frames": True, "num_frames": 4, "fps": None},
    "all-frames": {"do_sample_frames": False},
    "small": {"size": {"shortest_edge": 784, "longest_edge": 60_000}},
    "large": {"size": {"shortest_edge": 400_000, "longest_edge": 900_000}},
    "old-limits": {"min_pixels": 100_000, "max_pixels": 200_000},
    "one-edge": {"size": {"longest_edge": 60_000}},
    "null-size": {"size": None},
    "capped": {"cap_pixels_per_frame": True, "max_video_tokens": 300},
    "not-normalised": {"do_normalize": False},
    "not-rescaled": {"do_rescale": False},
    "another-factor": {"rescale_factor": 0.00392156862745098},
    "scaled-twice": {"rescale_factor": 1 / 127.5},
    "another-grid": {"patch_size": 8, "merge_size": 3, "temporal_patch_size": 3},
    "lanczos": {"resample": 1},
    "bilinear": {"resample": 2},
}
OF_GRIDS = ("small", "large", "old-limits", "one-edge", "null-size", "capped", "another-grid")
TWINS = ("qwen2_5_vl", "qwen3_5")
"""Families that have the processor of another one."""
OF_TWINS = ("published", "sampled", "small", "another-grid")
CASES = [
    (name, variant)
    for name in PROCESSORS
    for variant in VARIANTS
    if (name.startswith("qwen") or variant not in OF_GRIDS)
    and (name not in TWINS or variant in OF_TWINS)
]
MANY, VERY_MANY = 9, 32
"""Frames."""
FAILURES = (ValueError, TypeError, ZeroDivisionError, RuntimeError, IndexError)


def processed(theirs: Any, rgb: NDArray[np.uint8], facts: ClipFacts) -> Any:  # noqa: ANN401
    torch = importlib.import_module("torch")
    metadata = {
        "total_num_frames": facts.num_frames,
        "fps": facts.fps,
        "duration": facts.duration_seconds,
    }
    clip = torch.from_numpy(rgb.transpose(0, 3, 1, 2).copy())
    return theirs(videos=[clip], video_metadata=[metadata], return_tensors="pt")


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_pixels_equal_those_of_the_video_processor(name: str, variant: str, tmp_path: Path) -> None:
    folder = written(tmp_path, name, {**PUBLISHED[name], **VARIANTS[variant]})
    theirs = getattr(importlib.import_module("transformers"), PROCESSORS[name])
    family, checkpoint = FAMILIES[name], open_checkpoint(str(folder))
    try:
        settings = family.resolve(checkpoint, TRANSFORMERS_PIL_5, {})
    except ModelError:
        with pytest.raises(FAILURES):
            processed(theirs.from_pretrained(folder), *filmed(*CLIPS[4]))
        return
    processor = theirs.from_pretrained(folder)
    ours = family.preprocessor(settings, TRANSFORMERS_PIL_5)
    # Frames that become pictures of one size are costly, and each goes the same way.
    most = VERY_MANY if variant == "published" else MANY
    clips = [clip for clip in CLIPS if name.startswith("qwen") or clip[0] < most]
    compared = [compare(ours, processor, *filmed(*clip)) for clip in clips]
    print(f"{name}, {variant}: {sum(compared):,} values, 0 differing")
    assert any(compared)


def compare(ours: Any, theirs: Any, rgb: NDArray[np.uint8], facts: ClipFacts) -> int:  # noqa: ANN401
    """Compared values, all equal; 0 where both refuse the clip, or it is not the decoder's."""
    counted = ours.settings["sampling"].get("num_frames") or 0
    if counted > facts.num_frames and "Qwen3" in type(theirs).__name__:
        return 0  # a frame that is asked for twice comes once from a file, twice from an array
    try:
        pixels = made(ours, rgb, facts)
    except EncodeError:
        with pytest.raises(FAILURES):
            processed(theirs, rgb, facts)
        return 0
    expected = processed(theirs, rgb, facts)
    found = ours.processed([pixels])
    assert set(found) == set(expected)
    wrong = {each: differing(found[each], expected[each].numpy()) for each in found}
    assert set(wrong.values()) == {0}, (facts, wrong)
    return int(sum(each.size for each in found.values()))


def test_shorter_clips_of_a_request_end_in_zeros(tmp_path: Path) -> None:
    """SmolVLM's processor fills them up; its mask says nothing of it."""
    torch = importlib.import_module("torch")
    folder = written(tmp_path, "smolvlm", PUBLISHED["smolvlm"])
    family = FAMILIES["smolvlm"]
    settings = family.resolve(open_checkpoint(str(folder)), TRANSFORMERS_PIL_5, {})
    ours = family.preprocessor(settings, TRANSFORMERS_PIL_5)
    clips = [filmed(2, 48, 64), filmed(5, 36, 44)]
    theirs = importlib.import_module("transformers").SmolVLMVideoProcessor.from_pretrained(folder)
    tensors = [torch.from_numpy(rgb.transpose(0, 3, 1, 2).copy()) for rgb, _ in clips]
    expected = theirs(videos=tensors, return_tensors="pt")
    found = ours.processed([made(ours, rgb, facts) for rgb, facts in clips])
    for name, array in found.items():
        assert differing(array, expected[name].numpy()) == 0
