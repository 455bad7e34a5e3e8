"""Whose image processors a profile may name, and a preprocessor that is fit to follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.profile import Profile

__all__ = ["are_usual", "check_processors", "checked"]

PROCESSORS: Final = ("transformers", "mlx-vlm")
_LEAST: Final = 1e-6
_MOST: Final = 1e6
"""Whatever is multiplied, added and divided within these stays far from the end of float32."""


class _Checkable(Protocol):
    def check(self) -> None: ...


Made = TypeVar("Made", bound=_Checkable)


def check_processors(profile: Profile) -> None:
    """See that the profile's processors are known.

    Raises:
        ModelError: they are not.
    """
    if profile.processors not in PROCESSORS:
        raise ModelError(f"profile `{profile.name}`: unknown processors `{profile.processors}`")


def are_usual(settings: Mapping[str, Any]) -> bool:
    """True where pixels are finite at a glance; else `checked` has to compute them.

    >>> usual = {"rescale_factor": 1 / 255, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    >>> are_usual(usual), are_usual(usual | {"image_std": [0.5, 0, 0.5]})
    (True, False)
    """
    factor, means, deviations = map(settings.get, ("rescale_factor", "image_mean", "image_std"))
    if factor is None or means is None or deviations is None:
        return False
    return (
        _LEAST <= factor <= _MOST
        and all(abs(mean) <= _MOST for mean in means)
        and all(_LEAST <= abs(deviation) <= _MOST for deviation in deviations)
    )


def checked(made: Made, profile: Profile) -> Made:
    """`made`, once it is known that it can follow the profile and gives finite pixels.

    Raises:
        ModelError: it cannot, or does not.
    """
    check_processors(profile)
    made.check()
    return made
