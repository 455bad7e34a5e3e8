"""Places that a test cannot make by itself: a full disk, a disk that cannot be written."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

__all__ = ["on_a_read_only_disk", "on_a_small_disk"]

_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")
"""A mount that only the command sees, and that goes away with it; needs no privilege."""

_SMALL = """
mount -t tmpfs -o size=$1,mode=700 tmpfs "$2" || exit 99
shift; folder=$1; shift
"$@"; code=$?
cp -a "$folder/." "$folder.after"
exit $code
"""

_READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 99
shift
exec "$@"
"""


@cache
def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    words = [*_UNSHARE, "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def on_a_small_disk(folder: Path, size: str) -> Sequence[str]:
    """What runs a command while `folder` is a disk of that size; its end state is beside it.

    The copy is `folder` with ``.after`` appended to its name. Skips where nothing can be mounted.
    """
    _need_mounts()
    folder.mkdir()
    folder.with_name(f"{folder.name}.after").mkdir(mode=0o700)
    return (*_UNSHARE, "sh", "-c", _SMALL, "sh", size, str(folder))


def on_a_read_only_disk(folder: Path) -> Sequence[str]:
    """What runs a command while nothing below `folder` can be written. Skips as the other."""
    _need_mounts()
    return (*_UNSHARE, "sh", "-c", _READ_ONLY, "sh", str(folder))


def _need_mounts() -> None:
    if not _can_mount():
        pytest.skip("nothing can be mounted here; a container or system without user namespaces")
