"""The plug-in's own tests: vcache's kit, and the samples that it asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from flat_demo import FlatTarget

from vcache_cli.entry import Entry, Provenance
from vcache_cli.items import Features, Stage
from vcache_cli.protocols import Evidence, Target
from vcache_cli.recipe import EncoderRecipe, Recipe
from vcache_cli.tensor import Tensor
from vcache_cli.testing import WarmTargetTests

ROWS = np.ones((4, 8), np.float32)


class TestFlatTarget(WarmTargetTests):
    @pytest.fixture
    def target(self) -> Target:
        target: Target = FlatTarget()
        return target

    @pytest.fixture
    def entries(self) -> Sequence[Entry]:
        tensors = {"features": Tensor.from_numpy(ROWS, "BF16")}
        sources = ["0" * 64, "1" * 64]
        return [
            Entry(f"{source}-{'f' * 64}", Stage.FEATURES, tensors, Provenance(source))
            for source in sources
        ]

    @pytest.fixture
    def recipe(self) -> Recipe:
        return Recipe(
            stage=Stage.FEATURES,
            target="flat-demo",
            profile="transformers-pil-5",
            profile_revision=1,
            family="siglip",
            family_revision=1,
            settings={},
            encoder=EncoderRecipe("siglip", 1, "f" * 64, "hidden", "F32", "BF16"),
        )

    @pytest.fixture
    def evidence(self) -> Evidence:
        return Evidence("0" * 64)

    @pytest.fixture
    def value(self) -> Features:
        return Features({"features": ROWS})
