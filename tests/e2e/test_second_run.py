"""A second warm of an unchanged corpus opens no file of it: counted, twice over."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import VCACHE, aged, vcache
from tests.patience import PATIENCE_SECONDS

COUNT_OPENS = """
import os, sys
corpus, opened = os.path.join(sys.argv[1], ""), []
names = {name for _, _, files in os.walk(corpus) for name in files}
def hook(event, args):
    folder = event == "open" and (args[2] or 0) & os.O_DIRECTORY  # listed, not read
    if event == "open" and not folder and isinstance(args[0], (str, bytes)):
        path = os.fsdecode(args[0])
        if path.startswith(corpus) or os.path.basename(path) in names:
            opened.append(path)
sys.addaudithook(hook)
from vcache_cli.cli.app import run
code = run(sys.argv[2:])
print(len(opened), file=sys.stderr)
sys.exit(code)
"""
"""Python says before each open what it opens, on every platform."""

OPENED = re.compile(r'open(?:at2?)?\((?:[^<(]*<(?P<base>[^>]*)>, )?"(?P<name>[^"]*)"(?P<rest>.*)')


def test_nothing_is_stored_decoded_or_read_twice(
    corpus: Path, tiny_siglip: Path, warmed: Path
) -> None:
    again = vcache("warm", corpus, "-m", tiny_siglip, "-s", warmed, "--json")
    assert again.code == 0
    assert again.items["stored"] == 0
    assert again.items["present"] == again.items["total"] > 20
    assert again.document["bytes"] == {"read": 0, "written": 0}
    seconds = again.document["seconds"]
    assert [seconds[stage] for stage in ("decode", "preprocess", "encode", "write")] == [0] * 4


def test_no_picture_is_opened_says_the_interpreter(
    corpus: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    args = ("warm", corpus, "-m", tiny_siglip, "-s", tmp_path / "store", "--json")
    args_here = (*args, "--isolation", "thread")  # the hook sees one interpreter only
    first, second = (_opened_by_audit(corpus, *args_here) for _ in range(2))
    assert first == len([path for path in corpus.rglob("*") if path.is_file()])  # each once
    assert second == 0


def _opened_by_audit(corpus: Path, *args: object) -> int:
    words = [sys.executable, "-c", COUNT_OPENS, str(corpus), *map(str, args)]
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    return int(done.stderr.split()[-1])


def test_no_picture_is_opened_says_the_kernel(
    corpus: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    if not _strace_works():
        pytest.skip("no strace here, or it may not trace; the interpreter's count stands alone")
    args = ("warm", corpus, "-m", tiny_siglip, "-s", tmp_path / "store", "--json")
    first, second = (_opened_by_strace(corpus, tmp_path / name, *args) for name in "ab")
    assert len(first) == len([path for path in corpus.rglob("*") if path.is_file()])
    assert second == []


def _strace_works() -> bool:
    strace = shutil.which("strace")
    if strace is None:
        return False
    return subprocess.run([strace, "true"], capture_output=True, check=False).returncode == 0


def _opened_by_strace(corpus: Path, log: Path, *args: object) -> list[str]:
    calls = "trace=?open,openat,?openat2"
    strace = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", calls, "-o", str(log)]
    subprocess.run(
        [*strace, *VCACHE, *map(str, args)],
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    found = []
    for line in log.read_text(errors="replace").splitlines():
        call = OPENED.search(line)
        if call and "O_DIRECTORY" not in call["rest"]:
            path = os.path.join(call["base"] or "", call["name"])
            if path.startswith(os.path.join(corpus, "")):
                found.append(path)
    return found


def test_a_changed_picture_is_read_and_only_that(
    corpus: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    own, store = Path(shutil.copytree(corpus, tmp_path / "own")), tmp_path / "store"
    args = ("warm", own, "-m", tiny_siglip, "-s", store, "--json")
    vcache(*args)
    changed = next(own.rglob("*.bmp"))
    data = changed.read_bytes()
    changed.write_bytes(data[:-3] + bytes(255 - part for part in data[-3:]))
    aged(own)  # which changes every ctime: each is read again, and only one is new
    again = vcache(*args)
    assert again.items["stored"] == 1
    assert again.items["present"] == again.items["total"] - 1
    assert again.document["seconds"]["encode"] > 0


def test_a_touched_picture_is_read_and_not_decoded(
    corpus: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    own, store = Path(shutil.copytree(corpus, tmp_path / "own")), tmp_path / "store"
    args = ("warm", own, "-m", tiny_siglip, "-s", store, "--json")
    vcache(*args)
    touched = next(own.rglob("*.png"))
    os.utime(touched, (1, 1))
    again = vcache(*args)
    assert again.items["stored"] == 0
    assert again.document["bytes"]["read"] == touched.stat().st_size
    assert again.document["seconds"]["decode"] == 0
