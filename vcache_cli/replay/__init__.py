"""Sending a corpus to a server once, so that caches which it keeps in memory alone are filled."""

from __future__ import annotations

from vcache_cli.replay.address import Address, address_of, bearer
from vcache_cli.replay.done import DoneFile, open_done, state_name
from vcache_cli.replay.manner import Manner
from vcache_cli.replay.run import ReplayRun

__all__ = [
    "Address",
    "DoneFile",
    "Manner",
    "ReplayRun",
    "address_of",
    "bearer",
    "open_done",
    "state_name",
]
