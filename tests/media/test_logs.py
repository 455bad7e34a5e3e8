"""A request log gives every picture that a server was sent, and each request as a group."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.media.containers import (
    chat,
    clip_uri,
    filmed_chat,
    filmed_messages,
    filmed_responses,
    log,
    messages,
    responses,
    uri,
)
from vcache_cli.errors import MediaError, ReadError, UsageError
from vcache_cli.items import FileStat, Group, MediaItem, WarmItem
from vcache_cli.media import GroupFile, LogRules, logs, read_if, read_item, sources
from vcache_cli.media.clip_source import open_source
from vcache_cli.media.fetch import UrlPart
from vcache_cli.pipeline.clips import ClipReader

ONE, TWO, THREE = (b"\x89PNG picture " + bytes([n]) * (100 + n) for n in (1, 2, 255))
CLIP = b"\0\0\0\x18ftypisom" + bytes(range(200))
ALSO = LogRules(groups="also")


def given_by(path: Path, rules: LogRules = ALSO) -> list[WarmItem]:
    return list(sources([str(path)], rules=rules).items())


def pictures(found: Sequence[WarmItem]) -> list[MediaItem]:
    return [each for each in found if isinstance(each, MediaItem)]


def contents(found: Sequence[WarmItem]) -> list[bytes]:
    """Of the items that can be read."""
    return [read_item(each, max_bytes=1 << 20) for each in pictures(found) if not each.trouble]


def kinds(found: Sequence[WarmItem]) -> list[str]:
    return [each.trouble.kind for each in pictures(found) if each.trouble]


BODIES = {
    "chat": chat(uri(ONE), uri(TWO)),
    "responses": responses(uri(ONE), uri(TWO)),
    "messages": messages(ONE, TWO),
    "chat with a text for a URL": {
        "messages": [{"content": [{"type": "image_url", "image_url": uri(ONE)}]},
                     {"content": [{"type": "image", "image": uri(TWO)}]}]
    },
    "tool results of messages": {
        "messages": [
            {"role": "user", "content": [
                {"type": "tool_result", "content": messages(ONE, TWO)["messages"][0]["content"]}
            ]}
        ]
    },
    "tool results of responses": {
        "input": [{"type": "function_call_output",
                   "output": responses(uri(ONE), uri(TWO))["input"][0]["content"]}]
    },
}  # fmt: skip
WRAPPERS: dict[str, Callable[[object], object]] = {
    "bare": lambda body: body,
    "batch": lambda body: {"custom_id": "a", "method": "POST", "url": "/v1", "body": body},
    "anthropic batch": lambda body: {"custom_id": "a", "params": body},
    "request": lambda body: {"time": 1, "request": body, "response": {"choices": []}},
    "body as text": lambda body: {"request": {"headers": {}, "body": json.dumps(body)}},
}


@pytest.mark.parametrize("wrapped", sorted(WRAPPERS))
@pytest.mark.parametrize("form", sorted(BODIES))
def test_every_form_gives_its_pictures_in_order(tmp_path: Path, form: str, wrapped: str) -> None:
    path = log(tmp_path / "l.jsonl", [WRAPPERS[wrapped](BODIES[form])])
    found = given_by(path)
    assert contents(found) == [ONE, TWO]
    (group,) = [each for each in found if isinstance(each, Group)]
    assert list(group.items) == pictures(found)
    assert pictures(found)[1].source == f"{path}::line 1 image 2"
    assert all(item.explicit for item in pictures(found))


@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text.replace("/", "\\/"),
        lambda text: text.replace("+", "\\u002b").replace("/", "\\/"),
        lambda text: text.replace("data:", "\\u0064ata:").replace("A", "\\u0041"),
    ],
    ids=["slashes", "plus", "letters"],
)
@pytest.mark.parametrize("body", [chat(uri(ONE), uri(THREE)), messages(ONE, THREE)])
def test_bytes_are_found_however_json_spells_them(
    tmp_path: Path, spell: Callable[[str], str], body: object
) -> None:
    head, found, tail = json.dumps(body).partition("content")
    line = head + found + spell(tail).replace("im\\u0041ge", "image")
    assert json.loads(line) == body
    assert contents(given_by(log(tmp_path / "l.jsonl", [line]))) == [ONE, THREE]


@given(data=st.binary(min_size=1, max_size=600), before=st.text(max_size=40))
def test_an_item_reads_the_bytes_that_were_sent(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, before: str
) -> None:
    path = tmp_path_factory.mktemp("log") / "l.jsonl"
    log(path, [{"messages": [], "note": before}, chat(uri(data), uri(data + b"2"))])
    found = [item for item in pictures(given_by(path)) if not item.trouble]
    assert contents(found) == [data, data + b"2"]
    heads: list[bytes] = []
    assert read_if(found[0], heads.append) is None
    assert heads == [data[:64]]


def test_a_line_that_is_no_request_is_told_by_its_number_and_the_rest_goes_on(
    tmp_path: Path,
) -> None:
    lines = ["{not json", "", json.dumps({"a": 1}), json.dumps(chat("id-less"))[:-1], "[" * 9999,
             json.dumps(chat()), json.dumps(chat(uri(ONE)))]  # fmt: skip
    found = given_by(log(tmp_path / "l.jsonl", lines))
    told = [(item.name, item.trouble.kind) for item in pictures(found) if item.trouble]
    assert told == [
        ("line 1", "log_line"),
        ("line 3", "log_line"),
        ("line 4", "log_line"),
        ("line 5", "log_line"),
        ("line 6", "no_images"),
    ]
    assert all(item.trouble.skipped for item in pictures(found) if item.trouble)
    assert contents(found) == [ONE]


def test_a_line_beyond_the_limit_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_LINE_BYTES", 2000)
    path = log(tmp_path / "l.jsonl", [chat(uri(bytes(9000))), chat(uri(ONE))])
    found = given_by(path)
    assert kinds(found) == ["log_line"]
    assert contents(found) == [ONE]


def test_a_picture_beyond_the_limit_is_not_decoded(tmp_path: Path) -> None:
    (item,) = given_by(log(tmp_path / "l.jsonl", [chat(uri(b"\x89PNG" + bytes(90_000)))]))
    assert isinstance(item, MediaItem)
    with pytest.raises(ReadError, match="more than the limit"):
        read_item(item, max_bytes=10_000)


def test_broken_base64_is_a_failure_of_the_item(tmp_path: Path) -> None:
    (item,) = given_by(log(tmp_path / "l.jsonl", [chat("data:image/png;base64,AAAAA")]))
    assert isinstance(item, MediaItem)
    with pytest.raises(MediaError, match="base64") as raised:
        read_item(item, max_bytes=99)
    assert raised.value.item_kind == "bad_base64"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://example.com/a.png", "http_not_allowed"),
        ("ftp://example.com/a.png", "unsupported_url"),
        ("data:image/svg+xml,<svg/>", "unsupported_url"),
        ("", "no_data"),
        ("/etc/passwd", "outside_root"),
        ("../up.png", "outside_root"),
        ("sub/../../up.png", "outside_root"),
        ("file:///etc/passwd", "outside_root"),
        ("file://host/etc/passwd", "outside_root"),
        ("link.png", "outside_root"),
        ("folder-link/up.png", "outside_root"),
        (".", "outside_root"),
        ("a\0b", "outside_root"),
    ],
)
def test_what_a_log_may_not_name_is_told_and_breaks_its_group(
    tmp_path: Path, url: str, kind: str
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (tmp_path / "up.png").write_bytes(b"up")
    (folder / "link.png").symlink_to(tmp_path / "up.png")
    (folder / "folder-link").symlink_to(tmp_path)
    found = given_by(log(folder / "l.jsonl", [chat(uri(ONE), url)]))
    assert kinds(found) == [kind]
    assert contents(found) == [ONE]
    assert not any(isinstance(each, Group) for each in found)


@pytest.mark.parametrize("spelled", ["a.png", "./sub/../a.png", "file://{}/a.png", "{}/a.png"])
def test_files_are_read_below_the_folder_of_the_log(tmp_path: Path, spelled: str) -> None:
    (tmp_path / "a.png").write_bytes(TWO)
    (tmp_path / "sub").mkdir()
    path = log(tmp_path / "l.jsonl", [chat(uri(ONE), spelled.format(tmp_path))])
    found = given_by(path)
    assert contents(found) == [ONE, TWO]
    assert isinstance(found[-1], Group)
    other = LogRules(media_root=str(tmp_path / "sub"))
    moved = given_by(path, other)
    if os.path.isabs(spelled.format(tmp_path).removeprefix("file://")):
        assert kinds(moved) == ["outside_root"]
    else:
        assert pictures(moved)[1].path.startswith(str(tmp_path / "sub"))


def test_a_request_of_one_picture_is_that_picture(tmp_path: Path) -> None:
    found = given_by(log(tmp_path / "l.jsonl", [chat(uri(ONE)), chat(uri(ONE), uri(TWO))]))
    assert [isinstance(each, Group) for each in found] == [False, False, False, True]
    none = given_by(log(tmp_path / "l.jsonl", [chat(uri(ONE), uri(TWO))]), LogRules())
    assert len(none) == len(pictures(none)) == 2


def test_a_log_as_groups_gives_requests_alone(tmp_path: Path) -> None:
    path = log(tmp_path / "l.jsonl", [chat(uri(ONE)), "{", chat(uri(ONE), uri(TWO))])
    found = list(GroupFile(str(path)).items())
    assert [len(each.items) for each in found if isinstance(each, Group)] == [1, 2]
    assert kinds(found) == ["log_line"]
    (tmp_path / "l.jsonl").write_text('{"messages": 1}')
    with pytest.raises(UsageError, match="line 1"):
        list(GroupFile(str(path)).items())


def test_a_log_is_opened_where_it_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log(tmp_path / "l.jsonl", [chat(uri(ONE))])
    (tmp_path / "list").write_text("l.jsonl\n")
    monkeypatch.chdir(tmp_path)
    for spec in ("l.jsonl", "*.jsonl", "**/*.jsonl", "@list"):
        assert contents(list(sources([spec]).items())) == [ONE], spec
    for spec in (".", "*l*", "**"):
        assert all(not each.part for each in pictures(list(sources([spec]).items()))), spec


def test_a_log_may_grow_and_may_not_be_replaced(tmp_path: Path) -> None:
    path = log(tmp_path / "l.jsonl", [chat(uri(ONE))])
    (item,) = pictures(given_by(path))
    with path.open("a") as file:
        file.write(json.dumps(chat(uri(TWO))))
    assert item.stat != FileStat.of(path.stat())
    assert contents([item]) == [ONE]
    log(tmp_path / "new.jsonl", [chat(uri(TWO)), chat(uri(TWO))]).replace(path)
    with pytest.raises(ReadError, match="changed"):
        read_item(item, max_bytes=999)
    (item, _) = pictures(given_by(path))
    os.truncate(path, 10)
    with pytest.raises(ReadError, match="changed"):
        read_item(item, max_bytes=999)


def test_what_is_named_by_http_is_an_item_without_a_stat(tmp_path: Path) -> None:
    """What is at a URL may be another picture tomorrow: no memo is kept of it."""
    path = log(tmp_path / "l.jsonl", [chat(uri(ONE), "HTTPS://example.com/a.png")])
    found = given_by(path, LogRules(groups="also", allow_http=True))
    assert [item.stat is None for item in pictures(found)] == [False, True]
    assert pictures(found)[1].part == UrlPart("line 1 image 2", "HTTPS://example.com/a.png")
    assert isinstance(found[-1], Group)


def test_a_data_uri_may_be_spelled_with_parameters(tmp_path: Path) -> None:
    text = base64.b64encode(ONE).decode()
    urls = [f"data:image/png;charset=utf-8;base64,{text}", f"DATA:;BASE64,{text[:40]}\n{text[40:]}"]
    assert contents(given_by(log(tmp_path / "l.jsonl", [chat(*urls)]))) == [ONE, ONE]


FILMED: dict[str, object] = {
    "chat": filmed_chat(clip_uri(CLIP), uri(ONE), uri(TWO)),
    "responses": filmed_responses(clip_uri(CLIP), uri(ONE), uri(TWO)),
    "messages": filmed_messages(CLIP, ONE, TWO),
    "chat with a text for a URL": {
        "messages": [{"content": [{"type": "image", "image": uri(ONE)},
                                  {"type": "image", "url": uri(TWO)},
                                  {"type": "video_url", "video_url": clip_uri(CLIP)}]}]
    },
    "input_video under its own name": {
        "input": [*responses(uri(ONE), uri(TWO))["input"],
                  {"content": [{"type": "input_video", "input_video": {"url": clip_uri(CLIP)}}]}]
    },
    "of a template": {
        "messages": [*chat(uri(ONE), uri(TWO))["messages"],
                     {"content": [{"type": "video", "video": clip_uri(CLIP)}]}]
    },
}  # fmt: skip


@pytest.mark.parametrize("form", sorted(FILMED))
def test_a_video_is_an_item_and_of_no_group(tmp_path: Path, form: str) -> None:
    path = log(tmp_path / "l.jsonl", [FILMED[form]])
    found = given_by(path)
    assert contents(found) == [ONE, TWO, CLIP]
    assert pictures(found)[2].source == f"{path}::line 1 video 3"
    (group,) = [each for each in found if isinstance(each, Group)]
    assert list(group.items) == pictures(found)[:2]
    only = list(GroupFile(str(path)).items())
    assert [type(each) for each in only] == [Group]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://example.com/a.mp4", "http_not_allowed"),
        ("/etc/passwd", "outside_root"),
        ("", "no_data"),
        ("data:video/mp4,plain", "unsupported_url"),
    ],
)
def test_what_a_log_may_not_name_as_a_video_is_told_and_breaks_no_group(
    tmp_path: Path, url: str, kind: str
) -> None:
    found = given_by(log(tmp_path / "l.jsonl", [filmed_chat(url, uri(ONE), uri(TWO))]))
    assert kinds(found) == [kind]
    assert any(isinstance(each, Group) for each in found)


def test_a_request_of_a_video_alone_is_no_group(tmp_path: Path) -> None:
    path = log(tmp_path / "l.jsonl", [filmed_chat(clip_uri(CLIP))])
    assert contents(given_by(path)) == [CLIP]
    assert kinds(list(GroupFile(str(path)).items())) == ["no_images"]


def test_a_video_by_http_is_bounded_and_fetched_under_the_same_rules(tmp_path: Path) -> None:
    path = log(tmp_path / "l.jsonl", [filmed_chat("https://example.com/a.mp4")])
    (item,) = pictures(given_by(path, LogRules(allow_http=True)))
    assert item.part == UrlPart("line 1 video 1", "https://example.com/a.mp4")
    path = log(tmp_path / "l.jsonl", [filmed_chat("http://169.254.169.254/a.mp4")])
    (item,) = pictures(given_by(path, LogRules(allow_http=True)))
    with pytest.raises(ReadError, match="no public address"), open_source(item, max_bytes=99):
        pass


def _no_decoder() -> NoReturn:
    raise AssertionError("nothing is decoded here")


def test_a_video_in_a_container_is_bounded(tmp_path: Path) -> None:
    (item,) = pictures(given_by(log(tmp_path / "l.jsonl", [filmed_chat(clip_uri(CLIP))])))
    reader = ClipReader(_no_decoder, max_file_bytes=1 << 30, max_part_bytes=len(CLIP) - 1)
    with pytest.raises(ReadError, match=f"the limit of {len(CLIP) - 1}"), reader.opened(item):
        pass
    with replace(reader, max_part_bytes=len(CLIP)).opened(item) as clip:
        assert clip.size_bytes == len(CLIP)
