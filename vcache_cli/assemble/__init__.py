"""From names to objects: the only place that knows which implementation is which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.late_names import late_name as _late_name

if TYPE_CHECKING:
    from vcache_cli.assemble.checking import check_corpus
    from vcache_cli.assemble.encoders import EncoderChoice, encoder_choices
    from vcache_cli.assemble.keys import CorpusKey, corpus_key
    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.assemble.picture import Drawing, draw_entry, draw_source
    from vcache_cli.assemble.planning import WarmPlan, plan_warm
    from vcache_cli.assemble.public import check, open_store, warm
    from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
    from vcache_cli.assemble.recompute import Recompute, open_recompute
    from vcache_cli.assemble.remote_stores import RemoteView, open_remote_store, pull_entries
    from vcache_cli.assemble.stores import create_root, open_root
    from vcache_cli.assemble.targets import load_target, takes_groups
    from vcache_cli.assemble.transfer import import_archive, merge_stores
    from vcache_cli.assemble.warming import WarmRun, WarmSummary, open_warm
    from vcache_cli.assemble.whymiss import WhyMiss, why_miss

__all__ = [
    "CorpusKey",
    "Drawing",
    "EncoderChoice",
    "LoadedRecipe",
    "Recompute",
    "RemoteView",
    "WarmOptions",
    "WarmPlan",
    "WarmRun",
    "WarmSummary",
    "WhyMiss",
    "check",
    "check_corpus",
    "corpus_key",
    "create_root",
    "draw_entry",
    "draw_source",
    "encoder_choices",
    "import_archive",
    "load_recipe",
    "load_target",
    "merge_stores",
    "open_recompute",
    "open_remote_store",
    "open_root",
    "open_store",
    "open_warm",
    "plan_warm",
    "pull_entries",
    "takes_groups",
    "warm",
    "why_miss",
]

_HOMES = {
    "CorpusKey": "keys",
    "Drawing": "picture",
    "EncoderChoice": "encoders",
    "LoadedRecipe": "recipes",
    "Recompute": "recompute",
    "RemoteView": "remote_stores",
    "WarmOptions": "options",
    "WarmPlan": "planning",
    "WarmRun": "warming",
    "WarmSummary": "warming",
    "WhyMiss": "whymiss",
    "check": "public",
    "check_corpus": "checking",
    "corpus_key": "keys",
    "create_root": "stores",
    "draw_entry": "picture",
    "draw_source": "picture",
    "encoder_choices": "encoders",
    "import_archive": "transfer",
    "load_recipe": "recipes",
    "load_target": "targets",
    "merge_stores": "transfer",
    "open_recompute": "recompute",
    "open_remote_store": "remote_stores",
    "open_root": "stores",
    "open_store": "public",
    "open_warm": "warming",
    "plan_warm": "planning",
    "pull_entries": "remote_stores",
    "takes_groups": "targets",
    "warm": "public",
    "why_miss": "whymiss",
}


def __getattr__(name: str) -> object:
    """Load a name from its module at first use: looking after a store needs no decoder."""
    return _late_name(__name__, _HOMES, name)
