"""Whether the installed server package is one whose rules a profile is known to follow."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from vcache_cli.profile import Profile

__all__ = ["check_release"]


def check_release(profile: Profile, *, force: bool = False) -> None:
    """Refuse a profile whose package is installed here in a version that it was not tested with.

    Where the package is not installed there is nothing to compare: the server is elsewhere.

    Raises:
        ModelError: it is, and `force` is not set.
    """
    if force:
        return
    try:
        found = metadata.version(profile.package)
    except metadata.PackageNotFoundError:
        return
    if not profile.covers(found):
        raise ModelError(
            f"profile `{profile.name}` was tested with {profile.package} "
            f"{' and '.join(profile.versions)}, and {found} is installed: one pixel that differs "
            "in its last bit is never found by the server",
            hint=f"name a profile of {found} (`vcache plugins` lists them), install "
            f"{profile.package} {profile.versions[-1]}, or go on with `--force-profile`",
        )
