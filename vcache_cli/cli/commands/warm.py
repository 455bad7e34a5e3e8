"""`vcache warm`: fill the store before the first user arrives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcache_cli.cli import cluster_options as cluster_opt
from vcache_cli.cli import media_options as media_opt
from vcache_cli.cli import options as opt
from vcache_cli.cli import target_options as target_opt
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.output import Output
from vcache_cli.cli.requests import Request, bucket_request, request
from vcache_cli.cli.views import plan_view, warm_view
from vcache_cli.cli.warming import run_warm

__all__ = ["warm"]


def warm(
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
    batch_size: opt.BatchSizeOption = None,
    on_error: opt.OnErrorOption = None,
    max_errors: opt.MaxErrorsOption = None,
    retry_errors: opt.RetryErrorsOption = False,
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
    engine: cluster_opt.EngineOption = None,
    ray_address: cluster_opt.RayAddressOption = None,
    encoder_resources: cluster_opt.EncoderResourcesOption = None,
    max_size: opt.MaxSizeOption = None,
    min_free: opt.MinFreeOption = None,
    on_full: opt.OnFullOption = None,
    dry_run: opt.DryRunOption = False,
    nodes: cluster_opt.NodesOption = None,
    events: opt.EventsOption = None,
    manifest: target_opt.ManifestOption = None,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    verbose: opt.VerboseOption = False,
) -> int:
    """Fill the store before the first user arrives.

    Decodes and encodes pictures, and stores the results under the keys that the server looks up.
    Run it again at any time: what is in the store is not done twice. The store may also be the
    URL of a bucket.
    """
    asked: Mapping[str, Any] = locals()
    machines = cluster_opt.nodes_asked(nodes, dry_run=dry_run)
    output = Output(as_json, quiet or events == "-", verbose)
    wanted = bucket_request(asked) or request(asked)
    if dry_run:
        return _plan(wanted, output, machines)
    ended = run_warm(wanted, output, events=events, manifest=manifest)
    code = output.finish(ended.document, warm_view, problem=ended.problem)
    for step in ended.steps:
        output.say(f"next: {step}")
    return code


def _plan(wanted: Request, output: Output, nodes: int | None) -> int:
    from vcache_cli.assemble import plan_warm

    plan = plan_warm(
        wanted.corpus,
        store=wanted.place,
        model=wanted.model,
        options=wanted.options,
        nodes=nodes,
    )
    return output.finish(envelope("plan", plan.as_json(), store=wanted.place), plan_view)
