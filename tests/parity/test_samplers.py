"""Which frames are taken, against the installed functions that need no torch."""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from tests.parity.sampled import compare_samplers, facts_of, ours
from vcache_cli.preprocess.sampling import EVEN_INTEGERS, MLX_VLM, MLX_VLM_STILLS, still_places

if TYPE_CHECKING:
    from tests.parity.tally import Tally
    from vcache_cli.clips import ClipFacts

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

BY_RATE: dict[str, Any] = {"fps": 2.0, "num_frames": None, "min_frames": 4, "max_frames": 768}
MLX = {"rule": MLX_VLM, **BY_RATE, "factor": 2}
EVEN = {"rule": EVEN_INTEGERS, "fps": 2.0, "num_frames": None}
CASES = {
    "mlx-vlm": MLX,
    "mlx-vlm-slow": {**MLX, "fps": 0.5, "min_frames": 3, "max_frames": 31},
    "mlx-vlm-counted": {**MLX, "fps": None, "num_frames": 15},
    "even-integers": EVEN,
    "even-integers-counted": {**EVEN, "fps": None, "num_frames": 16},
}
EVERY_LENGTH = ("mlx-vlm", "even-integers")


class ChosenError(Exception):
    """Ends `load_video` once it has chosen."""


class FakeCapture:
    """Knows a clip's length and rate, and has no frames."""

    facts: ClipFacts

    def __init__(self, path: str) -> None:
        assert path

    def isOpened(self) -> bool:  # noqa: N802  OpenCV's name
        return True

    def get(self, name: str) -> float:
        known = {"count": self.facts.num_frames, "fps": self.facts.fps}
        return known.get(name, 48)

    def set(self, name: str, value: float) -> None:
        raise ChosenError

    def release(self) -> None:
        pass


@pytest.fixture
def load_video(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401
    """mlx-vlm's own, with a decoder that only counts."""
    names = {"FRAME_COUNT": "count", "FPS": "fps", "FRAME_WIDTH": "wide", "FRAME_HEIGHT": "high"}
    fake = types.ModuleType("cv2")
    fake.__dict__.update({f"CAP_PROP_{name}": word for name, word in names.items()})
    fake.__dict__.update(CAP_PROP_POS_FRAMES="at", VideoCapture=FakeCapture)
    monkeypatch.setitem(sys.modules, "cv2", fake)
    return importlib.import_module("mlx_vlm.utils").load_video


def chosen_by(load_video: Any, settings: dict[str, Any], facts: ClipFacts) -> list[int]:  # noqa: ANN401
    """The indices that `load_video` has in its hands when it asks for the first frame."""
    FakeCapture.facts = facts
    given = {"nframes": settings["num_frames"], "frame_factor": settings["factor"]}
    given |= {name: settings[name] for name in ("fps", "min_frames", "max_frames")}
    try:
        load_video("clip", **given)
    except ChosenError as error:
        trace = error.__traceback__
        while trace is not None and "indices" not in trace.tb_frame.f_locals:
            trace = trace.tb_next
        assert trace is not None
        found: list[int] = trace.tb_frame.f_locals["indices"].tolist()
        return found
    raise AssertionError("nothing was read")


def evenly(settings: dict[str, Any], facts: ClipFacts) -> list[int]:
    module = importlib.import_module("transformers.video_utils")
    metadata = module.VideoMetadata(facts.num_frames, fps=facts.fps)
    chosen = module.default_sample_indices_fn(
        metadata, num_frames=settings["num_frames"], fps=settings["fps"]
    )
    found: list[int] = chosen.tolist()
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_same_frames_are_taken(name: str, load_video: Any, tally: Tally) -> None:  # noqa: ANN401
    settings = CASES[name]

    def theirs(facts: ClipFacts) -> list[int]:
        if settings["rule"] == EVEN_INTEGERS:
            return evenly(settings, facts)
        return chosen_by(load_video, settings, facts)

    step = 1 if name in EVERY_LENGTH else 13
    assert compare_samplers(settings, theirs, tally, step=step) == []


def test_the_same_frames_become_pictures() -> None:
    """mlx-vlm's rule for models that take no videos, on every count of sampled frames."""
    subsample = importlib.import_module("mlx_vlm.generate.video").subsample_evenly
    for most in (2, 16, 31):
        for count in range(1, 800):
            assert subsample(list(range(count)), most) == list(still_places(count, most))
    settings = {**MLX, "rule": MLX_VLM_STILLS, "stills": 16}
    sampled, taken = ours(MLX, facts_of(900, 30.0)), ours(settings, facts_of(900, 30.0))
    assert sampled is not None
    assert taken == subsample(sampled, 16)
