"""One pass over a corpus: discover, digest, decode, preprocess, encode, write."""

from __future__ import annotations

from vcache_cli.pipeline.check import CheckReport, check_items
from vcache_cli.pipeline.policy import ErrorPolicy
from vcache_cli.pipeline.prepare import PrepareItem, Prepared
from vcache_cli.pipeline.summary import WarmTotals
from vcache_cli.pipeline.triage import Triage
from vcache_cli.pipeline.warm import Ledger, WarmParts, WarmPass

__all__ = [
    "CheckReport",
    "ErrorPolicy",
    "Ledger",
    "PrepareItem",
    "Prepared",
    "Triage",
    "WarmParts",
    "WarmPass",
    "WarmTotals",
    "check_items",
]
