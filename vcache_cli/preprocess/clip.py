"""CLIP: the short side to a fixed length, then the square in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.preprocess.families import FixedSizeFamily

if TYPE_CHECKING:
    from typing import Final

__all__ = ["FAMILY"]

FAMILY: Final = FixedSizeFamily(
    name="clip",
    revision=1,
    model_types=("clip", "clip_vision_model"),
    processor_types=("CLIPImageProcessor", "CLIPFeatureExtractor"),
    defaults={
        "do_center_crop": True,
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "crop_size": {"height": 224, "width": 224},
        "default_to_square": False,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"shortest_edge": 224},
    },
    patch_size=32,
    extra_tokens=1,  # the class token
)
"""Defaults are those of the server's image processor and vision configuration."""
