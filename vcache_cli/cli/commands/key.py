"""`vcache key`: one line that names a corpus and a recipe, for a CI cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vcache_cli.cli import media_options as media_opt
from vcache_cli.cli import options as opt
from vcache_cli.cli import target_options as target_opt
from vcache_cli.cli.blocks import Block, Lines
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.output import Output
from vcache_cli.cli.requests import request
from vcache_cli.cli.text import count

if TYPE_CHECKING:
    from vcache_cli.assemble import CorpusKey

__all__ = ["key"]


def key(
    sources: opt.Sources = None,
    *,
    model: opt.ModelOption = None,
    preset: opt.PresetOption = None,
    download: opt.DownloadOption = False,
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
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> int:
    """Print one line that changes when the pictures, the model or the settings do.

    Names, order and dates of the files play no part: a key for a CI cache.
    """
    asked: Mapping[str, Any] = locals()
    from vcache_cli.assemble import corpus_key

    wanted = request(asked)
    found = corpus_key(wanted.corpus, model=wanted.model, options=wanted.options)
    return Output(as_json, quiet).finish(
        envelope("key", found.as_json()), _view, bare=[found.key], problem=_problem(found)
    )


def _problem(found: CorpusKey) -> Problem | None:
    """A key without some of the pictures is told, so that no CI saves a cache under it unseen."""
    if not found.unreadable:
        return None
    first = found.failures[0]
    message = (
        f"{count(found.unreadable, 'file')} could not be read and"
        f" {'is' if found.unreadable == 1 else 'are'} not in the key;"
        f" {first['source']}: {first['message']}"
    )
    return Problem(3, "items_failed", message, "make them readable, or leave them out by --exclude")


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    return (Lines((document["key"],)),)
