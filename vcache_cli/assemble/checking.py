"""Would each item of a corpus hit?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.assemble.lookup import look_up, open_known
from vcache_cli.assemble.recipes import load_recipe
from vcache_cli.pipeline import CheckReport

if TYPE_CHECKING:
    from pathlib import Path

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.protocols import Source

__all__ = ["check_corpus"]


def check_corpus(source: Source, *, store: Path, model: str, options: WarmOptions) -> CheckReport:
    """Coverage of the corpus by the store. Presence is looked up; damage is `verify`'s business.

    Raises:
        NotAStoreError: there is no store.
        ModelError, UsageError: see `open_warm`.
    """
    loaded = load_recipe(model, options)
    report = CheckReport()
    with open_known(store) as known:
        for outcome in look_up(source, loaded, options, known):
            report.add(outcome)
    return report
