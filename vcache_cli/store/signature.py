"""Signatures of exports, made and checked by OpenSSH's `ssh-keygen`: keys that people have."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from typing import TYPE_CHECKING

from vcache_cli.errors import RefusedError, UsageError
from vcache_cli.items import display_path
from vcache_cli.store.archive_reader import ArchiveReader

if TYPE_CHECKING:
    from typing import Final

    from vcache_cli.store.archive_reader import ByteSource

__all__ = ["SIGNATURE_SUFFIX", "manifest_of", "read_signature", "sign", "signer_of"]

SIGNATURE_SUFFIX: Final = ".sig"
_NAMESPACE: Final = "vcache-export"
_MAX_BYTES: Final = 64 * 1024
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_SECONDS: Final = 300.0
"""Somebody may have to touch a key, or type a passphrase."""


def manifest_of(source: ByteSource) -> str:
    """SHA-256 of the manifest of a whole archive, read from its beginning to its end.

    Raises:
        FormatTooNewError, RefusedError, OSError: as `ArchiveReader.parts`.
    """
    reader = ArchiveReader(source)
    for part in reader.parts():
        for file in part.files:
            reader.skip(file)
    return reader.manifest_sha256


def read_signature(path: str) -> bytes:
    """The signature in the file at `path`.

    Raises:
        RefusedError: there is none, or nothing of a signature's size.
        OSError: it cannot be read.
    """
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError as error:
        raise RefusedError(f"{display_path(path)} is not there") from error
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MAX_BYTES:
            raise RefusedError(f"{display_path(path)} is no signature")
        return os.read(fd, _MAX_BYTES)
    finally:
        os.close(fd)


def sign(manifest_sha256: str, key: str) -> bytes:
    """The signature of a manifest by the private key in the file `key`.

    Raises:
        UsageError: there is no `ssh-keygen`, or it cannot use the key.
    """
    done = _ssh_keygen("-Y", "sign", "-q", "-n", _NAMESPACE, "-f", key, text=manifest_sha256)
    if done.returncode or not done.stdout:
        raise UsageError(f"{display_path(key)} cannot sign: {_told(done)}")
    return done.stdout


def signer_of(manifest_sha256: str, signature: bytes, allowed: str) -> str:
    """Who signed the manifest, of those that the file `allowed` lists as OpenSSH does.

    Raises:
        UsageError: there is no `ssh-keygen`, or no such file.
        RefusedError: none of them did.
    """
    if not os.path.isfile(allowed):
        raise UsageError(f"no list of signers at {display_path(allowed)}")
    with tempfile.NamedTemporaryFile(suffix=SIGNATURE_SUFFIX) as file:
        file.write(signature)
        file.flush()
        known = ("-s", file.name, "-f", allowed)
        found = _ssh_keygen("-Y", "find-principals", *known)
        names = found.stdout.decode(errors="replace").splitlines()
        if found.returncode or not names:
            raise RefusedError(f"signed by nobody that {display_path(allowed)} lists")
        words = ("-Y", "verify", "-n", _NAMESPACE, "-I", names[0], *known)
        done = _ssh_keygen(*words, text=manifest_sha256)
    if done.returncode:
        raise RefusedError(f"the signature is not of this archive: {_told(done)}")
    return names[0]


def _ssh_keygen(*words: str, text: str = "") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UsageError("signatures need `ssh-keygen`", hint="install OpenSSH's client")
    try:
        return subprocess.run(  # noqa: S603  a program of the system, words of ours
            [program, *words], input=text.encode("ascii"), capture_output=True, timeout=_SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:  # its key is a pipe, or nobody touched it
        raise UsageError(f"`ssh-keygen` did not answer in {_SECONDS:g} seconds") from error


def _told(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"`ssh-keygen` ended with {done.returncode}"
