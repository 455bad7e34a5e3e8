"""The run that a user means: the last one, one of the store, or a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vcache_cli.errors import UsageError
from vcache_cli.store.run_file import RUN_SUFFIX, run_at
from vcache_cli.store.runs import list_runs, read_run

if TYPE_CHECKING:
    from vcache_cli.store import StoreRoot
    from vcache_cli.store.run_file import Run

__all__ = ["find_run", "run_path", "store_of"]


def run_path(spec: str) -> Path | None:
    """The file that `spec` names; None where it is the id of a run, ``last`` or ``previous``."""
    return Path(spec) if "/" in spec or spec.endswith(RUN_SUFFIX) else None


def store_of(path: Path) -> Path | None:
    """The store in which a run file lies; None where it lies elsewhere."""
    folder = path.absolute().parent
    inside = (folder.name, folder.parent.name) == ("runs", ".vcache")
    return folder.parent.parent if inside else None


def find_run(root: StoreRoot | None, spec: str, *, before: Run | None = None) -> Run:
    """The run that `spec` names.

    Args:
        root: the store; None where only a file can be meant.
        spec: an id, ``last``, ``previous``, or the path of a run file.
        before: the run that ``previous`` is the one before.

    Raises:
        UsageError: there is none, or the file is no run file.
    """
    path = run_path(spec)
    if path is not None:
        return _file(path)
    if root is None:
        raise UsageError(f"run `{spec}` is one of a store", hint="name the store with --store")
    if spec == "previous":
        return _previous(root, before)
    if spec == "last" and not list_runs(root):
        raise UsageError(
            f"no run of `vcache warm` left a file in {root.path}",
            hint="`vcache stats` says what a store holds",
        )
    return read_run(root, spec)


def _file(path: Path) -> Run:
    run = run_at(Path(os.path.realpath(path)))  # which takes links that lead in circles
    if run is None:
        raise UsageError(f"no run file `{path}`, or it cannot be read")
    if run.summary is None and next(run.outcomes(), None) is None:
        raise UsageError(
            f"{path} is no run file",
            hint="they lie in `.vcache/runs/` of a store, and end with .jsonl",
        )
    return run


def _previous(root: StoreRoot, before: Run | None) -> Run:
    runs = list_runs(root)
    ids = [run.id for run in runs]
    at = ids.index(before.id) if before and before.id in ids else len(runs)
    earlier = [run for run in runs[:at] if before is None or run.id != before.id]
    if not earlier:
        raise UsageError(f"no run in {root.path} is earlier", hint="leave --compare away")
    return earlier[-1]
