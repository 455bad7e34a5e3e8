"""The doctor says what is wrong, and exactly what to do; it changes nothing."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from pathlib import Path

import pytest

from vcache_cli.assemble import open_root
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
from vcache_cli.doctor.place import (
    check_inside,
    check_place,
    judge_filesystem,
    judge_inodes,
    judge_path,
)
from vcache_cli.doctor.servers import Kept, check_mlx_vlm, check_omlx
from vcache_cli.doctor.speed import Backends, check_backends
from vcache_cli.doctor.store import check_store
from vcache_cli.profile import Profile
from vcache_cli.store import StoreRoot
from vcache_cli.store.create import create_meta
from vcache_cli.store.meta import StoreMeta
from vcache_cli.store.runs import RunLog
from vcache_cli.targets.omlx import OmlxTarget


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


def test_a_killed_run_is_told_and_a_live_one_too(tmp_path: Path) -> None:
    root = tmp_path / "store"
    create_meta(root, target="native")
    assert named(check_store(root), "last_run").message == "no run left a file here"
    log = RunLog(open_root(root))
    assert named(check_store(root), "last_run").message.endswith("goes on right now")
    log.close()
    check = named(check_store(root), "last_run")
    assert (check.state, "was killed" in check.message) == (State.WARN, True)
    RunLog(open_root(root), now=4e9).finish({})
    assert named(check_store(root), "last_run").message.endswith("came to its end")


def test_a_servers_own_store_is_well_where_it_was_recognised(tmp_path: Path) -> None:
    opened = StoreRoot(tmp_path, OmlxTarget().layout, StoreMeta(1, "", "omlx"))
    assert "a server's own" in named(check_store(tmp_path, opened), "store").message


@pytest.mark.parametrize(
    ("kind", "network", "state", "word"),
    [
        ("ext4", False, State.OK, "local"),
        (None, None, State.OK, "unknown"),
        ("nfs4", True, State.WARN, "network"),
        ("tmpfs", False, State.WARN, "restart"),
        ("overlay", False, State.WARN, "container"),
    ],
)
def test_the_traps_of_a_file_system_are_told(
    kind: str | None, *, network: bool | None, state: State, word: str
) -> None:
    check = judge_filesystem(kind, network=network, ignores_case=False)
    assert (check.state, word in check.message, bool(check.fix)) == (state, True, not_ok(check))


def not_ok(check: Check) -> bool:
    return check.state is not State.OK


def test_a_file_system_that_ignores_case_does_no_harm() -> None:
    check = judge_filesystem("apfs", network=False, ignores_case=True)
    assert check.state is State.OK
    assert "lower case" in check.message


def test_a_folder_that_is_synchronised_is_a_trap() -> None:
    assert judge_path(Path("/home/me/.cache/vcache")).state is State.OK
    assert judge_path(Path("/Users/me/Dropbox/store")).state is State.WARN
    inside = Path("/Users/me/Library/Mobile Documents/com~apple~CloudDocs/store")
    assert "Mobile Documents" in judge_path(inside).message


def test_a_disk_without_room_for_files_is_told() -> None:
    assert judge_inodes(0, 0).state is State.OK
    assert judge_inodes(1_000_000, 2_000_000).state is State.OK
    assert "vcache prune" in judge_inodes(12, 2_000_000).fix


def test_this_place_is_looked_at(tmp_path: Path) -> None:
    assert [check.name for check in check_place(tmp_path)] == [
        *("filesystem", "folder", "space", "inodes")
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_has_the_exact_fix(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir(mode=0o500)
    check = check_inside(tmp_path)
    assert check.state is State.WARN
    assert check.fix.startswith(f"chmod -R u+rwX {tmp_path}")


def test_a_folder_of_somebody_else_has_the_exact_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_inside(tmp_path).state is State.OK
    (tmp_path / "ab").mkdir()
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    check = check_inside(tmp_path)
    assert check.state is State.WARN
    assert check.fix.startswith(f"sudo chown -R 4711 {tmp_path}")


def test_an_omlx_reads_its_own_folder_and_no_other(tmp_path: Path) -> None:
    base = tmp_path / ".omlx"
    store = base / "cache/vision_features"
    assert check_omlx(Kept(store), base).message.startswith("not found")
    store.mkdir(parents=True)
    assert "this very folder" in check_omlx(Kept(store, "omlx"), base).message
    elsewhere = check_omlx(Kept(tmp_path / "s", "omlx"), base)
    assert elsewhere.state is State.WARN
    assert f"--store {store}" in elsewhere.fix
    assert check_omlx(Kept(tmp_path / "s", "native"), base).state is State.OK


def test_an_omlx_whose_cache_was_moved_is_followed(tmp_path: Path) -> None:
    base = tmp_path / ".omlx"
    base.mkdir()
    settings = base / "settings.json"
    settings.write_text(json.dumps({"cache": {"ssd_cache_dir": str(tmp_path / "ssd")}}))
    kept = Kept(tmp_path / "ssd/vision_features", "omlx")
    assert "this very folder" in check_omlx(kept, base).message
    for text in ("[]", "{", '{"cache": 1}'):
        settings.write_text(text)
        state = check_omlx(Kept(base / "cache/vision_features"), base).state
        assert state is (State.OK if "cache" in text else State.WARN)


def test_a_store_for_mlx_vlm_needs_its_version() -> None:
    profile = Profile("mlx-vlm-0.7", 1, "mlx-vlm", ("0.7",))
    kept, other = Kept(Path("/s"), "mlx-vlm"), Kept(Path("/s"), "native")
    assert check_mlx_vlm(other, {}, profile).state is State.OK
    assert check_mlx_vlm(kept, {}, profile).state is State.WARN
    assert "reads this store" in check_mlx_vlm(kept, {"mlx-vlm": "0.7.10"}, profile).message
    assert "not this one" in check_mlx_vlm(other, {"mlx-vlm": "0.7.10"}, profile).message
    assert check_mlx_vlm(kept, {"mlx-vlm": "0.9.0"}, profile).fix == "pip install 'mlx-vlm==0.7.*'"
