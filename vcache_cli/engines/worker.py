"""What runs in a worker process: one input after another, under limits that the kernel keeps.

A worker never starts by itself: `nursery` forks it, or it is a fresh interpreter.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from vcache_cli.engines.frames import LostError, receive, send
from vcache_cli.engines.rooms import Outbox
from vcache_cli.protocols import Isolable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OUT_OF_MEMORY", "Limits", "Reply", "detach", "serve", "work_here"]

OUT_OF_MEMORY: Final = 75
"""Exit code of a worker that ended itself because it held too much memory."""
_NO_LIMIT_BYTES: Final = 2**62
"""More than any machine has, and what a limit of the system can still say."""
_LOOK_SECONDS: Final = 0.05
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one input may cost."""

    seconds: float | None = None
    memory_bytes: int | None = None
    """Beyond what the worker has before its first input."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker says of the input that it has."""

    kind: Literal["ready", "noted", "done", "memory", "raised"]
    value: Any = None
    """Of ``noted`` and ``done``: a `Letter`. Of ``raised``: the exception, with its trace."""


def detach() -> None:
    """Leave the terminal's signals to the parent: an item in flight is finished, not cut off."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends what takes too long
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def work_here(channel: socket.socket) -> None:
    """The whole life of a worker that is an interpreter of its own."""
    detach()
    (work, limits), _ = receive(channel)
    threading.Thread(target=_watch, args=(limits, os.getppid()), daemon=True).start()
    serve(channel, work, limits)


def serve(channel: socket.socket, work: Callable[[Any], Any], limits: Limits) -> None:
    """Work on inputs until the other end is gone."""
    _limit_memory(limits)
    outbox = Outbox()
    if isinstance(work, Isolable):
        work = work.noting(lambda noted: send(channel, Reply("noted", noted)))
    try:
        send(channel, Reply("ready"))
        while True:
            (value, freed), _ = receive(channel)
            outbox.freed(freed)
            signal.setitimer(signal.ITIMER_REAL, limits.seconds or 0)
            reply, handles = _reply(work, value, outbox)
            send(channel, reply, handles)
            signal.setitimer(signal.ITIMER_REAL, 0)
            for handle in handles:
                os.close(handle)
            del value, reply
    except LostError:
        return


def _reply(
    work: Callable[[Any], Any], value: object, outbox: Outbox
) -> tuple[Reply, tuple[int, ...]]:
    try:
        letter, handles = outbox.put(work(value))
        return Reply("done", letter), handles
    except MemoryError:
        return Reply("memory"), ()
    except BaseException as error:  # noqa: BLE001  raised again, in the parent
        error.add_note("".join(traceback.format_exception(error)))
        return _raised(error), ()


def _raised(error: BaseException) -> Reply:
    """The exception itself where it can travel, else what it says."""
    try:
        letter, _ = Outbox().put(error)
    except (AttributeError, TypeError, ValueError, RecursionError):
        letter, _ = Outbox().put(RuntimeError("\n".join(error.__notes__)))
    return Reply("raised", letter)


def _limit_memory(limits: Limits) -> None:
    """Have allocations refused beyond the limit, where the system does that: on Linux."""
    if limits.memory_bytes is None or sys.platform != "linux":
        return
    most = min(_data_bytes() + limits.memory_bytes, _NO_LIMIT_BYTES)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _data_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[5]) * resource.getpagesize()


def _watch(limits: Limits, parent: int) -> None:
    """Where the kernel does not: end with the parent, and before all memory is gone."""
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    while os.getppid() == parent:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        if limits.memory_bytes is not None and peak - before > limits.memory_bytes:
            os._exit(OUT_OF_MEMORY)
        time.sleep(_LOOK_SECONDS)
    os._exit(0)


def main() -> None:
    """Entry of a fresh interpreter: its only argument is the descriptor of its channel."""
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        work_here(channel)
