"""Every target of ours passes the kit that plug-ins pass, and none claims another's files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.items import Features, Frames, Kind, Pixels, Stage
from vcache_cli.levels import LevelTensor
from vcache_cli.protocols import Evidence, Target
from vcache_cli.recipe import EncoderRecipe, Recipe
from vcache_cli.targets import NativeTarget, OmlxTarget, VllmEcTarget, native_key
from vcache_cli.tensor import Tensor
from vcache_cli.testing import (
    ExaminerTests,
    ExclusiveTests,
    GroupTargetTests,
    OwnDirectoryTests,
    WarmTargetTests,
)

ROWS = np.arange(32, dtype=np.float32).reshape(4, 8)
FEATURES = Recipe(
    stage=Stage.FEATURES,
    target="native",
    profile="transformers-pil-5",
    profile_revision=1,
    family="siglip",
    family_revision=1,
    settings={"size": 224},
    encoder=EncoderRecipe("siglip", 1, "f" * 64, "hidden", "F32", "BF16"),
)
PIXELS = replace(FEATURES, stage=Stage.PIXELS, encoder=None)


def native_entries() -> list[Entry]:
    """One that says everything, one that says the least, levels, one without elements."""
    tensor = Tensor.from_numpy(ROWS, "BF16")
    table = Tensor("F32", (2, 256), bytes(range(256)) * 8)
    levels = LevelTensor(Tensor("U8", (4, 8), bytes(range(32))), table, axis=1, stride=2)
    known = Provenance(
        digest_bytes(b"one"),
        FEATURES.as_json(),
        "a-model",
        Kind.IMAGE,
        4,
        "2026-01-02T03:04:05Z",
        {"pillow": "11.3"},
    )
    least = Provenance(digest_bytes(b"two"), {})
    return [
        native_entry(Stage.FEATURES, known, {"features": tensor, "pooled": tensor}),
        native_entry(Stage.PIXELS, least, {"pixel_values": Tensor.from_numpy(ROWS)}),
        native_entry(Stage.PIXELS, known, {"pixel_values": levels}),
        native_entry(Stage.FEATURES, least, {"features": Tensor("F32", (0, 8), b"")}),
    ]


def native_entry(stage: Stage, known: Provenance, tensors: dict[str, Tensor]) -> Entry:
    assert known.source_sha256
    key = native_key(stage, known.source_sha256, digest_json(known.recipe))
    return Entry(key, stage, tensors, known)


def omlx_entries() -> list[Entry]:
    """As the server writes them, with a grid, as a list of arrays, and with what vcache adds."""
    tensor = Tensor.from_numpy(ROWS, "BF16")
    known = Provenance(digest_bytes(b"one"), {"stage": "features"}, None, Kind.IMAGE, 4)
    return [
        omlx_entry("a", {"feature": tensor}),
        omlx_entry("b", {"feature": tensor}, grid_thw="[1,4,4]"),
        omlx_entry("c", {"feature_0": tensor, "feature_1": tensor}),
        replace(omlx_entry("d", {"feature": tensor}), provenance=known),
    ]


def omlx_entry(image: str, tensors: dict[str, Tensor], **more: str) -> Entry:
    model_name, image_hash = "/models/Qwen3.5-4bit", hashlib.sha256(image.encode()).hexdigest()
    key = hashlib.sha256(f"{model_name}:{image_hash}".encode()).hexdigest()
    metadata = {"model_name": model_name, "image_hash": image_hash, "created_at": "1.5", **more}
    return Entry(key, Stage.FEATURES, tensors, metadata=metadata)


def vllm_ec_entries() -> list[Entry]:
    """By a digest, a UUID, and a client's own text."""
    tensors = {"ec_cache": Tensor.from_numpy(ROWS, "BF16")}
    ids = ["ab" * 32, "01234567-89ab-cdef-0123-456789abcdef", "page 1 of caf\u00e9.pdf"]
    return [Entry(key, Stage.FEATURES, tensors) for key in ids]


def evidence_of_a_picture() -> Evidence:
    picture = Frames(np.zeros((1, 4, 8, 3), np.uint8))
    grid = np.array([1, 4, 4], np.int64)
    pixels = Pixels({"pixel_values": ROWS, "image_grid_thw": grid}, 4)
    return Evidence(digest_bytes(b"picture"), picture, pixels)


class TestNative(WarmTargetTests):
    @pytest.fixture
    def target(self) -> Target:
        return NativeTarget()

    @pytest.fixture
    def entries(self) -> Sequence[Entry]:
        return native_entries()

    @pytest.fixture(params=[FEATURES, PIXELS], ids=["features", "pixels"])
    def recipe(self, request: pytest.FixtureRequest) -> Recipe:
        recipe: Recipe = request.param
        return recipe

    @pytest.fixture
    def evidence(self) -> Evidence:
        return evidence_of_a_picture()

    @pytest.fixture
    def value(self, recipe: Recipe) -> Pixels | Features:
        if recipe.stage is Stage.PIXELS:
            return Pixels({"pixel_values": ROWS, "image_grid_thw": np.array([[1, 2, 2]])}, 4)
        return Features({"features": ROWS, "pooled": ROWS[0]})


class TestOmlx(GroupTargetTests, ExaminerTests):
    @pytest.fixture
    def target(self) -> Target:
        return OmlxTarget()

    @pytest.fixture(params=["qwen2_5_vl", "llava"])
    def recipe(self, request: pytest.FixtureRequest) -> Recipe:
        options = {"model_name": "/models/one", "max_side": 2048}
        return replace(FEATURES, target="omlx", family=request.param, target_options=options)

    @pytest.fixture
    def evidence(self) -> Evidence:
        return evidence_of_a_picture()

    @pytest.fixture
    def value(self) -> Features:
        return Features({"features": ROWS})

    @pytest.fixture
    def entries(self) -> Sequence[Entry]:
        return omlx_entries()


class TestVllmEc(ExclusiveTests, OwnDirectoryTests):
    @pytest.fixture
    def target(self) -> Target:
        return VllmEcTarget()

    @pytest.fixture
    def recipe(self) -> Recipe:
        return replace(FEATURES, target="vllm-ec")

    @pytest.fixture
    def evidence(self) -> Evidence:
        return evidence_of_a_picture()

    @pytest.fixture
    def value(self) -> Features:
        return Features({"features": ROWS, "deepstack_0": ROWS, "deepstack_1": ROWS})

    @pytest.fixture
    def entries(self) -> Sequence[Entry]:
        return vllm_ec_entries()


def test_no_target_claims_a_file_of_another() -> None:
    """A directory that vcache never wrote is recognised by its files alone."""
    samples: list[tuple[Target, list[Entry]]] = [
        (NativeTarget(), native_entries()),
        (OmlxTarget(), omlx_entries()),
        (VllmEcTarget(), vllm_ec_entries()),
    ]
    for target, entries in samples:
        paths = [target.layout.path_of(entry.key) for entry in entries]
        others = [each.layout for each, _ in samples if each.name != target.name]
        assert [other.key_of(path) for other in others for path in paths] == [None] * len(
            others
        ) * len(paths)
