"""The number of a token is found in whichever file of a tokenizer names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vcache_cli.checkpoint.tokens import token_number
from vcache_cli.errors import ModelError

MARK = "<IMG_CONTEXT>"
FILES: dict[str, Any] = {
    "tokenizer.json": {
        "added_tokens": [3, {"content": "<img>", "id": 4}, {"content": MARK, "id": 5}]
    },
    "tokenizer_config.json": {"added_tokens_decoder": {"x": {}, "4": {}, "5": {"content": MARK}}},
    "added_tokens.json": {MARK: 5},
}


@pytest.mark.parametrize("name", FILES)
def test_any_of_the_files_may_name_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(json.dumps(FILES[name]))
    assert token_number(tmp_path, MARK) == 5
    assert token_number(tmp_path, "<other>") is None


def test_the_vocabulary_is_asked_last(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"model": {"vocab": {MARK: 7}}}))
    assert token_number(tmp_path, MARK) == 7
    file.write_text(json.dumps({"model": {"vocab": {MARK: 7}}, **FILES["tokenizer.json"]}))
    assert token_number(tmp_path, MARK) == 5


@pytest.mark.parametrize(
    "content",
    [{}, {"added_tokens": 3}, {"added_tokens": [{"content": MARK, "id": "5"}]}, {"model": [MARK]}],
)
def test_what_names_no_number_is_passed_over(tmp_path: Path, content: object) -> None:
    assert token_number(tmp_path, MARK) is None
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert token_number(tmp_path, MARK) is None


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("version https://git-lfs")
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        token_number(tmp_path, MARK)
