"""Qwen's video processors: where their settings come from, in both servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import ModelError
from vcache_cli.preprocess.processors import checked
from vcache_cli.preprocess.sampling import ALL_FRAMES, MLX_VLM, QWEN2_VL, QWEN3_VL
from vcache_cli.preprocess.settings import pixel_side
from vcache_cli.preprocess.video_patches import PatchClipPreprocessor
from vcache_cli.preprocess.video_settings import (
    TORCH,
    check_video_type,
    pillow_colours,
    sampling_settings,
    torch_colours,
    torch_filter,
    video_json,
)
from vcache_cli.preprocess.video_sizes import PER_CLIP, PER_CLIP_CEIL, PER_FRAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.profile import Profile

__all__ = ["QWEN2_5_VL_CLIP", "QWEN2_VL_CLIP", "QWEN3_5_CLIP", "QWEN3_VL_CLIP", "QwenClipFamily"]

_BICUBIC: Final = 3
_MOST_PIXELS: Final = 2**53
_MLX_LIMITS: Final = (128 * 32 * 32, 768 * 32 * 32)
_CLIP_COLOURS: Final = (
    (0.48145466, 0.4578275, 0.40821073),
    (0.26862954, 0.26130258, 0.27577711),
)
_HALVES: Final = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@dataclass(frozen=True, slots=True)
class QwenClipFamily:
    """Clips of one model family; what differs between its neighbours is data."""

    name: str
    """The `model_type`."""
    revision: int
    """Bumped by any change of ours that changes pixels."""
    patch_size: int
    """Where the checkpoint does not say, pixels."""
    is_third: bool
    """True where transformers takes the processor of Qwen3-VL, False where that of Qwen2-VL."""

    def resolve(
        self, checkpoint: Checkpoint, profile: Profile, wanted: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Settings as the server resolves them: JSON values, every default filled in.

        Args:
            checkpoint: of the model.
            profile: whose rules.
            wanted: `fps`, `num_frames`, `max_frames`; missing or None where not asked for.

        Raises:
            ModelError: some settings cannot be followed.
        """
        if profile.processors == "mlx-vlm":
            return self._mlx_vlm(checkpoint, wanted)
        return self._transformers(checkpoint, wanted)

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> PatchClipPreprocessor:
        """The preprocessor of resolved settings.

        Raises:
            ModelError: the profile's processors are not known here, or give no finite pixels.
        """
        return checked(PatchClipPreprocessor(dict(settings)), profile)

    def _transformers(self, checkpoint: Checkpoint, wanted: Mapping[str, Any]) -> dict[str, Any]:
        found = video_json(checkpoint, nested=True)
        if self.is_third and "size" in found and found["size"] is None:
            raise ModelError("`size`: expected shortest_edge and longest_edge, found null")
        check_video_type(found, f"Qwen{3 if self.is_third else 2}VLVideoProcessor")
        mean, std = _HALVES if self.is_third else _CLIP_COLOURS
        token = (2 * self.patch_size) ** 2
        whole = found.get("size") is None  # else both edges have to be there
        defaults = (128 * token, 768 * token) if whole else (None, None)
        least, most = _limits(found, defaults, old=not self.is_third)
        capped = bool(found.get("cap_pixels_per_frame"))
        tokens = found.get("max_video_tokens", 768 if self.is_third else 128_000)
        return {
            **torch_colours(found, mean, std),
            **_sides(found, self.patch_size),
            "resizer": TORCH,
            "do_resize": bool(found.get("do_resize", True)),
            "resample": torch_filter(found.get("resample", _BICUBIC)),
            "size_rule": PER_CLIP if self.is_third else PER_FRAME,
            "min_pixels": least,
            "max_pixels": most,
            "frame_tokens": int(tokens) if capped else None,
            "sampling": self._sampling(found, wanted),
        }

    def _sampling(self, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
        asked = any(value is not None for value in wanted.values())
        if not found.get("do_sample_frames", self.is_third) and not asked:
            return {"rule": ALL_FRAMES}
        rule = QWEN3_VL if self.is_third else QWEN2_VL
        given = {"rule": rule, "fps": 2 if self.is_third else None}
        factor = _sides(found, self.patch_size)["temporal_patch_size"]
        return sampling_settings(found, wanted, given) | {"factor": factor}

    def _mlx_vlm(self, checkpoint: Checkpoint, wanted: Mapping[str, Any]) -> dict[str, Any]:
        found = video_json(checkpoint, nested=False)
        least, most = _limits(found, _MLX_LIMITS, old=True)
        rates = {name: found[name] for name in ("fps", "min_frames", "max_frames")
                 if found.get(name) is not None}  # fmt: skip
        given = {"rule": MLX_VLM, "fps": 2.0}
        return {
            **pillow_colours(found),
            **_sides(found, self.patch_size),
            "resizer": "pillow",
            "do_resize": True,
            "resample": _BICUBIC,
            "size_rule": PER_CLIP_CEIL,
            "min_pixels": least,
            "max_pixels": most,
            "frame_tokens": None,
            "sampling": sampling_settings(rates, wanted, given) | {"factor": 2},
        }


def _sides(found: Mapping[str, Any], patch_size: int) -> dict[str, int]:
    defaults = {"merge_size": 2, "patch_size": patch_size, "temporal_patch_size": 2}
    return {name: pixel_side(name, found.get(name, default)) for name, default in defaults.items()}


def _limits(
    found: Mapping[str, Any], defaults: tuple[int | None, int | None], *, old: bool
) -> list[int]:
    """Both limits; the old names win over those within `size` where they are looked at."""
    size = found.get("size") or {}
    if not isinstance(size, dict):
        raise ModelError(f"`size`: expected shortest_edge and longest_edge, found {size!r:.40}")
    limits = []
    names = (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge"))
    for (name, edge), default in zip(names, defaults, strict=True):
        value = found.get(name) if old else None
        value = size.get(edge) if value is None else value
        value = default if value is None else value
        if not isinstance(value, int) or value is True or not 0 < value <= _MOST_PIXELS:
            raise ModelError(f"`{edge}`: expected a number of pixels, found {value!r:.40}")
        limits.append(value)
    return limits


QWEN2_VL_CLIP: Final = QwenClipFamily("qwen2_vl", 1, patch_size=14, is_third=False)
QWEN2_5_VL_CLIP: Final = QwenClipFamily("qwen2_5_vl", 1, patch_size=14, is_third=False)
QWEN3_VL_CLIP: Final = QwenClipFamily("qwen3_vl", 1, patch_size=16, is_third=True)
QWEN3_5_CLIP: Final = QwenClipFamily("qwen3_5", 1, patch_size=16, is_third=True)
