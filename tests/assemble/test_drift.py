"""What is said to have changed since an entry was made."""

from __future__ import annotations

from typing import Any

from vcache_cli.assemble.drift import recipe_differences, version_differences

RECIPE: dict[str, Any] = {
    "stage": "features",
    "family": "siglip",
    "family_revision": 1,
    "profile": "p",
    "profile_revision": 1,
    "settings": {"size": 4, "mean": [0.5]},
    "encoder": {
        "tower": "siglip",
        "revision": 2,
        "fingerprint": "ab" * 32,
        "compute_dtype": "F32",
        "stored_dtype": "BF16",
    },
}


def encoder(**changes: object) -> dict[str, Any]:
    """The recipe with another encoder."""
    return RECIPE | {"encoder": RECIPE["encoder"] | changes}


def test_each_part_of_a_recipe_has_its_reason() -> None:
    assert recipe_differences(RECIPE, RECIPE) == {}
    assert list(recipe_differences(RECIPE, encoder(fingerprint="cd" * 32))) == ["weights"]
    assert recipe_differences(RECIPE, encoder(revision=1)) == {
        "revision": ["encoder.revision 1, now 2"]
    }
    others: list[dict[str, Any]] = [
        {"settings": {}},
        {"family_revision": 2},
        {"profile_revision": 0},
        {"target_options": {"max_side": 1}},
    ]
    for changes in others:
        assert list(recipe_differences(RECIPE, RECIPE | changes)) == ["processor"]
    several = encoder(fingerprint="cd" * 32, revision=1) | {"settings": {"size": 5}}
    assert list(recipe_differences(RECIPE, several)) == ["weights", "processor", "revision"]


def test_settings_that_differ_are_named_and_not_all_of_many() -> None:
    settings = dict.fromkeys("abcde", 1)
    told = recipe_differences(RECIPE | {"settings": settings}, RECIPE | {"settings": {"e": 1}})
    shown = [f"{name} none, now 1" for name in "abc"]
    assert told == {"processor": [*shown, "1 more of the settings"]}


def test_versions_that_one_side_lacks_differ_too() -> None:
    told = version_differences({"numpy": "2", "mlx": "1"}, {"numpy": "2", "pillow": "11"})
    assert told == ["mlx none, now 1", "pillow 11, now none"]
