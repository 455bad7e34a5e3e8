"""`vcache check`: would each item hit?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from vcache_cli.cli import options as opt
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.output import Output
from vcache_cli.cli.requests import request
from vcache_cli.cli.text import percent
from vcache_cli.cli.views import check_view

__all__ = ["check"]


def check(
    sources: opt.Sources = None,
    *,
    model: opt.ModelOption = None,
    store: opt.StoreOption = None,
    target: opt.TargetOption = None,
    stage: opt.StageOption = None,
    profile: opt.ProfileOption = None,
    dtype: opt.DtypeOption = None,
    workers: opt.WorkersOption = None,
    shard: opt.ShardOption = None,
    limit: opt.LimitOption = None,
    exclude: opt.ExcludeOption = None,
    null: opt.NullOption = False,
    fail_under: Annotated[
        str, typer.Option("--fail-under", metavar="P%", help="Exit with 5 below this coverage.")
    ] = "100%",
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> int:
    """Say whether the server would find each picture."""
    asked: Mapping[str, Any] = locals()
    from vcache_cli.assemble import check_corpus
    from vcache_cli.config import parse_fraction

    least = opt.parsed("--fail-under", fail_under, expected="such as `95%`", parse=parse_fraction)
    wanted = request(asked)
    report = check_corpus(
        wanted.corpus, store=wanted.store, model=wanted.model, options=wanted.options
    )
    document = envelope("check", report.as_json(), store=wanted.store)
    return Output(as_json, quiet).finish(
        document,
        check_view,
        bare=[item["source"] for item in document["cold_items"]],
        problem=_problem(report.coverage, least),
    )


def _problem(coverage: float, least: float) -> Problem | None:
    if coverage >= least:
        return None
    message = f"coverage is {percent(coverage)}, at least {percent(least)} was asked for"
    return Problem(5, "gate", message, "run `vcache warm` with the same sources and model")
