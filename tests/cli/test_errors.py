"""Errors to exit codes: one table, one place."""

from __future__ import annotations

import errno
import itertools

import pytest

from vcache_cli import errors
from vcache_cli.cli.errors import PRECEDENCE, Terminated, explain, worst

CODES = {
    errors.VcacheError: 1,
    errors.UsageError: 2,
    errors.NothingToDoError: 2,
    errors.PartialFailureError: 3,
    errors.DamageError: 4,
    errors.GateError: 5,
    errors.NotAStoreError: 10,
    errors.LockBusyError: 11,
    errors.FormatTooNewError: 12,
    errors.StoreFullError: 13,
    errors.AccessError: 14,
    errors.ModelError: 15,
    errors.RefusedError: 16,
}


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=str)
def test_each_error_has_its_code(kind: type[errors.VcacheError], code: int) -> None:
    problem = explain(kind("what", hint="do"))
    assert (problem.code, problem.message, problem.hint) == (code, "what", "do")


def test_the_precedence_is_that_of_the_design() -> None:
    order = (1, 130, 16, 15, 14, 13, 4, 3, 5)
    for stronger, weaker in itertools.combinations(order, 2):
        assert worst([weaker, stronger]) == worst([stronger, weaker]) == stronger
    assert worst([]) == worst([0]) == 0
    assert worst([0, 5]) == 5


def test_every_code_has_its_place() -> None:
    assert set(PRECEDENCE) >= set(CODES.values()) | {0, 130, 143}
    assert len(set(PRECEDENCE)) == len(PRECEDENCE)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EACCES, 14),
        (errno.EROFS, 14),
        (errno.EPERM, 14),
        (errno.ENOSPC, 13),
        (errno.EDQUOT, 13),
        (errno.EFBIG, 13),
        (errno.EIO, 14),
        (errno.ESTALE, 14),
        (errno.EMFILE, 2),
        (errno.ELOOP, 2),
        (errno.ENAMETOOLONG, 2),
        (errno.ENXIO, 2),
        (errno.EPROTO, 1),
    ],
)
def test_a_system_error_that_escapes_has_a_code(number: int, code: int) -> None:
    assert explain(OSError(number, "x", "/some/file")).code == code


def test_a_system_error_names_the_file_safely() -> None:
    problem = explain(PermissionError(errno.EACCES, "x", "/caf\udce9"))
    assert problem.message == "/caf\\xe9: Permission denied"


def test_ctrl_c_and_a_request_to_end_differ() -> None:
    assert explain(KeyboardInterrupt()).code == 130
    assert explain(Terminated()).code == 143


def test_a_thread_that_cannot_start_is_a_limit_to_raise() -> None:
    problem = explain(RuntimeError("can't start new thread"))
    assert problem.code == 2
    assert "fewer --workers" in problem.hint


def test_what_nobody_foresaw_is_internal_and_says_how_to_see_more() -> None:
    problem = explain(ZeroDivisionError("division by zero"))
    assert problem.code == 1
    assert problem.message == "internal error: ZeroDivisionError: division by zero"
    assert "--debug" in problem.hint
