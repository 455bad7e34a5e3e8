"""From names to objects: the only place that knows which implementation is which."""

from __future__ import annotations

from vcache_cli.assemble.corpus import CorpusKey, WarmPlan, check_corpus, corpus_key, plan_warm
from vcache_cli.assemble.options import WarmOptions
from vcache_cli.assemble.public import check, open_store, warm
from vcache_cli.assemble.recipes import load_target
from vcache_cli.assemble.stores import create_root, open_root
from vcache_cli.assemble.warming import WarmRun, WarmSummary, open_warm

__all__ = [
    "CorpusKey",
    "WarmOptions",
    "WarmPlan",
    "WarmRun",
    "WarmSummary",
    "check",
    "check_corpus",
    "corpus_key",
    "create_root",
    "load_target",
    "open_root",
    "open_store",
    "open_warm",
    "plan_warm",
    "warm",
]
