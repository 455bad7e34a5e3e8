"""A recipe: everything that decides an entry's bytes, as a value with a digest."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vcache_cli.digest import digest_json
from vcache_cli.items import Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EncoderRecipe", "Recipe"]


@dataclass(frozen=True, slots=True)
class EncoderRecipe:
    """The part of a recipe that decides features. The backend is provenance, not recipe."""

    tower: str
    """Name of the tower, such as ``siglip``."""
    revision: int
    """Of the tower's code; bumped by any change that changes features beyond tolerance."""
    fingerprint: str
    """SHA-256 over every tensor read (name, shape, dtype, bytes) and the resolved settings."""
    output: str
    """``hidden`` or ``projected``."""
    compute_dtype: str
    """``F32``, ``BF16`` or ``F16``."""
    stored_dtype: str
    """Dtype of the float tensors on disk."""


@dataclass(frozen=True)  # no slots: `digest` is cached
class Recipe:
    """Everything that decides an entry's bytes. Picklable; equal recipes have equal digests."""

    stage: Stage
    target: str
    profile: str
    profile_revision: int
    family: str
    family_revision: int
    settings: Mapping[str, Any]
    """Resolved preprocessing settings: JSON values only."""
    target_options: Mapping[str, Any] = field(default_factory=dict)
    encoder: EncoderRecipe | None = None
    """None where the stage is ``pixels``: models with the same preprocessing share pixels."""

    def __post_init__(self) -> None:
        """Check that the stage and the encoder part agree.

        Raises:
            ValueError: features without an encoder, or pixels with one.
        """
        if (self.stage is Stage.FEATURES) != (self.encoder is not None):
            raise ValueError(f"stage `{self.stage}` and encoder part do not fit together")

    def as_json(self) -> dict[str, Any]:
        """The recipe as JSON values; `digest` is the SHA-256 of its canonical form."""
        value = asdict(self)
        value["stage"] = self.stage.value
        value["settings"] = dict(self.settings)
        value["target_options"] = dict(self.target_options)
        if self.encoder is None:
            del value["encoder"]
        return value

    @cached_property
    def digest(self) -> str:
        """64 hex."""
        return digest_json(self.as_json())
