"""The table of settings: name, parser, default, and whether a project's file may set it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.config.values import (
    one_of,
    parse_bool,
    parse_bytes,
    parse_count,
    parse_folder,
    parse_max_errors,
    parse_optional_bytes,
    parse_optional_seconds,
    parse_seconds,
    parse_side,
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
    danger: str = ""
    """What it does, where a project's file may not set it; empty where it may."""
    path: bool = False
    """True where a relative value in a file means relative to that file."""

    @property
    def project(self) -> bool:
        """Whether a project's file may set it."""
        return not self.danger

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
_BOUNDS = "bounds what a hostile picture can do here"
_DELETES = "decides what is deleted"

SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("store", parse_folder, "a directory here", None, "folder of the store", path=True),
    Setting(
        "model",
        parse_text,
        "a model folder or name",
        None,
        "folder, or name in the local Hugging Face cache",
        path=True,
    ),
    Setting("target", parse_text, _NAME, "native", "server whose keys and files are written"),
    Setting("model_name", parse_text, "a path", None, "omlx: path under which it loads the model"),
    Setting(
        "max_side",
        parse_side,
        "0 to 65536 pixels",
        None,
        "omlx: its limit of an image's longer side; unset: 2048",
    ),
    Setting("omlx_version", parse_text, "a version", None, "omlx: the server's version"),
    Setting(
        "stage",
        one_of("features", "pixels"),
        "`features` or `pixels`",
        "features",
        "encoded features, or pixels ready to encode",
    ),
    Setting(
        "profile",
        parse_text,
        _NAME,
        "transformers-pil-5",
        "server whose preprocessing is followed",
    ),
    Setting(
        "force_profile",
        parse_bool,
        "`true` or `false`",
        default=False,
        about="follow the profile whatever version of the server is installed",
    ),
    Setting("backend", parse_text, _NAME, None, "library that encodes; unset: the fastest here"),
    Setting(
        "dtype",
        one_of("bfloat16", "float16", "float32"),
        "`bfloat16`, `float16` or `float32`",
        "bfloat16",
        "number type of stored features",
    ),
    Setting(
        "compute_dtype",
        one_of("auto", "bfloat16", "float16", "float32"),
        "`auto`, `bfloat16`, `float16` or `float32`",
        "auto",
        "number type that the encoder computes in",
    ),
    Setting(
        "workers",
        parse_count,
        "a number of at least 1",
        None,
        "items decoded at once; unset: one per core",
    ),
    Setting(
        "batch_size",
        parse_count,
        "a number of at least 1",
        None,
        "items per call of the encoder; unset: it decides",
    ),
    Setting(
        "max_pixels",
        parse_count,
        "a number of at least 1",
        178_956_970,
        "largest picture that is decoded, width times height",
    ),
    Setting(
        "max_file_size",
        parse_bytes,
        "a size such as `256MiB`",
        256 * 1024**2,
        "largest picture file that is read",
    ),
    Setting(
        "isolation",
        one_of("process", "thread"),
        "`process` or `thread`",
        "process",
        "decode in processes that may crash, or in threads",
        danger=_BOUNDS,
    ),
    Setting(
        "item_timeout",
        parse_optional_seconds,
        "an age such as `5m`, or `none`",
        300.0,
        "longest that a process may take for an item",
        danger=_BOUNDS,
    ),
    Setting(
        "item_memory",
        parse_optional_bytes,
        _SIZE,
        4 * 1024**3,
        "most memory that a process may take for an item",
        danger=_BOUNDS,
    ),
    Setting(
        "on_error",
        one_of("skip", "fail"),
        "`skip` or `fail`",
        "skip",
        "whether a run goes on after an item that failed",
    ),
    Setting(
        "max_errors",
        parse_max_errors,
        "a number, or a percentage such as `5%`",
        None,
        "stop the run when more items than this failed",
    ),
    Setting("max_size", parse_optional_bytes, _SIZE, None, "most that the store may hold"),
    Setting(
        "min_free", parse_optional_bytes, _SIZE, 256 * 1024**2, "space to leave free on the disk"
    ),
    Setting(
        "on_full",
        one_of("stop", "prune"),
        "`stop` or `prune`",
        "stop",
        "when the store is full: stop, or prune it",
        danger=_DELETES,
    ),
    Setting(
        "grace",
        parse_seconds,
        "an age such as `10m`",
        600.0,
        "while a run writes, prune spares what is younger",
        danger=_DELETES,
    ),
    Setting(
        "yes",
        parse_bool,
        "`true` or `false`",
        default=False,
        about="delete without asking",
        danger=_DELETES,
    ),
)
"""Every setting, in the order in which `vcache config` shows them."""

RESERVED: Final = frozenset({"blas", "server_args", "trust_remote_code"})
"""Names that a project's file may never set, because they run code; no setting has them yet."""
