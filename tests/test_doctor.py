"""The doctor says what is wrong, and exactly what to do; it changes nothing."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path

import pytest

from vcache_cli.doctor import Check, State, examine
from vcache_cli.doctor.machine import (
    check_clock,
    check_codecs,
    check_open_files,
    check_packages,
    check_profiles,
    check_python,
    package_versions,
)
from vcache_cli.doctor.speed import Backends, check_backends
from vcache_cli.doctor.store import check_store
from vcache_cli.profile import Profile
from vcache_cli.store.create import create_meta


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_whatever_is_not_well_has_a_fix(tmp_path: Path) -> None:
    bad = [
        check_python((3, 10)),
        check_packages({}),
        check_open_files(64),
        check_clock(0.0),
        check_codecs({"pillow": "11.3"}),
        *check_backends(Backends(unavailable={"mlx": "no wheel; install `mlx[cpu]`"})),
    ]
    assert State.OK not in {check.state for check in bad}
    assert all(check.fix for check in bad)
    assert all(check.as_json()["fix"] for check in bad)


def test_an_untested_server_package_is_told() -> None:
    profiles = [Profile("demo-1", 1, "demo", ("1.4",)), Profile("other", 1, "other", ("2",))]
    assert check_profiles(profiles, {"demo": "1.4.7"}).state is State.OK
    strange = check_profiles(profiles, {"demo": "1.5.0"})
    assert strange.state is State.WARN
    assert "1.5.0 is installed" in strange.message
    assert "--force-profile" in strange.fix


def test_this_machine_can_run_the_tests() -> None:
    checks = [check_python(), check_packages(package_versions()), check_clock()]
    assert {check.state for check in checks} == {State.OK}


def test_the_examination_names_a_backend_and_its_speed(tmp_path: Path) -> None:
    found = examine(tmp_path / "store")
    assert found.backends.chosen in found.backends.gflops
    assert found.backends.gflops["numpy"] > 0
    assert found.not_checked
    assert not (tmp_path / "store").exists()


def test_a_store_that_is_not_there_yet_is_well(tmp_path: Path) -> None:
    checks = check_store(tmp_path / "a/b")
    assert "the first warm makes one" in named(checks, "store").message
    assert named(checks, "space").state in {State.OK, State.WARN}


def test_a_whole_store_is_well(tmp_path: Path) -> None:
    root = tmp_path / "store"
    create_meta(root, target="native")
    checks = check_store(root)
    assert {check.state for check in checks} <= {State.OK, State.WARN}
    assert named(checks, "trust").state is State.OK
    assert named(checks, "index").message.startswith("not there")


def test_a_folder_that_is_no_store_fails(tmp_path: Path) -> None:
    (tmp_path / "picture.jpg").touch()
    assert named(check_store(tmp_path), "store").state is State.FAIL


def test_a_store_that_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    root = tmp_path / "store"
    create_meta(root, target="native")
    root.chmod(0o777)
    check = named(check_store(root), "trust")
    assert check.state is State.FAIL
    assert check.fix.startswith("chmod go-w")


def test_a_damaged_index_is_only_a_warning(tmp_path: Path) -> None:
    root = tmp_path / "store"
    create_meta(root, target="native")
    index = root / ".vcache/index.sqlite"
    index.write_bytes(b"not a database, but long enough to be looked at" * 100)
    check = named(check_store(root), "index")
    assert check.state is State.WARN
    assert check.fix.endswith(f"rm {index}")
    index.unlink()
    sqlite3.connect(index).close()
    assert named(check_store(root), "index").message == "whole"


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system lists no locks")
def test_who_holds_a_lock_is_told(tmp_path: Path) -> None:
    root = tmp_path / "store"
    create_meta(root, target="native")
    assert named(check_store(root), "locks").message == "nobody holds a lock"
    with open(root / ".vcache/locks/write", "w+") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert named(check_store(root), "locks").message.startswith("held: `write` by process")


def test_a_pipe_in_place_of_the_index_is_a_warning(tmp_path: Path) -> None:
    root = tmp_path / "store"
    create_meta(root, target="native")
    os.mkfifo(root / ".vcache/index.sqlite")
    check = named(check_store(root), "index")
    assert (check.state, "not a regular file" in check.message) == (State.WARN, True)
