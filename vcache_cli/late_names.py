"""Public names of a package, each loaded from its module at first use."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["late_name"]


def late_name(package: str, homes: Mapping[str, str], name: str) -> object:
    """What a package's `__getattr__` gives for `name`, which it then has.

    Args:
        package: its name.
        homes: for each of its names, the module below it that has that.
        name: what was asked for.

    Raises:
        AttributeError: the package has no such name.
    """
    if name not in homes:
        raise AttributeError(f"module `{package}` has no attribute `{name}`")
    value: object = getattr(import_module(f"{package}.{homes[name]}"), name)
    setattr(sys.modules[package], name, value)
    return value
