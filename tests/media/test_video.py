"""The delivered frame is the asked one, in every container and every trap."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.media.clip_traps import STEADY, edited, sound_only
from tests.media.clips import index_of, made_clip
from vcache_cli.clips import ClipFacts, ClipPlan
from vcache_cli.errors import EncodeError, MediaError
from vcache_cli.media import clip_frames, notice_text
from vcache_cli.media.clip_file import open_clip
from vcache_cli.media.clip_times import clip_times
from vcache_cli.media.notices import INEXACT
from vcache_cli.media.video import VideoDecoder
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, TRANSFORMERS_PIL_5

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vcache_cli.items import Frames
    from vcache_cli.profile import Profile

PROFILES = {each.name: each for each in (MLX_VLM_0_7, TRANSFORMERS_PIL_5)}
TOLD = {
    each: {"clip_counted", "clip_seeks_miss"} for each in ("ts", "ts-reordered", "starts-late-ts")
}
SAMPLED = (0, 18, 36, 53, 71, 89)


@cache
def clip_of(trap: str) -> bytes:
    return STEADY[trap]()


def taken(
    clip: bytes,
    indices: Sequence[int],
    profile: Profile = MLX_VLM_0_7,
    **limits: Any,  # noqa: ANN401
) -> Frames:
    """The frames at `indices`, in their own size."""

    def planner(facts: ClipFacts) -> ClipPlan:
        chosen = tuple(indices)[: facts.delivered]
        return ClipPlan(chosen, (facts.height, facts.width), lambda levels: levels)

    return VideoDecoder(profile, **limits).decode(BytesIO(clip), planner)


def delivered(frames: Frames, turns: int = 0) -> list[int]:
    return [index_of(np.rot90(each, turns)) for each in frames.rgb]


def turns_back(trap: str, profile: Profile) -> int:
    """Anticlockwise quarter turns that undo what the decoder did."""
    if profile is not MLX_VLM_0_7 or not trap.startswith("turned"):
        return 0
    return int(trap.removeprefix("turned-")) // 90


@pytest.mark.parametrize("rules", PROFILES)
@pytest.mark.parametrize("trap", STEADY)
def test_the_delivered_frame_is_the_asked_one(trap: str, rules: str) -> None:
    profile, clip = PROFILES[rules], clip_of(trap)
    facts = VideoDecoder(profile).measure(BytesIO(clip))
    length = {"one-frame": 1, "two-frames": 2, "three-frames": 3}.get(trap, 90)
    late = trap == "starts-late-mkv" and profile is MLX_VLM_0_7  # counted from zero, as by OpenCV
    assert facts.num_frames == (240 if late else length)
    assert facts.fps == pytest.approx(30.0, abs=0.2)
    turns = turns_back(trap, profile)
    for indices in (SAMPLED, (50,), range(90), (0, 0, 44, 44)):
        asked = [index for index in indices if index < length]
        frames = taken(clip, asked, profile)
        assert delivered(frames, turns) == asked
        assert frames.pts_seconds == pytest.approx([index / 30 for index in asked], abs=2e-3)
        assert frames.rgb.shape == (len(asked), facts.height, facts.width, 3)
        told = {each.partition(": ")[0] for each in frames.warnings}
        assert not (told & INEXACT) - TOLD.get(trap, {"clip_counted"})
        assert "clip_counted" not in told or f"clip_counted: {length}" in frames.warnings


@pytest.mark.parametrize("trap", ["mp4", "mp4-reordered", "mkv", "webm-vp9", "ts", "avi"])
def test_seeks_give_what_decoding_in_turn_gives(trap: str) -> None:
    clip = BytesIO(clip_of(trap))
    with open_clip(clip, max_pixels=10**6) as opened:
        times = clip_times(opened)
    indices = (7, 31, 32, 58, 89)
    with open_clip(clip, max_pixels=10**6) as opened:
        in_turn = [
            frame.to_ndarray(format="rgb24")
            for frame in clip_frames.in_turn(opened.frames(), indices)
        ]
    assert times.can_seek
    with open_clip(clip, max_pixels=10**6) as opened:
        sought = [
            frame.to_ndarray(format="rgb24")
            for frame in clip_frames.with_seeks(opened, times, indices)
        ]
    assert len(sought) == len(in_turn) == 5
    assert all(np.array_equal(a, b) for a, b in zip(sought, in_turn, strict=True))


def test_varying_distances_are_told() -> None:
    """A server that seeks by number gets others: ours are the right ones, and not its own."""
    shown_at = [at + at // 9 + (at % 7 == 3) * 2 for at in range(90)]
    shown_at = sorted(set(shown_at))
    clip = made_clip(len(shown_at), shown_at=shown_at)
    frames = taken(clip, (0, 20, 53, 54, 71))
    assert delivered(frames) == [0, 20, 53, 54, 71]
    assert frames.warnings == ("clip_variable_rate",)
    assert taken(clip, (0, 20), TRANSFORMERS_PIL_5).warnings == ()


def test_deep_colours_are_told_where_the_servers_decoder_rounds_them_otherwise() -> None:
    clip = made_clip(30, pixels="yuv420p10le")
    frames = taken(clip, (0, 29))
    assert delivered(frames) == [0, 29]
    assert frames.warnings == ("clip_deep_colour",)
    assert taken(clip, (0, 29), TRANSFORMERS_PIL_5).warnings == ()


def test_an_edit_list_leaves_frames_out() -> None:
    """The header counts them all the same, and so does the server: the last are not there."""
    clip = edited(made_clip(90), 24)
    frames = taken(clip, (0, 10, 65, 66, 89))
    assert delivered(frames) == [24, 34, 89]
    assert frames.warnings == ("clip_ended_early: gave 3 of 5 frames",)
    assert notice_text(frames.warnings[0]) == "the clip ended early: gave 3 of 5 frames"


@pytest.mark.parametrize("container", ["mp4", "matroska", "mpegts", "avi"])
def test_a_clip_that_is_cut_off_says_how_many_frames_it_gave(container: str) -> None:
    codec = "mpeg4" if container == "avi" else "libx264"
    front: dict[str, Any] = {"file": {"movflags": "faststart"}} if container == "mp4" else {}
    clip = made_clip(90, container, codec, **front)
    frames = taken(clip[: len(clip) * 2 // 3], SAMPLED)
    count = len(frames.pts_seconds)
    assert 2 <= count < 6
    assert delivered(frames) == list(SAMPLED[:count])
    assert f"clip_ended_early: gave {count} of 6 frames" in frames.warnings


def test_the_planner_is_asked_again_where_a_clip_ended_early() -> None:
    """The size of a frame may depend on how many there are."""
    asked = []

    def planner(facts: ClipFacts) -> ClipPlan:
        asked.append(facts.delivered)
        side = 8 if facts.delivered is None else 4
        return ClipPlan(SAMPLED[: facts.delivered], (side, side), lambda rgb: rgb[:side, :side])

    clip = edited(made_clip(90), 24)
    frames = VideoDecoder(MLX_VLM_0_7).decode(BytesIO(clip), planner)
    assert asked == [None, 4]
    assert frames.rgb.shape == (4, 4, 4, 3)
    assert frames.warnings == ("clip_ended_early: gave 4 of 6 frames",)


def test_a_clip_that_ended_too_early_for_the_server_says_so() -> None:
    def planner(facts: ClipFacts) -> ClipPlan:
        if facts.delivered is not None:
            raise EncodeError("1 frames, expected 2 up", kind="sampling")
        return ClipPlan((0, 89), (facts.height, facts.width), lambda rgb: rgb)

    with pytest.raises(EncodeError, match="ends early: gave 1 of 2 frames: 1 frames, expected"):
        VideoDecoder(MLX_VLM_0_7).decode(BytesIO(edited(made_clip(90), 24)), planner)


REFUSED = {
    "sound": (sound_only, "no_video", "only sound"),
    "nothing": (lambda: b"", "not_media", "an empty file"),
    "a page": (lambda: b"<!doctype html><title>404</title>", "not_media", "HTML"),
    "a head alone": (lambda: made_clip(9)[:100], "corrupt", ""),
    "no index": (lambda: made_clip(90)[:-2000], "corrupt", ""),
    "zeros": (lambda: made_clip(9)[:48] + bytes(5000), "corrupt", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_clip_is_refused_in_words(name: str) -> None:
    make, kind, words = REFUSED[name]
    with pytest.raises(MediaError) as refusal:
        taken(make(), (0,))
    assert refusal.value.item_kind == kind
    assert words in refusal.value.message


@pytest.mark.parametrize(
    ("limit", "kind", "words"),
    [
        ({"max_pixels": 1000}, "bomb", "128 x 96 = 12288 pixels, the limit is 1000"),
        ({"max_file_bytes": 99}, "too_large", "more than the limit of 99"),
        ({"max_seconds": 2}, "too_long", "3 seconds, the limit is 2"),
        ({"max_frames": 5}, "too_large", "6 frames would be taken, the limit is 5"),
        ({"max_clip_bytes": 9999}, "too_large", "the limit is 9999"),
    ],
)
def test_a_limit_is_named(limit: dict[str, Any], kind: str, words: str) -> None:
    with pytest.raises(MediaError) as refusal:
        taken(clip_of("mp4"), SAMPLED, **limit)
    assert refusal.value.item_kind == kind
    assert words in refusal.value.message


def test_damage_in_the_middle_is_left_out_and_told() -> None:
    clip = bytearray(clip_of("mp4-mpeg4"))
    middle = len(clip) // 2
    clip[middle : middle + 600] = bytes(600)
    frames = taken(bytes(clip), (0, 89))
    assert delivered(frames)[0] == 0


def test_every_cut_is_a_media_error_or_frames() -> None:
    """Whatever is left of a file, nothing of PyAV's escapes."""
    for trap in ("mp4", "mkv", "ts", "webm-vp8"):
        clip = clip_of(trap)
        for end in range(0, len(clip), max(1, len(clip) // 40)):
            try:
                taken(clip[:end], (0, 5))
            except MediaError as error:
                assert error.item_kind in {"corrupt", "truncated", "not_media", "no_video"}  # noqa: PT017


def test_a_size_that_only_the_frames_tell_is_bounded() -> None:
    """The container says 128 x 96 pixels, each whole frame 16,383 x 16,383."""
    parts = clip_of("webm-vp8").split(b"\x9d\x01\x2a")
    huge = b"\x9d\x01\x2a\xff\x3f\xff\x3f".join([parts[0], *(part[4:] for part in parts[1:])])
    with pytest.raises(MediaError, match="more pixels than the limit of 1000000") as refusal:
        taken(huge, SAMPLED, max_pixels=10**6)
    assert refusal.value.item_kind == "corrupt"
