"""mlx-vlm's own server, with a persistent feature cache in the place of its own."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.encode.blas_front import put_blas_in_front
from vcache_cli.encode.mlx_vlm import check_version
from vcache_cli.errors import ModelError, UsageError
from vcache_cli.integrations.mlx_vlm import (
    MEMORY_BYTES,
    CacheCounts,
    PersistentVisionFeatureCache,
    open_features,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from vcache_cli.store import DiskStore

__all__ = ["put_in_place", "serve"]

_MODULES: Final = ("app", "cli", "generation")
_LOOPBACK: Final = "127.0.0.1"
_CHANGED: Final = "this vcache knows how mlx-vlm 0.7 makes its cache; use that series"


def serve(
    store: str | os.PathLike[str],
    arguments: Sequence[str],
    *,
    memory_bytes: int = MEMORY_BYTES,
    noted: Callable[[str], None] = lambda _: None,
    told: Callable[[CacheCounts], None] = lambda _: None,
) -> None:
    """Run the server until it ends, in this process; on loopback unless `arguments` say otherwise.

    Args:
        store: a folder, made where there is none; one that cannot be written is read alone.
        arguments: the server's own.
        memory_bytes: bound on the features that each loaded model holds in memory.
        noted: called at the start with what the user should know of the store.
        told: called with the counts of all lookups once a server that had a model has ended.

    Raises:
        ModelError: mlx-vlm is missing, of another series, or not built as it was.
        UsageError: an argument with which the cache could not be in place.
        NotAStoreError, AccessError, RefusedError: see `open_features`.
        SystemExit: the server's own, with its code.
    """
    check_version()
    if any(each == "--reload" for each in arguments):
        raise UsageError("`--reload` starts a new process, in which the cache is not in place")
    put_blas_in_front()
    with open_features(store) as disk:
        if not disk.is_writable:
            noted(f"{disk.root.path} cannot be written: what the server computes is not kept")
        _run(disk, arguments, memory_bytes, told)


def _run(
    disk: DiskStore,
    arguments: Sequence[str],
    memory_bytes: int,
    told: Callable[[CacheCounts], None],
) -> None:
    caches: list[PersistentVisionFeatureCache] = []
    try:
        with ExitStack() as held:

            def make(**_: object) -> PersistentVisionFeatureCache:
                cache = PersistentVisionFeatureCache(disk, memory_bytes=memory_bytes)
                caches.append(held.enter_context(cache))
                return cache

            run = put_in_place(make)
            is_told = any(each.partition("=")[0] == "--host" for each in arguments)
            sys.argv = ["mlx_vlm.server", *([] if is_told else ["--host", _LOOPBACK]), *arguments]
            run()
    finally:  # after the caches: by then everything is written, or has failed
        if caches:
            told(CacheCounts.total(each.counts for each in caches))


def put_in_place(make: Callable[..., PersistentVisionFeatureCache]) -> Callable[[], None]:
    """Let the server call `make` for the cache of each model that it loads; the server's `main`.

    Raises:
        ModelError: the installed server is not built as it was.
    """
    try:  # by name: the package has an object `app` beside its module
        app, cli, generation = (import_module(f"mlx_vlm.server.{each}") for each in _MODULES)
    except ImportError as error:
        raise ModelError(f"the server of mlx-vlm cannot be imported: {error}") from error
    worker = getattr(generation, "ResponseGenerator", None)
    initialize = getattr(worker, "_initialize_model", None)
    if worker is None or initialize is None or not hasattr(app, "VisionFeatureCache"):
        raise ModelError("the server of mlx-vlm is not built as it was", hint=_CHANGED)

    def initialize_model(self: Any) -> None:  # noqa: ANN401  theirs
        initialize(self)
        if isinstance(self.vision_cache, PersistentVisionFeatureCache):
            self.vision_cache.bind(self.model)
            self.vision_cache.attach()

    vars(app)["VisionFeatureCache"] = make
    worker._initialize_model = initialize_model  # noqa: SLF001  there is no other way in
    main: Callable[[], None] = cli.main
    return main
