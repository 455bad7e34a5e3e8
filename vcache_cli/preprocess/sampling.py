"""Which frames of a clip a server takes: pure arithmetic, rounding as each of them rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.errors import EncodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.clips import ClipFacts

__all__ = [
    "ALL_FRAMES",
    "EVEN_INTEGERS",
    "INTERNVL",
    "MLX_VLM",
    "MLX_VLM_STILLS",
    "OMLX_STILLS",
    "QWEN2_VL",
    "QWEN3_VL",
    "QWEN_VL_UTILS",
    "SMOLVLM",
    "sample_frames",
    "still_places",
]

ALL_FRAMES: Final = "all"
"""transformers, where `do_sample_frames` is off."""
EVEN_INTEGERS: Final = "even-integers"
"""transformers' own rule for processors without one."""
INTERNVL: Final = "internvl"
"""transformers: the middles of equal parts."""
MLX_VLM: Final = "mlx-vlm"
"""mlx-vlm's `load_video`."""
MLX_VLM_STILLS: Final = "mlx-vlm-stills"
"""mlx-vlm, for models that take no videos: of those frames, some as pictures."""
OMLX_STILLS: Final = "omlx-stills"
"""oMLX, for models that take no videos: some frames of all as pictures, both ends included."""
QWEN2_VL: Final = "qwen2-vl"
"""transformers, Qwen2-VL and Qwen2.5-VL: the starts of equal parts."""
QWEN3_VL: Final = "qwen3-vl"
"""transformers, Qwen3-VL: evenly, both ends included."""
QWEN_VL_UTILS: Final = "qwen-vl-utils"
SMOLVLM: Final = "smolvlm"
"""transformers: a second is left out at both ends of a long clip."""

_UNKNOWN_FPS: Final = 24.0
"""What Qwen3-VL's rule takes where the rate is not known."""
_SKIPPED_SECONDS: Final = 1
_LANES: Final = 8
"""Of the vectors in which torch fills a range on x86-64: each is counted on from its first."""


def sample_frames(settings: Mapping[str, Any], facts: ClipFacts) -> tuple[int, ...]:
    """Indices of the frames that the server asks for of a clip, from 0.

    Rounding makes Qwen2-VL's rule ask for one frame beyond the last of some clips.

    Args:
        settings: `rule`, one of this module's names, and what it needs of `fps`, `num_frames`
            (one of the two; the other is None), `min_frames`, `max_frames`, `factor`,
            `initial_shift` and `stills`.
        facts: of the clip.

    Raises:
        EncodeError: kind ``sampling``: the server refuses such a clip.
    """
    if settings.get("fps") is not None and settings.get("num_frames") is not None:
        raise _refusal("`fps` and `num_frames` are both set, and the server takes only one")
    if facts.num_frames < 1:
        raise _refusal("a clip without a frame")
    indices = _RULES[settings["rule"]](settings, facts)
    if not indices.size:
        raise _refusal(f"none of {facts.num_frames} frames would be taken")
    return tuple(indices.tolist())


def _refusal(message: str) -> EncodeError:
    hint = "leave it out, or choose other frames with `--fps` or `--num-frames`"
    return EncodeError(message, kind="sampling", hint=hint)


def _multiple(rounded: Callable[[float], int], count: float, factor: int) -> int:
    return rounded(count / factor) * factor


def _wanted(settings: Mapping[str, Any], facts: ClipFacts) -> float:
    """How many frames `fps` asks for, not yet rounded."""
    if settings["fps"] is None:
        raise _refusal("neither `fps` nor `num_frames` is set, and the server needs one")
    if facts.fps <= 0:
        raise _refusal("its frame rate is not known, and frames are taken by `fps`")
    return float(facts.num_frames / facts.fps * settings["fps"])


def _spread(last: float, count: int) -> NDArray[np.int64]:
    """`count` indices from 0 to `last`, both included, halves to even."""
    return np.linspace(0, last, count).round().astype(np.int64)


def _starts(first: float, total: int, count: int) -> NDArray[np.int64]:
    """Every `total / count`-th index from `first`, in the 32 bits of torch's `arange`.

    For some lengths that is one index more than `count`, or the one before the exact one.
    """
    step = total / count
    at = np.arange(math.ceil((total - first) / step))
    lane = at % _LANES
    near = (first + step * (at - lane)).astype(np.float32)
    whole = (near + step * lane).astype(np.float32)
    tail = (first + step * at).astype(np.float32)
    places = np.where(at < len(at) - len(at) % (2 * _LANES), whole, tail)
    return places.astype(np.int64)


def _all(_settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    return np.arange(facts.num_frames)


def _even_integers(settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    total, count = facts.num_frames, settings["num_frames"]
    if count is None and settings["fps"] is None:
        return np.arange(total)
    if count is None:
        count = max(1, int(_wanted(settings, facts)))
    _check_count(count, total)
    at: NDArray[np.int64] = np.arange(count) * total // count
    return at


def _check_count(count: int, total: int, *, least: int = 1) -> None:
    if not least <= count <= total:
        raise _refusal(f"{count} frames would be taken, of a clip of {total}; expected {least} up")


def _internvl(settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    total, count = facts.num_frames, settings["num_frames"]
    if count is None:
        count = int(_wanted(settings, facts))
    _check_count(count, total)
    shift = settings["initial_shift"]
    return _starts(total / count / 2 if shift is True else float(shift), total, count)


def _qwen2_vl(settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    total, factor, count = facts.num_frames, settings["factor"], settings["num_frames"]
    if count is not None:
        count = _multiple(round, count, factor)
    else:
        most = _multiple(math.floor, min(settings["max_frames"], total), factor)
        wanted = min(max(_wanted(settings, facts), settings["min_frames"]), most, total)
        count = _multiple(math.floor, wanted, factor)
    _check_count(count, total)
    return _starts(0.0, total, count)


def _qwen3_vl(settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    total, count = facts.num_frames, settings["num_frames"]
    fewest, most = settings["min_frames"], settings["max_frames"]
    if count is None and settings["fps"] is not None:
        wanted = int(total / (facts.fps or _UNKNOWN_FPS) * settings["fps"])
        count = min(max(wanted, fewest), most, total)
    elif count is None:
        count = min(max(total, fewest), most)
    return _spread(total - 1, count)


def _smolvlm(settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    fps, most = settings["fps"], settings["max_frames"]
    if fps is None or most is None:
        raise _refusal("`fps` or the most frames are not set, and the server needs both")
    count = max(1, min(round(fps * facts.duration_seconds), most))
    first, last = 0, facts.num_frames - 1
    if facts.duration_seconds - 2 * _SKIPPED_SECONDS > most * fps:
        first = max(0, int(_SKIPPED_SECONDS * facts.fps))
        last = min(last, int(facts.num_frames - _SKIPPED_SECONDS * facts.fps))
    if first >= last:
        first, last = 0, facts.num_frames - 1
    return np.unique(np.linspace(first, last, count, dtype=np.int64))


def _clamped(settings: Mapping[str, Any], facts: ClipFacts, most: int) -> int:
    """The count of qwen-vl-utils and mlx-vlm: a multiple of the factor."""
    total, factor = facts.num_frames, settings["factor"]
    if settings["num_frames"] is not None:
        count = _multiple(round, settings["num_frames"], factor)
    else:
        fewest = _multiple(math.ceil, settings["min_frames"], factor)
        wanted = min(max(_wanted(settings, facts), fewest), _multiple(math.floor, most, factor))
        count = _multiple(math.floor, min(wanted, total), factor)
    _check_count(count, total, least=factor)
    return count


def _mlx_vlm(settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    total = facts.num_frames
    count = _clamped(settings, facts, min(settings["max_frames"], total))
    return _spread(total - 1, count)


def _mlx_vlm_stills(settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    taken, most = _mlx_vlm(settings, facts), settings["stills"]
    return taken[still_places(len(taken), most)]


def _omlx_stills(settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    return np.array(still_places(facts.num_frames, settings["stills"]), np.int64)


def still_places(count: int, most: int) -> Sequence[int]:
    """Which of `count` frames become pictures, at most `most` of them."""
    if count <= most or most == 1:
        return range(min(count, most))
    return [round(at * (count - 1) / (most - 1)) for at in range(most)]


def _qwen_vl_utils(settings: Mapping[str, Any], facts: ClipFacts) -> NDArray[np.int64]:
    total = facts.num_frames
    count = _clamped(settings, facts, min(settings["max_frames"], total))
    last, at = float(total - 1), np.arange(count)
    step = float(np.float32(last) / np.float32(count - 1))
    # From both ends to the middle, each place rounded once to 32 bits: torch's `linspace`.
    places = np.where(at < count // 2, step * at, last - step * (count - 1 - at))
    return places.astype(np.float32).round().astype(np.int64)


_RULES: Final[Mapping[str, Callable[[Mapping[str, Any], ClipFacts], NDArray[np.int64]]]] = {
    ALL_FRAMES: _all,
    EVEN_INTEGERS: _even_integers,
    INTERNVL: _internvl,
    MLX_VLM: _mlx_vlm,
    MLX_VLM_STILLS: _mlx_vlm_stills,
    OMLX_STILLS: _omlx_stills,
    QWEN2_VL: _qwen2_vl,
    QWEN3_VL: _qwen3_vl,
    QWEN_VL_UTILS: _qwen_vl_utils,
    SMOLVLM: _smolvlm,
}
