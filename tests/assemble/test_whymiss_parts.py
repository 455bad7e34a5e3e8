"""Which part of two recipes differs is told in a sentence, whatever the recipes hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.assemble.whymiss_parts import differences, shown
from vcache_cli.assemble.whymiss_recipes import recipe_of
from vcache_cli.items import Stage
from vcache_cli.recipe import EncoderRecipe, Recipe

ENCODER = EncoderRecipe("siglip", 1, "ab" * 32, "hidden", "F32", "BF16")
RECIPE = Recipe(
    stage=Stage.FEATURES,
    target="omlx",
    profile="omlx",
    profile_revision=1,
    family="siglip",
    family_revision=1,
    settings={"size": {"height": 64, "width": 64}, "max_pixels": 1003520},
    target_options={"model_name": "/m/a", "max_side": 2048},
    encoder=ENCODER,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def changed(**parts: object) -> dict[str, Any]:
    return {**RECIPE.as_json(), **parts}


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            {"settings": {"size": {"height": 64, "width": 64}, "max_pixels": 12845056}},
            "processor setting differs: max_pixels 12845056 -> 1003520",
        ),
        (
            {"settings": {"size": {"height": 32, "width": 64}, "max_pixels": 1003520}},
            "processor setting differs: size.height 32 -> 64",
        ),
        ({"profile": "mlx-vlm-0.7"}, "profile differs: mlx-vlm-0.7 -> omlx"),
        (
            {"target_options": {"model_name": "/m/b", "max_side": 2048}},
            "stored for --model-name /m/b, the server would ask for /m/a",
        ),
        (
            {"encoder": {**RECIPE.as_json()["encoder"], "fingerprint": "cd" * 32}},
            "weights differ: cdcdcdcdcdcd -> abababababab",
        ),
        (
            {"encoder": {**RECIPE.as_json()["encoder"], "stored_dtype": "F32"}},
            "stored dtype differs: F32 -> BF16",
        ),
        ({"family_revision": 2}, "our code of the family was revised: 2 -> 1"),
    ],
)
def test_one_part_is_one_sentence(other: dict[str, Any], told: str) -> None:
    assert [each.told for each in differences(RECIPE.as_json(), changed(**other))] == [told]


def test_another_stage_says_nothing_of_the_encoder() -> None:
    stored = changed(stage="pixels")
    del stored["encoder"]
    [found] = differences(RECIPE.as_json(), stored)
    assert found.told == "stage differs: pixels -> features"


def test_what_people_can_change_comes_first() -> None:
    stored = changed(settings={}, target_options={"model_name": "/m/b"}, family_revision=9)
    parts = [each.part for each in differences(RECIPE.as_json(), stored)]
    assert [part.partition(".")[0] for part in parts] == [
        *("target_options", "target_options"),
        *("settings", "settings", "settings", "settings"),
        "family_revision",
    ]


@given(wanted=st.dictionaries(st.text(), JSON), stored=st.dictionaries(st.text(), JSON))
def test_any_json_is_borne(wanted: dict[str, Any], stored: dict[str, Any]) -> None:
    for each in differences(wanted, stored):
        assert len(each.told) < 600
    assert differences(wanted, wanted) == () or "nan" in repr(wanted)


def test_what_nests_without_end_is_borne() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    told = differences({"settings": {"a": deep}}, {"settings": {"a": [deep]}})
    assert len(told) == 1
    assert len(shown(deep)) < 100


def test_a_recipe_comes_back_from_its_json() -> None:
    assert recipe_of(RECIPE.as_json()) == RECIPE
    assert recipe_of(changed(target_options={}, settings={})) is not None


def test_numbers_that_json_has_not_are_no_recipe() -> None:
    assert recipe_of(changed(settings={"a": float("nan")})) is None


@given(st.dictionaries(st.sampled_from([*RECIPE.as_json(), "more"]), JSON))
def test_what_is_no_recipe_is_none(value: dict[str, Any]) -> None:
    found = recipe_of({**RECIPE.as_json(), **value})
    assert found is None or found.as_json() == {**RECIPE.as_json(), **value}


def test_a_rule_is_told_before_what_follows_from_it() -> None:
    wanted = {"settings": {"clip": {"sampling": {"fps": 1.0, "max": None, "rule": "qwen2-vl"}}}}
    stored = {"settings": {"clip": {"sampling": {"rule": "all"}}}}
    assert [each.told for each in differences(wanted, stored)] == [
        "video setting differs: sampling.rule all -> qwen2-vl",
        "video setting differs: sampling.fps not set -> 1.0",
    ]


def test_a_setting_of_none_differs_from_none_only_where_nothing_else_does() -> None:
    told = differences({"settings": {"a": 1, "max": None}}, {"settings": {"a": 1}})
    assert [each.told for each in told] == ["processor setting differs: max not set -> none"]
