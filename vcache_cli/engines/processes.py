"""Processes of their own for work that may crash, hang or eat memory: it costs one input each.

Each thread of a pool talks with one worker at a time, and hands it one input at a time: what is in
flight when a worker dies is the only victim. A worker starts when the first input needs it.
"""

from __future__ import annotations

import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from vcache_cli.engines.frames import LostError
from vcache_cli.engines.hired import START_SECONDS, Hired
from vcache_cli.engines.launching import Launcher, LoneLauncher, NurseryLauncher, StartError
from vcache_cli.engines.local import ThreadSession
from vcache_cli.engines.worker import OUT_OF_MEMORY, Limits
from vcache_cli.errors import UsageError
from vcache_cli.protocols import Isolable, Loss

if TYPE_CHECKING:
    from vcache_cli.protocols import Session

__all__ = ["ProcessEngine"]

In = TypeVar("In")
Out = TypeVar("Out")

_FROM_OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


@dataclass(slots=True, eq=False)
class _Staff(Generic[In, Out]):
    """The workers of a session, as many as are needed at once. Any thread."""

    work: Callable[[In], Out]
    pickled: bytes
    limits: Limits
    most_held: int
    launch: Callable[[bytes, Limits], Launcher]
    launcher: Launcher | None = None
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    idle: list[Hired] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    def do(self, value: In) -> Out:
        """Have a worker do it; an input whose worker is lost becomes what the work says.

        Raises:
            StartError: no worker can be started.
            Exception: of the work.
        """
        worker = self._take()
        begun = time.monotonic()
        try:
            reply = worker.ask(value, self.limits.seconds)
        except (LostError, TimeoutError) as error:
            late, seconds = isinstance(error, TimeoutError), time.monotonic() - begun
            return self._lost(value, self._bury(worker, seconds, late=late), worker.noted)
        except BaseException:
            worker.close()  # something could not be pickled; it is ended with the session
            raise
        self._keep(worker)
        if reply.kind == "raised":
            raise reply.value
        if reply.kind == "memory":
            loss = Loss("memory", self._too_much(), time.monotonic() - begun)
            return self._lost(value, loss, worker.noted)
        done: Out = reply.value
        return done

    def close(self) -> None:
        """End all workers, whatever they do."""
        with self.lock:
            self.closed = True
            launcher, self.launcher = self.launcher, None
        while self.idle:
            self.idle.pop().close()
        if launcher:
            launcher.close()

    def _take(self) -> Hired:
        """An idle worker, or a new one."""
        while True:
            try:
                worker = self.idle.pop()
            except IndexError:
                return self._hire()
            if not worker.is_gone:
                return worker
            self._bury(worker, 0.0, late=False)

    def _keep(self, worker: Hired) -> None:
        with self.lock:
            if self.closed:
                worker.close()
            else:
                self.idle.append(worker)

    def _hire(self) -> Hired:
        with self.lock:
            if self.closed:
                raise CancelledError
            launcher = self.launcher = self.launcher or self.launch(self.pickled, self.limits)
        number = next(self.numbers)
        try:
            worker = Hired(launcher.start(number), number, self.most_held)
        except LostError as error:
            raise StartError("what starts them was killed") from error
        try:
            worker.wait_ready()
        except (LostError, TimeoutError) as error:
            loss = self._bury(worker, 0.0, late=isinstance(error, TimeoutError))
            raise StartError(loss.reason) from error
        return worker

    def _bury(self, worker: Hired, seconds: float, *, late: bool) -> Loss:
        """How a worker ended, which is dead or is killed here.

        Raises:
            CancelledError: the session was left: the work is not wanted any more.
        """
        worker.close()
        with self.lock:
            launcher = self.launcher
        if self.closed or launcher is None:
            raise CancelledError
        try:
            code = launcher.end(worker.number)
        except LostError:
            with self.lock:
                if self.closed:
                    raise CancelledError from None
                if self.launcher is launcher:
                    launcher.close()
                    self.launcher = None  # the next worker comes from a new one
            return Loss("crashed", "its process was killed from outside", seconds, outside=True)
        return self._loss(code, seconds, late=late)

    def _loss(self, code: int, seconds: float, *, late: bool) -> Loss:
        if late or code == -signal.SIGALRM:
            allowed = self.limits.seconds or START_SECONDS
            return Loss("timeout", f"not done after {allowed:g} s", seconds)
        if code == OUT_OF_MEMORY:
            return Loss("memory", self._too_much(), seconds)
        if code == -signal.SIGKILL:
            reason = "killed by the system, as it does where memory runs out"
            return Loss("memory", reason, seconds, outside=True)
        if code < 0:
            outside = -code in _FROM_OUTSIDE
            return Loss("crashed", f"killed by {_signal_name(-code)}", seconds, outside=outside)
        return Loss("crashed", f"its process ended by itself, with {code}", seconds)

    def _too_much(self) -> str:
        limit = self.limits.memory_bytes
        return f"needs more than {limit} bytes of memory" if limit else "not enough memory"

    def _lost(self, value: In, loss: Loss, noted: object) -> Out:
        if not isinstance(self.work, Isolable):
            raise RuntimeError(f"the work was lost: {loss.reason}")  # noqa: TRY004  no type is wrong
        outcome: Out = self.work.lost(value, loss, noted)
        return outcome


@dataclass(frozen=True, slots=True)
class ProcessEngine:
    """Worker processes, started when they are needed, one input in each.

    Work that is `Isolable` says itself what became of an input that was lost; any other ends the
    run.

    Args:
        workers: processes, at least 1.
        limits: of each.
        ahead: inputs that wait here beyond those being worked on.
        forks: fork workers from a process that has loaded everything; else each is a new
            interpreter, as on a Mac, whose libraries do not bear a fork.
    """

    workers: int
    limits: Limits = field(default_factory=Limits)
    ahead: int = 2
    forks: bool = sys.platform == "linux"

    @contextmanager
    def session(self, work: Callable[[In], Out]) -> Iterator[Session[In, Out]]:
        """No process starts yet; on leaving, all are gone, and what they had is dropped.

        Raises:
            UsageError: the work cannot leave this process.
        """
        launch = NurseryLauncher if self.forks else LoneLauncher
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most_held = max(1, min(16, descriptors // (8 * self.workers)))
        staff = _Staff(work, _pickled(work), self.limits, most_held, launch)
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="vcache")
        try:
            yield ThreadSession(pool, staff.do, self.workers + self.ahead)
        finally:
            staff.close()
            pool.shutdown(wait=True, cancel_futures=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals, which have no names
        return f"signal {number}"


def _pickled(work: object) -> bytes:
    try:
        return pickle.dumps(work, protocol=5)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise UsageError(
            f"the work cannot leave this process, as a part of it cannot be pickled: {error}",
            hint="`--isolation thread` keeps it in this one",
        ) from error
