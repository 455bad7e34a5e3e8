"""Preprocessing by the checkpoint's own processor, for families that have no code of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.encode.mlx_vlm.loading import check_version
from vcache_cli.encode.mlx_vlm.pictures import ServerPreprocessor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.mlx_vlm.owner import ModelOwner
    from vcache_cli.profile import Profile

__all__ = ["ServerFamily"]


class ServerFamily:
    """A `Family` whose pixels mlx-vlm makes.

    Args:
        owner: of the model, whose processor is used.
        name: the checkpoint's `model_type`.
    """

    revision = 1

    def __init__(self, owner: ModelOwner, name: str) -> None:
        self._owner = owner
        self.name = name

    def resolve(self, checkpoint: Checkpoint, profile: Profile) -> dict[str, Any]:
        """The package that decides, and the files that it reads: what it makes of them is its own.

        Raises:
            ModelError: mlx-vlm is not installed, or of another series.
        """
        return {
            "processor": "mlx-vlm",
            "version": check_version(),
            "image_processor": dict(checkpoint.preprocessor),
            "processor_config": dict(checkpoint.processor),
        }

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> ServerPreprocessor:
        """The checkpoint's processor."""
        return ServerPreprocessor(self._owner)
