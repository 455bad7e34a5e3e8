"""Whose image processors a profile may name, and a preprocessor that is fit to follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from typing import Final

    from vcache_cli.profile import Profile

__all__ = ["check_processors", "checked"]

PROCESSORS: Final = ("transformers", "mlx-vlm")


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


def checked(made: Made, profile: Profile) -> Made:
    """`made`, once it is known that it can follow the profile and gives finite pixels.

    Raises:
        ModelError: it cannot, or does not.
    """
    check_processors(profile)
    made.check()
    return made
