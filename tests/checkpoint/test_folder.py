"""A model folder opens by its JSON, and says what it lacks."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.errors import ModelError


def folder_with(folder: Path, **files: object) -> Path:
    """A model folder with these JSON files; a double underscore in a name stands for ``.``."""
    folder.mkdir()
    for name, value in files.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / f"{name}.json").write_text(text)
    return folder


def test_opening_reads_json_only(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "m", config={"a": 1}, preprocessor_config={"b": 2})
    found = open_checkpoint(str(folder))
    assert (found.folder, found.label) == (folder, "m")
    assert (found.config, found.preprocessor, found.processor) == ({"a": 1}, {"b": 2}, {})


def test_the_image_processor_can_be_a_part_of_the_processor(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path / "m", config={}, processor_config={"image_processor": {"b": 2}, "c": 3}
    )
    found = open_checkpoint(str(folder))
    assert found.preprocessor == {"b": 2}
    assert found.processor["c"] == 3


def test_a_file_of_its_own_comes_before_the_part(tmp_path: Path) -> None:
    processor = {"image_processor": {"b": 2}}
    folder = folder_with(
        tmp_path / "m", config={}, processor_config=processor, preprocessor_config={"b": 1}
    )
    assert open_checkpoint(str(folder)).preprocessor == {"b": 1}


@pytest.mark.parametrize("home", ["~/m", "."])
def test_a_folder_has_a_label_however_it_is_spelt(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(folder_with(tmp_path / "m", config={}))
    assert open_checkpoint(home).label == "m"


def test_tensors_read_as_the_reference_reader_reads_them(tiny_siglip: Path) -> None:
    checkpoint = open_checkpoint(str(tiny_siglip))
    expected = load_file(tiny_siglip / "model.safetensors")
    assert set(checkpoint.tensors) == set(expected)
    for name, array in expected.items():
        assert np.array_equal(checkpoint.read(name).numpy(), array)


def test_a_checkpoint_crosses_processes(tiny_siglip: Path) -> None:
    copy = pickle.loads(pickle.dumps(open_checkpoint(str(tiny_siglip))))  # noqa: S301  our own
    assert copy.read("logit_bias").numpy() == [-10]


def refusal(model: str | Path) -> str:
    """Message and hint of the error."""
    with pytest.raises(ModelError) as caught:
        open_checkpoint(str(model))
    assert caught.value.exit_code == 15
    return f"{caught.value.message} | {caught.value.hint}"


@pytest.mark.parametrize("model", ["", "./nowhere", "/no/such/folder", "a/b/c", "x" * 5000])
def test_no_folder_is_said_so(model: str) -> None:
    assert "expected a model folder, found nothing there" in refusal(model)


def test_a_file_in_place_of_a_folder_names_the_folder(tiny_siglip: Path) -> None:
    text = refusal(tiny_siglip / "config.json")
    assert "found a file" in text
    assert f"`{tiny_siglip}`" in text


def test_a_folder_without_config_is_no_model(tmp_path: Path) -> None:
    assert "found no config.json" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "an empty file"),
        ("{", "found '{'"),
        ("[1]", "found list"),
        ("version https://git-lfs", "Git LFS"),
        ("[" * 100_000, "expected JSON"),
    ],
)
def test_malformed_json_is_named_and_shown(text: str, found: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "m", config={}, preprocessor_config=text)
    told = refusal(folder)
    assert str(folder / "preprocessor_config.json") in told
    assert found in told


def test_a_config_that_is_a_folder_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    assert "cannot be read" in refusal(tmp_path)


def test_a_tensor_that_is_not_there_is_named(tiny_siglip: Path) -> None:
    with pytest.raises(ModelError, match="expected a tensor `nope`"):
        open_checkpoint(str(tiny_siglip)).read("nope")


def test_a_dtype_that_is_not_ours_fails_only_when_it_is_read(tmp_path: Path) -> None:
    """A quantised language model around a plain vision tower is no obstacle."""
    folder = folder_with(tmp_path / "m", config={})
    save_file({"a": np.zeros(4, np.float32)}, folder / "model.safetensors")
    raw = (folder / "model.safetensors").read_bytes().replace(b'"F32"', b'"F4x"')
    (folder / "model.safetensors").write_bytes(raw)
    checkpoint = open_checkpoint(str(folder))
    assert checkpoint.tensors["a"].dtype == "F4x"
    with pytest.raises(ModelError, match="found F4x"):
        checkpoint.read("a")
