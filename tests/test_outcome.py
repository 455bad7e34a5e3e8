"""An Outcome as a line of JSON."""

from __future__ import annotations

import json

import pytest

from vcache_cli.items import Kind, MediaItem
from vcache_cli.outcome import Notice, Outcome, Status

PRESENT = Outcome(MediaItem('a "b"\n\udce9é.jpg'), Status.PRESENT, "k/1", "ab" * 32, Kind.IMAGE)


def test_seconds_have_microseconds_and_no_noise() -> None:
    spent = {"digest": 0.1 + 0.2, "decode": 1e-9}
    outcome = Outcome(MediaItem("a.jpg"), Status.PRESENT, seconds=spent)
    assert outcome.as_json()["seconds"] == {"digest": 0.3, "decode": 0.0}


@pytest.mark.parametrize(
    "outcome",
    [
        PRESENT,
        PRESENT._replace(key=None),
        PRESENT._replace(kind=Kind.VIDEO),
        PRESENT._replace(status=Status.COPY),
        PRESENT._replace(notices=(Notice("alpha_dropped", "it was"),)),
        PRESENT._replace(bytes_read=5),
        PRESENT._replace(seconds={"digest": 0.25}),
    ],
)
def test_a_line_is_the_outcome_as_json(outcome: Outcome) -> None:
    assert json.loads(outcome.as_line()) == outcome.as_json()
    assert outcome.as_line() == json.dumps(outcome.as_json(), separators=(",", ":"))
