"""An Outcome as a line of JSON."""

from __future__ import annotations

import json

import pytest

from vcache_cli.folders import FolderFiles
from vcache_cli.items import Kind, MediaItem
from vcache_cli.outcome import Notice, Outcome, PresentFiles, Status, lines_of

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


NAMES = [
    "a.jpg",
    'b "\\n" c.jpg',
    "d\n\u2028.jpg",
    "\udce9\udcff.jpg",
    "\U0001f600é.jpg",
    "\\u002f",
]


def present_files() -> PresentFiles:
    facts = [(size, 2, 3, 4, 5) for size in range(len(NAMES))]
    digests = [f"{number:064x}" for number in range(len(NAMES))]
    keys = ['k"1', *digests[1:]]
    return PresentFiles(FolderFiles('of "\udce9/', NAMES, facts), digests, keys)


def test_files_that_were_there_are_outcomes_each() -> None:
    files = present_files()
    first = Outcome(files.files[0], Status.PRESENT, 'k"1', "0" * 64, Kind.IMAGE)
    assert files[0] == first
    assert len(list(files)) == len(files) == len(NAMES)
    assert list(files[2:4]) == list(files)[2:4]
    assert list(files.chosen([True, *[False] * 5])) == [first]


def test_their_lines_are_those_of_the_outcomes_whatever_their_names() -> None:
    files = present_files()
    assert lines_of(files) == lines_of(list(files)) == [each.as_line() for each in files]
    assert [json.loads(line) for line in lines_of(files)] == [each.as_json() for each in files]
