"""`vcache check`: would each item hit?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from vcache_cli.cli import media_options as media_opt
from vcache_cli.cli import options as opt
from vcache_cli.cli import target_options as target_opt
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.output import Output
from vcache_cli.cli.requests import request
from vcache_cli.cli.text import percent
from vcache_cli.cli.views import check_view

if TYPE_CHECKING:
    from vcache_cli.pipeline import CheckReport

__all__ = ["check"]


def check(
    sources: opt.Sources = None,
    *,
    model: opt.ModelOption = None,
    preset: opt.PresetOption = None,
    download: opt.DownloadOption = False,
    store: opt.StoreOption = None,
    target: opt.TargetOption = None,
    model_name: target_opt.ModelNameOption = None,
    max_side: target_opt.MaxSideOption = None,
    omlx_version: target_opt.OmlxVersionOption = None,
    allow_lossy: target_opt.AllowLossyOption = False,
    stage: opt.StageOption = None,
    profile: opt.ProfileOption = None,
    force_profile: media_opt.ForceProfileOption = None,
    backend: opt.BackendOption = None,
    trust_remote_code: opt.TrustRemoteCodeOption = False,
    dtype: opt.DtypeOption = None,
    compute_dtype: opt.ComputeDtypeOption = None,
    workers: opt.WorkersOption = None,
    shard: opt.ShardOption = None,
    limit: opt.LimitOption = None,
    groups: target_opt.GroupsOption = None,
    exclude: opt.ExcludeOption = None,
    null: opt.NullOption = False,
    media_root: media_opt.MediaRootOption = None,
    allow_http: media_opt.AllowHttpOption = False,
    fps: media_opt.FpsOption = None,
    num_frames: media_opt.NumFramesOption = None,
    max_frames: media_opt.MaxFramesOption = None,
    max_pixels: media_opt.MaxPixelsOption = None,
    max_file_size: media_opt.MaxFileSizeOption = None,
    isolation: media_opt.IsolationOption = None,
    item_timeout: media_opt.ItemTimeoutOption = None,
    item_memory: media_opt.ItemMemoryOption = None,
    fail_under: Annotated[
        str,
        opt.option(
            "--fail-under", metavar="P%", about="Exit with 5 below this coverage.", default="100%"
        ),
    ] = "100%",
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> int:
    """Say whether the server would find each picture.

    Warm is what has an entry, cold what has none; coverage is the share that is warm. Nothing is
    encoded. Whether entries are whole, `vcache verify` says.
    """
    asked: Mapping[str, Any] = locals()
    from vcache_cli.assemble import check_corpus
    from vcache_cli.config import parse_fraction

    least = opt.parsed("--fail-under", fail_under, expected="`95%` or `95`", parse=parse_fraction)
    wanted = request(asked)
    report = check_corpus(
        wanted.corpus, store=wanted.store, model=wanted.model, options=wanted.options
    )
    document = envelope("check", report.as_json(), store=wanted.store)
    return Output(as_json, quiet).finish(
        document,
        check_view,
        bare=[item["source"] for item in document["cold_items"]],
        problem=_problem(report, least),
    )


def _problem(report: CheckReport, least: float) -> Problem | None:
    if report.coverage >= least:
        return None
    message = f"coverage is {percent(report.coverage)}, below the {percent(least)} of --fail-under"
    hints = []
    if report.cold:
        hints.append("run `vcache warm` with the same sources and model")
    if report.unreadable:
        hints.append("mend what cannot be read, or leave it out with --exclude")
    return Problem(5, "gate", message, "; ".join(hints))
