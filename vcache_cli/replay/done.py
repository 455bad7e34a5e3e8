"""What a server was sent, by content: a line of 64 digits each, so that a run goes on."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from vcache_cli.digest import digest_json
from vcache_cli.errors import AccessError, LockBusyError, StoreFullError, UsageError
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["DoneFile", "open_done", "state_name"]

_LINE_BYTES: Final = 65
_HEAD_BYTES: Final = 4096


def state_name(url: str, model: str) -> str:
    """The name of the file for one model of one server.

    >>> state_name("http://localhost/v1/chat/completions", "m")[:8]
    '01b4d649'
    """
    return f"{digest_json([url, model])[:32]}.done"


class DoneFile:
    """An open file of what is done.

    Args:
        descriptor: of the file, open for appending and locked.
        found: digests that it has.
    """

    def __init__(self, descriptor: int, found: set[bytes]) -> None:
        self._descriptor = descriptor
        self._found = found

    def __contains__(self, digest: str) -> bool:
        """True for what was sent."""
        return bytes.fromhex(digest) in self._found

    def __len__(self) -> int:
        """How many were sent."""
        return len(self._found)

    def add(self, digest: str) -> None:
        """Remember it, at once and for the next run.

        Raises:
            StoreFullError: it cannot be written.
        """
        self._found.add(bytes.fromhex(digest))
        try:
            os.write(self._descriptor, f"{digest}\n".encode("ascii"))
        except OSError as error:
            raise StoreFullError(f"what was sent cannot be noted: {error.strerror}") from error


@contextmanager
def open_done(path: Path, *, url: str, model: str, again: bool = False) -> Iterator[DoneFile]:
    """Open the file at `path`, made where there is none; `again` forgets what it has.

    Raises:
        UsageError: it is of another server or model, or no such file.
        LockBusyError: another replay has it open.
        AccessError: it cannot be opened.
    """
    shown = display_path(str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise AccessError(f"`{shown}`: {error.strerror}", hint="name another --state") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockBusyError(
                f"`{shown}` is in use: another replay to this server goes on",
                hint="wait for it, or name another --state",
            ) from error
        head = {"format": 1, "model": model, "server": url}
        yield DoneFile(descriptor, _begin(descriptor, head, shown, again=again))
    finally:
        os.close(descriptor)


def _begin(descriptor: int, head: dict[str, object], shown: str, *, again: bool) -> set[bytes]:
    """The digests that the file has, after its head was compared or written."""
    line = json.dumps(head, sort_keys=True).encode("ascii") + b"\n"
    with os.fdopen(os.dup(descriptor), "rb") as file:
        first, rest = file.readline(_HEAD_BYTES), file.read()
    if first and first != line:
        raise UsageError(
            f"`{shown}` does not say what this server and model were sent",
            hint="name another --state",
        )
    if again or not first:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, line)
        return set()
    if torn := len(rest) % _LINE_BYTES:
        os.ftruncate(descriptor, len(first) + len(rest) - torn)  # a line cut by a crash
    try:
        return {bytes.fromhex(each.decode("ascii")) for each in rest.split(b"\n")[:-1] if each}
    except ValueError as error:
        raise UsageError(f"`{shown}` is damaged", hint="remove it, or use --again") from error
