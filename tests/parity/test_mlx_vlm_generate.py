"""The drop-in in mlx-vlm's own `generate`, as a library uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.parity.fixtures import Fixtures
from tests.parity.tiny_models import make_model
from vcache_cli import open_store, warm
from vcache_cli.assemble import WarmOptions
from vcache_cli.cli.app import run
from vcache_cli.errors import AccessError
from vcache_cli.integrations import mlx_vlm as integration
from vcache_cli.integrations.mlx_vlm import CacheCounts, PersistentVisionFeatureCache
from vcache_cli.store import DiskStore, StoreRoot

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:At least one mel filter"),  # of gemma4's audio, unused
]
pytest.importorskip("mlx_vlm")

FAMILIES = (
    *("qwen2_5_vl", "qwen3_5", "lfm2_vl", "gemma3", "gemma4", "idefics3", "smolvlm"),
    *("internvl_chat", "paligemma", "pixtral", "mistral3", "llava_next"),
)
"""Of them, only lfm2_vl fills mlx-vlm's own cache in `generate`."""
NAMES = ("exif-6.jpg", "mode-RGBA.png", "trns-rgb.png", "70x42.png", "777x333.png")


class Talk:
    """A loaded model that is asked about pictures."""

    def __init__(self, folder: Path) -> None:
        from mlx_vlm import load
        from mlx_vlm.prompt_utils import apply_chat_template

        self.model, self.processor = load(str(folder))
        self._prompt = apply_chat_template(
            self.processor, self.model.config, "what is it", num_images=1
        )

    def ask_once(self, pictures: list[Path], cache: PersistentVisionFeatureCache) -> str:
        """An answer about all pictures in one request."""
        from mlx_vlm import generate
        from mlx_vlm.prompt_utils import apply_chat_template

        prompt = apply_chat_template(
            self.processor, self.model.config, "what is it", num_images=len(pictures)
        )
        names = [str(picture) for picture in pictures]
        more: dict[str, Any] = {"image": names, "vision_cache": cache, "temperature": 0.0}
        answer: str = generate(self.model, self.processor, prompt, max_tokens=6, **more).text
        return answer

    def ask(self, pictures: list[Path], cache: PersistentVisionFeatureCache | None) -> list[str]:
        """An answer about each picture."""
        from mlx_vlm import generate

        more: dict[str, Any] = {"vision_cache": cache} if cache is not None else {}
        return [
            generate(
                self.model,
                self.processor,
                self._prompt,
                image=[str(picture)],
                max_tokens=6,
                temperature=0.0,
                **more,
            ).text
            for picture in pictures
        ]


@pytest.fixture
def pictures(fixtures: Fixtures) -> list[Path]:
    return [fixtures.files[name] for name in NAMES]


@pytest.mark.parametrize("family", FAMILIES)
def test_generate_hits_what_was_warmed_and_what_it_kept_itself(
    family: str, pictures: list[Path], tmp_path: Path
) -> None:
    folder, asked = make_model(tmp_path / "model", family), len(pictures)
    talk = Talk(folder)
    plain = talk.ask(pictures, None)

    with PersistentVisionFeatureCache(tmp_path / "kept", talk.model) as cache:
        cache.attach()
        assert talk.ask(pictures, cache) == plain
        assert cache.counts == CacheCounts(misses=asked, puts=cache.counts.puts)
        assert talk.ask(pictures, cache) == plain
        assert cache.counts.memory_hits == asked
        assert len(cache) == asked
    assert cache.counts.puts == asked
    assert cache.counts.hit_rate == 0.5

    sources = [str(path) for path in pictures]
    options = WarmOptions(target="mlx-vlm")
    list(warm(sources, store=tmp_path / "warmed", model=folder, options=options))
    assert _keys(tmp_path / "kept") == _keys(tmp_path / "warmed")

    for store in ("kept", "warmed"):
        fresh = Talk(folder)
        with PersistentVisionFeatureCache(tmp_path / store, fresh.model) as cache:
            assert fresh.ask(pictures, cache) == plain
            assert cache.counts == CacheCounts(store_hits=asked)


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_5", "gemma3", "gemma4"])
def test_a_request_of_several_pictures_hits_what_was_warmed_as_one(
    family: str, pictures: list[Path], tmp_path: Path
) -> None:
    folder = make_model(tmp_path / "model", family)
    requests = [pictures[:2], pictures[1::-1], pictures[2:]]
    named = tmp_path / "requests.jsonl"
    named.write_text("".join(f"{json.dumps([*map(str, each)])}\n" for each in requests))
    talk = Talk(folder)
    with PersistentVisionFeatureCache(tmp_path / "kept", talk.model) as cache:
        cache.attach()
        cold = [talk.ask_once(each, cache) for each in requests]

    store = tmp_path / "warmed"
    told = ["--model", str(folder), "--store", str(store), "--target", "mlx-vlm", "--quiet"]
    assert run(["warm", "--groups", str(named), *told]) == 0
    assert _keys(store) == _keys(tmp_path / "kept")
    with PersistentVisionFeatureCache(open_store(store), talk.model) as cache:
        assert [talk.ask_once(each, cache) for each in requests] == cold
        assert cache.counts == CacheCounts(store_hits=len(requests))


def _keys(store: Path) -> set[str]:
    return {path.name for path in store.glob("??/*.safetensors")}


def test_another_model_finds_nothing_in_the_store(pictures: list[Path], tmp_path: Path) -> None:
    import mlx.core as mx

    talk = Talk(make_model(tmp_path / "model", "qwen2_5_vl"))
    with PersistentVisionFeatureCache(tmp_path / "store", talk.model) as cache:
        cache.attach()
        talk.ask(pictures, cache)
    tower = talk.model.vision_tower
    tower.merger.mlp[0].weight = tower.merger.mlp[0].weight * mx.array(1.5)
    with PersistentVisionFeatureCache(tmp_path / "store", talk.model) as cache:
        talk.ask(pictures, cache)
        assert cache.counts.misses == len(pictures)


def test_what_names_no_content_is_never_written(tmp_path: Path) -> None:
    import mlx.core as mx

    talk = Talk(make_model(tmp_path / "model", "qwen2_5_vl"))
    with PersistentVisionFeatureCache(tmp_path / "store", talk.model) as cache:
        cache.put("/some/picture.png", mx.zeros((2, 3)))
        cache.put(["a", "b"], mx.zeros((2, 3)))
        assert "/some/picture.png" in cache
        assert "a|b" in cache
        assert cache.get("/another.png") is None
        cache.clear()
        assert "/some/picture.png" not in cache
    assert not _keys(tmp_path / "store")


def test_a_store_that_is_open_for_reading_is_not_written(tmp_path: Path) -> None:
    import mlx.core as mx

    talk = Talk(make_model(tmp_path / "model", "qwen2_5_vl"))
    with PersistentVisionFeatureCache(tmp_path / "store", talk.model) as cache:
        cache.put("processed:1", mx.ones((2, 3), mx.bfloat16))
    with PersistentVisionFeatureCache(open_store(tmp_path / "store"), talk.model) as cache:
        cache.put("processed:2", [mx.ones((2, 3)), mx.ones((1, 3))])
        assert len(cache.get("processed:2")) == 2
        kept = cache.get("processed:1")
        assert kept.dtype == mx.bfloat16
        assert kept.shape == (2, 3)
    assert len(_keys(tmp_path / "store")) == 1


def test_a_folder_that_may_not_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlx.core as mx

    class ReadOnly(DiskStore):
        """As on a mount that is read-only: there root may not write either."""

        def __init__(self, root: StoreRoot, *, mode: Literal["r", "w"] = "r") -> None:
            if mode == "w":
                raise AccessError(f"{root.path}: Read-only file system")
            super().__init__(root)

    talk = Talk(make_model(tmp_path / "model", "qwen2_5_vl"))
    with PersistentVisionFeatureCache(tmp_path / "store", talk.model) as cache:
        cache.put("processed:1", mx.ones((2, 3)))
    monkeypatch.setattr(integration, "DiskStore", ReadOnly)
    with PersistentVisionFeatureCache(tmp_path / "store", talk.model) as cache:
        assert cache.get("processed:1").shape == (2, 3)
        cache.put("processed:2", mx.ones((2, 3)))
    assert len(_keys(tmp_path / "store")) == 1


@pytest.mark.parametrize("odd", [None, [None], "text", [[1]]])
def test_what_are_no_features_is_never_written_and_raises_nothing(
    tmp_path: Path, odd: object
) -> None:
    with PersistentVisionFeatureCache(tmp_path / "store") as cache:
        cache.bind(Talk(make_model(tmp_path / "model", "qwen2_5_vl")).model)
        cache.put("processed:1", odd)
        assert cache.counts.failed_puts == 1
    assert not _keys(tmp_path / "store")


def test_a_model_of_which_no_fingerprint_can_be_made_is_cached_in_memory(tmp_path: Path) -> None:
    import mlx.core as mx

    with PersistentVisionFeatureCache(tmp_path / "store", object()) as cache:
        cache.attach()
        cache.put("processed:1", mx.ones((2, 3)))
        assert cache.get("processed:1").shape == (2, 3)
        assert cache.get("processed:2") is None
    assert not _keys(tmp_path / "store")
