"""vLLM's own connector finds what we warm, and we read what it saves.

Skipped where vLLM is not installed; its Python sources on `PYTHONPATH`, with what they import,
are enough (tried with 0.33). Its connector, its configuration class and what hashes a
request's pictures are the package's own; the engine around them is not started.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from samples.make_tiny_qwen import DEEPSTACK, TEXT_CHANNELS, make_checkpoint

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("vllm", reason="vLLM is not installed", exc_type=ImportError)

with warnings.catch_warnings():  # torch's own, of what vLLM takes from it
    warnings.simplefilter("ignore", DeprecationWarning)
    from vllm import platforms
    from vllm.config import ECTransferConfig
    from vllm.distributed.ec_transfer.ec_connector.base import ECConnectorRole
    from vllm.distributed.ec_transfer.ec_connector.factory import ECConnectorFactory
    from vllm.multimodal.parse import ImageProcessorItems, MultiModalDataItems
    from vllm.multimodal.processing.inputs import ProcessorInputs
    from vllm.platforms.cpu import CpuPlatform

import vcache_cli as vcache  # noqa: E402
from vcache_cli.assemble import WarmOptions, load_recipe  # noqa: E402
from vcache_cli.media import PillowDecoder  # noqa: E402
from vcache_cli.outcome import Status  # noqa: E402

pytestmark = pytest.mark.parity_torch

OPTIONS = WarmOptions(target="vllm-ec")
WIDTHS = {"qwen2_5_vl": TEXT_CHANNELS, "qwen3_vl": TEXT_CHANNELS * (1 + len(DEEPSTACK))}
LIMIT = 1e-2
"""Largest difference, relative to the largest value: what bfloat16 on disk costs."""


def connectors(root: Path, role: str) -> tuple[Any, Any]:
    """As a scheduler and as a worker have it, by the server's own flag."""
    flag = {
        "ec_connector": "ECExampleConnector",
        "ec_role": role,
        "ec_connector_extra_config": {"shared_storage_path": str(root)},
    }
    config = SimpleNamespace(
        ec_transfer_config=ECTransferConfig(**json.loads(json.dumps(flag))), model_config=None
    )
    return (
        ECConnectorFactory.create_connector(config, ECConnectorRole.SCHEDULER),
        ECConnectorFactory.create_connector(config, ECConnectorRole.WORKER),
    )


def loaded_by(scheduler: Any, worker: Any, ids: Sequence[str]) -> dict[str, Any]:  # noqa: ANN401
    """What a request with pictures of these ids finds in the encoder cache before it is run."""
    features = [SimpleNamespace(identifier=each) for each in ids]
    request = SimpleNamespace(mm_features=features, get_num_encoder_embeds=lambda _index: 1)
    for index in range(len(ids)):
        scheduler.update_state_after_alloc(request, index)
    worker.bind_connector_metadata(scheduler.build_connector_meta(None))
    cache: dict[str, Any] = {}
    worker.start_load_caches(cache)
    return cache


def hashed(uuid: str, **options: object) -> str:
    """What the server calls a picture whose content part has that `uuid`."""
    items = MultiModalDataItems({"image": ImageProcessorItems([Image.new("RGB", (8, 8))])})
    inputs = ProcessorInputs([1], items, {"image": [uuid]}, hf_processor_mm_kwargs=options)
    (found,) = inputs.get_mm_hashes("a-model", "blake3")["image"]
    return str(found)


@pytest.fixture(autouse=True)
def _on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "_current_platform", CpuPlatform())


@pytest.mark.parametrize("family", WIDTHS)
def test_the_connector_loads_what_was_warmed(tmp_path: Path, media: Path, family: str) -> None:
    model, root = make_checkpoint(tmp_path / family, family=family), tmp_path / "ec"
    pictures = [str(media / "hills.jpg"), str(media / "chart.png")]
    outcomes = list(vcache.warm(pictures, store=root, model=model, options=OPTIONS))
    assert [each.status for each in outcomes] == [Status.STORED] * 2
    scheduler, worker = connectors(root, "ec_consumer")
    ids = [hashed(str(each.key)) for each in outcomes]
    assert ids == [each.key for each in outcomes]
    assert all(scheduler.has_cache_item(each) for each in ids)
    cache = loaded_by(scheduler, worker, [*ids, "0" * 64])
    assert sorted(cache) == sorted(ids)
    recipe = load_recipe(model, OPTIONS)
    assert recipe.encoder
    assert recipe.encoder.device["backend"] == "torch"
    for outcome in outcomes:
        (item,) = outcome.item.files
        frames = PillowDecoder(recipe.profile).decode(Path(item.path).read_bytes())
        features = recipe.encoder.encode([recipe.preprocessor(frames)])[0]
        found = cache[str(outcome.key)]
        assert (found.dtype, tuple(found.shape)) == (
            torch.bfloat16,
            (features.num_tokens, WIDTHS[family]),
        )
        deep = [f"deepstack_{number}" for number in range(len(features.tensors) - 1)]
        parts = [torch.from_numpy(features.tensors[name]) for name in ("features", *deep)]
        wanted = torch.cat(parts, 1)
        assert (found.float() - wanted).abs().max() <= LIMIT * wanted.abs().max()
        print(f"{family}: {found.dtype} {tuple(found.shape)} by {type(worker).__name__}")


def test_an_id_is_another_once_a_request_has_options() -> None:
    """Then the server hashes it together with them, and a warmed entry is not found."""
    assert hashed("ab" * 32) == "ab" * 32
    assert hashed("ab" * 32, max_pixels=12_544) != "ab" * 32


def test_what_the_connector_saves_is_an_entry(tmp_path: Path) -> None:
    _, worker = connectors(tmp_path, "ec_both")
    saved = torch.arange(24, dtype=torch.bfloat16).reshape(3, 8)
    worker.save_caches({"ab" * 32: saved}, "ab" * 32)
    with vcache.open_store(tmp_path) as store:
        entry = store.get("ab" * 32)
    assert entry is not None
    assert entry.numpy("ec_cache").tolist() == saved.float().tolist()
