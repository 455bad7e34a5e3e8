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
    processors: str = "transformers"
    """Whose image processors: ``transformers`` (of the PIL kind), or ``mlx-vlm``, which has its
    own for some families and takes those of transformers for the others."""
    max_side: int | None = None
    """Longest side, pixels, to which a larger picture is brought before the EXIF orientation
    is applied, as oMLX does it; None: no such step."""

    clips: str = "pyav"
    """Who decodes clips: ``pyav`` (transformers' `load_video`), or ``opencv``."""

    def covers(self, version: str) -> bool:
        """True where `version` of the package is one of `versions`, or a patch of one.

        >>> Profile("p", 1, "x", ("5.24",)).covers("5.24.1")
        True
        >>> Profile("p", 1, "x", ("5.24",)).covers("5.240")
        False
        """
        return any(f"{version}.".startswith(f"{known}.") for known in self.versions)
