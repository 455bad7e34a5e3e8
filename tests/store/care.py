"""Stores and entries for the tests of what looks after a store."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.items import Kind, Stage
from vcache_cli.quantity import format_time
from vcache_cli.store.create import create_meta
from vcache_cli.store.files import OsFiles
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.writer import Publisher, pack_entry
from vcache_cli.targets import NativeLayout, native_key
from vcache_cli.tensor import Tensor

__all__ = ["DAY", "NOW", "add", "entry", "make_store", "set_used"]

NOW = 1_700_000_000.0
"""The moment at which the tests' stores are looked at, seconds since 1970."""
DAY = 86_400.0


def make_store(path: Path) -> StoreRoot:
    """An empty native store."""
    return StoreRoot(path, NativeLayout(), create_meta(path, target="native"))


def entry(
    number: int,
    *,
    model: str = "tiny",
    stage: Stage = Stage.FEATURES,
    tokens: int = 4,
    created: float = NOW - DAY,
    recipe: Mapping[str, Any] | None = None,
) -> Entry:
    """An entry that is told from others by `number`; 16 bytes of tensors per token."""
    recipe = {"stage": stage.value, "profile": model, **(recipe or {})}
    source = digest_bytes(b"source %d" % number)
    data = random.Random(number).randbytes(16 * tokens)
    return Entry(
        native_key(stage, source, digest_json(recipe)),
        stage,
        {"features": Tensor("BF16", (tokens, 8), data)},
        Provenance(source, recipe, model, Kind.IMAGE, tokens, format_time(created)),
    )


def set_used(path: Path, seconds: float) -> None:
    """Set when an entry was last used, seconds since 1970."""
    os.utime(path, (seconds, seconds))


def add(root: StoreRoot, made: Entry, *, used: float = NOW - DAY) -> Path:
    """Publish `made` as a warm would; its file."""
    packed = pack_entry(made, root.layout)
    Publisher(OsFiles(), root).publish(packed)
    path = root.path / packed.relative
    set_used(path, used)
    return path
