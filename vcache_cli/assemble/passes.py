"""The parts that every pass over a corpus is made of."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from vcache_cli import engines
from vcache_cli.assemble.clips import StillsParts, make_clip_work
from vcache_cli.encode.processor import usable_processors
from vcache_cli.engines.kept import KeptEngine
from vcache_cli.media import PillowDecoder
from vcache_cli.outcome import Failure
from vcache_cli.pipeline import PrepareItem, Triage
from vcache_cli.protocols import Resident
from vcache_cli.store.use import Use

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager, ExitStack

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.protocols import Engine, Memo, Session

__all__ = ["make_hire", "make_prepare", "make_triage", "make_workers", "worker_count"]


def make_workers(loaded: LoadedRecipe, options: WarmOptions) -> Engine:
    """Where items are read and decoded: a server's own code only ever in this process."""
    workers = worker_count(options)
    resident = any(isinstance(each, Resident) for each in (loaded.target, loaded.preprocessor))
    if resident or options.isolation == "thread":
        return engines.ThreadEngine(workers)
    limits = engines.Limits(options.item_timeout_seconds, options.item_memory_bytes)
    return engines.ProcessEngine(workers, limits)


def worker_count(options: WarmOptions) -> int:
    """Items read and decoded at once."""
    return options.workers or usable_processors()


def make_hire(
    loaded: LoadedRecipe, options: WarmOptions, present: Callable[[str], bool], held: ExitStack
) -> Callable[[], AbstractContextManager[Session[Any, Any]]]:
    """See `WarmParts.hire`: workers start with the first session, and end with `held`."""
    # Entered now: whoever holds `held` may have moved its content elsewhere by the first session.
    kept = held.enter_context(KeptEngine(lambda: make_workers(loaded, options)))
    return lambda: kept.session(make_prepare(loaded, options, present))


def make_prepare(
    loaded: LoadedRecipe,
    options: WarmOptions,
    present: Callable[[str], bool],
    *,
    only_key: bool = False,
) -> PrepareItem:
    """The per-item work under a recipe."""
    return PrepareItem(
        recipe=loaded.recipe,
        target=loaded.target,
        decoder=PillowDecoder(
            loaded.profile, max_pixels=options.max_pixels, max_file_bytes=options.max_file_bytes
        ),
        preprocessor=loaded.preprocessor,
        present=present,
        max_file_bytes=options.max_file_bytes,
        clips=make_clip_work(loaded.clips, loaded.profile, options),
        only_key=only_key,
    )


def make_triage(
    loaded: LoadedRecipe, memo: Memo, present: Callable[[str], bool], *, retry_errors: bool = False
) -> Triage:
    """The shortcuts under a recipe; `Use` is asked of many keys at once."""
    return Triage(
        recipe=loaded.recipe,
        target=loaded.target,
        memo=memo,
        make_context=cache(lambda: loaded.context),
        present=present,
        present_each=present.are_there if isinstance(present, Use) else None,
        clips=loaded.clips if isinstance(loaded.clips, Failure) else loaded.clips.recipe,
        by_frames=isinstance(loaded.clips, StillsParts),
        retry_errors=retry_errors,
    )
