"""A directory becomes a store once, whole, and only where nothing else lives."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from tests.store.faults import FaultyFiles
from vcache_cli.errors import (
    AccessError,
    NotAStoreError,
    RefusedError,
    StoreFullError,
    UsageError,
    VcacheError,
)
from vcache_cli.store import StoreMeta, adopt_meta, create_meta, read_meta
from vcache_cli.store.create import write_meta


def make(path: Path) -> StoreMeta:
    """A native store."""
    return create_meta(path, target="native")


def test_a_new_store_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store"
    made = create_meta(path, target="native", target_options={"a": 1}, shared="group")
    assert read_meta(path) == made
    assert (made.format, made.target, made.shared) == (1, "native", "group")
    assert sorted(os.listdir(path)) == [".vcache", "CACHEDIR.TAG"]
    assert sorted(os.listdir(path / ".vcache")) == [
        "locks",
        "quarantine",
        "runs",
        "store.json",
        "tmp",
    ]
    assert os.listdir(path / ".vcache/tmp") == []


def test_backup_programs_leave_a_store_out(tmp_path: Path) -> None:
    make(tmp_path / "s")
    tag = (tmp_path / "s/CACHEDIR.TAG").read_bytes()
    assert tag.startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")


def test_making_a_store_again_changes_nothing(tmp_path: Path) -> None:
    first = make(tmp_path / "s")
    before = (tmp_path / "s/.vcache/store.json").stat()
    assert make(tmp_path / "s") == first
    assert (tmp_path / "s/.vcache/store.json").stat() == before


def test_two_stores_have_two_ids(tmp_path: Path) -> None:
    assert make(tmp_path / "a").store_id != make(tmp_path / "b").store_id


def test_a_store_of_another_target_is_not_taken_over(tmp_path: Path) -> None:
    make(tmp_path / "s")
    with pytest.raises(UsageError, match="`native`"):
        create_meta(tmp_path / "s", target="omlx")


def test_a_store_with_options_is_of_these_alone(tmp_path: Path) -> None:
    options = {"fingerprint": "f" * 64}
    made = create_meta(tmp_path / "s", target="vllm-ec", target_options=options)
    assert create_meta(tmp_path / "s", target="vllm-ec", target_options=options) == made
    with pytest.raises(RefusedError, match="another model: fingerprint 'fff"):
        create_meta(tmp_path / "s", target="vllm-ec", target_options={"fingerprint": "e" * 64})
    with pytest.raises(RefusedError, match="another model"):
        create_meta(tmp_path / "s", target="vllm-ec")
    assert read_meta(tmp_path / "s") == made


def test_a_store_that_was_only_looked_after_takes_the_first_options(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    write_meta(tmp_path / "s", StoreMeta(1, "", "vllm-ec"))  # as `prune` does
    made = adopt_meta(tmp_path / "s", target="vllm-ec", target_options={"family": "a"})
    assert made.target_options == {"family": "a"}
    assert len(made.store_id) == 32
    assert read_meta(tmp_path / "s") == made
    with pytest.raises(RefusedError, match="family 'a', not 'b'"):
        adopt_meta(tmp_path / "s", target="vllm-ec", target_options={"family": "b"})


def test_a_directory_that_holds_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RefusedError, match=r"thesis\.txt"):
        make(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


@pytest.mark.parametrize("names", [[], ["lost+found"], [".DS_Store"]], ids=str)
def test_an_empty_directory_becomes_a_store(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    make(tmp_path)


def test_an_empty_directory_of_ours_is_closed_to_others(tmp_path: Path) -> None:
    """A user with umask 002 made it a moment ago."""
    path = tmp_path / "s"
    path.mkdir()
    path.chmod(0o775)
    make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_store_whose_own_folder_was_deleted_is_made_again(tmp_path: Path) -> None:
    make(tmp_path / "s")
    (tmp_path / "s/ab").mkdir()
    (tmp_path / "s/.vcache/store.json").unlink()
    make(tmp_path / "s")


@pytest.mark.parametrize("kind", ["file", "dangling"])
def test_what_is_no_directory_is_no_store(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s"
    path.write_text("x") if kind == "file" else path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(NotAStoreError):
        make(path)
    with pytest.raises(NotAStoreError):
        read_meta(path)


def test_a_store_may_be_reached_through_a_link(tmp_path: Path) -> None:
    made = make(tmp_path / "s")
    (tmp_path / "link").symlink_to(tmp_path / "s")
    assert read_meta(tmp_path / "link") == make(tmp_path / "link") == made


def test_many_who_make_one_store_agree_on_it(tmp_path: Path) -> None:
    found: list[StoreMeta] = []
    threads = [
        threading.Thread(target=lambda: found.append(make(tmp_path / "s"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({meta.store_id for meta in found}) == 1
    assert os.listdir(tmp_path / "s/.vcache/tmp") == []


def test_a_failure_at_any_step_leaves_no_half_store(tmp_path: Path) -> None:
    """Whatever is there afterwards, the next attempt makes a store of it."""
    files = FaultyFiles()
    create_meta(tmp_path / "whole", target="native", files=files)
    for step in range(len(files.log)):
        path = tmp_path / f"s{step}"
        with contextlib.suppress(VcacheError, OSError):  # a close of what is synced may pass
            create_meta(path, target="native", files=FaultyFiles(step, errno.EIO))
        assert make(path) == read_meta(path)


@pytest.mark.parametrize(
    ("error", "kind"), [(errno.ENOSPC, StoreFullError), (errno.EROFS, AccessError)]
)
def test_a_disk_that_cannot_be_written_says_why(
    tmp_path: Path, error: int, kind: type[VcacheError]
) -> None:
    with pytest.raises(kind):
        create_meta(tmp_path / "s", target="native", files=FaultyFiles(0, error))


def test_a_filesystem_without_links_gets_a_store_too(tmp_path: Path) -> None:
    class NoLinks(FaultyFiles):
        def __init__(self) -> None:
            super().__init__()
            self.link = self._link  # type: ignore[assignment]

        def _link(self, source: str, target: str) -> None:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), source)

    made = create_meta(tmp_path / "s", target="native", files=NoLinks())
    assert read_meta(tmp_path / "s") == made
    assert os.listdir(tmp_path / "s/.vcache/tmp") == []


@pytest.mark.parametrize("name", ["file/x", "file/x/y", "n" * 300, "loop/x"])
def test_a_place_where_nothing_can_be_is_no_store(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(NotAStoreError, match="cannot be made"):
        create_meta(tmp_path / name, target="native")
