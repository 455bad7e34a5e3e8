"""The one thread that has a model of mlx-vlm: MLX crashes where arrays change threads."""

from __future__ import annotations

import atexit
import threading
from concurrent.futures import Future
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar, cast

from vcache_cli.encode.mlx_vlm.loading import LoadedModel, load_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.checkpoint import Checkpoint

__all__ = ["ModelOwner"]

T = TypeVar("T")
Job = tuple["Callable[[], object]", "Future[object]"]


class ModelOwner:
    """Loads a checkpoint at the first use and computes with it in a thread of its own.

    Args:
        checkpoint: opened; only what encodes pictures is read of its weights.
        trust_remote_code: run code that the checkpoint brings.
    """

    def __init__(self, checkpoint: Checkpoint, *, trust_remote_code: bool = False) -> None:
        self._checkpoint = checkpoint
        self._trusts = trust_remote_code
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles as one that loads the checkpoint anew."""
        return _again, (self._checkpoint, self._trusts)

    @property
    def loaded(self) -> LoadedModel:
        """The model and its processor.

        Raises:
            RefusedError, ModelError: see `load_model`.
        """
        if threading.current_thread() is self._thread:
            return self._loaded
        with self._lock:
            return self.run(lambda: self._loaded)

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, done by the thread that has the model."""
        if threading.current_thread() is self._thread:
            return work()
        done: Future[object] = Future()
        self._jobs.put((work, done))
        return cast("T", done.result())

    @cached_property
    def _thread(self) -> threading.Thread:
        thread = threading.Thread(target=self._work, name="vcache-mlx-vlm", daemon=True)
        thread.start()
        atexit.register(self._end, thread)
        return thread

    @cached_property
    def _loaded(self) -> LoadedModel:
        return load_model(self._checkpoint, trust_remote_code=self._trusts)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001  the caller's to handle
                done.set_exception(error)
        _clear_streams()

    def _end(self, thread: threading.Thread) -> None:
        self._jobs.put(None)
        thread.join()


def _clear_streams() -> None:
    """MLX aborts the process where its threads outlive the one that they work for."""
    import mlx.core as mx

    clear = getattr(mx, "clear_streams", None)
    if clear:
        clear()


def _again(checkpoint: Checkpoint, trusts: bool) -> ModelOwner:  # noqa: FBT001  pickle has no names
    return ModelOwner(checkpoint, trust_remote_code=trusts)
