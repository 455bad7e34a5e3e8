"""`--download` fetches what a warm needs of a model, and never more, and never unasked."""

from __future__ import annotations

import json
import shutil
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

from samples.make_tiny_checkpoints import make_checkpoint
from vcache_cli.assemble import WarmOptions, load_recipe
from vcache_cli.errors import ModelError
from vcache_cli.items import Stage

NAME = "acme/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """One model on a hub of our own, and what was asked of it."""

    def __init__(self, remote: Path, cache: Path) -> None:
        self.remote = remote
        self.folder = cache / "models--acme--tiny"
        self.asked: list[list[str]] = []

    def snapshot_download(self, name: str, *, allow_patterns: list[str]) -> str:
        if name != NAME:
            raise OSError("404")
        self.asked.append(allow_patterns)
        snapshot = self.folder / "snapshots" / COMMIT
        snapshot.mkdir(parents=True, exist_ok=True)
        (self.folder / "refs").mkdir(exist_ok=True)
        (self.folder / "refs/main").write_text(COMMIT)
        for path in self.remote.iterdir():
            if any(fnmatch(path.name, pattern) for pattern in allow_patterns):
                shutil.copy(path, snapshot)
        return str(snapshot)

    @property
    def there(self) -> set[str]:
        return {path.name for path in (self.folder / "snapshots" / COMMIT).iterdir()}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """In place of the library: a model in four files, the text part in one more."""
    remote = make_checkpoint(tmp_path / "remote", shards=4)
    index = remote / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["language_model.weight"] = "model-text.safetensors"
    index.write_text(json.dumps(content))
    (remote / "model-text.safetensors").write_bytes(b"large")
    made = Hub(remote, tmp_path / "cache")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    library, errors = ModuleType("huggingface_hub"), ModuleType("huggingface_hub.errors")
    library.snapshot_download = made.snapshot_download  # type: ignore[attr-defined]
    errors.HTTPError = ConnectionError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    return made


def test_only_the_files_that_the_vision_part_needs_are_fetched(hub: Hub) -> None:
    assert load_recipe(NAME, WarmOptions(download=True)).encoder
    assert "model-text.safetensors" not in hub.there
    assert sum(name.startswith("model-") for name in hub.there) == 4


def test_pixels_need_no_weights(hub: Hub) -> None:
    load_recipe(NAME, WarmOptions(download=True, stage=Stage.PIXELS))
    assert hub.asked == [["*.json"]]


def test_one_file_of_weights_is_fetched_by_its_usual_name(hub: Hub) -> None:
    shutil.rmtree(hub.remote)
    make_checkpoint(hub.remote)
    assert load_recipe(NAME, WarmOptions(download=True)).encoder
    assert hub.asked[1:] == [["model.safetensors"]]


def test_nothing_is_fetched_unasked(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="in the local Hugging Face cache"):
        load_recipe(NAME)
    load_recipe(make_checkpoint(tmp_path / "here"), WarmOptions(download=True))
    assert hub.asked == []


def test_a_download_that_fails_says_why(hub: Hub) -> None:
    with pytest.raises(ModelError, match="`acme/other`: cannot be downloaded: 404") as caught:
        load_recipe("acme/other", WarmOptions(download=True))
    assert caught.value.exit_code == 15


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelError) as caught:
        load_recipe(NAME, WarmOptions(download=True))
    assert "`vcache-cli[hub]`" in caught.value.hint
