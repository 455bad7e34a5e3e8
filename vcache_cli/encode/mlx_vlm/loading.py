"""A model of mlx-vlm, loaded so that only what encodes pictures is ever read."""

from __future__ import annotations

import contextlib
import json
import math
import os
from dataclasses import asdict, dataclass, is_dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from vcache_cli.digest import canonical_json, digest_chunks
from vcache_cli.encode.blas_front import put_blas_in_front
from vcache_cli.errors import ModelError, RefusedError
from vcache_cli.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Final

    from vcache_cli.checkpoint import Checkpoint

__all__ = [
    "SUPPORTED",
    "LoadedModel",
    "check_version",
    "fingerprint",
    "load_model",
    "refuse_code",
    "vision_parameters",
    "vision_parts",
]

SUPPORTED: Final = ("0.7",)
"""Series of mlx-vlm whose code this was written against."""
INSTALL: Final = "pip install 'vcache-cli[mlx-vlm]'"
_FORMAT: Final = b"vcache mlx-vlm 1\n"
"""Starts every fingerprint; a change of what is hashed changes it."""
_CODE_FILES: Final = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
)
_MAX_WORDS: Final = 200
"""Characters of mlx-vlm's own message that are told."""
_REWRITTEN: Final = "F8_E8M0"
_NOT_VISION: Final = frozenset({"language_model", "lm_head", "text_model", "text", "mtp"})
_AUDIO: Final = ("audio", "speech", "sound", "talker", "code2wav")
_NO_SETTINGS: Final = frozenset(
    {
        "architectures",
        "audio_config",
        "auto_map",
        "dtype",
        "eos_token_id",
        "bos_token_id",
        "pad_token_id",
        "model_path",
        "quantization",
        "quantization_config",
        "text_config",
        "torch_dtype",
        "transformers_version",
    }
)
"""Fields of a configuration that decide no feature, or that the tensors themselves show."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model and its processor, as mlx-vlm loads them; weights are read when they are used."""

    model: Any
    processor: Any
    fingerprint: str
    """See `fingerprint`."""


def check_version() -> str:
    """The installed version of mlx-vlm.

    Raises:
        ModelError: it is not installed, or of a series that is not supported.
    """
    try:
        found = metadata.version("mlx-vlm")
    except metadata.PackageNotFoundError as error:
        raise ModelError("mlx-vlm is not installed", hint=INSTALL) from error
    if not found.startswith(tuple(f"{series}." for series in SUPPORTED)):
        supported = " or ".join(f"{series}.x" for series in SUPPORTED)
        raise ModelError(
            f"mlx-vlm {found} is installed, {supported} is supported",
            hint=f"pip install 'mlx-vlm=={SUPPORTED[-1]}.*'",
        )
    return found


def refuse_code(folder: Path, *, trust_remote_code: bool = False) -> None:
    """Refuse a checkpoint that brings code of its own.

    Raises:
        RefusedError: it does, and the user did not say that it is trusted.
    """
    for name in () if trust_remote_code else _CODE_FILES:
        for field in ("auto_map", "model_file"):
            if _json(folder / name).get(field):
                raise RefusedError(
                    f"{folder}: {name} asks to run code that the checkpoint brings (`{field}`)",
                    hint="read that code, then say --trust-remote-code",
                )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # what cannot be read asks for nothing; loading says what is odd
        return {}
    return found if isinstance(found, dict) else {}


def load_model(checkpoint: Checkpoint, *, trust_remote_code: bool = False) -> LoadedModel:
    """Load the checkpoint by mlx-vlm's own code. To be called by the thread that will compute.

    Raises:
        RefusedError: it brings code and is not trusted.
        ModelError: mlx-vlm is missing or of another series, or cannot load the checkpoint.
    """
    version = check_version()
    refuse_code(checkpoint.folder, trust_remote_code=trust_remote_code)
    _refuse_rewriting(checkpoint)
    put_blas_in_front()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded
    try:
        from mlx_vlm.utils import load

        options = {"trust_remote_code": True} if trust_remote_code else {}
        model, processor = load(os.fspath(checkpoint.folder), lazy=True, **options)
    except (ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(
            f"{checkpoint.folder}: mlx-vlm {version} cannot load it: {_first_words(error)}",
            hint="give the whole checkpoint, language model included, as mlx-vlm's server takes it",
        ) from error
    return LoadedModel(model, processor, fingerprint(model))


def _first_words(error: Exception) -> str:
    """What mlx-vlm says, on one line, without the lists and recipes that follow."""
    told = " ".join(str(error).split()) or type(error).__name__
    return told if len(told) <= _MAX_WORDS else f"{told[:_MAX_WORDS]} ..."


def _refuse_rewriting(checkpoint: Checkpoint) -> None:
    """A model folder is never written to, not for a moment, as mlx-vlm does for such weights."""
    with contextlib.suppress(ModelError):  # what mlx-vlm says of odd weight files is better
        for name, place in checkpoint.tensors.items():
            if place.dtype == _REWRITTEN:
                raise RefusedError(
                    f"{checkpoint.folder}: mlx-vlm rewrites the headers of its files while it "
                    f"loads them, for `{name}` is {_REWRITTEN}",
                    hint="convert the checkpoint with `mlx_vlm.convert` first",
                )


def vision_parts(model: Any) -> dict[str, Any]:  # noqa: ANN401  MLX ships no usable types
    """Children and parameters of `model` by name, but the language model and what hears."""
    return {
        name: part
        for name, part in model.items()
        if name not in _NOT_VISION and not any(word in name for word in _AUDIO)
    }


def vision_parameters(model: Any) -> dict[str, Any]:  # noqa: ANN401  as above
    """Parameters of the `vision_parts` by name; lazy arrays."""
    from mlx.utils import tree_flatten

    flat: Any = tree_flatten(vision_parts(model))  # pairs, as nothing else is asked for
    return {name: array for name, array in flat if hasattr(array, "dtype")}


def fingerprint(model: Any) -> str:  # noqa: ANN401  as above
    """SHA-256, 64 hex, of all that decides the features of a loaded model; reads those weights.

    It covers the class, names, dtypes, shapes and bytes of the vision parameters as mlx-vlm
    loaded them, and the settings: a server's own model and one loaded here have the same.
    """
    return digest_chunks(_chunks(model))


def _chunks(model: Any) -> Iterator[bytes]:  # noqa: ANN401  as above
    yield _FORMAT
    yield canonical_json([type(model).__module__, _settings(model.config)]) + b"\n"
    for name, array in sorted(vision_parameters(model).items()):
        tensor = Tensor.from_mlx(array)
        yield canonical_json([name, tensor.dtype, list(tensor.shape)]) + b"\n"
        yield bytes(tensor.data)


def _settings(config: Any) -> dict[str, Any]:  # noqa: ANN401  each family has its own
    """The configuration as JSON, without what decides no feature."""
    fields = asdict(config) if is_dataclass(config) and not isinstance(config, type) else {}
    return {name: _plain(each) for name, each in fields.items() if name not in _NO_SETTINGS}


def _plain(value: Any) -> Any:  # noqa: ANN401  as above
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)
