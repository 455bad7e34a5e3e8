"""Checks of the machine: Python, packages, limits, clock, codecs."""

from __future__ import annotations

import platform
import resource
import sys
import time
from importlib import metadata
from typing import TYPE_CHECKING

from vcache_cli.doctor.checks import Check, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from vcache_cli.profile import Profile

__all__ = [
    "check_clock",
    "check_codecs",
    "check_open_files",
    "check_packages",
    "check_profiles",
    "check_python",
    "package_versions",
]

_NEEDED: Final = (
    "av",
    "numpy",
    "pillow",
    "platformdirs",
    "rich",
    "safetensors",
    "threadpoolctl",
    "typer",
    "xxhash",
)
_LISTED: Final = (
    *_NEEDED,
    "mlx",
    "mlx-cpu",
    "mlx-cuda",
    "mlx-metal",
    "mlx-vlm",
    "torch",
    "transformers",
    "vcache-cli",
)

_MIN_OPEN_FILES: Final = 256
_OLDEST: Final = 1_767_225_600
"""2026-01-01, seconds since 1970: before this code was written."""


def package_versions() -> dict[str, str]:
    """Versions of what matters here, by distribution; nothing is imported."""
    found = {}
    for name in _LISTED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {"python": platform.python_version(), **found}


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> Check:
    """Is this Python new enough?"""
    shown = f"{platform.python_implementation()} {version[0]}.{version[1]} on {platform.platform()}"
    if version < (3, 11):
        return Check("python", State.FAIL, shown, "install Python 3.11 or newer")
    return Check("python", State.OK, shown)


def check_packages(versions: Mapping[str, str]) -> Check:
    """Are the base dependencies there?"""
    missing = [name for name in _NEEDED if name not in versions]
    if missing:
        fix = f"pip install {' '.join(missing)}"
        return Check("packages", State.FAIL, f"not installed: {', '.join(missing)}", fix)
    return Check("packages", State.OK, f"all {len(_NEEDED)} base packages are installed")


def check_profiles(profiles: Iterable[Profile], versions: Mapping[str, str]) -> Check:
    """Are the server packages, where installed, those that the profiles were tested with?"""
    parts, strange = [], []
    for profile in profiles:
        found = versions.get(profile.package)
        told = f"{profile.name} ({profile.package} {' and '.join(profile.versions)})"
        if found and not profile.covers(found):
            strange.append(profile.package)
            told += f": {found} is installed"
        parts.append(told)
    message = "; ".join(parts)
    if strange:
        fix = f"warm with a profile of that version of {' and '.join(sorted(set(strange)))}, or"
        return Check("profiles", State.WARN, message, f"{fix} with --force-profile")
    return Check("profiles", State.OK, message)


def check_open_files(limit: int | None = None) -> Check:
    """May this process open enough files?"""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    if soft == resource.RLIM_INFINITY:
        return Check("open_files", State.OK, "no limit of open files")
    message = f"{soft} files may be open at once"
    if soft < _MIN_OPEN_FILES:
        return Check("open_files", State.WARN, message, "run `ulimit -n 1024` before vcache")
    return Check("open_files", State.OK, message)


def check_clock(now_seconds: float | None = None) -> Check:
    """Is the clock plausible? Ages and last uses are counted by it."""
    now = time.time() if now_seconds is None else now_seconds
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < _OLDEST:
        return Check("clock", State.FAIL, f"{shown} is in the past", "set the system's clock")
    return Check("clock", State.OK, shown)


def check_codecs(versions: Mapping[str, str]) -> Check:
    """Which picture formats can be decoded? `versions` names what Pillow was built with."""
    missing = [name for name in ("jpg", "webp", "avif") if name not in versions]
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    if missing:
        message = f"cannot decode {', '.join(missing)} ({shown})"
        return Check(
            "codecs", State.WARN, message, "pip install --upgrade --force-reinstall pillow"
        )
    return Check("codecs", State.OK, shown)
