"""Pictures to what a server's own processor makes of them, as numpy values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.errors import EncodeError
from vcache_cli.items import Frames, Pixels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.encode.mlx_vlm.owner import ModelOwner

__all__ = ["RequestPixels", "ServerPreprocessor", "to_arrays"]

_PROMPT: Final = "?"
"""What stands behind the picture in the prompt; it decides no pixel."""
_IMAGE_TOKENS: Final = ("image_token_id", "image_token_index", "media_placeholder_token_id")
_PREFIX: Final = ("gemma3", "gemma3n", "gemma4", "gemma4_unified")
"""Families whose chat template brings the tokens that begin a text."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestPixels(Pixels):
    """Pixels of one request, in whatever structure the family's processor gives."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    """The processor's values by name: numpy arrays, lists of them, plain values."""


class ServerPreprocessor:
    """The processor of one checkpoint. A `Preprocessor`; any thread, one at a time.

    Args:
        owner: of the model, whose processor is used.
    """

    def __init__(self, owner: ModelOwner) -> None:
        self._owner = owner
        self._sized = lru_cache(maxsize=4096)(self._of_size)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles as one that loads the checkpoint anew."""
        return type(self), (self._owner,)

    @property
    def residence(self) -> str:
        """See `Resident`."""
        return "the server's own processor is loaded with its model"

    def __call__(self, frames: Frames) -> RequestPixels:
        """What the server's processor makes of the picture.

        Raises:
            EncodeError: it refuses the picture.
        """
        return self._request([frames])

    def together(self, request: Sequence[Frames]) -> RequestPixels:
        """The same of all pictures of one request.

        Raises:
            EncodeError: it refuses the request.
        """
        return self._request(request)

    def compact(self, frames: Frames) -> Pixels:
        """The same: whose arithmetic it is, is not known here."""
        return self(frames)

    def processed(self, request: Sequence[Pixels]) -> dict[str, Any]:
        """The processor's own values; a request of several pictures was made as one.

        Raises:
            EncodeError: several pictures that were prepared one by one.
        """
        only = request[0] if len(request) == 1 else None
        if not isinstance(only, RequestPixels):
            raise EncodeError("pictures of one request have to be prepared together", kind="groups")
        return dict(only.inputs)

    @property
    def pixel_shape(self) -> tuple[int, int, int] | None:
        """Not known."""
        return None

    def num_tokens(self, width: int, height: int) -> int:
        """Tokens of a grey picture of that size, which is processed for it.

        Raises:
            EncodeError: the processor refuses it.
        """
        return self._sized(width, height)[0]

    def pixel_bytes(self, width: int, height: int, *, compact: bool = False) -> int:
        """As for `num_tokens`.

        Raises:
            EncodeError: the processor refuses it.
        """
        return self._sized(width, height)[1]

    def _of_size(self, width: int, height: int) -> tuple[int, int]:
        made = self(Frames(np.full((1, height, width, 3), 128, np.uint8)))
        return made.num_tokens, made.size_bytes

    def _request(self, pictures: Sequence[Frames]) -> RequestPixels:
        inputs = self._owner.run(lambda: self._prepared(pictures))
        tensors = dict(_flat(inputs))
        return RequestPixels(tensors, self._count(inputs), inputs=inputs)

    def _prepared(self, pictures: Sequence[Frames]) -> dict[str, Any]:
        loaded = self._owner.loaded  # puts a BLAS before MLX, which what follows imports
        from mlx_vlm.prompt_utils import apply_chat_template
        from mlx_vlm.utils import prepare_inputs

        model, processor = loaded.model, loaded.processor
        prefix = model.config.model_type not in _PREFIX
        try:
            prompt = apply_chat_template(processor, model.config, _PROMPT, num_images=len(pictures))
            inputs = prepare_inputs(
                processor,
                images=[_picture(each) for each in pictures],
                prompts=prompt,
                image_token_index=getattr(model.config, "image_token_index", None),
                add_special_tokens=prefix or getattr(processor, "chat_template", None) is None,
            )
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise EncodeError(
                f"the server's processor refuses it: {error}", kind="processor"
            ) from error
        return {name: _plain(each) for name, each in inputs.items() if each is not None}

    def _count(self, inputs: Mapping[str, Any]) -> int:
        """Places in the prompt that features will fill."""
        config, ids = self._owner.loaded.model.config, inputs.get("input_ids")
        marks = {getattr(config, name, None) for name in _IMAGE_TOKENS}
        if ids is None:
            return 0
        return int(sum((ids == mark).sum() for mark in marks if isinstance(mark, int)))


def _picture(frames: Frames) -> Any:  # noqa: ANN401  Pillow's
    """As the server's loader gives it."""
    from PIL import Image

    picture = Image.fromarray(frames.rgb[0])
    if frames.key_rgb is not None:
        picture.info["transparency"] = frames.key_rgb
    return picture


class _Kept(np.ndarray):
    """An array of numpy's that the processor itself leaves one: the server's name says so."""


def _plain(value: Any) -> Any:  # noqa: ANN401  as the processor gives it
    """MLX arrays and lists of them as numpy's, those of numpy marked; anything else as it is."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return value.view(_Kept)
    if type(value).__module__.startswith("mlx."):
        import mlx.core as mx

        return np.array(value if value.dtype != mx.bfloat16 else value.astype(mx.float32))
    return value


def to_arrays(value: Any) -> Any:  # noqa: ANN401  as above
    """The way back: numpy arrays as MLX's, in lists too, but those that were the processor's."""
    import mlx.core as mx

    if isinstance(value, list | tuple):
        return [to_arrays(each) for each in value]
    if isinstance(value, _Kept):
        return value.view(np.ndarray)
    return mx.array(value) if isinstance(value, np.ndarray) else value


def _flat(inputs: Mapping[str, Any]) -> list[tuple[str, NDArray[Any]]]:
    """Every array by name; those of a list by name and number."""
    found: list[tuple[str, NDArray[Any]]] = []
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            found.append((name, value))
        elif isinstance(value, list):
            found += _flat({f"{name}.{index}": each for index, each in enumerate(value)})
    return found
