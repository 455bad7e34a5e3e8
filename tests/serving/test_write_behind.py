"""A queue that loses nothing it has accepted, whatever happens around it."""

from __future__ import annotations

import threading

import pytest

from vcache_cli.serving.write_behind import WriteBehind


def waiting_writer(
    done: list[int], *, max_entries: int = 4, max_bytes: int = 100, on_full: str = "wait"
) -> tuple[WriteBehind[str, int], threading.Event]:
    """A writer that begins when the event is set."""
    opened = threading.Event()

    def write(_key: str, job: int) -> None:
        assert opened.wait(10)
        done.append(job)

    return WriteBehind(
        write,
        max_entries=max_entries,
        max_bytes=max_bytes,
        on_full=on_full,  # type: ignore[arg-type]
    ), opened


def submit(writer: WriteBehind[str, int], job: int, size_bytes: int = 1, key: str = "k") -> bool:
    taken = writer.reserve(size_bytes)
    if taken:
        writer.append(key, job, size_bytes)
    return taken


def test_jobs_are_done_in_their_order() -> None:
    done: list[int] = []
    writer, opened = waiting_writer(done)
    opened.set()
    for job in range(50):
        assert submit(writer, job)
    assert writer.flush(10)
    assert done == list(range(50))
    writer.close()


def test_the_newest_job_of_a_key_is_pending_until_it_is_done() -> None:
    done: list[int] = []
    writer, opened = waiting_writer(done)
    for job in (1, 2):
        submit(writer, job)
    submit(writer, 3, key="other")
    assert writer.pending("k") == 2
    assert writer.pending("nobody") is None
    opened.set()
    writer.close()
    assert writer.pending("k") is None
    assert done == [1, 2, 3]


@pytest.mark.parametrize(("sizes", "taken"), [([1] * 6, 4), ([60, 60, 40], 2), ([500, 1], 1)])
def test_entries_and_bytes_are_bounded(sizes: list[int], taken: int) -> None:
    """A job larger than the whole bound is taken when it is alone."""
    writer, opened = waiting_writer([], on_full="drop")
    assert sum(submit(writer, 0, size) for size in sizes) == taken
    assert writer.drops == len(sizes) - taken
    opened.set()
    writer.close()


def test_waiters_are_refused_when_it_closes() -> None:
    done: list[int] = []
    writer, opened = waiting_writer(done)
    for job in range(4):
        submit(writer, job)
    results: list[bool] = []
    late = threading.Thread(target=lambda: results.append(submit(writer, 99)))
    late.start()
    late.join(0.05)
    writer.refuse()
    late.join(10)
    assert results == [False]
    opened.set()
    writer.close()
    assert done == [0, 1, 2, 3]
    assert not submit(writer, 100)


def test_a_close_waits_for_room_that_was_set_aside() -> None:
    done: list[int] = []
    writer, opened = waiting_writer(done)
    opened.set()
    assert writer.reserve(1)
    closing = threading.Thread(target=writer.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    writer.append("k", 7, 1)
    closing.join(10)
    assert done == [7]


def test_a_job_that_raises_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    raised: list[object] = []
    told = threading.Event()

    def hook(args: threading.ExceptHookArgs) -> None:
        raised.append(args.exc_type)
        told.set()

    monkeypatch.setattr(threading, "excepthook", hook)

    def write(_key: str, job: int) -> None:
        if job == 1:
            raise RuntimeError("a bug")
        done.append(job)

    writer: WriteBehind[str, int] = WriteBehind(write, max_entries=10, max_bytes=10)
    for job in range(4):
        submit(writer, job)
    assert writer.flush(10)
    submit(writer, 4)
    writer.close()
    assert done == [0, 2, 3, 4]
    assert told.wait(10)
    assert raised == [RuntimeError]


@pytest.mark.parametrize("bad", [{"max_entries": 0}, {"max_bytes": 0}, {"on_full": "x"}])
def test_a_queue_that_holds_nothing_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        WriteBehind(print, **{"max_entries": 1, "max_bytes": 1, **bad})  # type: ignore[arg-type]
