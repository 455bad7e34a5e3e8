"""Affine-quantised weights as MLX writes them: ``x.weight`` U32, ``x.scales``, ``x.biases``.

A group of neighbouring columns shares a scale and a bias; a weight is ``scale * level + bias``.
Levels of 2, 4 or 8 bits lie in 32-bit words, the first in the lowest bits. What is quantised in
any other way is left as it is, and refused by whoever needs it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vcache_cli.checkpoint.weights import Packed, TensorRange, read_tensor
from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["dequantised", "unpacked_table"]

_BITS: Final = frozenset({2, 4, 8})
_FLOATS: Final = frozenset({"BF16", "F16", "F32"})
_WEIGHT: Final = ".weight"


def unpacked_table(
    table: Mapping[str, TensorRange], config: Mapping[str, Any]
) -> dict[str, TensorRange]:
    """The table with every quantised weight as the float32 matrix that it stands for.

    Args:
        table: as the files say.
        config: ``config.json``, whose `quantization` names group size and bits, with exceptions
            by the name of a layer.
    """
    rules = config.get("quantization") or config.get("quantization_config")
    if not isinstance(rules, dict):
        return dict(table)
    found = dict(table)
    for name, place in table.items():
        layer = name.removesuffix(_WEIGHT)
        scales, biases = table.get(f"{layer}.scales"), table.get(f"{layer}.biases")
        if place.dtype != "U32" or layer == name or scales is None or biases is None:
            continue
        packed = _packed(place, Packed(scales, biases, *_sizes(rules, layer)))
        if packed is not None:
            found[name] = packed
            del found[f"{layer}.scales"], found[f"{layer}.biases"]
    return found


def _sizes(rules: Mapping[str, Any], layer: str) -> tuple[int, int]:
    """Group size and bits of a layer; zeros where they are not those of affine quantisation."""
    own = rules.get(layer)
    chosen = {**rules, **own} if isinstance(own, dict) else rules
    sizes = chosen.get("group_size"), chosen.get("bits")
    if chosen.get("mode", "affine") != "affine" or not all(type(each) is int for each in sizes):
        return 0, 0
    return int(str(sizes[0])), int(str(sizes[1]))


def _packed(place: TensorRange, packed: Packed) -> TensorRange | None:
    """The matrix, or None where the three tensors do not fit together."""
    scales, biases = packed.scales, packed.biases
    if packed.bits not in _BITS or packed.group_size < 1 or len(place.shape) != 2:
        return None
    rows, columns = place.shape[0], place.shape[1] * 32 // packed.bits
    groups = (rows, columns // packed.group_size)
    if columns % packed.group_size or {scales.shape, biases.shape} != {groups}:
        return None
    if not {scales.dtype, biases.dtype} <= _FLOATS:
        return None
    return replace(place, dtype="F32", shape=(rows, columns), packed=packed)


def dequantised(place: TensorRange, packed: Packed) -> Tensor:
    """The float32 matrix.

    Raises:
        ModelError: a file cannot be read.
    """
    import numpy as np

    rows, columns = place.shape
    words = np.frombuffer(read_tensor(place), "<u4").reshape(rows, -1)
    shifts = np.arange(0, 32, packed.bits, dtype=np.uint32)
    mask = np.uint32((1 << packed.bits) - 1)
    levels = (words[:, :, None] >> shifts & mask).astype(np.float32)
    matrix = levels.reshape(rows, columns // packed.group_size, packed.group_size)
    matrix *= _widened(packed.scales)[..., None]
    matrix += _widened(packed.biases)[..., None]
    return Tensor("F32", place.shape, matrix.data.cast("B"))


def _widened(place: TensorRange) -> NDArray[np.float32]:
    import numpy as np

    return Tensor(place.dtype, place.shape, read_tensor(place)).numpy().astype(np.float32)
