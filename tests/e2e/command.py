"""The real `vcache` command in a process of its own, and what a store then holds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.running import conforming
from tests.e2e.forked import FORKS, run_forked
from tests.patience import PATIENCE_SECONDS

__all__ = ["VCACHE", "Run", "aged", "entries", "keys", "many", "start", "vcache"]

VCACHE = (sys.executable, "-m", "vcache_cli")
HOUR_SECONDS = 3600
AT_START = ("PYTHON", "LC_", "LANG", "OMP_", "OPENBLAS", "MKL", "VCACHE_BLAS", "VCACHE_ISOLATION")
"""Variables that an interpreter or a library reads when it starts."""


@dataclass(frozen=True)
class Run:
    """What one command left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout; it follows its schema."""
        return conforming(self.out)

    @property
    def items(self) -> dict[str, int]:
        """The counts of a warm."""
        counts: dict[str, int] = self.document["items"]
        return counts


def vcache(
    *args: object,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (),
) -> Run:
    """Run the command to its end. No command ever shows a traceback.

    Args:
        args: words of the command line.
        cwd: where it starts.
        stdin: what it can read.
        env: variables beside those of the test.
        launcher: words before the command, such as ``strace``.
    """
    words = [*map(_word, args)]
    variables = {"VCACHE_ISOLATION": "thread", **os.environ, **(env or {})}
    if FORKS and not launcher and not any(name.startswith(AT_START) for name in env or ()):
        code, out, err = run_forked(words, cwd=cwd, stdin=stdin, env=variables)
    else:
        done = subprocess.run(
            [*launcher, *VCACHE, *words],
            cwd=cwd,
            input=stdin,
            env={**os.environ, **(env or {})},
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    run = Run(code, out.decode(), err.decode())
    assert "Traceback" not in run.err, run.err
    if "--json" in args:
        assert run.document["vcache_version"]
    return run


def start(
    *args: object,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stderr: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start the command and leave it running, its stdout to be read.

    Args:
        args: words of the command line.
        env: variables beside those of the test.
        stdin, stderr: as `subprocess.Popen` takes them.
    """
    words = [*VCACHE, *map(_word, args)]
    variables = {"VCACHE_ISOLATION": "thread", **os.environ, **(env or {})}
    return subprocess.Popen(
        words, env=variables, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr
    )


def _word(arg: object) -> str | bytes:
    return arg if isinstance(arg, bytes) else str(arg)


def entries(store: Path) -> dict[str, Path]:
    """The published files, by key: what is on disk, whatever the index says."""
    return {path.stem: path for path in sorted(store.glob("??/*.safetensors"))}


def keys(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The keys of a list in a document."""
    return [row["key"] for row in rows]


def aged(folder: Path) -> Path:
    """`folder`, its files an hour old: what was written just now is never trusted to stay."""
    for path in folder.rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - HOUR_SECONDS
            os.utime(path, (then, then))
    return folder


def many(folder: Path, picture: Path, count: int) -> Path:
    """`folder`, filled with `count` files of different content that all look like `picture`."""
    folder.mkdir(parents=True, exist_ok=True)
    data = picture.read_bytes()
    for number in range(count):  # decoders stop at the end of the picture
        (folder / f"{number:05d}{picture.suffix}").write_bytes(data + number.to_bytes(4, "big"))
    return aged(folder)
