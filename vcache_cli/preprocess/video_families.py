"""SmolVLM's and InternVL's video processors: where their settings come from, in both servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import ModelError
from vcache_cli.preprocess.internvl import FAMILY as INTERNVL_PICTURES
from vcache_cli.preprocess.processors import check_processors, checked
from vcache_cli.preprocess.sampling import ALL_FRAMES, INTERNVL, SMOLVLM
from vcache_cli.preprocess.settings import number, pixel_side
from vcache_cli.preprocess.smolvlm import FAMILY as SMOLVLM_PICTURES
from vcache_cli.preprocess.video_settings import (
    TORCH,
    check_video_type,
    sampling_settings,
    torch_colours,
    torch_filter,
    video_json,
)
from vcache_cli.preprocess.video_stills import StillsPreprocessor, stills_sampling
from vcache_cli.preprocess.video_tiles import FrameClipPreprocessor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.profile import Profile
    from vcache_cli.protocols import Family

__all__ = ["INTERNVL_CLIP", "SMOLVLM_CLIP", "FrameClipFamily"]

_MAX_SIDE: Final = 4096
_CLIP_COLOURS: Final = (
    (0.48145466, 0.4578275, 0.40821073),
    (0.26862954, 0.26130258, 0.27577711),
)
_HALVES: Final = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@dataclass(frozen=True, slots=True)
class FrameClipFamily:
    """Clips of a family whose frames are pictures of one size."""

    pictures: Family
    """The same family's preprocessing of pictures."""
    revision: int
    """Bumped by any change of ours that changes pixels."""
    torch_settings: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]
    """Those of transformers: of the checkpoint's settings, and a caller's wishes."""

    @property
    def name(self) -> str:
        """The `model_type`."""
        return self.pictures.name

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
        pictures = self.pictures.resolve(checkpoint, profile)
        if profile.processors == "mlx-vlm":
            return pictures | {"sampling": stills_sampling(wanted)}
        settings = self.torch_settings(video_json(checkpoint, nested=True), wanted)
        tile, size = pictures["tile"], settings["size"]
        if size != {"height": tile["height"], "width": tile["width"]}:
            raise ModelError(f"frames of {size} and tiles of {tile}: expected one size")
        return settings | {"resizer": TORCH, "frame_tokens": pictures["tile_tokens"]}

    def preprocessor(
        self, settings: Mapping[str, Any], profile: Profile
    ) -> FrameClipPreprocessor | StillsPreprocessor:
        """The preprocessor of resolved settings.

        Raises:
            ModelError: the profile's processors are not known here, or give no finite pixels.
        """
        check_processors(profile)
        if profile.processors == "mlx-vlm":
            picture = self.pictures.preprocessor(settings, profile)
            return StillsPreprocessor(dict(settings), picture)
        return checked(FrameClipPreprocessor(dict(settings)), profile)


def _internvl(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    check_video_type(found, "InternVLVideoProcessor")
    _check_steps(found)
    shift = found.get("initial_shift", True)
    if not isinstance(shift, bool):
        shift = number("initial_shift", shift)
    sampling = _sampling(found, wanted, {"rule": INTERNVL})
    return {
        **torch_colours(found, *_CLIP_COLOURS),
        "resample": torch_filter(found.get("resample", 3)),
        "size": _size(found.get("size", {"height": 384, "width": 384})),
        "sampling": sampling | {"initial_shift": shift},
        "tensor": "pixel_values_videos",
        "pixel_mask": False,
    }


def _smolvlm(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    check_video_type(found, "SmolVLMVideoProcessor")
    _check_steps(found)
    rates, size = found, found.get("size")
    nested = found.get("video_sampling")
    if isinstance(nested, dict):
        rates = {**found, "fps": nested.get("fps"), "max_frames": nested.get("max_frames")}
        size = nested.get("video_size") if size is None else size
    else:
        rates = {**found, "max_frames": found.get("num_frames")}
    size = {"longest_edge": 4 * 364} if size is None else size
    if not isinstance(size, dict) or set(size) - {"shortest_edge"} != {"longest_edge"}:
        raise ModelError(f"`size`: expected longest_edge for frames, found {size!r:.60}")
    most = found.get("max_image_size", {"longest_edge": 364})
    side = pixel_side("max_image_size", most.get("longest_edge") if isinstance(most, dict) else 0)
    longest = min(_MAX_SIDE, pixel_side("size.longest_edge", size["longest_edge"]))
    return {
        **torch_colours(found, *_HALVES),
        "resample": torch_filter(found.get("resample", 1)),
        "longest_side": longest,
        "size": {"height": side, "width": side},
        "sampling": _smolvlm_sampling(rates, wanted),
        "tensor": "pixel_values",
        "pixel_mask": bool(found.get("do_pad", True)),
    }


def _smolvlm_sampling(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """A count is the most frames here, and does not set the rate aside."""
    asked = dict(wanted)
    count = asked.pop("num_frames", None)
    if count is not None:
        asked["max_frames"] = count
    rates = {name: value for name, value in found.items() if name != "num_frames"}
    return _sampling(rates, asked, {"rule": SMOLVLM, "max_frames": None})


def _sampling(
    found: Mapping[str, Any], wanted: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    asked = any(value is not None for value in wanted.values())
    if not found.get("do_sample_frames", False) and not asked:
        return {"rule": ALL_FRAMES}
    return sampling_settings(found, wanted, given)


def _check_steps(found: Mapping[str, Any]) -> None:
    if not found.get("do_resize", True) or found.get("do_center_crop"):
        raise ModelError("`do_resize` off or `do_center_crop` on: cannot be followed for videos")


def _size(value: Any) -> dict[str, int]:  # noqa: ANN401  as in the JSON
    if isinstance(value, int):
        value = {"height": value, "width": value}
    if not isinstance(value, dict) or set(value) != {"height", "width"}:
        raise ModelError(f"`size`: expected height and width of a frame, found {value!r:.60}")
    return {name: pixel_side(f"size.{name}", value[name]) for name in ("height", "width")}


INTERNVL_CLIP: Final = FrameClipFamily(INTERNVL_PICTURES, 1, _internvl)
SMOLVLM_CLIP: Final = FrameClipFamily(SMOLVLM_PICTURES, 1, _smolvlm)
