"""Features between the arrays of a running model and the tensors of an entry."""

from __future__ import annotations

import math
from importlib import metadata
from typing import TYPE_CHECKING, Any

from vcache_cli.entry import Entry, Provenance, creation_time
from vcache_cli.items import Kind, Stage
from vcache_cli.targets.mlx_vlm_layout import part_number
from vcache_cli.tensor import Tensor
from vcache_cli.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["from_entry", "size_bytes", "to_entry"]


def to_entry(
    key: str,
    features: Any,  # noqa: ANN401  MLX ships no usable types
    parts: Mapping[str, str],
    *,
    model: str | None,
    version: str,
) -> Entry:
    """An entry of features that a server has computed, in their own dtype and shape.

    Args:
        key: under which they are looked up.
        features: an array, or a list of arrays; computed where they are not yet.
        parts: of the key.
        model: for people.
        version: of mlx-vlm.

    Raises:
        ValueError: arrays of a dtype that no file holds.
    """
    if isinstance(features, list | tuple):
        tensors = {f"features.{i}": Tensor.from_mlx(each) for i, each in enumerate(features)}
    else:
        tensors = {"features": Tensor.from_mlx(features)}
    provenance = Provenance(
        model=model,
        kind=Kind.IMAGE,
        num_tokens=sum(math.prod(each.shape[:-1]) for each in tensors.values()),
        created=creation_time(),
        versions={"vcache": __version__, "mlx-vlm": version, "mlx": _mlx()},
    )
    return Entry(key, Stage.FEATURES, tensors, provenance, dict(parts))


def from_entry(entry: Entry) -> Any:  # noqa: ANN401  as above
    """An array, or a list of arrays where one was kept; of the kept dtype, bfloat16 too.

    Raises:
        ImportError: no MLX backend is installed.
    """
    if "features" in entry.tensors:
        return entry.mlx("features")
    return [entry.mlx(name) for name in sorted(entry.tensors, key=part_number)]


def size_bytes(features: Any) -> int:  # noqa: ANN401  as above
    """Bytes of all arrays; 0 for what has none."""
    if isinstance(features, list | tuple):
        return sum(size_bytes(each) for each in features)
    return int(getattr(features, "nbytes", 0))


def _mlx() -> str:
    return metadata.version("mlx")
