"""`vcache replay`: options, document, exit codes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Vcache
from tests.patience import until
from tests.replay.chat_server import (
    Chat,
    Handler,
    chat_server,
    refuse,
    say_token,
    three_pictures,
)
from vcache_cli.replay import ReplayRun


@pytest.fixture
def chat() -> Iterator[Chat]:
    with chat_server() as running:
        yield running


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return three_pictures(tmp_path / "photos")


def test_a_corpus_is_sent_and_told(vcache: Vcache, chat: Chat, photos: Path) -> None:
    done = vcache("replay", photos, "--server", chat.url, "-m", "m", "--measure", "2", "--json")
    assert done.code == 0
    document = done.document
    assert document["server"] == f"{chat.url}/v1/chat/completions"
    assert document["items"]["sent"] == document["items"]["total"] == 3
    assert document["first_token"]["sample"]["warm"]["items"] == 2
    assert not document["interrupted"]
    assert Path(document["state"]).stat().st_size


def test_a_second_run_says_what_was_sent_before(vcache: Vcache, chat: Chat, photos: Path) -> None:
    line = ("replay", photos, "--server", chat.url, "-m", "m")
    assert "3 sent" in vcache(*line).out
    assert "3 sent before" in vcache(*line).out
    assert "3 sent" in vcache(*line, "--again").out
    assert len(chat.bodies) == 6


def test_a_state_may_lie_where_the_user_says(
    vcache: Vcache, chat: Chat, photos: Path, tmp_path: Path
) -> None:
    line = ("replay", photos, "--server", chat.url, "-m", "m", "--state", tmp_path / "state")
    assert vcache(*line, "--limit", "1").code == 0
    assert vcache(*line, "--json").document["items"]["present"] == 1
    assert vcache(*line[:-1], tmp_path / "photos" / "a.png").code == 2


@pytest.mark.parametrize(("status", "code"), [(401, 14), (404, 15), (302, 16), (413, 3)])
def test_exit_codes_are_those_of_the_table(
    vcache: Vcache, chat: Chat, photos: Path, status: int, code: int
) -> None:
    chat.always = refuse(status, "sorry", Location="http://elsewhere.invalid/")
    done = vcache("replay", photos, "--server", chat.url, "-m", "m", "--json")
    assert done.code == done.document["error"]["code"] == code
    assert done.document["items"]["failed"] >= 1
    assert done.err.count("sorry") == (3 if code == 3 else code != 16), (
        "told once, not once for each item in flight"
    )


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--server", "http://127.0.0.1:1"),
        ("--server", "127.0.0.1:1", "-m", "m"),
        ("--server", "http://127.0.0.1:1", "-m", "m", "--api-key-env", "NO_SUCH_KEY"),
        ("--server", "http://127.0.0.1:1", "-m", "m", "--rate", "0"),
        ("--server", "http://127.0.0.1:1", "-m", "m", "--retries", "-1"),
        ("--server", "http://127.0.0.1:1", "-m", "m", "--timeout", "0s"),
        ("--server", "http://127.0.0.1:1", "-m", "m", "--concurrency", "5000"),
        ("--server", "http://127.0.0.1:1", "-m", "m", "--proxy", "https://a"),
        ("--server", "http://127.0.0.1:1", "-m", "m", "--media-root", "nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(
    vcache: Vcache, photos: Path, more: tuple[str, ...]
) -> None:
    assert vcache("replay", photos, *more).code == 2


def test_a_key_is_sent_and_never_shown(
    vcache: Vcache, chat: Chat, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "tops3cret")
    line = ("replay", photos, "--server", chat.url, "-m", "m", "--api-key-env", "MY_KEY")
    done = vcache("--debug", *line, "--json", "--events", "-")
    assert chat.headers[0]["Authorization"] == "Bearer tops3cret"
    assert "tops3cret" not in done.out + done.err
    assert "tops3cret" not in Path(done.document["state"]).read_text()


def test_a_run_ends_where_more_failed_than_the_user_bears(
    vcache: Vcache, chat: Chat, photos: Path
) -> None:
    chat.always = refuse(400)
    line = ("replay", photos, "--server", chat.url, "-m", "m", "-j", "1")
    done = vcache(*line, "--max-errors", "1", "--json")
    assert (done.code, len(chat.bodies)) == (3, 2)
    assert done.document["interrupted"]


def test_an_interrupted_run_keeps_what_was_sent(
    vcache: Vcache, chat: Chat, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, stop = threading.Event(), ReplayRun.stop

    def noted(run: ReplayRun) -> None:
        stop(run)
        stopped.set()

    def interrupt(handler: Handler) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        until(stopped.is_set)
        say_token(handler)

    monkeypatch.setattr(ReplayRun, "stop", noted)
    chat.next.extend([say_token, interrupt])
    line = ("replay", photos, "--server", chat.url, "-m", "m", "-j", "1", "--json")
    ended = vcache(*line)
    assert (ended.code, ended.document["items"]["sent"]) == (130, 2)
    assert ended.document["interrupted"]
    rest = vcache(*line)
    assert (rest.code, rest.document["items"]["sent"], len(chat.bodies)) == (0, 1, 3)
