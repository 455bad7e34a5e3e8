"""One module per command, one command per module; a command is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Final

__all__ = ["COMMANDS"]

Command = Callable[..., int]

_NAMES: Final = (
    *("warm", "check", "stats", "ls", "inspect", "verify", "prune", "report"),
    *("export", "import", "merge", "push", "pull", "key", "replay", "serve-mlx-vlm"),
    *("doctor", "config", "schema", "plugins"),
)


class _Commands(Mapping[str, Command]):
    """Loads no command but those that are asked for."""

    def __getitem__(self, name: str) -> Command:
        if name not in _NAMES:
            raise KeyError(name)
        # `import` is a word of the language
        word = "import_" if name == "import" else name.replace("-", "_")
        command: Command = getattr(import_module(f"{__name__}.{word}"), word)
        return command

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


COMMANDS: Final[Mapping[str, Command]] = _Commands()
"""Every command by name, in the order of the help."""
