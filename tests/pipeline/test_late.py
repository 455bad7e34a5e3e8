"""Workers begin with the first item that needs them, and where none does, never."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Never

import pytest

from tests.pipeline.fakes import Rig, write_items
from vcache_cli.engines import ThreadEngine
from vcache_cli.errors import ModelError
from vcache_cli.outcome import Status
from vcache_cli.pipeline.late import LateSession


def test_a_session_without_inputs_is_idle_and_not_begun() -> None:
    begun: list[int] = []

    def begin() -> Never:
        begun.append(1)
        pytest.fail("begun")

    session = LateSession[int, int](begin)
    assert not session.full
    assert session.pending == 0
    assert session.take(wait=True) == []
    assert not begun


def test_from_the_first_input_on_it_is_the_session_itself() -> None:
    with ExitStack() as held:
        engine = ThreadEngine(1, ahead=1)
        session = LateSession[int, int](lambda: held.enter_context(engine.session(abs)))
        found = []
        for value in (-1, -2, -3):
            while session.full:
                found += session.take(wait=True)
            session.submit(value)
        assert session.pending
        while session.pending:
            found += session.take(wait=True)
        assert sorted(found) == [1, 2, 3]  # in any order


def test_a_run_that_finds_everything_there_hires_nobody(tmp_path: Path) -> None:
    rig = Rig()
    items = write_items(tmp_path, [b"IMG 1", b"IMG 22"])
    rig.run(items)
    warm = rig.make()
    warm._parts = replace(warm._parts, hire=lambda: pytest.fail("hired"))
    assert {outcome.status for outcome in warm.run(items)} == {Status.PRESENT}


def test_who_cannot_be_hired_ends_the_run(tmp_path: Path) -> None:
    def refuse() -> Never:
        raise ModelError("no such numbers")

    rig = Rig()
    items = write_items(tmp_path, [b"IMG 1", b"IMG 22"])
    rig.run(items[:1])
    warm = rig.make()
    warm._parts = replace(warm._parts, hire=refuse)
    run = warm.run(items)
    assert next(run).status is Status.PRESENT
    with pytest.raises(ModelError, match="no such numbers"):
        next(run)
