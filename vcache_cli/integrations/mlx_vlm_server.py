"""mlx-vlm's own server, with a persistent feature cache in the place of its own."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.encode.blas_front import put_blas_in_front
from vcache_cli.encode.mlx_vlm import check_version
from vcache_cli.errors import ModelError, UsageError
from vcache_cli.integrations.mlx_vlm import PersistentVisionFeatureCache

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

__all__ = ["put_in_place", "serve"]

_MODULES: Final = ("app", "cli", "generation")
_LOOPBACK: Final = "127.0.0.1"
_CHANGED: Final = "this vcache knows how mlx-vlm 0.7 makes its cache; use that series"


def serve(
    store: str | os.PathLike[str],
    arguments: Sequence[str],
    *,
    memory_bytes: int | None = None,
    told: Callable[[PersistentVisionFeatureCache], None] = lambda _: None,
) -> None:
    """Run the server until it ends, in this process; on loopback unless `arguments` say otherwise.

    Args:
        store: a folder, made where there is none.
        arguments: the server's own.
        memory_bytes: see `PersistentVisionFeatureCache`.
        told: called with the cache once the server has ended.

    Raises:
        ModelError: mlx-vlm is missing, of another series, or not built as it was.
        UsageError: an argument with which the cache could not be in place.
        NotAStoreError, AccessError, RefusedError: see `PersistentVisionFeatureCache`.
    """
    check_version()
    if "--reload" in arguments:
        raise UsageError("`--reload` starts a new process, in which the cache is not in place")
    put_blas_in_front()
    bound = {} if memory_bytes is None else {"memory_bytes": memory_bytes}
    with PersistentVisionFeatureCache(store, **bound) as cache:
        run = put_in_place(cache)
        is_told = any(each.partition("=")[0] == "--host" for each in arguments)
        sys.argv = ["mlx_vlm.server", *([] if is_told else ["--host", _LOOPBACK]), *arguments]
        try:
            run()
        finally:
            told(cache)


def put_in_place(cache: PersistentVisionFeatureCache) -> Callable[[], None]:
    """Let every model that the server loads from now on use `cache`; the server's `main`.

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
        if self.vision_cache is cache:
            cache.bind(self.model)
            cache.attach()

    vars(app)["VisionFeatureCache"] = lambda **_: cache
    worker._initialize_model = initialize_model  # noqa: SLF001  there is no other way in
    main: Callable[[], None] = cli.main
    return main
