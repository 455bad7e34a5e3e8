"""Where mlx-vlm's own code prepares and encodes instead of ours."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Final

from vcache_cli import registry
from vcache_cli.errors import ModelError, UsageError
from vcache_cli.items import Stage
from vcache_cli.preprocess import family_name
from vcache_cli.recipe import EncoderRecipe

if TYPE_CHECKING:
    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.encode.mlx_vlm import ModelOwner
    from vcache_cli.profile import Profile
    from vcache_cli.protocols import Encoder, Family, Preprocessor

__all__ = ["MLX_VLM", "choose_family", "encode_by_server", "open_server"]

MLX_VLM: Final = "mlx-vlm"
"""As a backend: mlx-vlm's own models compute."""
_ELSE: Final = (
    "if it takes pictures at all, mlx-vlm's own code may know it: install the extra "
    "`vcache-cli[mlx-vlm]`, and leave `--backend` away"
)
_REVISION: Final = 1
"""Bumped by any change of ours that changes the features that are taken from mlx-vlm."""


def open_server(checkpoint: Checkpoint, options: WarmOptions) -> ModelOwner | None:
    """The model as mlx-vlm loads it, where that is asked for or nothing here can take its place.

    Nothing is loaded yet.

    Raises:
        UsageError: another backend for a target whose entries only mlx-vlm's own code makes.
    """
    asked = options.backend == MLX_VLM
    if options.target == MLX_VLM and not asked:
        raise UsageError(
            f"target `{MLX_VLM}` computes by mlx-vlm's own code, not by `{options.backend}`",
            hint="leave `--backend` away",
        )
    if not asked and (options.backend or _is_known(checkpoint, options)):
        return None
    if not asked and importlib.util.find_spec("mlx_vlm") is None:
        return None
    from vcache_cli.encode.mlx_vlm import ModelOwner

    return ModelOwner(checkpoint, trust_remote_code=options.trust_remote_code)


def _is_known(checkpoint: Checkpoint, options: WarmOptions) -> bool:
    """Whether we have the family's pixels, and its tower where features are wanted."""
    try:
        name = family_name(checkpoint.config, known=registry.names("families"))
    except ModelError:
        return False
    return options.stage is Stage.PIXELS or name in registry.names("towers")


def choose_family(
    checkpoint: Checkpoint, profile: Profile, server: ModelOwner | None
) -> tuple[Family, dict[str, Any]]:
    """The family, and its settings: one of ours where there is one that can follow them.

    Raises:
        ModelError: there is none, and no server to ask; or settings that cannot be followed.
    """
    try:
        family: Family = registry.load("families", _known_name(checkpoint))
        return family, family.resolve(checkpoint, profile)
    except ModelError as error:
        if server is None:
            raise _located(error, checkpoint) from error
    from vcache_cli.encode.mlx_vlm import ServerFamily

    theirs = ServerFamily(server, str(checkpoint.config.get("model_type")))
    return theirs, theirs.resolve(checkpoint, profile)


def _located(error: ModelError, checkpoint: Checkpoint) -> ModelError:
    """The same, saying whose settings they are."""
    folder = str(checkpoint.folder)
    message = error.message if folder in error.message else f"{folder}: {error.message}"
    return ModelError(message, hint=error.hint)


def _known_name(checkpoint: Checkpoint) -> str:
    try:
        return family_name(checkpoint.config, known=registry.names("families"))
    except ModelError as error:
        raise ModelError(error.message, hint=error.hint or _ELSE) from error


def encode_by_server(
    server: ModelOwner, preprocessor: Preprocessor, options: WarmOptions
) -> tuple[Encoder, EncoderRecipe]:
    """The encoder, and its part of the recipe.

    Raises:
        RefusedError: the checkpoint brings code.
        ModelError: mlx-vlm is missing or of another series, cannot load or cannot split the model.
    """
    from vcache_cli.encode.mlx_vlm import load_server_encoder

    encoder = load_server_encoder(server, preprocessor)
    natural = options.target == MLX_VLM
    recipe = EncoderRecipe(
        tower=MLX_VLM,
        revision=_REVISION,
        fingerprint=encoder.fingerprint,
        output="projected",
        compute_dtype=encoder.device["dtype"],
        stored_dtype=encoder.stored_dtype if natural else options.stored_dtype,
    )
    return encoder, recipe
