"""`__all__` is the promise: exact, sorted as ruff sorts it, and each name there."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "vcache_cli"
PACKAGES = sorted(
    ".".join(path.parent.relative_to(PACKAGE.parent).parts) for path in PACKAGE.rglob("__init__.py")
)


def casing_then_name(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions."""
    if name.isupper():
        return 0, name
    return (1 if name[:1].isupper() else 2), name


def own_names(module: ModuleType) -> set[str]:
    """Public names that a package holds and that come from this project."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name not in {"annotations", "TYPE_CHECKING"}
        and not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", "vcache_cli")).partition(".")[0] == "vcache_cli"
    }


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_exact_and_sorted(name: str) -> None:
    module = importlib.import_module(name)
    promised = list(module.__all__)
    assert promised == sorted(set(promised), key=casing_then_name)
    assert own_names(module) <= set(promised)


@pytest.mark.parametrize("name", PACKAGES)
def test_each_promised_name_can_be_imported(name: str) -> None:
    module = importlib.import_module(name)
    missing = [promised for promised in module.__all__ if not hasattr(module, promised)]
    assert missing == []
