"""What oMLX's server makes of a directory of its feature files. Pure; by its published rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.items import display_path
from vcache_cli.protocols import ServerFinding, ServerView
from vcache_cli.targets.omlx_features import FeatureFile, feature_findings, read_features
from vcache_cli.targets.omlx_names import IMAGE_MODES, omlx_grid, omlx_key, omlx_wrapped_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vcache_cli.protocols import StoredFile

__all__ = ["CAPACITY_BYTES", "describe_omlx", "examine_omlx", "keys_of_image"]

CAPACITY_BYTES: Final = 10 * 1024**3
"""The server's bound on all of its vision features together, whatever its settings say."""
_CAPACITY_NOTE: Final = "fixed: the server's own cache size setting does not change it"
LEFTOVER_SECONDS: Final = 3600.0
"""A temp file this old is of a write that has died."""

_SUFFIX: Final = ".safetensors"
_BUCKETS: Final = "0123456789abcdef"
_IN_BUCKET: Final = re.compile(r"[0-9a-f]/[^/]*\.safetensors", re.DOTALL)
_NAMED: Final = re.compile(r"([0-9a-f])/\1[0-9a-f]{63}\.safetensors")
_TEMPORARY: Final = re.compile(r"(^|[._-])(tmp[a-z0-9_]{0,12}|temp|part|partial)([._-]|$)")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def examine_omlx(
    files: Iterable[StoredFile], *, is_folder: Callable[[str], bool], now: float
) -> ServerView:
    """The view of a server that starts now; see `Examiner.examine`.

    The start reads bucket 0 to f, each in the order of the directory's listing, and indexes what
    has `model_name` and `image_hash`. That order is the order in which it evicts. Where two files
    are of the same key, the later one takes the earlier one's place.
    """
    found = list(files)
    scanned = sorted(
        (file for file in found if _IN_BUCKET.fullmatch(file.path)),
        key=lambda file: _BUCKETS.index(file.path[0]),  # stable: the listing's order within
    )
    features = [read_features(file) for file in scanned if _is_indexed(file)]
    index = {(each.model_name, each.image_hash): each for each in features}
    indexed = tuple(each.file for each in index.values())
    findings = [
        *_unused(found, now),
        *_misnamed(features),
        *_hidden(features, index),
        *feature_findings(features, is_folder),
    ]
    return ServerView(
        findings=tuple(sorted(findings)),
        indexed=indexed,
        unindexed=tuple(file for file in found if _is_unindexed(file)),
        capacity_bytes=CAPACITY_BYTES,
        capacity_note=_CAPACITY_NOTE,
        evicts_next=_evicted(indexed),
    )


def describe_omlx(file: StoredFile) -> dict[str, Any]:
    """Names, grid, and what follows from the shapes; unknown things are left out.

    Of Unlimited-OCR's entries the file has the wrapped hash only, so nothing in it tells the mode.
    """
    metadata = file.metadata or {}
    features = read_features(file)
    grid = omlx_grid(metadata)
    value: dict[str, Any] = {
        "model_name": metadata.get("model_name"),
        "image_hash": metadata.get("image_hash"),
        "num_tensors": metadata.get("num_tensors"),
        "grid_thw": None if grid is None else list(grid),
        "rows": features.rows,
        "width": features.width,
        "merge": features.merge,
    }
    return {name: part for name, part in value.items() if part is not None}


def keys_of_image(image_hash: str, models: Iterable[str]) -> dict[str, str]:
    """Keys of the hash as it is, and wrapped as Unlimited-OCR does, for each model."""
    if _HASH.fullmatch(image_hash) is None:
        return {}
    known: dict[str, str] = {}
    for model in models:
        known[omlx_key(model, image_hash)] = "its image hash"
        for mode in IMAGE_MODES:
            wrapped = omlx_wrapped_hash(image_hash, mode)
            known[omlx_key(model, wrapped)] = f"the image hash, wrapped for image mode `{mode}`"
    return known


def _is_indexed(file: StoredFile) -> bool:
    known = file.metadata or {}
    return bool(known.get("model_name")) and bool(known.get("image_hash"))


def _is_unindexed(file: StoredFile) -> bool:
    """True for features that no start will find; not where nobody looked into the file."""
    if not file.path.endswith(_SUFFIX) or _is_leftover(file):
        return False
    if _IN_BUCKET.fullmatch(file.path) is None:
        return True
    return file.error is not None or (file.metadata is not None and not _is_indexed(file))


def _is_leftover(file: StoredFile) -> bool:
    """True for a temporary name of a write, finished features of any name not counted."""
    if _NAMED.fullmatch(file.path) or _is_indexed(file):
        return False
    name = file.path.rpartition("/")[2]
    is_of_a_key = not name.endswith(_SUFFIX) and _HASH.search(name) is not None
    return is_of_a_key or _TEMPORARY.search(name) is not None


def _unused(files: Iterable[StoredFile], now: float) -> Iterator[ServerFinding]:
    """Files that take room and are never read."""
    for file in files:
        if _is_unindexed(file):
            yield ServerFinding(file.path, "never_indexed", actual=_why_unindexed(file))
        elif _is_leftover(file) and now - file.mtime_ns / 1e9 >= LEFTOVER_SECONDS:
            told = "a temporary name, not written for an hour: of a write that died"
            yield ServerFinding(file.path, "leftover", actual=told)


def _why_unindexed(file: StoredFile) -> str:
    if _IN_BUCKET.fullmatch(file.path) is None:
        reason = "not directly in a directory `0` to `f`"
    elif file.error is not None:
        reason = file.error
    else:
        known = file.metadata or {}
        missing = [name for name in ("model_name", "image_hash") if not known.get(name)]
        reason = "no " + " and no ".join(f"`{name}`" for name in missing)
    return f"never found, never evicted: {reason}"


def _misnamed(features: Iterable[FeatureFile]) -> Iterator[ServerFinding]:
    """Indexed by their metadata, but a write of the same key goes to another name."""
    for each in features:
        key = omlx_key(each.model_name, each.image_hash)
        path = f"{key[0]}/{key}{_SUFFIX}"
        if each.file.path == path:
            continue
        stem = each.file.path.rpartition("/")[2].removesuffix(_SUFFIX)
        why = keys_of_image(each.image_hash, [each.model_name]).get(stem)
        told = f"; it is that of {why}" if why else ""
        actual = f"this name, so that the server's next write makes a second file{told}"
        yield ServerFinding(each.file.path, "wrong_name", path, actual)


def _hidden(
    features: Iterable[FeatureFile], index: Mapping[tuple[str, str], FeatureFile]
) -> Iterator[ServerFinding]:
    for each in features:
        winner = index[each.model_name, each.image_hash]
        if winner is not each:
            other = display_path(winner.file.path)
            actual = f"never evicted: {other} is of the same model and image"
            yield ServerFinding(each.file.path, "duplicate", actual=actual)


def _evicted(indexed: Iterable[StoredFile]) -> int:
    """How many go at the first write after a start: from the front until it is below the bound."""
    sizes = [file.size_bytes for file in indexed]
    total, count = sum(sizes), 0
    if total <= CAPACITY_BYTES:
        return 0
    for size in sizes:
        if total < CAPACITY_BYTES:
            break
        total -= size
        count += 1
    return count
