"""`vcache replay`: fill the caches of a server that keeps them in memory alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcache_cli.cli import media_options as media_opt
from vcache_cli.cli import options as opt
from vcache_cli.cli import replay_options as replay_opt
from vcache_cli.cli import target_options as target_opt
from vcache_cli.cli.output import Output
from vcache_cli.cli.replay_view import replay_view
from vcache_cli.cli.replaying import log_rules, run_replay

__all__ = ["replay"]


def replay(
    sources: opt.Sources = None,
    *,
    server: replay_opt.ServerOption = None,
    model: replay_opt.ServedModelOption = None,
    api_key_env: replay_opt.ApiKeyEnvOption = None,
    proxy: replay_opt.ProxyOption = None,
    concurrency: replay_opt.ConcurrencyOption = None,
    rate: replay_opt.RateOption = None,
    retries: replay_opt.RetriesOption = None,
    timeout: replay_opt.TimeoutOption = None,
    prompt: replay_opt.PromptOption = None,
    videos: replay_opt.VideosOption = False,
    measure: replay_opt.MeasureOption = None,
    again: replay_opt.AgainOption = False,
    state: replay_opt.StateOption = None,
    on_error: opt.OnErrorOption = None,
    max_errors: opt.MaxErrorsOption = None,
    shard: opt.ShardOption = None,
    limit: opt.LimitOption = None,
    groups: target_opt.GroupsOption = None,
    exclude: opt.ExcludeOption = None,
    null: opt.NullOption = False,
    media_root: media_opt.MediaRootOption = None,
    allow_http: media_opt.AllowHttpOption = False,
    max_file_size: media_opt.MaxFileSizeOption = None,
    events: opt.EventsOption = None,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    verbose: opt.VerboseOption = False,
) -> int:
    """Fill a server's caches in memory: send it each picture once, and have one token answered.

    For servers whose vision caches no file can fill (mlx-vlm, vllm-mlx, vLLM, SGLang, MAX).
    The bytes are sent as they are, as data URIs, so that the server computes its own keys; a
    request of a log is sent whole, its pictures in their order.

    A run goes on where one before it ended, by what the server was sent. Such caches die with
    their server: send with --again once it was restarted. They also have a limit (mlx-vlm: 20
    requests, raised by its --vision-cache-size); more pictures than that drive each other out.

    Exit codes: 3 where pictures failed, 14 where the server refuses the key, 15 where it cannot
    be reached or has no such model, 16 where it redirects or its certificate is not trusted.
    """
    asked: Mapping[str, Any] = locals()
    from vcache_cli.cli.corpus import corpus
    from vcache_cli.config import parse_count, parse_shard

    address = replay_opt.address_asked(asked)
    manner = replay_opt.manner_asked(asked)
    named = corpus(
        sources,
        groups=groups,
        null=null,
        exclude=exclude,
        shard=opt.parsed("--shard", shard, expected="I/N, with I from 1 to N", parse=parse_shard),
        limit=opt.parsed("--limit", limit, expected="a number of at least 1", parse=parse_count),
        rules=log_rules(media_root, allow_http=allow_http),
    )
    output = Output(as_json, quiet or events == "-", verbose)
    if address.exposes_key:
        output.complain("warning: the key crosses the network unencrypted; use https")
    place = None if state is None else Path(state)
    document, problem = run_replay(named, address, manner, output, {**asked, "state": place})
    return output.finish(document, replay_view, problem=problem)
