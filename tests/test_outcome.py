"""An Outcome as a line of JSON."""

from __future__ import annotations

from vcache_cli.items import MediaItem
from vcache_cli.outcome import Outcome, Status


def test_seconds_have_microseconds_and_no_noise() -> None:
    spent = {"digest": 0.1 + 0.2, "decode": 1e-9}
    outcome = Outcome(MediaItem("a.jpg"), Status.PRESENT, seconds=spent)
    assert outcome.as_json()["seconds"] == {"digest": 0.3, "decode": 0.0}
