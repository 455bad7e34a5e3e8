"""A model folder: its JSON settings, and where each tensor lies in its weight files.

Opening reads JSON only. Weights are read tensor by tensor, each by its own byte range, so the
vision tower of a large model is read without the rest of it.
"""

from __future__ import annotations

from vcache_cli.checkpoint.download import SETTINGS_FILES, download
from vcache_cli.checkpoint.folder import Checkpoint, open_checkpoint
from vcache_cli.checkpoint.hub import is_hub_name
from vcache_cli.checkpoint.weights import TensorRange, missing_weights

__all__ = [
    "SETTINGS_FILES",
    "Checkpoint",
    "TensorRange",
    "download",
    "is_hub_name",
    "missing_weights",
    "open_checkpoint",
]
