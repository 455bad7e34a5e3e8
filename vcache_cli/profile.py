"""A profile: how one server version decodes, resizes and computes, as data."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Profile"]


@dataclass(frozen=True, slots=True)
class Profile:
    """Named rules of one (server, version). Picklable."""

    name: str
    """Such as ``transformers-pil-5``."""
    revision: int
    """Bumped by any change of ours that changes output bytes."""
    package: str
    """The package whose code the profile reproduces."""
    versions: tuple[str, ...]
    """Major (or major.minor) versions of `package` that it was tested against."""
    exif: bool = True
    """EXIF orientation is applied, before the conversion to RGB."""
    alpha: str = "drop"
    """``drop`` (a bare conversion to RGB) or ``white`` (composited on white)."""
    arithmetic: str = "scale-f64"
    """How uint8 becomes float32: ``scale-f64`` is float64 x * factor, rounded to float32, then
    float32 (x - mean) / std."""
