"""A corpus against a server on loopback, by the library."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import until
from tests.replay.chat_server import Chat, Handler, refuse, say_token
from vcache_cli.errors import (
    AccessError,
    LockBusyError,
    ModelError,
    NothingToDoError,
    RefusedError,
    UsageError,
)
from vcache_cli.media import LogRules, sources
from vcache_cli.outcome import Outcome, Status
from vcache_cli.replay import Manner, ReplayRun, address_of, open_done
from vcache_cli.replay.attempt import Claims

Answer = Callable[[Handler], None]


@contextmanager
def replaying(
    chat: Chat, *specs: Path, again: bool = False, **manner: object
) -> Iterator[ReplayRun]:
    """A run of the pictures that `specs` name."""
    corpus = sources([str(each) for each in specs], rules=LogRules(groups="only"))
    state = specs[0].parent / "state.done"
    chosen: dict[str, Any] = {"concurrency": 1, **manner}
    address = address_of(chat.url)
    with open_done(state, url=address.url, model="m", again=again) as done:
        yield ReplayRun(corpus, address=address, manner=Manner("m", **chosen), done=done)


def replay(chat: Chat, *specs: Path, again: bool = False, **manner: object) -> list[Outcome]:
    with replaying(chat, *specs, again=again, **manner) as run:
        return list(run)


def statuses(outcomes: list[Outcome]) -> Counter[str]:
    return Counter(each.status.value for each in outcomes)


def test_each_picture_is_sent_once_as_it_is(chat: Chat, photos: Path) -> None:
    assert statuses(replay(chat, photos)) == {"stored": 3}
    assert chat.urls() == [
        ["data:image/png;base64,iVBORw0KGgph"],
        ["data:image/png;base64,iVBORw0KGgpi"],
        ["data:image/png;base64,iVBORw0KGgpj"],
    ]
    assert set(chat.paths) == {"/v1/chat/completions"}
    assert {(body["max_tokens"], body["model"]) for body in chat.bodies} == {(1, "m")}


def test_a_second_run_sends_only_what_is_new(chat: Chat, photos: Path) -> None:
    replay(chat, photos)
    (photos / "d.png").write_bytes(b"\x89PNG\r\n\x1a\nd")
    assert statuses(replay(chat, photos)) == {"present": 3, "stored": 1}
    assert len(chat.bodies) == 4


def test_again_sends_all_and_then_goes_on_from_there(chat: Chat, photos: Path) -> None:
    replay(chat, photos)
    assert statuses(replay(chat, photos, again=True)) == {"stored": 3}
    assert statuses(replay(chat, photos)) == {"present": 3}


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_copy_is_not_sent(chat: Chat, photos: Path, concurrency: int) -> None:
    for name in ("a1.png", "a2.png"):
        (photos / name).write_bytes((photos / "a.png").read_bytes())
    assert statuses(replay(chat, photos, concurrency=concurrency)) == {"stored": 3, "copy": 2}
    assert len(chat.bodies) == 3


def test_a_copy_shares_the_failure_of_the_first(
    chat: Chat, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in photos.iterdir():
        each.write_bytes(b"\x89PNG\r\n\x1a\n")
    claim, claimed = Claims.claim, list[str]()

    def noted(claims: Claims, digest: str) -> Status | None:
        claimed.append(digest)
        return claim(claims, digest)

    monkeypatch.setattr(Claims, "claim", noted)
    chat.always = once(lambda: len(claimed) == 3, refuse(400, "not a picture of mine"))
    outcomes = replay(chat, photos, concurrency=3)
    assert statuses(outcomes) == {"failed": 3}
    assert {each.failure.message for each in outcomes if each.failure} == {
        "the server says 400: not a picture of mine"
    }
    assert len(chat.bodies) == 1


def slowly(answer: Answer, seconds: float) -> Answer:
    def late(handler: Handler) -> None:
        time.sleep(seconds)
        answer(handler)

    return late


def once(came: Callable[[], object], answer: Answer) -> Answer:
    """Waits for something before it answers."""

    def late(handler: Handler) -> None:
        until(came)
        answer(handler)

    return late


def test_a_server_that_is_busy_is_asked_again_when_it_says(chat: Chat, photos: Path) -> None:
    chat.next.extend([refuse(429, Retry_After="0.1"), refuse(503, Retry_After="0")])
    began = time.monotonic()
    with replaying(chat, photos) as run:
        assert statuses(list(run)) == {"stored": 3}
    assert time.monotonic() - began >= 0.1
    assert run.summary()["requests"] == {"made": 5, "again": 2}


def test_a_busy_server_fails_the_item_once_tries_are_used_up(chat: Chat, photos: Path) -> None:
    chat.always = refuse(429, Retry_After="0")
    outcomes = replay(chat, photos, retries=2)
    assert {each.failure.kind for each in outcomes if each.failure} == {"rate_limited"}
    assert len(chat.bodies) == 9


def test_an_error_of_the_server_is_tried_once_more(chat: Chat, photos: Path) -> None:
    chat.next.extend([refuse(500, Retry_After="0"), refuse(500, Retry_After="0")])
    with replaying(chat, photos) as run:
        assert statuses(list(run)) == {"failed": 1, "stored": 2}
    assert run.summary()["requests"] == {"made": 4, "again": 1}


def hang_up(handler: Handler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def cut(handler: Handler) -> None:
    """Half of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'data: {"choices"')
    handler.close_connection = True


@pytest.mark.parametrize("answer", [hang_up, cut])
def test_a_connection_that_ends_early_is_no_success(
    chat: Chat, photos: Path, answer: Answer
) -> None:
    chat.next.extend([say_token, answer])
    with replaying(chat, photos, retries=0) as run:
        assert statuses(list(run)) == {"failed": 1, "stored": 2}


def test_a_server_that_never_answers_ends_the_run(chat: Chat, photos: Path) -> None:
    chat.always = hang_up
    with replaying(chat, photos) as run, pytest.raises(ModelError, match="never answers"):
        list(run)
    assert len(chat.bodies) == 2


def test_a_server_that_takes_too_long_fails_the_item_alone(chat: Chat, photos: Path) -> None:
    ended = threading.Event()
    chat.next.append(once(ended.is_set, say_token))
    outcomes = replay(chat, photos, retries=0, timeout_seconds=0.3)
    ended.set()
    assert outcomes[0].failure
    assert {each.failure.kind for each in outcomes if each.failure} == {"timeout"}
    assert len(outcomes) == 3  # where this machine is slow, others may fail so, too
    assert statuses(replay(chat, photos))["failed"] == 0


def test_a_page_is_no_answer(chat: Chat, photos: Path) -> None:
    chat.next.append(lambda handler: handler.send(200, "<html>hello", Content_Type="text/html"))
    outcomes = replay(chat, photos)
    assert [each.failure.kind for each in outcomes if each.failure] == ["no_answer"]


def test_an_answer_that_is_no_stream_counts_too(chat: Chat, photos: Path) -> None:
    whole = '{"choices": [{"message": {"content": "A"}}]}'
    chat.always = lambda handler: handler.send(200, whole, Content_Type="application/json")
    assert statuses(replay(chat, photos)) == {"stored": 3}


def test_a_redirect_is_not_followed(chat: Chat, photos: Path) -> None:
    chat.always = refuse(307, Location=f"{chat.url}/elsewhere")
    with replaying(chat, photos) as run, pytest.raises(RefusedError, match="/elsewhere"):
        list(run)
    assert chat.paths == ["/v1/chat/completions"]


@pytest.mark.parametrize(("status", "error"), [(401, AccessError), (404, ModelError)])
def test_what_all_would_meet_ends_the_run_with_one_request(
    chat: Chat, photos: Path, status: int, error: type[Exception]
) -> None:
    chat.always = refuse(status, "sorry")
    with replaying(chat, photos) as run, pytest.raises(error, match="sorry"):
        list(run)
    assert len(chat.bodies) == 1


def test_nobody_at_the_address_is_told_soon(photos: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        absent = Chat(port=held.getsockname()[1])
        with replaying(absent, photos) as run, pytest.raises(ModelError, match="cannot be reached"):
            list(run)


def test_no_proxy_of_the_environment_is_used(
    chat: Chat, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert statuses(replay(chat, photos)) == {"stored": 3}


def test_a_proxy_that_was_asked_for_gets_the_whole_url(chat: Chat, photos: Path) -> None:
    address = address_of("http://models.invalid:81/v1", proxy=chat.url, key="k")
    with open_done(photos.parent / "state", url=address.url, model="m") as done:
        run = ReplayRun(sources([str(photos)]), address=address, manner=Manner("m"), done=done)
        assert statuses(list(run)) == {"stored": 3}
    assert set(chat.paths) == {"http://models.invalid:81/v1/chat/completions"}
    assert chat.headers[0]["Host"] == "models.invalid:81"
    assert chat.headers[0]["Authorization"] == "Bearer k"


def test_no_more_requests_are_under_way_than_asked(chat: Chat, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n%d" % number)
    chat.next.extend([once(lambda: chat.most_at_once == 3, say_token)] * 3)
    assert statuses(replay(chat, folder, concurrency=3)) == {"stored": 12}
    assert chat.most_at_once == 3


def test_a_stop_finishes_what_is_under_way_and_the_next_run_does_the_rest(
    chat: Chat, photos: Path
) -> None:
    with replaying(chat, photos) as run:

        def stopping(handler: Handler) -> None:
            run.stop()
            say_token(handler)

        chat.next.append(stopping)
        assert statuses(list(run)) == {"stored": 1}
    assert run.summary()["interrupted"]
    assert statuses(replay(chat, photos)) == {"present": 1, "stored": 2}


def test_a_stop_ends_a_pause_that_the_server_asked_for(chat: Chat, photos: Path) -> None:
    with replaying(chat, photos) as run:

        def busy(handler: Handler) -> None:
            refuse(429, Retry_After="600")(handler)
            threading.Timer(0.1, run.stop).start()

        chat.always = busy
        outcomes = list(run)
    assert [each.failure.kind for each in outcomes if each.failure] == ["stopped"]
    assert statuses(outcomes) == {"skipped": 1}


def test_a_request_of_a_log_is_sent_whole_in_its_order(chat: Chat, photos: Path) -> None:
    urls = ["c.png", "a.png"]
    parts = ",".join(f'{{"type":"image_url","image_url":{{"url":"{url}"}}}}' for url in urls)
    log = photos / "log.jsonl"
    log.write_text(f'{{"messages":[{{"role":"user","content":[{parts}]}}]}}\n')
    assert statuses(replay(chat, log)) == {"stored": 1}
    assert chat.urls() == [
        ["data:image/png;base64,iVBORw0KGgpj", "data:image/png;base64,iVBORw0KGgph"]
    ]
    assert statuses(replay(chat, log)) == {"present": 1}


def test_videos_are_sent_only_where_told(chat: Chat, photos: Path) -> None:
    (photos / "v.mkv").write_bytes(b"\x1a\x45\xdf\xa3film")
    outcomes = replay(chat, photos)
    assert statuses(outcomes) == {"stored": 3, "skipped": 1}
    assert [each.failure.kind for each in outcomes if each.failure] == ["video"]
    assert statuses(replay(chat, photos, videos=True)) == {"present": 3, "stored": 1}
    assert chat.bodies[-1]["messages"][0]["content"][1]["type"] == "video_url"


def test_what_is_not_what_it_claims_fails_without_a_request(chat: Chat, photos: Path) -> None:
    (photos / "page.png").write_text("<html>404")
    (photos / "notes.txt").write_text("hello")
    assert statuses(replay(chat, photos)) == {"stored": 3, "failed": 1, "skipped": 1}
    assert len(chat.bodies) == 3


def test_a_corpus_with_nothing_to_send_says_so(chat: Chat, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "notes.txt").write_text("hello")
    with replaying(chat, folder) as run, pytest.raises(NothingToDoError):
        list(run)


def test_a_sample_is_sent_twice_and_timed(chat: Chat, photos: Path) -> None:
    chat.next.extend([*[slowly(say_token, 0.1)] * 3, *[slowly(say_token, 0.01)] * 2])
    with replaying(chat, photos, measure=2) as run:
        assert statuses(list(run)) == {"stored": 3}
    assert len(chat.bodies) == 5
    first, second = (chat.bodies[place]["messages"][0]["content"][0]["text"] for place in (0, 4))
    assert first != second
    found = run.summary()["first_token"]
    assert found["cold"]["items"] == 3
    assert found["sample"]["warm"]["items"] == 2
    assert found["cold"]["median_seconds"] >= 0.1
    assert found["sample"]["warm"]["median_seconds"] >= 0.01


def test_the_key_goes_to_the_server_alone(chat: Chat, photos: Path) -> None:
    address = address_of(chat.url, key="tops3cret")
    chat.always = refuse(401, "`tops3cret` is no key of ours")
    with open_done(photos.parent / "state", url=address.url, model="m") as done:
        run = ReplayRun(sources([str(photos)]), address=address, manner=Manner("m"), done=done)
        with pytest.raises(AccessError) as caught:
            list(run)
    assert chat.headers[0]["Authorization"] == "Bearer tops3cret"
    assert "tops3cret" not in f"{caught.value.message} {caught.value.hint} {run.summary()}"


class TestDone:
    """The file that says what a server was sent."""

    DIGEST = "ab" * 32

    def test_a_line_cut_by_a_crash_is_dropped(self, tmp_path: Path) -> None:
        path = tmp_path / "state"
        with open_done(path, url="u", model="m") as done:
            done.add(self.DIGEST)
        with path.open("ab") as file:
            file.write(b"cdcd")
        with open_done(path, url="u", model="m") as done:
            assert (len(done), self.DIGEST in done) == (1, True)
            done.add("ef" * 32)
        with open_done(path, url="u", model="m") as done:
            assert len(done) == 2

    def test_one_of_another_model_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "state"
        with open_done(path, url="u", model="m"):
            pass
        with pytest.raises(UsageError), open_done(path, url="u", model="n"):
            pass

    def test_a_file_that_is_none_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.txt"
        path.write_text("dear diary\n")
        for again in (False, True):
            with pytest.raises(UsageError), open_done(path, url="u", model="m", again=again):
                pass
        assert path.read_text() == "dear diary\n"

    def test_two_runs_at_once_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "state"
        with (
            open_done(path, url="u", model="m"),
            pytest.raises(LockBusyError),
            open_done(path, url="u", model="m"),
        ):
            pass

    def test_a_damaged_one_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "state"
        with open_done(path, url="u", model="m") as done:
            done.add(self.DIGEST)
        path.write_bytes(path.read_bytes().replace(b"ab", b"zz", 1))
        with pytest.raises(UsageError), open_done(path, url="u", model="m"):
            pass
