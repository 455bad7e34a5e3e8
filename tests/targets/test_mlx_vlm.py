"""The entries of mlx-vlm's drop-in, without mlx-vlm: only its own name of a picture needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from vcache_cli.digest import digest_bytes
from vcache_cli.entry import Entry, Provenance
from vcache_cli.errors import EncodeError, InvalidEntryError, UsageError
from vcache_cli.items import Features, Kind, Stage
from vcache_cli.protocols import Target
from vcache_cli.recipe import EncoderRecipe, Recipe
from vcache_cli.targets import NativeLayout
from vcache_cli.targets.mlx_vlm import MlxVlmTarget
from vcache_cli.targets.mlx_vlm_layout import MlxVlmLayout, mlx_vlm_key
from vcache_cli.tensor import Tensor
from vcache_cli.testing import TargetTests

ROWS = np.arange(48, dtype=np.float32).reshape(4, 12)
ENCODER = EncoderRecipe("mlx-vlm", 1, "e" * 64, "projected", "F32", "BF16")
RECIPE = Recipe(
    stage=Stage.FEATURES,
    target="mlx-vlm",
    profile="mlx-vlm-0.7",
    profile_revision=1,
    family="qwen2_5_vl",
    family_revision=1,
    settings={},
    encoder=ENCODER,
)


def entry_of(name: str, tensors: dict[str, Tensor], known: Provenance | None = None) -> Entry:
    key = mlx_vlm_key(name, ENCODER.fingerprint)
    parts = {"processed": name, "encoder": ENCODER.fingerprint}
    return Entry(key, Stage.FEATURES, tensors, known or Provenance(), parts)


def entries() -> list[Entry]:
    """As a warm writes them, and as a server does; with one array, a list of one, of twelve."""
    tensor = Tensor.from_numpy(ROWS, "BF16")
    known = Provenance(digest_bytes(b"one"), RECIPE.as_json(), "model", Kind.IMAGE, 4)
    return [
        entry_of("processed:1", {"features": tensor}, known),
        entry_of("processed:-2", {"features.0": tensor}),
        entry_of("processed:3", {f"features.{index}": tensor for index in range(12)}),
    ]


class TestMlxVlm(TargetTests):
    @pytest.fixture
    def target(self) -> Target:
        return MlxVlmTarget()

    @pytest.fixture
    def entries(self) -> Sequence[Entry]:
        return entries()


def test_a_key_depends_on_the_picture_and_on_the_encoder() -> None:
    keys = {mlx_vlm_key(name, encoder) for name in ("a", "b") for encoder in ("c", "d")}
    assert len(keys) == 4


def test_no_file_of_it_is_taken_for_a_native_one() -> None:
    key = mlx_vlm_key("processed:1", "e" * 64)
    assert NativeLayout().key_of(MlxVlmLayout().path_of(key)) is None
    assert MlxVlmLayout().key_of(NativeLayout().path_of(key)) is None


@pytest.mark.parametrize(
    "names",
    [
        ("features", "features.0"),
        ("features.0", "features.2"),
        ("features.0", "features.00"),
        ("feature",),
        (),
    ],
)
def test_tensors_that_are_neither_one_nor_a_list_are_no_entry(names: tuple[str, ...]) -> None:
    tensor = Tensor.from_numpy(ROWS)
    with pytest.raises(InvalidEntryError):
        MlxVlmLayout().pack(entry_of("processed:1", dict.fromkeys(names, tensor)))


def test_an_entry_under_another_key_is_none() -> None:
    layout, entry = MlxVlmLayout(), entries()[0]
    with pytest.raises(InvalidEntryError):
        layout.pack(replace(entry, key="0" * 64))
    metadata, tensors = layout.pack(entry)
    with pytest.raises(InvalidEntryError):
        layout.unpack(layout.path_of("0" * 64), metadata, tensors)


def test_features_keep_the_shape_that_the_model_merges() -> None:
    made = MlxVlmTarget().tensors(RECIPE, Features({"features": ROWS[None]}))
    assert made["features"].shape == (1, 4, 12)
    assert made["features"].dtype == "BF16"


def test_a_list_of_arrays_stays_a_list_in_order() -> None:
    parts = {f"features.{index}": ROWS + index for index in range(11)}
    made = MlxVlmTarget().tensors(RECIPE, Features(parts))
    assert [made[f"features.{i}"].numpy()[0, 0] for i in range(11)] == list(range(11))


def test_pictures_of_a_request_stand_one_after_the_other() -> None:
    target, one = MlxVlmTarget(), Features({"features": ROWS})
    other = Features({"features": ROWS[:2]})
    assert target.group_tensors(RECIPE, [one, other])["features"].shape == (6, 12)
    listed = Features({"features.0": ROWS})
    assert set(target.group_tensors(RECIPE, [listed, listed])) == {"features.0", "features.1"}
    with pytest.raises(EncodeError, match="features of"):
        target.group_tensors(RECIPE, [one, Features({"features": ROWS[:, :3]})])


def test_options_of_other_targets_are_refused(tmp_path: object) -> None:
    with pytest.raises(UsageError, match="--model-name"):
        MlxVlmTarget().options({"model_name": "x"}, checkpoint=None)  # type: ignore[arg-type]
