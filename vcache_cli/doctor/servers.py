"""Servers that are installed here, and whether they would read this store."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcache_cli.doctor.checks import Check, State

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.profile import Profile

__all__ = ["Kept", "check_mlx_vlm", "check_omlx"]

_MAX_BYTES: Final = 1024**2
_FEATURES: Final = "vision_features"


@dataclass(frozen=True, slots=True)
class Kept:
    """The store that is looked at."""

    path: Path
    """Absolute."""
    target: str | None = None
    """None where there is no store yet."""


def check_omlx(kept: Kept, base: Path) -> Check:
    """Is there an oMLX, where does it keep its features, and is that this store?

    Args:
        kept: the store.
        base: its folder, ``~/.omlx`` unless it was moved.
    """
    if not base.is_dir():
        return Check("omlx", State.OK, f"not found: no {base}")
    settings = _settings(base / "settings.json")
    if settings is None:
        message = f"{base / 'settings.json'}: cannot be read as JSON: its folder is not known"
        return Check("omlx", State.WARN, message, "correct the file, or start oMLX once")
    folder = _cache_folder(settings, base) / _FEATURES
    there = "" if folder.is_dir() else ", which is not there yet"
    if _same(folder, kept.path):
        return Check("omlx", State.OK, f"found in {base}; it reads this very folder")
    told = f"found in {base}; it reads {folder}{there}"
    if kept.target != "omlx":
        return Check("omlx", State.OK, f"{told}, and not this store")
    fix = f"warm with `--store {folder}`, or set its `cache.ssd_cache_dir` to {kept.path.parent}"
    return Check("omlx", State.WARN, f"{told}, and not this store of target omlx", fix)


def check_mlx_vlm(kept: Kept, versions: Mapping[str, str], profile: Profile | None) -> Check:
    """Is mlx-vlm importable, and would its server find what this store holds?"""
    version = versions.get("mlx-vlm")
    wanted = kept.target == "mlx-vlm"
    if version is None:
        message = "not installed in this environment"
        fix = "pip install 'vcache-cli[mlx-vlm]' where the server runs"
        return Check("mlx_vlm", State.WARN if wanted else State.OK, message, fix if wanted else "")
    if profile and not profile.covers(version):
        message = f"{version}; keys are known of {' and '.join(profile.versions)}"
        fix = f"pip install 'mlx-vlm=={profile.versions[-1]}.*'"
        return Check("mlx_vlm", State.WARN if wanted else State.OK, message, fix if wanted else "")
    reads = "this store" if wanted else "stores of target mlx-vlm, and not this one"
    return Check("mlx_vlm", State.OK, f"{version}; `vcache serve-mlx-vlm` reads {reads}")


def _settings(path: Path) -> Mapping[str, Any] | None:
    """What the file says; nothing where there is none; None where it is damaged."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(_MAX_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _cache_folder(settings: Mapping[str, Any], base: Path) -> Path:
    cache = settings.get("cache")
    chosen = cache.get("ssd_cache_dir") if isinstance(cache, dict) else None
    if not isinstance(chosen, str) or not chosen:
        return base / "cache"
    return Path(os.path.expanduser(chosen)).resolve()


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
