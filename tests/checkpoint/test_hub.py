"""Names resolve in the local Hugging Face cache, without network and without its library."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.checkpoint.hub import cache_folder, is_hub_name
from vcache_cli.errors import ModelError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def download(cache: Path, name: str = "org/model", *, commit: str = COMMIT) -> Path:
    """The layout that a download leaves; returns the snapshot's folder."""
    repository = cache / f"models--{name.replace('/', '--')}"
    blob = repository / "blobs" / "b1"
    folder = repository / "snapshots" / commit
    for path in (blob.parent, folder, repository / "refs"):
        path.mkdir(parents=True)
    blob.write_text('{"model_type": "siglip"}')
    (folder / "config.json").symlink_to(blob)
    (repository / "refs" / "main").write_text(commit)
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def test_a_downloaded_model_opens_by_its_name(hub: Path) -> None:
    folder = download(hub)
    found = open_checkpoint("org/model")
    assert (found.folder, found.label) == (folder, "org/model")
    assert found.config == {"model_type": "siglip"}


def test_a_folder_comes_before_a_name(hub: Path, tmp_path: Path) -> None:
    download(hub)
    mine = tmp_path / "org" / "model"
    mine.mkdir(parents=True)
    (mine / "config.json").write_text("{}")
    assert open_checkpoint("org/model").config == {}


def test_the_only_snapshot_serves_where_no_branch_is_recorded(hub: Path) -> None:
    folder = download(hub)
    (folder.parent.parent / "refs" / "main").unlink()
    assert open_checkpoint("org/model").folder == folder


def test_what_was_never_downloaded_says_where_it_was_looked_for(hub: Path) -> None:
    with pytest.raises(ModelError) as caught:
        open_checkpoint("org/model")
    assert str(hub / "models--org--model") in caught.value.message
    assert "hf download org/model" in caught.value.hint


@pytest.mark.parametrize("commit", ["../../../elsewhere", "", "main", COMMIT[::-1]])
def test_a_branch_that_leads_nowhere_is_refused(hub: Path, commit: str) -> None:
    folder = download(hub)
    (folder.parent.parent / "refs" / "main").write_text(commit)
    with pytest.raises(ModelError, match="expected a whole download"):
        open_checkpoint("org/model")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"XDG_CACHE_HOME": "", "HOME": "/d"}, "/d/.cache/huggingface/hub"),
    ],
)
def test_the_cache_is_where_the_hub_library_puts_it(
    settings: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert str(cache_folder()) == expected


@pytest.mark.parametrize("text", ["a--b", "a/..", "-x", "a/b/c", "~/x", "a b", ""])
def test_what_cannot_be_a_name_is_none(text: str) -> None:
    assert not is_hub_name(text)


@pytest.mark.parametrize("model", ["~/model", "org/name"])
def test_a_user_without_a_home_is_told_so(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    for name in ("HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
    with pytest.raises(ModelError, match="found no home directory"):
        open_checkpoint(model)
