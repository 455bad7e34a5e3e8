"""Fails each call of a command with each error that a system may answer it with."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from tests.crash.judge import judge, judge_rerun, reported
from tests.crash.matrix import Row
from tests.crash.scenes import Ran, contents, fresh, run_here
from tests.crash.shim import ERRNOS, Fail, Shim

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

    from tests.crash.scenes import Scene

__all__ = ["DOCUMENTED", "by_errno", "failed_once", "points"]

DOCUMENTED: Final = frozenset({0, 2, 3, 4, 10, 11, 13, 14})
"""Exit codes that a disk that fails may end a command with: all but an internal error."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_GONE: Final = frozenset({errno.ESTALE})
"""Errors that say that a file is not there any more: who meets them passes it by."""
_MOST_OF_A_SITE: Final = 3
"""The first calls of a site: what fails the fourth time would have failed before."""


def points(scene: Scene, folder: Path) -> list[tuple[str, int, int]]:
    """Every site, which of its calls, and the error."""
    store = fresh(scene, folder / "count" / "store")
    shim = Shim(store)
    with shim.installed():
        run_here(scene.words(store))
    found = []
    for error, names in ERRNOS.items():
        for site, count in sorted(shim.sites(names).items()):
            found += [(site, nth, error) for nth in range(min(count, _MOST_OF_A_SITE))]
    return found


def failed_once(scene: Scene, folder: Path, point: tuple[str, int, int], row: Row) -> None:
    """Run it with one call failing; then what it said and left, and a run that nothing disturbs."""
    site, nth, error = point
    name = f"{errno.errorcode[error]} {site} {nth}"
    store = fresh(scene, folder / name.replace("/", "-").replace(" ", "-") / "new" / "store")
    fail = Fail(site, error, nth=nth)
    with Shim(store, fail).installed():
        ran = run_here(scene.words(store))
    found = judge(scene, store, reported(store))
    found.left += _said(ran, error if fail.struck else 0)
    if ran.code == 0 and error not in _GONE and contents(store) != scene.final:
        found.left.append("it said that all was well, and it is not")
    found.add(judge_rerun(scene, store))
    row.add(f"{scene.name} {name}", found)
    row.codes[errno.errorcode[error], ran.code] += 1


def _said(ran: Ran, error: int) -> list[str]:
    """What is wrong with how it told of the error."""
    told = f"exit code {ran.code}: {ran.err.strip()}"
    if ran.code not in DOCUMENTED or "Traceback" in ran.err or "internal" in ran.err:
        return [told]
    if ran.code == 0:
        return []
    if not ran.err.strip():
        return [f"{told}nothing said"]
    if os.strerror(error) not in ran.err and ran.code != 11:
        return [f"{told} (expected: {os.strerror(error)})"]
    if (ran.code == 13 and error not in _FULL) or (ran.code == 2 and error != errno.EMFILE):
        return [f"{told} (another code was expected)"]
    return []


def by_errno(scene: Scene, folder: Path, *, step: int = 1) -> Row:
    """Fail each `step`-th point."""
    row = Row(scene.name)
    for point in points(scene, folder)[::step]:
        failed_once(scene, folder, point, row)
    return row
