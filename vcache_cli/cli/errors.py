"""The one place that maps errors to exit codes and messages."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import typer

from vcache_cli.errors import VcacheError
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

__all__ = ["PRECEDENCE", "Problem", "Terminated", "explain", "worst"]

PRECEDENCE: Final = (1, 130, 143, 16, 15, 14, 13, 12, 11, 10, 2, 4, 3, 5, 0)
"""Exit codes, the one that wins first. 12, 11, 10 and 2 end a command before it has another."""

_FILES = (2, "usage", "raise the limit of open files (`ulimit -n 4096`), or use fewer --workers")
_NAME = (2, "usage", "choose another name")
_DISK = (14, "io_error", "see what the system says of it (`dmesg`); then `vcache verify` the store")
_AWAY = (14, "io_error", "the file system went away; see that it is mounted, and run it again")
_ERRNO_CODES: Final[dict[int, tuple[int, str, str]]] = {
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ELOOP: _NAME,
    errno.ENAMETOOLONG: _NAME,
    errno.ENXIO: _NAME,  # a socket
    errno.EIO: _DISK,
    errno.ESTALE: _AWAY,
    errno.ENOTCONN: _AWAY,
    errno.ENODEV: _AWAY,
    errno.ETIMEDOUT: _AWAY,
    errno.EFBIG: (13, "store_full", "raise the limit of a file's size (`ulimit -f`)"),
    errno.EACCES: (14, "access", "check who owns it and its permissions"),
    errno.EPERM: (14, "access", "check who owns it and its permissions"),
    errno.EROFS: (14, "access", "the file system is read-only; choose another place"),
    errno.ENOSPC: (13, "store_full", "free some space, or run `vcache prune --max-size SIZE`"),
    errno.EDQUOT: (13, "store_full", "free some of the quota, or run `vcache prune`"),
}

_CLICK_ERROR: Final[type[Exception]] = typer.BadParameter.__mro__[2]
"""ClickException: some versions of typer use click, others carry their own copy of it."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: handled as Ctrl-C is, with an exit code of its own."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a command does not exit with 0."""

    code: int
    kind: str
    message: str
    hint: str = ""
    cause: BaseException | None = field(default=None, repr=False, compare=False)
    """For `--debug`; None where no error was raised."""

    def as_json(self) -> dict[str, Any]:
        """The `error` part of a document."""
        value = {"code": self.code, "kind": self.kind, "message": self.message, "hint": self.hint}
        return value if self.hint else {k: v for k, v in value.items() if k != "hint"}


def worst(codes: Iterable[int]) -> int:
    """The exit code that stands when several apply; 0 where none does. Pure."""
    return min(codes, key=PRECEDENCE.index, default=0)


def explain(error: BaseException) -> Problem:
    """What to tell the user about `error`, and the exit code."""
    return replace(_explained(error), cause=error)


def _explained(error: BaseException) -> Problem:
    if isinstance(error, VcacheError):
        return Problem(error.exit_code, error.kind, error.message, error.hint)
    if isinstance(error, KeyboardInterrupt):
        code = 143 if isinstance(error, Terminated) else 130
        return Problem(code, "interrupted", "interrupted; finished work is kept")
    if isinstance(error, _CLICK_ERROR):
        return _usage(error)
    if isinstance(error, OSError) and error.errno in _ERRNO_CODES:
        code, kind, hint = _ERRNO_CODES[error.errno]
        return Problem(code, kind, _system_message(error), hint)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        message = "the system gives this process no more threads or memory"
        return Problem(2, "usage", message, "use fewer --workers, or raise the limit (`ulimit`)")
    return Problem(
        1,
        "internal",
        f"internal error: {type(error).__name__}: {error}",
        "run it again as `vcache --debug ...` for the traceback, and report it",
    )


def _usage(error: Exception) -> Problem:
    message = str(getattr(error, "format_message", error.__str__)())
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "vcache"
    return Problem(2, "usage", message.rstrip("."), f"see `{command} --help`")


def _system_message(error: OSError) -> str:
    text = os.strerror(error.errno or 0)
    name = error.filename
    return f"{display_path(os.fsdecode(name))}: {text}" if isinstance(name, str | bytes) else text
