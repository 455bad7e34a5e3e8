"""Checks of a store: is it one, where does it lie, may we work in it, who else does."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from vcache_cli import registry
from vcache_cli.doctor.checks import Check, State
from vcache_cli.doctor.place import check_inside, check_place
from vcache_cli.errors import VcacheError
from vcache_cli.store import StoreRoot, check_trust, lock_holders, read_meta, vcache_dir
from vcache_cli.store.runs import last_run

if TYPE_CHECKING:
    from typing import Final

    from vcache_cli.protocols import Target

__all__ = ["check_store"]

_DOES: Final = {"write": "a run or an import writes", "gc": "a prune or a repair removes files"}
_ELSEWHERE: Final = "name another place with --store"


def check_store(path: Path, opened: StoreRoot | None = None) -> list[Check]:
    """Everything that can be said of the store at `path`, also where there is none yet.

    Args:
        path: the store.
        opened: it, where it was recognised: a server's own has nothing in it that says so.
    """
    place = _nearest(path)
    checks = check_place(place)
    if place != path:
        return [
            Check("store", State.OK, f"{path}: no store yet; the first warm makes one"),
            *checks,
            _writable(place),
        ]
    try:
        root = opened or _opened(path)
    except VcacheError as error:
        return [Check("store", State.FAIL, error.message, error.hint or _ELSEWHERE), *checks]
    index = _index(vcache_dir(path) / "index.sqlite")
    found = [check_inside(path), _trust(root), _locks(root), _last_run(root), index]
    return [_described(root), *checks, _writable(path), *found]


def _opened(path: Path) -> StoreRoot:
    meta = read_meta(path)
    target: Target = registry.load("targets", meta.target)()
    return StoreRoot(path, target.layout, meta)


def _described(root: StoreRoot) -> Check:
    meta = root.meta
    if not vcache_dir(root.path).is_dir():
        return Check("store", State.OK, f"{root.path}: a server's own, as target {meta.target}")
    text = f"{root.path}: target {meta.target}, format {meta.format}, {meta.shared}"
    return Check("store", State.OK, text)


def _nearest(path: Path) -> Path:
    """`path`, or the closest folder above it that is there."""
    return next((each for each in (path, *path.parents) if os.path.lexists(each)), Path("/"))


def _writable(place: Path) -> Check:
    facts = place.stat()
    mode = f"uid {facts.st_uid}, mode {stat.S_IMODE(facts.st_mode):04o}"
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        fix = "mount it writable, or choose another --store; reading works"
        return Check("writable", State.WARN, f"{place}: mounted read-only", fix)
    if os.access(place, os.W_OK | os.X_OK):
        return Check("writable", State.OK, f"{place}: writable ({mode})")
    fix = f"sudo chown -R {os.geteuid()} {place}, or choose another --store; reading works"
    message = f"{place}: not writable for uid {os.geteuid()} ({mode})"
    return Check("writable", State.WARN, message, fix)


def _trust(root: StoreRoot) -> Check:
    try:
        check_trust(root)
    except VcacheError as error:
        return Check("trust", State.FAIL, error.message, error.hint or _ELSEWHERE)
    return Check("trust", State.OK, "only its owner can have written it")


def _locks(root: StoreRoot) -> Check:
    holders = lock_holders(root)
    if not os.path.exists("/proc/locks"):
        return Check("locks", State.OK, "this system does not list who holds them")
    if not holders:
        return Check("locks", State.OK, "nobody holds a lock")
    shown = ", ".join(
        f"`{each.lock}` by process {each.pid}{_name_of(each.pid)}: {_DOES[each.lock]}"
        for each in holders
    )
    return Check("locks", State.OK, f"held: {shown}; a lock ends with its process")


def _name_of(pid: int) -> str:
    """The program, where the system tells; in a container others may not be seen."""
    try:
        text = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""
    return f" ({text})" if text else ""


def _last_run(root: StoreRoot) -> Check:
    run = last_run(root)
    if run is None:
        return Check("last_run", State.OK, "no run left a file here")
    if run.live:
        return Check("last_run", State.OK, f"{run.id} goes on right now")
    if run.summary is None:
        message = f"{run.id} was killed: what it stored is whole, the rest is to do"
        return Check("last_run", State.WARN, message, "run the same `vcache warm` again")
    return Check("last_run", State.OK, f"{run.id} came to its end")


def _index(path: Path) -> Check:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        fix = f"nothing is lost: move {path} away"
        return Check("index", State.WARN, f"{path}: not a regular file", fix)
    return _index_file(path)


def _index_file(path: Path) -> Check:
    if not path.exists():
        return Check("index", State.OK, "not there; it is rebuilt when it is needed")
    fix = f"nothing is lost: rm {path}"
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=1)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if not os.access(path.parent, os.W_OK):
            return Check(
                "index", State.OK, "in a place that is read-only: a copy in memory is used"
            )
        return Check("index", State.WARN, f"cannot be examined now: {error}", "try again later")
    except sqlite3.DatabaseError as error:
        return Check("index", State.WARN, f"damaged: {error}", fix)
    if found != "ok":
        return Check("index", State.WARN, f"damaged: {found}", fix)
    return Check("index", State.OK, "whole")
