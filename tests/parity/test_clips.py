"""Frames of clips against mlx-vlm's loader and transformers', in every container and trap."""

from __future__ import annotations

import contextlib
import importlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.media.clip_traps import STEADY, edited
from tests.media.clips import made_clip
from tests.parity.fixtures import differing
from vcache_cli.clips import ClipPlan
from vcache_cli.errors import EncodeError
from vcache_cli.media.notices import INEXACT
from vcache_cli.media.video import VideoDecoder
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, TRANSFORMERS_PIL_5
from vcache_cli.preprocess.sampling import EVEN_INTEGERS, MLX_VLM, sample_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.parity.tally import Tally
    from vcache_cli.clips import ClipFacts
    from vcache_cli.items import Frames
    from vcache_cli.profile import Profile

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


def cut(clip: bytes) -> bytes:
    return clip[: len(clip) * 2 // 3]


UNSTEADY = sorted({at + at // 9 + (at % 7 == 3) * 2 for at in range(90)})
CLIPS: dict[str, Callable[[], bytes]] = {
    **STEADY,
    "edited": lambda: edited(made_clip(90), 24),
    "cut-mp4": lambda: cut(made_clip(90, file={"movflags": "faststart"})),
    "cut-mkv": lambda: cut(made_clip(90, "matroska")),
    "cut-avi": lambda: cut(made_clip(90, "avi", "mpeg4")),
    "cut-ts": lambda: cut(made_clip(90, "mpegts")),
    "unsteady-mp4": lambda: made_clip(len(UNSTEADY), shown_at=UNSTEADY),
    "unsteady-mkv": lambda: made_clip(len(UNSTEADY), "matroska", shown_at=UNSTEADY),
    "deep": lambda: made_clip(90, pixels="yuv420p10le"),
    "half-colour": lambda: made_clip(90, pixels="yuv422p"),
    "odd-halved": lambda: made_clip(90, codec="mpeg4", size=(121, 97)),
}
MLX: dict[str, Any] = {"rule": MLX_VLM, "min_frames": 4, "max_frames": 768, "factor": 2}


def ours(clip: bytes, settings: dict[str, Any], profile: Profile) -> Frames:
    def planner(facts: ClipFacts) -> ClipPlan:
        chosen = sample_frames(settings, facts)[: facts.delivered]
        return ClipPlan(chosen, (facts.height, facts.width), lambda levels: levels)

    return VideoDecoder(profile).decode(BytesIO(clip), planner)


@pytest.mark.parametrize("wanted", [{"fps": 2.0}, {"num_frames": 30}], ids=["fps", "num_frames"])
@pytest.mark.parametrize("name", CLIPS)
def test_frames_equal_those_of_mlx_vlm(
    name: str, wanted: dict[str, Any], tmp_path: Path, tally: Tally
) -> None:
    """What is not equal is told: such an entry says that it is not exact."""
    clip, path = CLIPS[name](), tmp_path / "clip"
    path.write_bytes(clip)
    settings = {**MLX, "fps": None, "num_frames": None, **wanted}
    load_video = importlib.import_module("mlx_vlm.utils").load_video
    given = {"fps": wanted.get("fps"), "nframes": wanted.get("num_frames")}
    try:
        expected, metadata = load_video(str(path), **given)
    except ValueError:
        with pytest.raises(EncodeError):
            ours(clip, settings, MLX_VLM_0_7)
        return
    found = ours(clip, settings, MLX_VLM_0_7)
    told = {each for each in found.warnings if each.partition(": ")[0] in INEXACT}
    wrong = differing(found.rgb, expected.transpose(0, 2, 3, 1))
    assert wrong == 0 or told, found.warnings
    assert len(metadata.frames_indices) == len(found.rgb) or told
    family = "clips told to be inexact" if told else "clips"
    tally.add(MLX_VLM_0_7.name, family, f"{name} {wanted}", differing=wrong, values=found.rgb.size)


@pytest.mark.parametrize("wanted", [{"fps": 2.0}, {"num_frames": 5}], ids=["fps", "num_frames"])
@pytest.mark.parametrize("name", CLIPS)
def test_frames_equal_those_of_transformers(
    name: str, wanted: dict[str, Any], tmp_path: Path, tally: Tally
) -> None:
    """Its `load_video` with PyAV, the one that needs neither torch nor a library of FFmpeg."""
    clip, path = CLIPS[name](), tmp_path / "clip"
    path.write_bytes(clip)
    load_video = importlib.import_module("transformers.video_utils").load_video
    settings = {"rule": EVEN_INTEGERS, "fps": None, "num_frames": None, **wanted}
    try:
        expected, _ = load_video(str(path), **wanted)
    except Exception as error:  # noqa: BLE001  whatever: the server refuses it
        print(f"{name}: transformers refuses it: {error}")
        with contextlib.suppress(EncodeError):
            assert ours(clip, settings, TRANSFORMERS_PIL_5).warnings
        return
    found = ours(clip, settings, TRANSFORMERS_PIL_5)
    wrong = differing(found.rgb, np.asarray(expected))
    tally.add(TRANSFORMERS_PIL_5.name, "clips", f"{name} {wanted}", differing=wrong,
              values=found.rgb.size)  # fmt: skip
    assert wrong == 0, found.warnings
