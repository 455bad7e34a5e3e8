"""Starting and ending worker processes: by a nursery that forks them, or each on its own."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from vcache_cli.engines.frames import LostError, receive, send
from vcache_cli.errors import VcacheError

if TYPE_CHECKING:
    from vcache_cli.engines.worker import Limits

__all__ = ["Launcher", "LoneLauncher", "NurseryLauncher", "StartError"]

_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from vcache_cli.engines.{module} import main; main()"
)
_ONE_THREAD: Final = {
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}
"""A worker is one of as many as there are processors."""
_HINT: Final = "`--isolation thread` works without processes, on pictures that you trust"


class StartError(VcacheError):
    """Worker processes cannot be started here."""

    kind = "no_workers"

    def __init__(self, reason: str) -> None:
        super().__init__(f"no worker process could be started: {reason}", hint=_HINT)


class Launcher(Protocol):
    """Starts and ends workers, which it knows by number. Any thread."""

    def start(self, number: int) -> socket.socket:
        """The channel of a new worker, which says when it is ready.

        Raises:
            StartError: it cannot be started.
            LostError: what starts it is gone.
        """
        ...

    def end(self, number: int) -> int:
        """Kill the worker, if it runs; its exit code, negative for a signal. Once.

        Raises:
            LostError: that cannot be known any more.
        """
        ...

    def close(self) -> None:
        """End them all."""
        ...


class NurseryLauncher:
    """A process of its own loads what the work needs, once, and forks the workers.

    Args:
        work: pickled.
        limits: of each worker.

    Raises:
        StartError: the nursery does not start, or cannot load the work.
    """

    def __init__(self, work: bytes, limits: Limits) -> None:
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair()
        with theirs, _kept_if_told(self._channel):
            self._process = _interpreter("nursery", theirs)
        try:
            send(self._channel, (work, limits))
            trouble, _ = receive(self._channel)
        except LostError:
            trouble = f"`{sys.executable}` ended with {self._process.wait()}"
        if trouble:
            self.close()
            raise StartError(str(trouble).strip().rpartition("\n")[2])

    def start(self, number: int) -> socket.socket:
        """See `Launcher`; milliseconds."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock, _kept_if_told(ours):
            send(self._channel, ("fork", number), (theirs.fileno(),))
        return ours

    def end(self, number: int) -> int:
        """See `Launcher`."""
        with self._lock:
            if self._channel.fileno() < 0:
                raise LostError
            send(self._channel, ("end", number))
            code, _ = receive(self._channel)
        return int(code)

    def close(self) -> None:
        """See `Launcher`; returns once all are gone."""
        with suppress(OSError):  # wakes whoever waits for an answer, and holds the lock
            self._channel.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._channel.close()
        self._process.wait()


class LoneLauncher:
    """Each worker is a new interpreter: for systems whose libraries do not bear a fork.

    Args:
        work: pickled.
        limits: of each worker.
    """

    def __init__(self, work: bytes, limits: Limits) -> None:
        self._hello = (pickle.loads(work), limits)  # noqa: S301  our own
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._closed = False
        self._lock = threading.Lock()

    def start(self, number: int) -> socket.socket:
        """See `Launcher`; as long as an interpreter and its libraries take to load."""
        ours, theirs = socket.socketpair()
        with theirs, _kept_if_told(ours):
            with self._lock:
                if self._closed:
                    raise LostError
                self._processes[number] = _interpreter("worker", theirs)
            send(ours, self._hello)
        return ours

    def end(self, number: int) -> int:
        """See `Launcher`."""
        with self._lock:
            process = self._processes.pop(number, None)
        if process is None:
            raise LostError
        process.kill()
        return process.wait()

    def close(self) -> None:
        """See `Launcher`."""
        with self._lock:
            self._closed = True
        for number in list(self._processes):
            with suppress(LostError):  # another thread ends it
                self.end(number)


@contextmanager
def _kept_if_told(channel: socket.socket) -> Iterator[None]:
    """Close the channel where nobody was told of it."""
    try:
        yield
    except BaseException:
        channel.close()
        raise


def _interpreter(module: str, channel: socket.socket) -> subprocess.Popen[Any]:
    """One that runs `main` of a module here, away from the terminal and its signals.

    It finds modules where this process does, and runs nothing of the program that this is.
    """
    if not sys.executable:
        raise StartError("it is not known where Python lies")
    handle = channel.fileno()
    places = json.dumps([os.path.abspath(each) for each in sys.path])
    warned = [f"-W{each}" for each in sys.warnoptions]
    utf8 = f"-Xutf8={sys.flags.utf8_mode}"
    boot = ("-P", utf8, *warned, "-c", _BOOT.format(module=module), str(handle), places)
    try:
        return subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, *boot],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
            pass_fds=(handle,),
            start_new_session=True,
        )
    except OSError as error:
        raise StartError(error.strerror or str(error)) from error
