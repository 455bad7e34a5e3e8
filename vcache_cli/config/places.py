"""Folders of the user: settings, and what can be made again."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["default_store", "expand_user", "memo_folder", "user_config_path"]


@contextmanager
def _home() -> Iterator[None]:
    """A user without a home, as in some containers, is no fault of ours.

    Raises:
        UsageError: the system does not know one, and no variable names it.
    """
    try:
        yield
    except RuntimeError as error:
        raise UsageError(
            f"this user has no home directory: {error}", hint="set HOME to an absolute path"
        ) from error


def user_config_path() -> Path:
    """The user's own file; it need not exist."""
    from platformdirs import user_config_path as folder

    with _home():
        return folder("vcache", appauthor=False) / "config.toml"


def default_store() -> Path:
    """The store where none is named: in the platform's cache folder."""
    return _cache("vcache")


def memo_folder() -> Path:
    """Where small things are remembered that cost time to work out anew; disposable.

    Not the default store, in which nothing but a store belongs.
    """
    return _cache("vcache-memo")


def _cache(name: str) -> Path:
    from platformdirs import user_cache_path

    with _home():
        return user_cache_path(name, appauthor=False)


def expand_user(text: str) -> Path:
    """The path, a ``~`` at its start replaced by a home."""
    with _home():
        return Path(text).expanduser()
