"""Versions of the libraries that decide a decoded pixel."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from vcache_cli.media.plugins import plugin_versions

if TYPE_CHECKING:
    from typing import Final

__all__ = ["av_version", "versions"]

_FEATURES: Final = (
    *("avif", "jpg", "jpg_2000", "libjpeg_turbo", "libtiff", "mozjpeg", "webp", "zlib", "zlib_ng"),
)


@cache
def _found() -> tuple[tuple[str, str], ...]:
    from PIL import __version__, features

    found = {name: features.version(name) for name in _FEATURES}
    known = {name: version for name, version in found.items() if version}
    return ("pillow", __version__), *sorted({**known, **plugin_versions()}.items())


def versions() -> dict[str, str]:
    """Pillow, its codecs and plug-ins, by name; what is not there is left out.

    Part of the *known* memo's context: another codec may decode other pixels.
    """
    return dict(_found())


@cache
def av_version() -> str:
    """PyAV's, without loading it; empty where it is not installed.

    Its wheels bring FFmpeg with them, so that one version stands for both.
    """
    try:
        return version("av")
    except PackageNotFoundError:
        return ""
