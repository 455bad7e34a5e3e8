"""Progress is calm, true, and never names anything unsafely."""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.patience import until
from vcache_cli.cli.corpus import Corpus, corpus, count_ahead
from vcache_cli.cli.errors import Terminated
from vcache_cli.cli.events import open_events
from vcache_cli.cli.interrupts import Interrupts
from vcache_cli.cli.live_progress import LiveProgress, Pen, picture
from vcache_cli.cli.output import Output
from vcache_cli.cli.progress import PlainProgress, calm_counter, is_live, item_line, open_progress
from vcache_cli.cli.tally import Tally
from vcache_cli.errors import NothingToDoError, StoreFullError, UsageError
from vcache_cli.items import MediaItem
from vcache_cli.outcome import Failure, Outcome, Status

LANES = {"prepare": 4, "encode": 1, "write": 4}


def outcome(
    status: Status, path: str = "a.jpg", failure: Failure | None = None, **seconds: float
) -> Outcome:
    return Outcome(
        MediaItem(path), status, failure=failure, bytes_written=1024, seconds=dict(seconds)
    )


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
        tally.add([outcome(status)])
    assert tally.describe(110.0) == (
        "10 of 40 items, 1.0/s, 2 hits, 1 failed, 10.0 KiB written, 30 s left"
    )


def test_without_a_total_no_time_is_promised() -> None:
    tally = Tally(lambda: None, started=0.0)
    tally.add([outcome(Status.STORED)])
    assert tally.describe(0.1) == "1 item, 0 hits, 1.0 KiB written"


def test_each_stage_has_its_share_of_the_time_of_all_who_do_it() -> None:
    tally = Tally(lambda: None, started=0.0, lanes=LANES)
    for _ in range(10):
        tally.add([outcome(Status.STORED, digest=0.1, decode=2.0, preprocess=1.0, encode=0.9)])
    told = {each.stage: (round(each.share, 3), each.slowest) for each in tally.shares(10.0)}
    assert told == {
        "read": (0.025, False),
        "decode": (0.5, False),
        "preprocess": (0.25, False),
        "encode": (0.9, True),
        "write": (0.0, False),
    }
    assert tally.slowest(10.0) == "slowest: encode 90% busy"


def test_stages_that_share_their_workers_are_the_slowest_together() -> None:
    tally = Tally(lambda: None, started=0.0, lanes={"prepare": 2, "encode": 1})
    tally.add([outcome(Status.STORED, decode=6.0, preprocess=5.0, digest=5.0, encode=5.0)])
    assert tally.slowest(10.0) == "slowest: decode 30% busy"
    assert [each.stage for each in tally.shares(10.0)] == ["read", "decode", "preprocess", "encode"]


def test_where_all_wait_for_the_disk_or_nothing_was_done_no_stage_is_blamed() -> None:
    tally = Tally(lambda: None, started=0.0, lanes=LANES)
    assert tally.shares(10.0) == []
    tally.add([outcome(Status.STORED, decode=1.0)])
    assert tally.slowest(10.0) == ""
    assert tally.shares(1.0) == []


@given(
    st.lists(st.floats(0, 1e6), min_size=5, max_size=5),
    st.integers(1, 64),
    st.floats(2, 1e6),
)
def test_a_share_is_one_at_most(spent: list[float], lanes: int, elapsed: float) -> None:
    tally = Tally(lambda: None, 0.0, dict.fromkeys(LANES, lanes))
    stages = ("digest", "decode", "preprocess", "encode", "write")
    seconds = dict(zip(stages, spent, strict=True))
    tally.add([Outcome(MediaItem("a.jpg"), Status.STORED, seconds=seconds)])
    shares = tally.shares(elapsed)
    assert all(0 <= each.share <= 1 for each in shares)
    assert sum(each.slowest for each in shares) <= 1


def plain(err: io.StringIO, seconds: float, step: float) -> list[str]:
    """Lines of a run of that long, whose items end after `step` seconds each."""
    now = [0.0]
    tally = Tally(lambda: None, now[0], LANES)
    progress = PlainProgress(Output(stderr=err), tally, clock=lambda: now[0])
    with progress:
        while now[0] < seconds:
            now[0] += step
            progress.add([outcome(Status.STORED, encode=step)])
    return err.getvalue().splitlines()


def test_plain_lines_come_now_and_then_and_name_the_slowest_stage() -> None:
    lines = plain(io.StringIO(), 19, 0.2)
    assert len(lines) == 3
    assert lines[0].endswith("written; slowest: encode 100% busy")


def test_plain_lines_of_a_long_run_are_rarer() -> None:
    assert len(plain(io.StringIO(), 4 * 3600, 1.0)) < 320


def test_a_run_that_says_nothing_for_a_minute_is_still_at_work() -> None:
    now, err = [0.0], io.StringIO()
    progress = PlainProgress(Output(stderr=err), Tally(lambda: None, 0.0), clock=lambda: now[0])
    assert progress.remind() == 60
    progress.add([outcome(Status.STORED)])
    now[0] = 59.0
    assert progress.remind() == 1
    now[0] = 70.0
    progress.say("a.jpg: a warning")
    now[0] = 129.0
    assert progress.remind() == 1
    assert err.getvalue() == "a.jpg: a warning\n"
    now[0] = 130.0
    assert progress.remind() == 60
    assert err.getvalue().splitlines()[1:] == [
        "still at work: 1 item, 0.0/s, 0 hits, 1.0 KiB written"
    ]


@pytest.mark.parametrize(("json", "quiet"), [(False, False), (True, False), (False, True)])
def test_a_reminder_needs_no_item_but_somebody_who_reads_it(
    monkeypatch: pytest.MonkeyPatch, *, json: bool, quiet: bool
) -> None:
    monkeypatch.setattr("vcache_cli.cli.progress._SILENT_SECONDS", 0.0)
    err = io.StringIO()
    with PlainProgress(Output(json, quiet, stderr=err), Tally(lambda: None, 0.0)) as progress:
        until(lambda: err.getvalue() or not progress._reminder.is_alive())
    assert not progress._reminder.is_alive()
    assert bool(err.getvalue()) is not (json or quiet)


def test_a_terminal_shows_a_bar_and_lines_above_it() -> None:
    stream = io.StringIO()
    with LiveProgress(stream, Tally(lambda: 4, 0.0)) as progress:
        progress.add([outcome(Status.STORED)])
        progress.say("a\x1b[2J: decode: [red]truncated")
        progress.note("stopping")
    assert "a\\x1b[2J: decode: [red]truncated\n" in stream.getvalue()
    assert "stopping\n" in stream.getvalue()


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


class Ascii(Screen):
    """A terminal that knows few signs."""

    encoding = "ascii"


BUSY = Tally(lambda: 4_000_000, 0.0, LANES)
for _status in (Status.FAILED, Status.PRESENT, Status.STORED):
    BUSY.add([outcome(_status, decode=9.0, encode=29.0, write=3.0)])


@pytest.mark.parametrize("lines", [3, 24])
@pytest.mark.parametrize("columns", [1, 20, 40, 80, 140])
def test_no_line_is_wider_than_the_terminal(columns: int, lines: int) -> None:
    size = os.terminal_size((columns, lines))
    for stream in (Screen(), Ascii()):
        shown = picture(BUSY, 100.0, Pen(stream, colour=False), size)
        assert max(map(len, shown)) <= max(1, columns - 1)
        assert len(shown) < lines


def test_no_part_is_lost_on_a_narrow_terminal() -> None:
    shown = picture(BUSY, 100.0, Pen(Screen(), colour=False), os.terminal_size((40, 24)))
    for part in ("3 of 4,000,000 items", "/s,", "1 hit,", "1 failed,", "written,", " left"):
        assert part in " ".join(shown)
    (slowest,) = [line for line in shown if "slowest" in line]
    assert slowest.startswith("  encode ")
    assert slowest.endswith(" 87% busy, slowest")


def test_a_bar_is_as_full_as_its_share_and_ascii_where_it_has_to_be() -> None:
    pen = Pen(Ascii(), colour=False)
    assert [pen.bar(4, share) for share in (0, 0.5, 1)] == ["----", "##--", "####"]
    assert Pen(Screen(), colour=True).bar(2, 0.5) == "\x1b[36m\u2501\x1b[0m\x1b[90m\u2501\x1b[0m"


def test_without_a_total_there_is_no_bar() -> None:
    tally = Tally(lambda: None, 0.0)
    tally.add([outcome(Status.STORED)])
    shown = picture(tally, 1.0, Pen(Screen(), colour=False), os.terminal_size((80, 24)))
    assert shown == ["1 item, 0 hits, 1.0 KiB written"]


@pytest.mark.parametrize(
    ("variables", "quiet", "live"),
    [
        ({}, False, True),
        ({"NO_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({"CI": "true"}, False, False),
        ({}, True, False),
    ],
)
def test_lines_move_only_where_somebody_watches(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, quiet: bool, live: bool
) -> None:
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    output = Output(quiet=quiet, stderr=Screen())
    assert is_live(output) is live
    assert isinstance(open_progress(output, lambda: 1, lanes=LANES), LiveProgress) is live
    assert not is_live(Output(stderr=io.StringIO()))


def test_without_colours_nothing_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Screen()
    with LiveProgress(stream, BUSY, clock=lambda: 100.0):
        pass
    assert re.search(r"\x1b\[[\d;]*m", stream.getvalue()) is None


def test_a_terminal_that_is_closed_ends_no_run() -> None:
    class Closed(Screen):
        def flush(self) -> None:
            raise OSError(5, "Input/output error")

    with LiveProgress(Closed(), Tally(lambda: 1, 0.0)) as progress:
        progress.say("still here")


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
        events.write([outcome(Status.STORED)])


def test_a_count_is_told_now_and_then() -> None:
    now = [0.0]
    err = io.StringIO()
    tell = calm_counter(Output(stderr=err), "checked", every_seconds=5, clock=lambda: now[0])
    for done in range(1, 11):
        now[0] += 1
        tell(done, 1000)
    assert err.getvalue() == "checked 5 of 1,000 entries\nchecked 10 of 1,000 entries\n"
