"""Open a model folder, or a model in the local Hugging Face cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcache_cli.checkpoint.hub import expand_user, is_hub_name, snapshot_folder
from vcache_cli.checkpoint.jsonfile import read_object
from vcache_cli.checkpoint.quantised import dequantised, unpacked_table
from vcache_cli.checkpoint.weights import TensorRange, missing_weights, read_tensor, tensor_table
from vcache_cli.errors import ModelError
from vcache_cli.tensor import ITEMSIZE_BYTES, Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Checkpoint", "open_checkpoint"]


@dataclass(frozen=True, eq=False)  # no slots: `tensors` is cached
class Checkpoint:
    """A model folder in the layout of the Hugging Face Hub. Any thread; picklable."""

    folder: Path
    label: str
    """The folder's name or the Hub name, for people; never part of a key."""
    config: Mapping[str, Any]
    """``config.json``."""
    preprocessor: Mapping[str, Any]
    """``preprocessor_config.json``, else the image processor's part of ``processor_config.json``;
    empty where there is neither."""
    processor: Mapping[str, Any]
    """``processor_config.json``; empty where there is none."""

    @cached_property
    def tensors(self) -> Mapping[str, TensorRange]:
        """Every tensor by name; the headers of the weight files are read at the first use.

        Raises:
            ModelError: no weights, or a weight file that is missing or malformed.
        """
        return unpacked_table(tensor_table(self.folder), self.config)

    def read(self, name: str) -> Tensor:
        """The tensor `name`, in float32 where it is quantised; reads its bytes and no others.

        Raises:
            ModelError: no such tensor, a dtype that is not known, or a file that cannot be read.
        """
        place = self.tensors.get(name)
        if place is None:
            raise ModelError(f"{self.folder}: expected a tensor `{name}`, found no such tensor")
        if place.missing:
            raise missing_weights([(name, place)])
        if place.packed is None and place.dtype not in ITEMSIZE_BYTES:
            raise ModelError(
                f"{self.folder}: expected `{name}` as one of {', '.join(sorted(ITEMSIZE_BYTES))}, "
                f"found {place.dtype}"
            )
        try:
            if place.packed is not None:
                return dequantised(place, place.packed)
            return Tensor(place.dtype, place.shape, read_tensor(place))
        except MemoryError as error:
            raise ModelError(
                f"{place.path}: not enough memory for `{name}`, {list(place.shape)} in "
                f"{place.dtype}",
                hint="run it on a machine with more memory",
            ) from error


def open_checkpoint(model: str) -> Checkpoint:
    """The checkpoint `model`: the path of a folder, or a name in the local Hugging Face cache.

    Reads JSON only. Nothing is downloaded.

    Raises:
        ModelError: no such folder or name, or JSON that is missing or malformed.
    """
    folder, label = _located(model)
    config = read_object(folder / "config.json")
    if config is None:
        raise ModelError(
            f"{folder}: expected a model folder with config.json, found no config.json",
            hint="give the folder that holds config.json, preprocessor_config.json and the weights",
        )
    processor = read_object(folder / "processor_config.json") or {}
    preprocessor = read_object(folder / "preprocessor_config.json")
    if preprocessor is None:
        nested = processor.get("image_processor")
        preprocessor = nested if isinstance(nested, dict) else {}
    return Checkpoint(folder, label, config, preprocessor, processor)


def _located(model: str) -> tuple[Path, str]:
    path = expand_user(model) if model.startswith("~/") else Path(model)
    if model and os.path.isdir(path):  # unlike Path.is_dir, never raises
        return path, path.resolve().name or model
    if model and os.path.exists(path):
        raise ModelError(
            f"{model}: expected a model folder, found a file",
            hint=f"give the folder: `{path.parent}`",
        )
    if is_hub_name(model) and not os.path.islink(path):
        return snapshot_folder(model), model
    raise ModelError(
        f"{model or '(empty)'}: expected a model folder, found nothing there",
        hint="give a folder with config.json, or the name of a model in the local "
        "Hugging Face cache such as `google/siglip-base-patch16-224`",
    )
