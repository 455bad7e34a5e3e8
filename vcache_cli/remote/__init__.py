"""Stores in buckets: pushed, pulled, looked at, pruned. FORMAT.md states what lies where."""

from __future__ import annotations

from vcache_cli.remote.catalogue import Catalogue, RemoteStore, open_remote
from vcache_cli.remote.entries import RemoteEntry
from vcache_cli.remote.fetching import Fetched, fetch_all
from vcache_cli.remote.holdings import Holdings
from vcache_cli.remote.pruning import RemotePlan, RemotePruned, plan_remote_prune
from vcache_cli.remote.push import Chosen, PushResult, push_store
from vcache_cli.remote.record import Record
from vcache_cli.remote.select import Selection
from vcache_cli.remote.writer import UPLOADS, ObjectWriter

__all__ = [
    "UPLOADS",
    "Catalogue",
    "Chosen",
    "Fetched",
    "Holdings",
    "ObjectWriter",
    "PushResult",
    "Record",
    "RemoteEntry",
    "RemotePlan",
    "RemotePruned",
    "RemoteStore",
    "Selection",
    "fetch_all",
    "open_remote",
    "plan_remote_prune",
    "push_store",
]
