"""SigLIP: the whole picture to one fixed size, aspect ratio not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.preprocess.families import FixedSizeFamily

if TYPE_CHECKING:
    from typing import Final

__all__ = ["FAMILY"]

FAMILY: Final = FixedSizeFamily(
    name="siglip",
    revision=1,
    model_types=("siglip", "siglip_vision_model"),
    processor_types=("SiglipImageProcessor", "SiglipFeatureExtractor"),
    defaults={
        "do_center_crop": None,
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "crop_size": None,
        "default_to_square": False,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"height": 224, "width": 224},
    },
    patch_size=16,
)
"""Defaults are those of the server's image processor and vision configuration."""
