"""mlx-vlm as a target: the entries that our drop-in for its feature cache looks up.

mlx-vlm itself keeps features in memory only. Its own function names what its processor made of a
request's pictures, in 64 bits and without the model; the drop-in binds that name to the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.errors import ModelError, UsageError
from vcache_cli.targets.mlx_vlm_layout import MlxVlmLayout, mlx_vlm_key, part_number
from vcache_cli.targets.values import stored, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.items import Features, Pixels
    from vcache_cli.protocols import Evidence, KeyFrom, Unit
    from vcache_cli.recipe import Recipe
    from vcache_cli.tensor import Tensor

__all__ = ["MlxVlmTarget", "processed_key"]

_INSTALL: Final = "pip install 'vcache-cli[mlx-vlm]'"


def processed_key(inputs: Mapping[str, Any]) -> str:
    """What the installed mlx-vlm calls the pictures of a request: ``processed:...``.

    Args:
        inputs: what its processor made: arrays, whose type is part of the name, lists of them
            and plain values.

    Raises:
        ModelError: mlx-vlm is not installed.
    """
    try:
        from mlx_vlm.vision_cache import processed_image_key
    except ImportError as error:
        raise ModelError(
            f"target `mlx-vlm` asks mlx-vlm for its keys: {error}",
            hint=_INSTALL,
        ) from error
    pictures = {
        name: value
        for name, value in inputs.items()
        if name == "pixel_values" or name.startswith("image_")
    }
    return str(processed_image_key(**pictures))


def _array(value: Any) -> Any:  # noqa: ANN401  whatever the processor gives
    """Arrays of numpy as MLX's, in lists too: as the server has them."""
    if isinstance(value, list | tuple):
        return [_array(each) for each in value]
    if type(value).__module__ != "numpy":
        return value
    import mlx.core as mx

    return mx.array(value)


_LAYOUT: Final = MlxVlmLayout()


@dataclass(frozen=True, slots=True)
class MlxVlmTarget:
    """mlx-vlm with our drop-in for its cache; features by its own code. Pure; any thread."""

    name: str = "mlx-vlm"
    key_from: KeyFrom = "pixels"
    unit: Unit = "item"
    profile: str | None = "mlx-vlm-0.7"
    layout: MlxVlmLayout = _LAYOUT
    output: str = "projected"
    backend: str = "mlx-vlm"
    residence: str = "mlx-vlm's own key function takes arrays of MLX"

    def options(self, given: Mapping[str, Any], checkpoint: Checkpoint) -> dict[str, str]:
        """``mlx_vlm``: the version whose function makes the keys.

        Raises:
            UsageError: an option of another target.
            ModelError: mlx-vlm is not installed.
        """
        if others := sorted(set(given) - {"groups"}):
            flags = ", ".join(f"`--{name.replace('_', '-')}`" for name in others)
            raise UsageError(f"target `{self.name}` takes no {flags}")
        try:
            return {"mlx_vlm": version("mlx-vlm")}
        except PackageNotFoundError as error:
            raise ModelError("target `mlx-vlm` needs mlx-vlm", hint=_INSTALL) from error

    def key(self, recipe: Recipe, evidence: Evidence) -> str:
        """Of the server's own name of the processed pictures, and the encoder.

        Raises:
            ModelError: mlx-vlm is not installed.
        """
        known = self.metadata(recipe, evidence)
        return mlx_vlm_key(known["processed"], known["encoder"])

    def metadata(self, recipe: Recipe, evidence: Evidence) -> dict[str, str]:
        """The parts of the key: ``processed`` and ``encoder``."""
        pixels = [each.pixels for each in evidence.pictures if each.pixels]
        if evidence.processed is None or recipe.encoder is None or not pixels:
            raise TypeError("a key of this target needs pixels, and the encoder that takes them")
        inputs = evidence.processed([each.expanded() for each in pixels])
        processed = processed_key({name: _array(value) for name, value in inputs.items()})
        return {"processed": processed, "encoder": recipe.encoder.fingerprint}

    def tensors(self, recipe: Recipe, value: Pixels | Features) -> dict[str, Tensor]:
        """`features` in the shape that the model merges; where that is a list, `features.0..n`.

        Raises:
            EncodeError: a feature that is infinite in the stored dtype.
        """
        return self.group_tensors(recipe, [value])

    def group_tensors(
        self, recipe: Recipe, values: Sequence[Pixels | Features]
    ) -> dict[str, Tensor]:
        """As `tensors`, of all pictures of a request: on the first axis, or one list.

        Raises:
            EncodeError: as `tensors`; or pictures of one request that do not fit together.
        """
        dtype = recipe.encoder.stored_dtype if recipe.encoder else None
        if all("features" in value.tensors for value in values):
            joined = together([value.tensors["features"] for value in values])
            return {"features": stored("features", joined, dtype)}
        parts = [
            value.tensors[name]
            for value in values
            for name in sorted(value.tensors, key=part_number)
            if name.startswith("features.")
        ]
        return {
            f"features.{index}": stored("features", part, dtype) for index, part in enumerate(parts)
        }
