"""What a command about a corpus was asked: the corpus, the model, the store, the choices."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vcache_cli.buckets import is_url, parse_place
from vcache_cli.cli.corpus import Corpus, corpus
from vcache_cli.cli.options import parsed, settings_for
from vcache_cli.cli.remote_options import check_lasting
from vcache_cli.errors import UsageError
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vcache_cli.assemble import WarmOptions
    from vcache_cli.config import Settings
    from vcache_cli.media import LogRules

__all__ = ["Request", "bucket_request", "request"]

_SETTINGS = (
    *("store", "model", "target", "stage", "profile", "backend", "dtype", "compute_dtype"),
    *("workers", "batch_size", "on_error", "max_errors", "max_size", "min_free", "on_full"),
    *("model_name", "max_side", "omlx_version", "force_profile", "max_pixels", "max_file_size"),
    *("isolation", "item_timeout", "item_memory", "preset"),
)


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that `warm`, `check` and `key` have in common."""

    corpus: Corpus
    model: str
    store: Path
    options: WarmOptions
    url: str | None = None
    """Of the store, where it is in a bucket; `store` then says nothing."""

    @property
    def place(self) -> Path | str:
        """Where the entries go."""
        return self.url or self.store


def bucket_request(given: Mapping[str, Any]) -> Request | None:
    """The request of a warm into a bucket; None where the store is a folder.

    Limits that settings files have are of folders, and left out.

    Raises:
        UsageError: see `request`; a limit that a bucket does not have.
        RefusedError: see `request`.
    """
    url = given.get("store")
    if url is None or not is_url(url):
        return None
    from vcache_cli.assemble.bucket_store import refuse_limits

    place = parse_place(url)
    check_lasting(place)
    _refuse_own(place.url, given.get("sources") or ())
    wanted = request({**given, "store": None})
    options = replace(
        wanted.options,
        max_size_bytes=wanted.options.max_size_bytes if given.get("max_size") else None,
        min_free_bytes=wanted.options.min_free_bytes if given.get("min_free") else None,
        on_full=wanted.options.on_full if given.get("on_full") else "stop",
    )
    refuse_limits(options)
    return replace(wanted, options=options, url=place.url)


def _refuse_own(url: str, sources: Sequence[str]) -> None:
    """A store in the folder that is walked would be a source of the next run."""
    if any(is_url(each) and parse_place(each).url == url for each in sources):
        raise UsageError(
            f"{display_path(url)} is a source and the store",
            hint=f"give the store a folder of its own, such as {display_path(url)}/vcache",
        )


def request(given: Mapping[str, Any]) -> Request:
    """The request of a command's parameters, by name; what it does not have is default.

    Raises:
        UsageError: no source, no model, or a value that makes no sense.
        RefusedError: a project's file sets what it must not.
    """
    from vcache_cli.config import parse_count, parse_shard

    settings = settings_for(**{name: given.get(name) for name in _SETTINGS})
    if settings.model is None:
        raise UsageError(
            "no model was named",
            hint="add `--model DIR`, or set VCACHE_MODEL, or `model` in a settings file or preset",
        )
    a_number = "a number of at least 1"
    shard, limit = given.get("shard"), given.get("limit")
    named = corpus(
        given["sources"],
        groups=given.get("groups"),
        null=given.get("null", False),
        exclude=given.get("exclude"),
        shard=parsed("--shard", shard, expected="I/N, with I from 1 to N", parse=parse_shard),
        limit=parsed("--limit", limit, expected=a_number, parse=parse_count),
        rules=_log_rules(settings, given),
    )
    options = _options(settings, given)
    return Request(named, settings.model, settings.store, options)


def _log_rules(settings: Settings, given: Mapping[str, Any]) -> LogRules:
    """What request logs among the sources give, and may name."""
    from vcache_cli.assemble import takes_groups
    from vcache_cli.media import LogRules

    root = given.get("media_root")
    if root is not None and not (is_url(root) or os.path.isdir(root)):
        raise UsageError(f"`--media-root`: no folder `{display_path(root)}`")
    return LogRules(
        groups="also" if takes_groups(settings.target) else "no",
        media_root=root,
        allow_http=bool(given.get("allow_http")),
    )


def _target_options(settings: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    """What only some targets take; unset ones are left out."""
    groups = given.get("groups") and ("also" if given["sources"] else "only")
    found = {
        "model_name": settings.model_name,
        "max_side": settings.max_side,
        "omlx_version": settings.omlx_version,
        "allow_lossy": given.get("allow_lossy") or None,
        "groups": groups,
    }
    return {name: value for name, value in found.items() if value is not None}


def _frames(given: Mapping[str, Any]) -> dict[str, Any]:
    """Which frames of a video are asked for."""
    from vcache_cli.config import parse_count

    a_rate, a_number = "frames a second, such as `2` or `0.5`", "a number of at least 1"
    return {
        "fps": parsed("--fps", given.get("fps"), expected=a_rate, parse=float),
        "num_frames": parsed(
            "--num-frames", given.get("num_frames"), expected=a_number, parse=parse_count
        ),
        "max_frames": parsed(
            "--max-frames", given.get("max_frames"), expected=a_number, parse=parse_count
        ),
    }


def _options(settings: Settings, given: Mapping[str, Any]) -> WarmOptions:
    from vcache_cli.assemble import WarmOptions
    from vcache_cli.items import Stage

    return WarmOptions(
        stage=Stage(settings.stage),
        target=settings.target,
        target_options=_target_options(settings, given),
        profile=settings.profile,
        force_profile=settings.force_profile,
        backend=settings.backend,
        dtype=settings.dtype,
        compute_dtype=settings.compute_dtype,
        workers=settings.workers,
        isolation=settings.isolation,
        item_timeout_seconds=settings.item_timeout,
        item_memory_bytes=settings.item_memory,
        batch_size=settings.batch_size,
        on_error=settings.on_error,
        max_errors=settings.max_errors,
        retry_errors=bool(given.get("retry_errors")),
        download=bool(given.get("download")),
        max_size_bytes=settings.max_size,
        min_free_bytes=settings.min_free,
        on_full=settings.on_full,
        grace_seconds=settings.grace,
        engine=given.get("engine") or "local",
        ray_address=given.get("ray_address") or "auto",
        encoder_resources=given.get("encoder_resources"),
        **_frames(given),
        max_pixels=settings.max_pixels,
        max_file_bytes=settings.max_file_size,
        trust_remote_code=bool(given.get("trust_remote_code")),
    )
