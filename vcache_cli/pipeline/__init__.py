"""One pass over a corpus: discover, digest, decode, preprocess, encode, write."""

from __future__ import annotations

from vcache_cli.pipeline.check import CheckReport, check_items
from vcache_cli.pipeline.encoding import EncodeBatch
from vcache_cli.pipeline.ledger import Ledger
from vcache_cli.pipeline.lookahead import MOST_AHEAD
from vcache_cli.pipeline.policy import ErrorPolicy
from vcache_cli.pipeline.prepare import PrepareItem
from vcache_cli.pipeline.prepared import NOT_STORED, Prepared
from vcache_cli.pipeline.summary import WarmTotals
from vcache_cli.pipeline.triage import Triage
from vcache_cli.pipeline.warm import WarmParts, WarmPass

__all__ = [
    "MOST_AHEAD",
    "NOT_STORED",
    "CheckReport",
    "EncodeBatch",
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
