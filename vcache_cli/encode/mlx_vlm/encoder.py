"""An encoder that computes by mlx-vlm's own code, for families that have no tower here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from vcache_cli.encode.blas_front import put_blas_in_front
from vcache_cli.encode.mlx_ops import on_accelerator
from vcache_cli.encode.mlx_vlm.activations import quicken
from vcache_cli.encode.mlx_vlm.loading import vision_parameters
from vcache_cli.encode.mlx_vlm.pictures import to_arrays
from vcache_cli.encode.mlx_vlm.splitting import features_of, how_split
from vcache_cli.errors import EncodeError
from vcache_cli.items import Features, Frames, Pixels

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.encode.mlx_vlm.owner import ModelOwner
    from vcache_cli.protocols import Preprocessor

__all__ = ["ServerEncoder", "join_features", "load_server_encoder"]

_DTYPES: Final = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


class ServerEncoder:
    """The vision part of a model as mlx-vlm runs it. An `Encoder` of one thread.

    `features` has the shape that the model merges; where the model makes one array for each part
    of a picture, they are `features.0`, `features.1`, ...

    Args:
        owner: of the model.
        preprocessor: whose pixels it takes: its `processed` gives what the model is called with.
    """

    def __init__(self, owner: ModelOwner, preprocessor: Preprocessor) -> None:
        self._owner = owner
        self._preprocessor = preprocessor
        how_split(owner.loaded.model)
        self._stored_dtype, self._width = owner.run(self._dry_run)
        self._computes_f32 = owner.run(self._widen)

    @property
    def fingerprint(self) -> str:
        """See `loading.fingerprint`."""
        return self._owner.loaded.fingerprint

    @property
    def pixel_shape(self) -> tuple[int, int, int] | None:
        """Whatever the checkpoint's processor makes."""
        return None

    def bucket(self, pixels: Pixels) -> Hashable:
        """By shape; each item is computed by itself."""
        return pixels.shape_key

    def feature_shapes(self, num_tokens: int) -> Mapping[str, tuple[int, ...]]:
        """One array of all tokens, though the model may give it more axes, or several arrays."""
        return {"features": (num_tokens, self._width)}

    @property
    def concurrency(self) -> int:
        """One: MLX is driven by one thread."""
        return 1

    @property
    def stored_dtype(self) -> str:
        """Of the features that the model itself would merge: a server needs them so."""
        return self._stored_dtype

    @property
    def device(self) -> Mapping[str, str]:
        """``backend``, ``device`` and ``dtype``."""
        return {
            "backend": "mlx-vlm",
            "device": "cpu" if self._computes_f32 else "gpu",
            "dtype": "F32" if self._computes_f32 else self._stored_dtype,
        }

    @property
    def versions(self) -> Mapping[str, str]:
        """Of MLX and mlx-vlm, and on a CPU the BLAS that answers MLX."""
        found = {"mlx": version("mlx"), "mlx-vlm": version("mlx-vlm")}
        return found | ({"blas": put_blas_in_front().name} if self._computes_f32 else {})

    def encode(self, batch: Sequence[Pixels]) -> list[Features]:
        """Features of each item by itself, as of a request with that one picture.

        Raises:
            EncodeError: the model refuses the pixels, or gives infinity or NaN.
        """
        return [self._owner.run(partial(self._encode, item)) for item in batch]

    def _encode(self, item: Pixels) -> Features:
        import mlx.core as mx
        import numpy as np

        try:
            features = self._features(item)
            parts = _parts(features)
            mx.eval(*parts)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise EncodeError(f"the server's model refuses it: {error}", kind="model") from error
        arrays = [np.array(part.astype(mx.float32)) for part in parts]
        if not all(np.isfinite(array).all() for array in arrays):
            raise EncodeError(
                "expected finite features, got infinity or NaN",
                kind="not_finite",
                hint="check the weights",
            )
        return join_features(arrays, as_list=isinstance(features, list | tuple))

    def _features(self, item: Pixels) -> Any:  # noqa: ANN401  MLX ships no usable types
        inputs = {
            name: to_arrays(value) for name, value in self._preprocessor.processed([item]).items()
        }
        if "input_ids" not in inputs:
            inputs["input_ids"] = self._placeholders(item.num_tokens)
        return features_of(self._owner.loaded.model, inputs)

    def _placeholders(self, num_tokens: int) -> Any:  # noqa: ANN401  as above
        """A prompt of nothing but the picture."""
        import mlx.core as mx

        config = self._owner.loaded.model.config
        names = ("image_token_id", "image_token_index")
        marks = [getattr(config, name, None) for name in names]
        mark = next((each for each in marks if isinstance(each, int)), 0)
        return mx.full((1, num_tokens), mark, dtype=mx.int32)

    def _dry_run(self) -> tuple[str, int]:
        """Dtype and width of features: known without computing, for MLX is lazy."""
        import numpy as np

        grey = self._preprocessor(Frames(np.full((1, 64, 64, 3), 128, np.uint8)))
        part = _parts(self._features(grey))[0]
        return _DTYPES.get(str(part.dtype).removeprefix("mlx.core."), "F32"), int(part.shape[-1])

    def _widen(self) -> bool:
        """On a CPU, let the vision part compute in float32: nothing else reaches its BLAS.

        Activations are numpy's there; see `activations`.
        """
        if on_accelerator():
            return False
        import mlx.core as mx
        from mlx.utils import tree_unflatten

        model = self._owner.loaded.model
        wide = [
            (name, array.astype(mx.float32))
            for name, array in vision_parameters(model).items()
            if mx.issubdtype(array.dtype, mx.floating)
        ]
        model.update(tree_unflatten(wide))
        quicken(model)
        return True


def load_server_encoder(owner: ModelOwner, preprocessor: Preprocessor) -> ServerEncoder:
    """The encoder of the model that `owner` has.

    Raises:
        RefusedError: the checkpoint brings code.
        ModelError: mlx-vlm cannot load it, or it cannot be split.
    """
    return ServerEncoder(owner, preprocessor)


def _parts(features: Any) -> list[Any]:  # noqa: ANN401  MLX ships no usable types
    return list(features) if isinstance(features, list | tuple) else [features]


def join_features(arrays: list[NDArray[Any]], *, as_list: bool) -> Features:
    """One array as `features`; a list, be it of one, as `features.0`, `features.1`, ..."""
    if not as_list:
        return Features({"features": arrays[0]})
    return Features({f"features.{index}": array for index, array in enumerate(arrays)})
