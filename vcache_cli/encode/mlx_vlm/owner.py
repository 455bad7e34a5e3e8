"""The one thread that has a model of mlx-vlm: MLX crashes where arrays change threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from vcache_cli.encode.mlx_vlm.loading import LoadedModel, load_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from vcache_cli.checkpoint import Checkpoint

__all__ = ["ModelOwner"]

T = TypeVar("T")


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

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles as one that loads the checkpoint anew."""
        return _again, (self._checkpoint, self._trusts)

    @property
    def loaded(self) -> LoadedModel:
        """The model and its processor.

        Raises:
            RefusedError, ModelError: see `load_model`.
        """
        with self._lock:
            return self._loaded

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, done by the thread that has the model."""
        return self._thread.submit(work).result()

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix="vcache-mlx-vlm")

    @cached_property
    def _loaded(self) -> LoadedModel:
        return self.run(lambda: load_model(self._checkpoint, trust_remote_code=self._trusts))


def _again(checkpoint: Checkpoint, trusts: bool) -> ModelOwner:  # noqa: FBT001  pickle has no names
    return ModelOwner(checkpoint, trust_remote_code=trusts)
