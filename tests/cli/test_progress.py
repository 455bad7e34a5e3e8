"""Progress is calm, true, and never names anything unsafely."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcache_cli.cli.corpus import Corpus, corpus, count_ahead
from vcache_cli.cli.errors import Terminated
from vcache_cli.cli.events import open_events
from vcache_cli.cli.interrupts import Interrupts
from vcache_cli.cli.output import Output
from vcache_cli.cli.progress import PlainProgress, Tally, calm_counter, item_line
from vcache_cli.cli.rich_progress import RichProgress
from vcache_cli.errors import NothingToDoError, StoreFullError, UsageError
from vcache_cli.items import MediaItem
from vcache_cli.outcome import Failure, Outcome, Status


def outcome(status: Status, path: str = "a.jpg", failure: Failure | None = None) -> Outcome:
    return Outcome(MediaItem(path), status, failure=failure, bytes_written=1024)


class Names:
    """A source of names."""

    def __init__(self, *names: str, error: Exception | None = None) -> None:
        self._names = names
        self._error = error

    def items(self) -> Iterator[MediaItem]:
        yield from (MediaItem(name) for name in self._names)
        if self._error:
            raise self._error


def test_a_line_says_how_far_how_fast_and_how_long_still() -> None:
    tally = Tally(lambda: 40, started=100.0)
    for status in (*[Status.STORED] * 7, Status.PRESENT, Status.COPY, Status.FAILED):
        tally.add(outcome(status))
    assert tally.describe(110.0) == (
        "10 of 40 items, 1.0/s, 2 hits, 1 failed, 10.0 KiB written, 30 s left"
    )


def test_without_a_total_no_time_is_promised() -> None:
    tally = Tally(lambda: None, started=0.0)
    tally.add(outcome(Status.STORED))
    assert tally.describe(0.1) == "1 item, 0 hits, 1.0 KiB written"


def test_plain_lines_come_now_and_then() -> None:
    now = [0.0]
    err = io.StringIO()
    progress = PlainProgress(
        Output(stderr=err), lambda: None, every_seconds=5, clock=lambda: now[0]
    )
    with progress:
        for _ in range(100):
            now[0] += 0.2
            progress.add(outcome(Status.STORED))
    assert len(err.getvalue().splitlines()) == 3


def test_a_terminal_shows_a_bar_and_lines_above_it() -> None:
    stream = io.StringIO()
    with RichProgress(stream, lambda: 4) as progress:
        progress.add(outcome(Status.STORED))
        progress.say("a\x1b[2J: decode: [red]truncated")
    assert "a\\x1b[2J: decode: [red]truncated" in stream.getvalue()


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_part_of_the_line_is_lost_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    clock = iter(range(0, 1_000_000, 10)).__next__
    stream = Screen()
    with RichProgress(stream, lambda: 4000, clock=clock) as progress:
        progress.add(outcome(Status.FAILED))
        progress.add(outcome(Status.PRESENT))
    shown = " ".join(stream.getvalue().split())
    for part in ("2 of 4,000 items", "/s,", "1 hit,", "1 failed,", "written,", " left"):
        assert part in shown


def test_a_failure_is_one_line_that_says_what_to_do() -> None:
    failure = Failure("decode", "truncated", "ends early", "fetch it again")
    line = item_line(outcome(Status.FAILED, "b\n\udce9.jpg", failure))
    assert line == "b\\n\\xe9.jpg: decode: truncated: ends early; fetch it again"
    assert item_line(outcome(Status.STORED)) == "a.jpg: stored"


def test_a_skipped_item_has_the_same_shape() -> None:
    reason = Failure("digest", "video", "not yet", "wait")
    assert (
        item_line(outcome(Status.SKIPPED, "c.mp4", reason))
        == "c.mp4: skipped: video: not yet; wait"
    )


def test_the_parts_of_a_corpus_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{n}.jpg" for n in range(50)]
    parts = [Corpus(Names(*names), shard=(part, 3)) for part in (1, 2, 3)]
    found = [item.path for part in parts for item in part.items()]
    assert sorted(found) == sorted(names)
    assert all(part.ended and part.found for part in parts)


def test_a_limit_takes_the_first_ones() -> None:
    part = Corpus(Names("a", "b", "c"), limit=2)
    assert [item.path for item in part.items()] == ["a", "b"]


def test_naming_nothing_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no source"):
        corpus([])


def test_the_total_is_known_before_the_run_is_there() -> None:
    total = count_ahead(Corpus(Names("a", "b", "c")), walk=True)
    while total() is None:
        continue
    assert total() == 3


def test_the_total_of_a_run_that_ended_is_what_it_found() -> None:
    part = Corpus(Names("a", "b", error=NothingToDoError("x")), walkable=False)
    total = count_ahead(part, walk=True)
    assert total() is None
    part.ended, part.found = True, 2
    assert total() == 2


def test_the_first_signal_stops_softly_and_the_second_at_once() -> None:
    stopped: list[int] = []
    with Interrupts(lambda: stopped.append(1)) as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped == [1]
        assert isinstance(interrupts.error, Terminated)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert stopped == [1]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_without_a_signal_nothing_was_interrupted() -> None:
    with Interrupts(lambda: None) as interrupts:
        pass
    assert interrupts.error is None


def test_events_that_cannot_be_written_are_a_usage_error(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent" / "file")
    with pytest.raises(UsageError, match="--events"), open_events(absent):
        pass


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_events_that_find_no_space_end_the_run() -> None:
    with pytest.raises(StoreFullError, match="--events"), open_events("/dev/full") as events:
        events.write(outcome(Status.STORED))


def test_a_count_is_told_now_and_then() -> None:
    now = [0.0]
    err = io.StringIO()
    tell = calm_counter(Output(stderr=err), "checked", every_seconds=5, clock=lambda: now[0])
    for done in range(1, 11):
        now[0] += 1
        tell(done, 1000)
    assert err.getvalue() == "checked 5 of 1,000 entries\nchecked 10 of 1,000 entries\n"
