"""Which frames are taken, against the installed functions that need torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.parity.sampled import compare_samplers
from vcache_cli.preprocess.sampling import (
    EVEN_INTEGERS,
    INTERNVL,
    QWEN2_VL,
    QWEN3_VL,
    QWEN_VL_UTILS,
    SMOLVLM,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.clips import ClipFacts

pytestmark = [pytest.mark.parity_torch, pytest.mark.filterwarnings("ignore")]

CASES: dict[str, dict[str, Any]] = {
    "qwen-vl-utils": {"rule": QWEN_VL_UTILS, "fps": 2.0, "min_frames": 4, "max_frames": 768},
    "qwen2-vl": {"rule": QWEN2_VL, "fps": 2.0, "min_frames": 4, "max_frames": 768},
    "qwen3-vl": {"rule": QWEN3_VL, "fps": 2.0, "min_frames": 4, "max_frames": 768},
    "smolvlm": {"rule": SMOLVLM, "fps": 1.0, "max_frames": 64},
    "internvl": {"rule": INTERNVL, "fps": 2.0, "initial_shift": True},
    "qwen-vl-utils-counted": {"rule": QWEN_VL_UTILS, "num_frames": 15},
    "qwen2-vl-slow": {"rule": QWEN2_VL, "fps": 0.3, "min_frames": 5, "max_frames": 33},
    "qwen2-vl-counted": {"rule": QWEN2_VL, "num_frames": 15},
    "qwen2-vl-neither": {"rule": QWEN2_VL, "min_frames": 4, "max_frames": 768},
    "qwen3-vl-counted": {"rule": QWEN3_VL, "num_frames": 15},
    "qwen3-vl-neither": {"rule": QWEN3_VL, "min_frames": 4, "max_frames": 768},
    "smolvlm-fast": {"rule": SMOLVLM, "fps": 7.5, "max_frames": 25},
    "internvl-counted": {"rule": INTERNVL, "num_frames": 8, "initial_shift": True},
    "internvl-from-start": {"rule": INTERNVL, "num_frames": 8, "initial_shift": False},
    "internvl-from-two": {"rule": INTERNVL, "fps": 1.3, "initial_shift": 2.5},
    "internvl-neither": {"rule": INTERNVL, "initial_shift": True},
    "even-integers": {"rule": EVEN_INTEGERS, "fps": 1.7},
}
EVERY_LENGTH = ("qwen-vl-utils", "qwen2-vl", "qwen3-vl", "smolvlm", "internvl")
DEFAULTS = {"fps": None, "num_frames": None, "min_frames": 4, "max_frames": 768, "factor": 2}


def of_qwen_vl_utils(settings: dict[str, Any]) -> Callable[[ClipFacts], list[int]]:
    """As its readers call it: count, then indices."""
    torch = importlib.import_module("torch")
    module = importlib.import_module("qwen_vl_utils.vision_process")
    names = {"fps": "fps", "num_frames": "nframes"}
    given = {names[name]: settings[name] for name in names if settings[name] is not None}
    if "fps" in given:
        given |= {"min_frames": settings["min_frames"]}  # the most are 768, or all there are

    def theirs(facts: ClipFacts) -> list[int]:
        count = module.smart_nframes(given, facts.num_frames, facts.fps)
        found: list[int] = torch.linspace(0, facts.num_frames - 1, count).round().long().tolist()
        return found

    return theirs


PROCESSORS = {
    QWEN2_VL: "Qwen2VLVideoProcessor",
    QWEN3_VL: "Qwen3VLVideoProcessor",
    SMOLVLM: "SmolVLMVideoProcessor",
    INTERNVL: "InternVLVideoProcessor",
    EVEN_INTEGERS: "LlavaOnevisionVideoProcessor",
}


def of_transformers(settings: dict[str, Any]) -> Callable[[ClipFacts], list[int]]:
    """As `preprocess` calls it: with whatever the processor was made with."""
    processor = getattr(importlib.import_module("transformers"), PROCESSORS[settings["rule"]])()
    metadata_of = importlib.import_module("transformers.video_utils").VideoMetadata
    given = {name: settings[name] for name in ("fps", "num_frames")}
    if settings["rule"] == SMOLVLM:
        given["num_frames"] = settings["max_frames"]
    if settings["rule"] == INTERNVL:
        given["initial_shift"] = settings["initial_shift"]
    for name in (*given, "min_frames", "max_frames"):
        setattr(processor, name, settings.get(name))

    def theirs(facts: ClipFacts) -> list[int]:
        metadata = metadata_of(facts.num_frames, facts.fps, duration=facts.duration_seconds)
        found: list[int] = processor.sample_frames(metadata, **given).tolist()
        return found

    return theirs


@pytest.mark.parametrize("name", CASES)
def test_the_same_frames_are_taken(name: str) -> None:
    settings = {**DEFAULTS, **CASES[name]}
    of_server = of_qwen_vl_utils if settings["rule"] == QWEN_VL_UTILS else of_transformers
    step = 1 if name in EVERY_LENGTH else 13
    assert compare_samplers(settings, of_server(settings), step=step) == []
