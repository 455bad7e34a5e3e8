"""Lines that strangers wrote: whatever they hold, a log gives items, and reads nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.media.containers import chat, log, uri
from vcache_cli.errors import ItemError, NothingToDoError
from vcache_cli.items import MediaItem
from vcache_cli.media import LogRules, read_item, sources

URLS = st.sampled_from(
    ["data:image/png;base64,QUJD", "data:;base64,", "data:,x", "http://[", "https://\ud800/a",
     "file://[", "file:///%00", "\ud800", "~/a", "a/../../b", "//host/a", "\\\\host\\a", "-", "CON",
     "http://\r\nHost: a/", "x" * 5000]
)  # fmt: skip
NAMES = st.sampled_from(
    ["type", "content", "image_url", "url", "source", "data", "image", "messages", "input",
     "output", "body", "request", "params"]
)  # fmt: skip
TYPES = st.sampled_from(["image_url", "input_image", "image", "base64", "url", "tool_result"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | URLS | TYPES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)


def read_all(path: Path) -> list[bytes]:
    rules = LogRules(groups="also", allow_http=False)
    found = sources([str(path)], rules=rules).items()
    read = []
    for item in found:
        assert item.source
        if isinstance(item, MediaItem) and not item.trouble:
            try:
                read.append(read_item(item, max_bytes=1 << 20))
            except ItemError as error:
                assert error.item_kind  # noqa: PT017  any failure of an item will do
    return read


@given(values=st.lists(VALUES, min_size=1, max_size=4))
def test_no_line_raises_or_reads_elsewhere(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    requests = [{"messages": [{"content": values}]}, {"input": values}, *values]
    for data in read_all(log(folder / "l.jsonl", requests)):
        assert data in {b"ABC", b""}


@given(data=st.binary(min_size=1, max_size=300))
def test_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "l.jsonl"
    path.write_bytes(data)
    try:
        assert read_all(path) == []
    except NothingToDoError:
        assert not data.strip()  # empty lines are none


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"messages":' * 50_000,
        '{"messages": ' + "9" * 5000 + "}",
        '{"input": [' + '{"content": [' * 600 + "]}" * 600 + "]}",
        '"' + '{\\"body\\": ' * 9 + '"',
    ],
)
def test_depth_and_digits_are_one_warning_and_the_rest_goes_on(tmp_path: Path, line: str) -> None:
    assert read_all(log(tmp_path / "l.jsonl", [line, chat(uri(b"ABC"))])) == [b"ABC"]


def test_more_pictures_than_a_request_may_have_are_one_warning(tmp_path: Path) -> None:
    path = log(tmp_path / "l.jsonl", [chat(*[uri(b"A")] * 4097), chat(uri(b"B"))])
    items = list(sources([str(path)]).items())
    assert len(items) == 2
    assert read_all(path) == [b"B"]


def test_a_body_inside_texts_is_unwrapped_so_often_and_no_further(tmp_path: Path) -> None:
    body: object = chat(uri(b"ABC"))
    for _ in range(3):
        body = {"body": json.dumps(body)}
    assert read_all(log(tmp_path / "l.jsonl", [body])) == [b"ABC"]
    for _ in range(3):
        body = {"body": json.dumps(body)}
    assert read_all(log(tmp_path / "l.jsonl", [body])) == []
