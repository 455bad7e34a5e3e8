"""`vcache doctor`: what is wrong here, and the exact fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcache_cli.cli.blocks import Block, Facts, Lines, Table
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.options import (
    JsonOption,
    QuietOption,
    StoreArgument,
    StoreOption,
    settings_for,
    the_store,
)
from vcache_cli.cli.output import Output
from vcache_cli.cli.text import count
from vcache_cli.errors import VcacheError

if TYPE_CHECKING:
    from vcache_cli.doctor import Diagnosis
    from vcache_cli.store import StoreRoot

__all__ = ["doctor"]


def doctor(
    where: StoreArgument = None,
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Check this machine and the store, and say what to do.

    Looks at versions, backends and their measured speed, the file system, space, permissions,
    limits, locks, and the servers that are installed. Changes nothing.
    """
    from vcache_cli.doctor import examine

    path = settings_for(store=the_store(where, store)).store
    found = examine(path.absolute(), _recognised(path))
    return Output(as_json, quiet).finish(
        envelope("doctor", found.as_json(), store=path),
        _view,
        bare=[f"{check.state}: {check.name}: {check.message}" for check in found.failed],
        problem=_problem(found),
    )


def _recognised(path: Path) -> StoreRoot | None:
    from vcache_cli.assemble import open_root

    try:
        return open_root(path)
    except VcacheError:  # the doctor says itself what is wrong with it
        return None


def _problem(found: Diagnosis) -> Problem | None:
    if not found.failed:
        return None
    names = ", ".join(check.name for check in found.failed)
    message = f"{count(len(found.failed), 'check')} failed: {names}"
    return Problem(2, "doctor", message, found.failed[0].fix)


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    checks = document["checks"]
    rows = tuple((check["state"], check["name"], check["message"]) for check in checks)
    fixes = tuple(f"fix {check['name']}: {check['fix']}" for check in checks if "fix" in check)
    versions = ", ".join(f"{name} {text}" for name, text in document["versions"].items())
    return (
        Table(("state", "check", "found"), rows),
        Lines(fixes),
        Facts((("versions", versions),)),
        Lines(tuple(f"not checked: {text}" for text in document["not_checked"])),
    )
