"""A process that has loaded all that the work needs, and forks workers: milliseconds each.

It has one thread and starts none, so a fork of it is sound; it holds no work of its own. When its
parent is gone, however it went, it kills every worker and ends.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any, Final

from vcache_cli.engines.frames import LostError, receive, send
from vcache_cli.engines.worker import Limits, detach, serve

__all__ = ["tend"]

_DIE_WITH_PARENT: Final = 1
"""`PR_SET_PDEATHSIG` of Linux's prctl."""


def tend(channel: socket.socket) -> None:
    """Serve the parent's requests until it is gone.

    The first message is the pickled work and its limits; the answer is empty, or says why it
    cannot be loaded. Then ``("fork", number)`` with a worker's channel, which is not answered;
    ``("end", number)``, answered by how the worker ended, as `os.waitstatus_to_exitcode` says.
    """
    detach()
    children: dict[int, int] = {}
    try:
        (data, limits), _ = receive(channel)
        try:
            work = pickle.loads(data)  # noqa: S301  our parent's
        except BaseException:  # noqa: BLE001  told to the parent, which ends the run
            send(channel, traceback.format_exc())
            return
        send(channel, "")
        gc.freeze()  # so that counting what is shared does not copy it
        while True:
            (request, number), handles = receive(channel)
            if request == "fork":
                children[number] = _fork(channel, handles[0], work, limits)
            else:
                send(channel, _end(children.pop(number)))
    except LostError:
        return
    finally:
        for pid in children.values():
            _end(pid)


def _fork(nursery: socket.socket, handle: int, work: Any, limits: Limits) -> int:  # noqa: ANN401  any
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(handle)
        return pid
    code = 1
    try:
        nursery.close()
        _die_with(parent)
        with socket.socket(fileno=handle) as channel:
            serve(channel, work, limits)
        code = 0
    finally:
        os._exit(code)


def _die_with(parent: int) -> None:
    """Where Linux is asked for it, the worker is killed if the nursery is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def _end(pid: int) -> int:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # without effect on one that has ended already
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    """Entry of a fresh interpreter: its only argument is the descriptor of its channel."""
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        tend(channel)
