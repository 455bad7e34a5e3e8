"""What replies mean, when requests may begin, how they are spelled: without a network."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.errors import UsageError, VcacheError
from vcache_cli.items import Kind, MediaItem
from vcache_cli.replay.address import address_of, bearer
from vcache_cli.replay.judge import DONE, judge, pause_seconds
from vcache_cli.replay.latency import Latencies, Timed, quantile
from vcache_cli.replay.manner import Manner
from vcache_cli.replay.message import Encoded, body_of, media_type
from vcache_cli.replay.pace import Pace
from vcache_cli.replay.wire import Reply

ADDRESS = address_of("http://127.0.0.1:1")
CODES = {401: 14, 403: 14, 407: 14, 404: 15, 301: 16, 302: 16, 307: 16, 308: 16}


@pytest.mark.parametrize(("status", "code"), CODES.items())
def test_what_all_items_would_meet_ends_the_run(status: int, code: int) -> None:
    verdict = judge(Reply(status), ADDRESS, "m")
    assert verdict.ends
    assert (verdict.ends.exit_code, verdict.tries) == (code, 1)


@pytest.mark.parametrize(
    ("status", "tries"), {429: None, 503: None, 502: None, 500: 2, 413: 1}.items()
)
def test_what_one_item_meets_is_tried_where_that_may_help(status: int, tries: int | None) -> None:
    verdict = judge(Reply(status), ADDRESS, "m")
    assert verdict.ends is None
    assert verdict.tries == tries
    assert verdict.holds is (status in {429, 503})


def test_a_token_is_done() -> None:
    assert judge(Reply(200), ADDRESS, "m") is DONE


def test_a_server_that_cannot_be_reached_ends_the_run_after_tries() -> None:
    verdict = judge(Reply(0, "unreachable", "refused"), ADDRESS, "m")
    assert verdict.ends
    assert (verdict.ends.exit_code, verdict.tries) == (15, None)


@given(st.text(max_size=40), st.integers(1, 2000), st.floats(0, 1))
def test_a_pause_is_never_negative_nor_longer_than_its_limit(
    text: str, tries: int, spread: float
) -> None:
    assert 0 <= pause_seconds(text, tries, spread=spread) <= 600


def test_a_pause_is_what_the_server_asks_for_in_either_form() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert pause_seconds("Fri, 02 Jan 2026 03:04:15 GMT", 1, now=now) == 10
    assert pause_seconds("0.5", 1) == 0.5
    assert pause_seconds("Thu, 01 Jan 2026 00:00:00 GMT", 1, now=now) == 0


def test_without_a_word_of_the_server_pauses_double() -> None:
    longest = [pause_seconds("", tries, spread=1.0) for tries in range(1, 9)]
    assert longest == [1, 2, 4, 8, 16, 30, 30, 30]


@given(st.floats(0.1, 1000), st.lists(st.floats(0, 5), min_size=2, max_size=30))
def test_requests_begin_no_faster_than_the_rate(rate: float, waits: list[float]) -> None:
    now = 0.0
    pace = Pace(rate, clock=lambda: now)
    begun = []
    for each in waits:
        now += each
        begun.append(now + pace.slot())
    assert all(later - sooner >= 1 / rate - 1e-9 for sooner, later in pairwise(begun))


def test_nobody_begins_while_the_server_wants_a_pause() -> None:
    pace = Pace(clock=lambda: 0.0)
    pace.hold(7)
    pace.hold(3)
    assert pace.slot() == 7


def test_who_waits_is_told_at_once_that_all_ends() -> None:
    pace = Pace()
    pace.stop()
    assert not pace.wait(3600)


@given(st.text(), st.text(), st.lists(st.binary(max_size=50), max_size=3))
def test_a_body_is_json_with_the_bytes_as_they_are(
    model: str, prompt: str, pictures: list[bytes]
) -> None:
    found = [Encoded(Kind.IMAGE, each) for each in pictures]
    body = json.loads(b"".join(body_of(found, Manner(model, prompt=prompt))))
    assert (body["model"], body["max_tokens"]) == (model, 1)
    text, *parts = body["messages"][0]["content"]
    assert text["text"] == prompt
    sent = [part["image_url"]["url"].partition(";base64,")[2] for part in parts]
    assert [base64.b64decode(each) for each in sent] == pictures


def test_a_video_is_sent_as_one() -> None:
    body = json.loads(b"".join(body_of([Encoded(Kind.VIDEO, b"\x1a\x45\xdf\xa3")], Manner("m"))))
    part = body["messages"][0]["content"][1]
    assert part == {
        "type": "video_url",
        "video_url": {"url": "data:video/x-matroska;base64,GkXfow=="},
    }


@pytest.mark.parametrize(
    ("head", "expected"),
    {b"\xff\xd8\xff\xe0": "image/jpeg", b"GIF89a": "image/gif", b"RIFF0000WEBP": "image/webp",
     b"?": "application/octet-stream"}.items(),
)  # fmt: skip
def test_the_type_is_told_by_the_bytes(head: bytes, expected: str) -> None:
    assert media_type(head) == expected


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a", "127.0.0.1:8080", "http://", "http://a?key=1", "http://a#b", "http://a b",
     "http://a:x", "http://user:secret@a", "http://a\n", "http://ä"],
)  # fmt: skip
def test_what_is_no_plain_url_is_refused_and_no_secret_repeated(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        address_of(url)
    assert "secret" not in caught.value.message


def test_a_key_is_never_shown() -> None:
    key = bearer("KEY", {"KEY": " tops3cret\n"})
    assert key == "tops3cret"
    address = address_of("http://example.org", key=key)
    assert "tops3cret" not in repr(address) + str(address) + address.url
    assert address.exposes_key
    assert not address_of("https://example.org", key=key).exposes_key
    assert not address_of("http://localhost:1", key=key).exposes_key


@pytest.mark.parametrize("held", ["", "a\nb", "ä"])
def test_a_key_that_is_none_is_refused_by_the_name_of_its_variable(held: str) -> None:
    with pytest.raises(UsageError, match="KEY") as caught:
        bearer("KEY", {"KEY": held})
    assert not held or held not in caught.value.message


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert address_of("http://[::1]:80/v1").url == "http://[::1]/v1/chat/completions"


@given(st.lists(st.floats(0, 10), min_size=1), st.floats(0, 1))
def test_a_quantile_is_one_of_the_values(values: list[float], share: float) -> None:
    assert quantile(values, share) in values


@given(st.integers(0, 5), st.integers(0, 50))
def test_a_sample_has_no_more_than_asked_and_no_item_twice(most: int, items: int) -> None:
    latencies = Latencies(most)
    for number in range(items):
        latencies.add(Timed(MediaItem(""), str(number), 1.0))
    names = [each.digest for each in latencies.sample]
    assert len(names) == len(set(names)) == min(most, items)


def test_an_error_that_ends_a_run_is_one_of_ours() -> None:
    assert all(isinstance(judge(Reply(each), ADDRESS, "m").ends, VcacheError) for each in CODES)
