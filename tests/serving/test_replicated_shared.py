"""Payloads through shared memory, and the sample with its two processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.patience import PATIENCE_SECONDS
from tests.serving.threads import in_threads
from vcache_cli.serving.shared_payload import SharedMailbox, SharedPayload

ROOT = Path(__file__).resolve().parent.parent.parent
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def mailbox() -> Iterator[SharedMailbox]:
    """Of four slots, with names of its own."""
    with SharedMailbox(f"test-{secrets.token_hex(4)}", slots=4) as slots:
        yield slots


def shared(mailbox: SharedMailbox, payload: object) -> SharedPayload:
    """A payload in transit, its note as a pipe gives it."""
    note = mailbox.share(payload)
    assert note is not None
    copy = pickle.loads(pickle.dumps(note))  # noqa: S301  our own bytes
    assert copy == note
    return note


def exists(name: str) -> bool:
    """True where a segment of that name is there."""
    try:
        segment = SharedMemory(name)
    except FileNotFoundError:
        return False
    segment.close()
    return True


def test_a_payload_arrives_as_it_was(mailbox: SharedMailbox) -> None:
    payload = {
        "pixel_values": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "nested": [(np.array([[1, 2, 2]]), "text"), {"empty": np.zeros((0, 3)), "n": 7}],
        "column": np.asfortranarray(np.eye(3)),
        "strided": np.arange(20)[::2],
        "scalar": np.float16(2.5),
    }
    arrived = shared(mailbox, payload).take()
    np.testing.assert_equal(arrived, payload)
    assert arrived["pixel_values"].dtype == np.float32


def test_arrays_arrive_read_only_and_outlive_their_segment(mailbox: SharedMailbox) -> None:
    """Nobody can change what the cache will serve again."""
    arrived = shared(mailbox, np.arange(1_000)).take()
    mailbox.clear()
    assert not arrived.flags.writeable
    assert arrived.sum() == 499_500


def test_a_note_is_small(mailbox: SharedMailbox) -> None:
    note = shared(mailbox, {"pixel_values": np.zeros(1_000_000)})
    assert len(pickle.dumps(note)) < 500


def test_a_payload_is_taken_once(mailbox: SharedMailbox) -> None:
    note = shared(mailbox, np.zeros(3))
    note.take()
    with pytest.raises(LookupError, match="holds another payload"):
        note.take()


def test_a_slot_used_anew_is_not_mistaken_for_the_old_payload(mailbox: SharedMailbox) -> None:
    """A late or repeated note must never fetch another picture."""
    old = shared(mailbox, np.zeros(3))
    old.take()
    new = shared(mailbox, np.ones(3))
    assert new.name == old.name
    with pytest.raises(LookupError, match="holds another payload"):
        old.take()
    assert new.take().sum() == 3


def test_a_full_mailbox_says_so_and_goes_on_when_emptied(mailbox: SharedMailbox) -> None:
    notes = [shared(mailbox, np.full(3, number)) for number in range(4)]
    assert mailbox.share(np.zeros(3)) is None
    assert notes[2].take()[0] == 2
    assert shared(mailbox, np.zeros(100_000)).take().shape == (100_000,)
    assert [note.take()[0] for note in (notes[0], notes[1], notes[3])] == [0, 1, 3]


def test_clear_removes_every_segment_whoever_made_it(mailbox: SharedMailbox) -> None:
    note = shared(mailbox, np.zeros(3))
    assert exists(note.name)
    survivor = SharedMailbox(note.name.rpartition("-")[0], slots=4)
    assert survivor.clear() == 1
    assert not exists(note.name)
    with pytest.raises(LookupError, match="is gone"):
        note.take()
    assert mailbox.clear() == 0
    assert shared(mailbox, np.ones(2)).take().sum() == 2


def test_a_prefix_in_use_is_not_shared(mailbox: SharedMailbox) -> None:
    note = shared(mailbox, np.zeros(3))
    with pytest.raises(FileExistsError):
        SharedMailbox(note.name.rpartition("-")[0], slots=4).share(np.zeros(3))


def test_what_cannot_be_pickled_takes_no_slot(mailbox: SharedMailbox) -> None:
    for _ in range(8):
        with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
            mailbox.share([np.zeros(3), lambda: None])
    assert mailbox.clear() == 0


@pytest.mark.parametrize(
    ("prefix", "slots"), [("", 4), ("x" * 21, 4), ("a/b", 4), ("x", 0), ("x", 10_001)]
)
def test_a_bad_mailbox_is_refused_by_name(prefix: str, slots: int) -> None:
    with pytest.raises(ValueError, match=r"`prefix`|`slots`"):
        SharedMailbox(prefix, slots=slots)


@given(sizes=st.lists(st.integers(0, 5_000), max_size=6), seed=st.integers(0, 99))
def test_buffers_of_any_sizes_arrive(sizes: list[int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    payload = [chance.integers(0, 256, size, np.uint8) for size in sizes]
    with SharedMailbox(f"test-{secrets.token_hex(4)}", slots=1) as mailbox:
        np.testing.assert_equal(shared(mailbox, payload).take(), payload)


def test_threads_share_a_mailbox_without_mixing_payloads() -> None:
    with SharedMailbox(f"test-{secrets.token_hex(4)}", slots=8) as mailbox:

        def work(number: int) -> None:
            for _ in range(50):
                note = mailbox.share(np.full(2_000, number))
                assert note is not None
                assert (note.take() == number).all()

        in_threads(8, work)
        assert mailbox.clear() <= 8


def take_all(pipe: Connection) -> None:
    """Another process: sums of what arrives."""
    while (note := pipe.recv()) is not None:
        pipe.send(float(note.take().sum()))


def send_and_hang(pipe: Connection, prefix: str) -> None:
    """Another process, which will be killed with payloads in transit."""
    mailbox = SharedMailbox(prefix, slots=4)
    pipe.send([mailbox.share(np.full(1_000, number)) for number in range(3)])
    signal.pause()


@pytest.mark.slow
def test_another_process_takes_what_this_one_shares(mailbox: SharedMailbox) -> None:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=take_all, args=(theirs,))
    process.start()
    for number in range(20):
        ours.send(shared(mailbox, np.full(1_000, number)))
        assert ours.recv() == 1_000 * number
    ours.send(None)
    process.join(30)
    assert process.exitcode == 0


@pytest.mark.slow
def test_a_survivor_takes_what_was_sent_and_removes_the_rest() -> None:
    prefix = f"test-{secrets.token_hex(4)}"
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=send_and_hang, args=(theirs, prefix))
    process.start()
    notes: list[Any] = ours.recv()
    process.kill()
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    assert notes[0].take().sum() == 0
    assert SharedMailbox(prefix, slots=4).clear() == 3
    assert not any(exists(note.name) for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [None, "engine", "front"])
def test_the_sample_runs_and_leaves_no_segment(kill: str | None) -> None:
    options = ["--kill", kill] if kill else []
    command = [sys.executable, "samples/replicated_cache.py", "--requests", "40", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == (-signal.SIGKILL if kill == "front" else 0)
    assert done.stderr == ""
    if kill == "front":
        assert "the front end died" in done.stdout
    else:
        assert "requests: 40, all payloads as expected" in done.stdout
        retries = int(done.stdout.split("retries: ")[1].split()[0])
        assert retries <= (1 if kill else 0)
    prefix = done.stdout.split("segments: ")[1].partition("-*")[0]
    assert SharedMailbox(prefix, slots=100).clear() == 0
