"""`vcache key`: one line that names a corpus and a recipe, for a CI cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcache_cli.cli import options as opt
from vcache_cli.cli.blocks import Block, Lines
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.output import Output
from vcache_cli.cli.requests import request

__all__ = ["key"]


def key(
    sources: opt.Sources = None,
    *,
    model: opt.ModelOption = None,
    target: opt.TargetOption = None,
    stage: opt.StageOption = None,
    profile: opt.ProfileOption = None,
    dtype: opt.DtypeOption = None,
    exclude: opt.ExcludeOption = None,
    null: opt.NullOption = False,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> int:
    """Print one line that names a corpus and a model.

    Equal content, model and settings give an equal line, whatever the names: a key for a CI cache.
    """
    asked: Mapping[str, Any] = locals()
    from vcache_cli.assemble import corpus_key

    wanted = request(asked)
    found = corpus_key(wanted.corpus, model=wanted.model, options=wanted.options)
    fields = found.as_json()
    return Output(as_json, quiet).finish(envelope("key", fields), _view, bare=[fields["key"]])


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    return (Lines((document["key"],)),)
