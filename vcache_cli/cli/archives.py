"""Where an archive is written to, and read from: a file that is there whole or not, or a pipe."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vcache_cli.cli.output import discard
from vcache_cli.errors import PartialFailureError, UsageError
from vcache_cli.items import display_path
from vcache_cli.store.files import OsFiles, explained, sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

    from vcache_cli.cli.output import Output

    Write = Callable[[bytes], object]

__all__ = ["archive_sink", "archive_source", "check_signature", "write_signature"]

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@contextlib.contextmanager
def archive_sink(
    name: str, store: Path, output: Output, *, force: bool
) -> Iterator[tuple[Output, Write]]:
    """What takes the archive's bytes, and where the result is told then.

    Args:
        name: of a file, which has its name only once it is whole; ``-`` is stdout.
        store: which is no place for it.
        output: where the result is told, unless the archive is there.
        force: a file that is there is replaced.

    Raises:
        UsageError: a place where no archive should be.
        StoreFullError, AccessError, OSError: it could not be written.
        PartialFailureError: who reads it went away.
    """
    if name == "-":
        with _stdout(output) as write:
            yield replace(output, stdout=output.stderr), write
        return
    path = os.path.abspath(name)
    if Path(path).is_relative_to(os.path.abspath(store)):
        raise UsageError(f"{display_path(name)} lies in the store that it would be an archive of")
    with explained(OsFiles(), os.path.dirname(path)), _written(path, force=force) as file:
        yield output, file.write


@contextlib.contextmanager
def archive_source(name: str) -> Iterator[BinaryIO]:
    """What gives the archive's bytes; ``-`` is stdin.

    Raises:
        UsageError: there is no such file.
        OSError: it could not be opened.
    """
    if name == "-":
        if sys.stdin.isatty():
            raise UsageError("stdin is a terminal", hint="`... | vcache import -`")
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115  closed below, opened here for its own errors
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise UsageError(f"{display_path(name)}: {error.strerror}") from error
    with file:
        yield file


def write_signature(name: str, manifest_sha256: str, key: str) -> None:
    """Sign the archive in the file `name`, into another one beside it.

    Raises:
        UsageError: the key cannot be used.
        StoreFullError, AccessError, OSError: the signature cannot be written.
    """
    from vcache_cli.store.signature import SIGNATURE_SUFFIX, sign

    path = os.path.abspath(name) + SIGNATURE_SUFFIX
    signature = sign(manifest_sha256, key)
    with explained(OsFiles(), os.path.dirname(path)), _written(path, force=True) as file:
        file.write(signature)


def check_signature(name: str, source: BinaryIO, allowed: str) -> str:
    """Who signed the archive in the file `name`, which is read whole, and then from its beginning.

    Raises:
        UsageError: it is no file that can be read twice.
        RefusedError: it is not signed, not by any of those allowed, or damaged.
    """
    from vcache_cli.store.signature import (
        SIGNATURE_SUFFIX,
        manifest_of,
        read_signature,
        signer_of,
    )

    if name == "-" or not source.seekable():
        raise UsageError(
            "a pipe cannot be read twice, before and after the signature was checked",
            hint="save the archive to a file first",
        )
    signature = read_signature(name + SIGNATURE_SUFFIX)
    signer = signer_of(manifest_of(source), signature, allowed)
    source.seek(0)
    return signer


@contextlib.contextmanager
def _stdout(output: Output) -> Iterator[Write]:
    if output.json:
        raise UsageError("`-` and `--json` both need stdout", hint="name a file, such as /dev/fd/3")
    if sys.stdout.isatty():
        raise UsageError("stdout is a terminal", hint="name a file, or add `| ...`")
    try:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        discard(sys.stdout)
        raise PartialFailureError("the archive is not whole: its reader went away") from error


@contextlib.contextmanager
def _written(path: str, *, force: bool) -> Iterator[BinaryIO]:
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except FileNotFoundError:
        kind = 0
    if kind == stat.S_IFDIR or (kind == stat.S_IFREG and not force):
        told = "a folder" if kind == stat.S_IFDIR else "there already"
        hint = "" if kind == stat.S_IFDIR else "name another file, or add --force"
        raise UsageError(f"{display_path(path)} is {told}", hint=hint)
    if kind in {0, stat.S_IFREG}:
        with _whole(os.path.realpath(path)) as file:
            yield file
        return
    with open(path, "wb") as file:  # a pipe or a device
        yield file


@contextlib.contextmanager
def _whole(path: str) -> Iterator[BinaryIO]:
    """A file that gets its name once all is in it."""
    temp = f"{path}.{secrets.token_hex(4)}.part"
    try:
        fd = os.open(temp, _NEW, 0o666)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"{display_path(path)}: {error.strerror}") from error
    try:
        with open(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, path)
        with contextlib.suppress(OSError):  # a folder that cannot be opened
            sync_directory(OsFiles(), os.path.dirname(path))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
