"""Drives a replay: shows its Outcomes as they come, and says how it ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from vcache_cli.buckets import is_url
from vcache_cli.cli.corpus import count_ahead
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem, explain, worst
from vcache_cli.cli.events import open_events
from vcache_cli.cli.interrupts import Interrupts
from vcache_cli.cli.manifest import Manifest
from vcache_cli.cli.progress import is_live, open_progress
from vcache_cli.cli.text import count
from vcache_cli.cli.warming import Watcher
from vcache_cli.errors import UsageError, VcacheError
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vcache_cli.cli.corpus import Corpus
    from vcache_cli.cli.output import Output
    from vcache_cli.media import LogRules
    from vcache_cli.pipeline import ErrorPolicy
    from vcache_cli.replay import Address, Manner, ReplayRun

__all__ = ["log_rules", "run_replay"]


def log_rules(media_root: str | None, *, allow_http: bool) -> LogRules:
    """What request logs give: whole requests, as they were made.

    Raises:
        UsageError: no such folder.
    """
    from vcache_cli.media import LogRules

    if media_root is not None and not (is_url(media_root) or os.path.isdir(media_root)):
        raise UsageError(f"`--media-root`: no folder `{display_path(media_root)}`")
    return LogRules(groups="only", media_root=media_root, allow_http=allow_http)


def run_replay(
    corpus: Corpus, address: Address, manner: Manner, output: Output, given: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Problem | None]:
    """Run it to its end, or to the point where it must stop: ``vcache.replay/1``, what is wrong.

    Raises:
        VcacheError, KeyboardInterrupt: it ended before the first item had an Outcome.
    """
    from vcache_cli.pipeline import ErrorPolicy
    from vcache_cli.replay import ReplayRun, open_done

    policy = ErrorPolicy.parse(given["on_error"] or "skip", given["max_errors"])
    path = given["state"] or _state(address, manner)
    with (
        open_done(path, url=address.url, model=manner.model, again=given["again"]) as done,
        open_events(given["events"]) as log,
    ):
        run = ReplayRun(corpus, address=address, manner=manner, done=done)
        progress = open_progress(output, count_ahead(corpus, walk=is_live(output)), lanes={})
        with Interrupts(run.stop, progress.note) as interrupts, progress:
            watcher = Watcher(log, progress, output, Manifest())
            error = _follow(run, watcher, policy) or interrupts.error
        if error and not watcher.seen:
            raise error
        fields = {**run.summary(), "state": display_path(os.path.abspath(path))}
    if address.proxy:
        fields["proxy"] = "http://{}:{}".format(*address.proxy)
    return envelope("replay", fields), _problem(error, fields)


def _state(address: Address, manner: Manner) -> Path:
    from vcache_cli.config import memo_folder
    from vcache_cli.replay import state_name

    return memo_folder() / "replay" / state_name(address.url, manner.model)


def _follow(
    run: ReplayRun, watcher: Watcher, policy: ErrorPolicy
) -> VcacheError | KeyboardInterrupt | None:
    try:
        for outcome in run:
            watcher.see([outcome])
            _bear(run, policy)
    except (VcacheError, KeyboardInterrupt) as error:
        return error
    return None


def _bear(run: ReplayRun, policy: ErrorPolicy) -> None:
    """Let the run end, where more failed than the user would bear."""
    if not run.totals.failed:
        return
    try:
        policy.check(failed=run.totals.failed, done=run.totals.done)
    except VcacheError as error:
        run.give_up(error)


def _problem(
    error: VcacheError | KeyboardInterrupt | None, fields: Mapping[str, Any]
) -> Problem | None:
    failed, total = fields["items"]["failed"], fields["items"]["total"]
    found = {}
    if error:
        told = explain(error)
        found[told.code] = told
    if failed:
        message = f"{failed:,} of {count(total, 'item')} failed"
        hint = "run it again: what was sent is not sent twice"
        found.setdefault(3, Problem(3, "items_failed", message, hint))
    return found.get(worst(found))
