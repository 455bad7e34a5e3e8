"""The `vcache` command in forks of a process that has loaded what commands load.

Each is a process of its own, as a user's is, with its own streams, folder and variables; only the
second that a fresh interpreter spends on imports is saved. Linux only: elsewhere libraries that
were loaded are not safe to fork. `shim` is a command for scripts that does the same.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

from PIL import Image

from tests.patience import PATIENCE_SECONDS
from vcache_cli import registry

__all__ = ["FORKS", "Ended", "channel_handle", "run_forked", "shim"]

FORKS: Final = sys.platform == "linux"
"""Whether commands can be forked here."""

_ROOT: Final = Path(__file__).resolve().parents[2]
_LARGEST_REQUEST: Final = 1 << 20
_ALSO_LOADED: Final = ("gzip", "platformdirs", "safetensors.numpy", "threadpoolctl")
"""What commands load beside the package."""
_NOT_LOADED: Final = ("mlx", "torch", "ray", "integrations", "testing", "remote", "__main__")
"""What a plain command does not load: their imports start threads, or are an extra's."""

_SHIM: Final = """#!{python} -IS
import json, os, socket, sys
ours, theirs = socket.socketpair()
request = {{"args": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}
with socket.socket(fileno={handle}) as channel:
    socket.send_fds(channel, [json.dumps(request).encode()], [0, 1, 2, theirs.fileno()])
theirs.close()
ours.recv(8)
code = int.from_bytes(ours.recv(8), "big", signed=True)
sys.exit(code if code >= 0 else 128 - code)
"""

Ended = tuple[int, bytes, bytes]
"""Exit code, stdout, stderr."""


def channel_handle() -> int:
    """What a process has to inherit for a shim to work in it."""
    return _parent()[1].fileno()


def shim(command: Path) -> None:
    """Write an executable that is `vcache` for whoever inherits `channel_handle`."""
    command.write_text(_SHIM.format(python=sys.executable, handle=channel_handle()))
    command.chmod(0o755)


def run_forked(
    args: Sequence[str | bytes], *, cwd: Path | None, stdin: bytes, env: Mapping[str, str]
) -> Ended:
    """Run one command line to its end.

    Raises:
        subprocess.TimeoutExpired: it does not end; it is killed.
    """
    with ExitStack() as stack:
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        request = {
            "args": [os.fsdecode(arg) for arg in args],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(env),
        }
        code = _ask(request, [given.fileno(), out.fileno(), err.fileno()])
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def _ask(request: Mapping[str, Any], streams: list[int]) -> int:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            data = json.dumps(request).encode()
            assert len(data) < _LARGEST_REQUEST
            _, channel = _parent()
            socket.send_fds(channel, [data], [*streams, theirs.fileno()])
        ours.settimeout(PATIENCE_SECONDS)
        pid = int.from_bytes(ours.recv(8), "big")
        try:
            code = ours.recv(8)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(request["args"], PATIENCE_SECONDS) from None
    return int.from_bytes(code, "big", signed=True)


@cache
def _parent() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process that forks, and its channel; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST_REQUEST)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.forked", str(theirs.fileno())],
            cwd=_ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return process, ours


def _serve(channel: socket.socket) -> None:
    """Fork a command for each request. Returns only in a fork, to be that command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # overseers are not waited for
    while True:
        data, handles, _, _ = socket.recv_fds(channel, _LARGEST_REQUEST, 4)
        if not data:
            sys.exit()
        if os.fork() == 0:
            channel.close()
            if _oversee(handles.pop()):
                _become(json.loads(data), handles)
                return
        for handle in handles:
            os.close(handle)


def _oversee(answer: int) -> bool:
    """Fork once more: true in the fork. Its parent tells its number and how it ended, and ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(answer)
        return True
    os.write(answer, pid.to_bytes(8, "big"))
    _, status = os.waitpid(pid, 0)
    os.write(answer, os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))
    os._exit(0)


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    for number, handle in enumerate(streams):
        os.dup2(handle, number)
        os.close(handle)
    _open_streams()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = ["vcache", *request["args"]]


def _open_streams() -> None:
    """As the interpreter does when it starts: a file can be sought, a pipe cannot."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        was = getattr(sys, name)
        mode, buffering = "w" if number else "r", 1 if number == 2 or os.isatty(number) else -1
        new = open(number, mode, buffering, was.encoding, was.errors)  # noqa: SIM115  until the end
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _load() -> None:
    for path in sorted((_ROOT / "vcache_cli").rglob("*.py")):
        name = ".".join(path.relative_to(_ROOT).with_suffix("").parts)
        if not any(word in name for word in _NOT_LOADED):
            importlib.import_module(name.removesuffix(".__init__"))
    for name in _ALSO_LOADED:
        importlib.import_module(name)
    Image.init()
    for group in registry.GROUPS:
        registry.names(group)
    gc.collect()
    gc.freeze()  # so that counting what is shared does not copy it


def _main() -> NoReturn:
    from vcache_cli.cli.app import main

    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    main()


if __name__ == "__main__":
    _main()
