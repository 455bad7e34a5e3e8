"""The version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("vcache-cli")
except PackageNotFoundError:  # a source tree on the path that was never installed
    __version__ = "0"
