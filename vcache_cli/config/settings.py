"""The table of settings: name, parser, default, and whether a project's file may set it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.config.values import (
    one_of,
    parse_bool,
    parse_count,
    parse_max_errors,
    parse_optional_bytes,
    parse_seconds,
    parse_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

__all__ = ["RESERVED", "SETTINGS", "Setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, the same for a flag, a variable and a file."""

    name: str
    """In files; ``--max-size`` and ``VCACHE_MAX_SIZE`` spell ``max_size``."""
    parse: Callable[[object], Any]
    """Raises ValueError where the value is none of `expected`."""
    expected: str
    default: Any
    about: str
    project: bool = True
    """False where a project's file may not set it: what it brings along must not delete."""
    path: bool = False
    """True where a relative value in a file means relative to that file."""

    @property
    def flag(self) -> str:
        """As on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """As in the environment."""
        return "VCACHE_" + self.name.upper()


_SIZE = "a size such as `10GiB` or `500MB`, or `none`"
_NAME = "a name"

SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("store", parse_text, "a directory", None, "where the store is", path=True),
    Setting("model", parse_text, "a model folder or name", None, "whose vision part", path=True),
    Setting("target", parse_text, _NAME, "native", "consumer that a new store is for"),
    Setting(
        "stage",
        one_of("features", "pixels"),
        "`features` or `pixels`",
        "features",
        "how far entries go",
    ),
    Setting(
        "profile", parse_text, _NAME, "transformers-pil-5", "server whose preprocessing is followed"
    ),
    Setting("backend", parse_text, _NAME, None, "what encodes"),
    Setting(
        "dtype",
        one_of("bfloat16", "float16", "float32"),
        "`bfloat16`, `float16` or `float32`",
        "bfloat16",
        "of stored features",
    ),
    Setting("workers", parse_count, "a number of at least 1", None, "how many items at once"),
    Setting("batch_size", parse_count, "a number of at least 1", None, "items per encoder call"),
    Setting(
        "on_error",
        one_of("skip", "fail"),
        "`skip` or `fail`",
        "skip",
        "what an item's failure does to the run",
    ),
    Setting(
        "max_errors",
        parse_max_errors,
        "a number, or a percentage such as `5%`",
        None,
        "failures that stop the run",
    ),
    Setting("max_size", parse_optional_bytes, _SIZE, None, "cap of the store"),
    Setting("min_free", parse_optional_bytes, _SIZE, 256 * 1024**2, "space left on the disk"),
    Setting(
        "on_full",
        one_of("stop", "prune"),
        "`stop` or `prune`",
        "stop",
        "what a full store does to a run",
        project=False,
    ),
    Setting(
        "grace",
        parse_seconds,
        "an age such as `10m`",
        600.0,
        "age below which prune spares an entry",
        project=False,
    ),
    Setting(
        "yes",
        parse_bool,
        "`true` or `false`",
        default=False,
        about="delete without asking",
        project=False,
    ),
)
"""Every setting, in the order in which `vcache config` shows them."""

RESERVED: Final = frozenset({"blas", "server_args", "trust_remote_code"})
"""Names that a project's file may never set, because they run code; no setting has them yet."""
