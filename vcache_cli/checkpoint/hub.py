"""Names in the local Hugging Face cache, read as its documented layout says; no network.

``models--ORG--NAME/refs/REVISION`` holds a commit, ``models--ORG--NAME/snapshots/COMMIT`` is the
folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from typing import Final

__all__ = ["cache_folder", "cached_names", "expand_user", "is_hub_name", "snapshot_folder"]

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*|[A-Za-z0-9][\w.-]*", re.ASCII)
_MAX_NAME: Final = 96
"""The Hub's own limit."""
_COMMIT: Final = re.compile(r"[0-9a-f]{6,64}")


def is_hub_name(text: str) -> bool:
    """Whether `text` can be a model's name on the Hub, such as ``google/siglip-base-patch16-224``.

    >>> [is_hub_name(text) for text in ("org/name", "gpt2", "./name", "a/b/c", "org/..")]
    [True, True, False, False, False]
    """
    allowed = len(text) <= _MAX_NAME and "--" not in text and ".." not in text
    return allowed and _NAME.fullmatch(text) is not None


def cache_folder() -> Path:
    """Where downloads of the Hub lie: HF_HUB_CACHE, else HF_HOME/hub, else the user's cache."""
    chosen = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if chosen:
        return expand_user(os.path.expandvars(chosen))
    user_cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{user_cache}/huggingface"
    return expand_user(os.path.expandvars(home)) / "hub"


def cached_names() -> list[str]:
    """Models that were downloaded, whole or in part, by name.

    Raises:
        ModelError: there is no home to look in.
    """
    folders = cache_folder().glob("models--*")
    return sorted(path.name.removeprefix("models--").replace("--", "/") for path in folders)


def expand_user(text: str) -> Path:
    """The path, a ``~`` at its start replaced by a home.

    Raises:
        ModelError: there is no such home, as in some containers.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ModelError(
            f"{text}: found no home directory", hint="set HOME, or give an absolute path"
        ) from error


def snapshot_folder(name: str) -> Path:
    """The folder of the model `name` as it was last downloaded.

    Raises:
        ModelError: it was not downloaded, or only in part.
    """
    repository = cache_folder() / f"models--{name.replace('/', '--')}"
    if not repository.is_dir():
        raise ModelError(
            f"`{name}`: expected a model folder or a model in the local Hugging Face cache, "
            f"found neither ./{name} nor {repository}",
            hint=f"give the path of a model folder, or download it first: `hf download {name}`",
        )
    folder = repository / "snapshots" / _commit(repository, name)
    if not folder.is_dir():
        raise _incomplete(name, f"no {folder}")
    return folder


def _commit(repository: Path, name: str) -> str:
    """The commit of the branch ``main``, or the only one there is."""
    try:
        commit = (repository / "refs" / "main").read_text("ascii").strip()
    except (OSError, ValueError):
        found = sorted(path.name for path in (repository / "snapshots").glob("*"))
        if len(found) != 1:
            text = f"no {repository / 'refs' / 'main'} and {len(found)} snapshots"
            raise _incomplete(name, text) from None
        commit = found[0]
    if not _COMMIT.fullmatch(commit):
        raise _incomplete(name, f"`{commit[:64]}` in place of a commit")
    return commit


def _incomplete(name: str, found: str) -> ModelError:
    return ModelError(
        f"`{name}`: expected a whole download in the local Hugging Face cache, found {found}",
        hint=f"download it again: `hf download {name}`",
    )
