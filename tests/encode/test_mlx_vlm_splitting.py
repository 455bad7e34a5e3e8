"""Models that are written as those of mlx-vlm are, without mlx-vlm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vcache_cli.encode.mlx_vlm import consults_cache, features_of, how_split
from vcache_cli.errors import ModelError

INPUTS = {"input_ids": [1], "pixel_values": 20, "attention_mask": [1], "image_sizes": 3}
"""Numbers stand for arrays: nothing here looks into them."""


class Choosing:
    """As most families."""

    def get_input_embeddings(self, input_ids: Any, pixel_values: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as theirs
        if pixel_values is None:
            return None
        cached = kwargs.get("cached_image_features", None)  # noqa: SIM910  as theirs
        if cached is not None:
            features = cached
        else:
            features = pixel_values + kwargs["image_sizes"]
            features = features * 2
        return self.merge(features)

    def merge(self, features: Any) -> Any:  # noqa: ANN401  as theirs
        """Would compute with the language model."""
        raise AssertionError(features)


class Filling(Choosing):
    def get_input_embeddings(self, input_ids: Any, pixel_values: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as theirs
        features = kwargs.get("cached_image_features")
        if features is None:
            features = pixel_values * 3
        return self.merge(features)


class Expressing(Choosing):
    def get_input_embeddings(self, input_ids: Any, pixel_values: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as theirs
        cached = kwargs.get("cached_image_features")
        features = int(
            cached if cached is not None else pixel_values * 4,
        )
        return self.merge(features)


class Consulting(Choosing):
    def get_input_embeddings(self, input_ids: Any, pixel_values: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as theirs
        def encode(cached_kw: str) -> Any:  # noqa: ANN401  as theirs
            cached = kwargs.get(cached_kw) or kwargs["vision_cache"].get(kwargs["_image_key"])
            if cached is None:
                cached = pixel_values * 5
                kwargs["vision_cache"].put(kwargs["_image_key"], cached)
            return cached

        return self.merge(encode("cached_image_features"))


class Listing(Choosing):
    def encode_images(self, pixel_values: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as theirs
        """One array for each tile."""
        return [pixel_values, kwargs["image_sizes"]]


class Lossy(Choosing):
    def get_input_embeddings(self, input_ids: Any, pixel_values: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as theirs
        cached = kwargs.get("cached_image_features")
        if cached is not None:
            features = cached
            layers = None
        else:
            features, layers = pixel_values, [1]
        return self.merge((features, layers))


class Merging:
    def get_input_embeddings(self, input_ids: Any, pixel_values: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as theirs
        cached = kwargs.get("cached_image_features")
        if cached is not None:
            return cached
        return pixel_values


class Plain:
    def get_input_embeddings(self, input_ids: Any, pixel_values: Any) -> Any:  # noqa: ANN401  as theirs
        return pixel_values


@pytest.mark.parametrize(
    ("kind", "way", "features"),
    [
        (Choosing, "branch", 46),
        (Filling, "branch", 60),
        (Expressing, "branch", 80),
        (Consulting, "cache", 100),
        (Listing, "encode_images", [20, 3]),
    ],
)
def test_features_are_taken_before_anything_is_merged(
    kind: type, way: str, features: object
) -> None:
    model = kind()
    assert how_split(model) == way
    assert features_of(model, INPUTS) == features
    assert consults_cache(model) is (kind is Consulting)


def test_a_model_that_answers_otherwise_from_cached_features_is_not_split() -> None:
    with pytest.raises(ModelError, match="without `layers`"):
        how_split(Lossy())


@pytest.mark.parametrize("kind", [Merging, Plain, SimpleNamespace])
def test_a_model_whose_features_cannot_be_told_says_so(kind: type) -> None:
    with pytest.raises(ModelError, match=r"takes no|cannot be told"):
        how_split(kind())
