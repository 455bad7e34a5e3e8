"""Let a loaded model consult a cache where its own code does not.

mlx-vlm hands its cache to every model, and most of them leave it alone. Here a model is given the
features that are cached, and those that it computes are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from vcache_cli.encode.mlx_vlm import IMAGE_KEY, consults_cache, features_of, how_split
from vcache_cli.errors import ModelError
from vcache_cli.targets.mlx_vlm import processed_key

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["tap"]

_CACHE: Final = "vision_cache"
_CACHED: Final = "cached_image_features"
_MARK: Final = "_vcache_tap"


class _Cache(Protocol):
    def get(self, image_source: Any) -> Any: ...  # noqa: ANN401  MLX ships no usable types

    def put(self, image_source: Any, features: Any) -> None: ...  # noqa: ANN401  as above


def tap(model: Any, cache: _Cache) -> bool:  # noqa: ANN401  as above
    """Put `cache` before the vision part of `model`; False where its features cannot be told.

    A model that would answer otherwise from cached features than from a picture is left alone.
    Doing it again replaces the cache.
    """
    try:
        how_split(model)
    except ModelError:
        return False
    embed = getattr(model, _MARK, None) or model.get_input_embeddings
    setattr(model, _MARK, embed)
    model.get_input_embeddings = _tapped(model, embed, cache)
    return True


def _tapped(
    model: Any,  # noqa: ANN401  as above
    embed: Callable[..., Any],
    cache: _Cache,
) -> Callable[..., Any]:
    def get_input_embeddings(
        input_ids: Any = None,  # noqa: ANN401  as above
        pixel_values: Any = None,  # noqa: ANN401  as above
        **kwargs: Any,  # noqa: ANN401  as above
    ) -> Any:  # noqa: ANN401  as above
        is_video = kwargs.get("pixel_values_videos") is not None
        if pixel_values is None or is_video or kwargs.get(_CACHED) is not None:
            return embed(input_ids, pixel_values, **kwargs)
        name = kwargs.get(IMAGE_KEY) or processed_key({**kwargs, "pixel_values": pixel_values})
        if kwargs.get(_CACHE) is not None and consults_cache(model):
            return embed(input_ids, pixel_values, **kwargs)
        rest = {each: value for each, value in kwargs.items() if each not in {_CACHE, IMAGE_KEY}}
        features = cache.get(name)
        if features is None:
            try:
                features = _computed(model, input_ids, pixel_values, rest)
            except ModelError:  # then the model does it all, as it would without us
                return embed(input_ids, pixel_values, **kwargs)
            cache.put(name, features)
        return embed(input_ids, pixel_values, **{**rest, _CACHED: features})

    return get_input_embeddings


def _computed(
    model: Any,  # noqa: ANN401  as above
    input_ids: Any,  # noqa: ANN401  as above
    pixel_values: Any,  # noqa: ANN401  as above
    rest: dict[str, Any],
) -> Any:  # noqa: ANN401  as above
    import mlx.core as mx

    inputs = {**rest, "input_ids": input_ids, "pixel_values": pixel_values}
    inputs["attention_mask"] = inputs.pop("mask", None)
    features = features_of(model, inputs)
    mx.eval(*(features if isinstance(features, list | tuple) else [features]))
    return features
