from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.care import DAY, NOW, add, entry, make_store
from vcache_cli.items import FileStat, Kind
from vcache_cli.outcome import Failure
from vcache_cli.protocols import Memo, Recall, Seen
from vcache_cli.store.index import Index, open_index
from vcache_cli.store.index_schema import index_path
from vcache_cli.store.index_values import pack_key, unpack_key
from vcache_cli.store.meta import StoreRoot

SHA = "ab" * 32
CONTEXT = "cd" * 32
KEY = "ef" * 32
STAT = FileStat(10, 1_000_000_000, 1_000_000_001, 2**63 + 5, 2**64 - 1)
SEEN = Seen(SHA, Kind.IMAGE)
BROKEN = Failure("decode", "truncated", "the file ends early", "replace it")


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return make_store(tmp_path / "store")


def settle(root: StoreRoot) -> None:
    """Make every directory look as if nothing happened to it lately."""
    for directory in [root.path, *root.path.glob("??")]:
        os.utime(directory, (NOW - 10 * DAY, NOW - 10 * DAY))


def keys(index: Index) -> set[str]:
    return {row.key for row in index.rows()}


def test_a_source_dated_after_2262_is_looked_up_like_any_other(root: StoreRoot) -> None:
    later = FileStat(10, 2**34 * 1_000_000_000, 1_000_000_001, 5, 1)
    with open_index(root, mode="w") as index:
        index.remember_unchanged("/a", STAT, SEEN)
        index.remember_unchanged("/b", later, SEEN)
        index.commit()
        assert index.unchanged("/a", later) is None
        assert index.unchanged("/b", later) is None
        assert index.recall([("/a", later), ("/a", STAT)], CONTEXT)[0] is None


def test_a_memo_is_found_before_and_after_it_is_written(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        index.remember_unchanged("/a\udce9\n", STAT, SEEN)
        index.remember_known(SHA, CONTEXT, KEY)
        index.remember_failure(SHA, CONTEXT, BROKEN)
        for _ in range(2):
            assert index.unchanged("/a\udce9\n", STAT) == SEEN
            assert index.known(SHA, CONTEXT) == KEY
            assert index.failed(SHA, CONTEXT) == BROKEN
            index.commit()
    with open_index(root, mode="r") as again:
        assert again.state == "ok"
        assert again.unchanged("/a\udce9\n", STAT) == SEEN
        assert again.failed(SHA, CONTEXT) == BROKEN


@pytest.mark.parametrize("field", ["size_bytes", "mtime_ns", "ctime_ns", "inode", "device"])
def test_a_changed_stat_is_not_unchanged(root: StoreRoot, field: str) -> None:
    changed = STAT._replace(**{field: getattr(STAT, field) - 1})
    with open_index(root, mode="w") as index:
        index.remember_unchanged("/a", STAT, SEEN)
        assert index.unchanged("/a", changed) is None
        assert index.unchanged("/b", STAT) is None


def test_a_file_that_may_still_change_is_not_remembered(root: StoreRoot) -> None:
    now_ns = time.time_ns()
    with open_index(root, mode="w") as index:
        for age_ns, expected in ((-(10**9), None), (10**9, None), (3 * 10**9, SEEN)):
            stat = FileStat(1, now_ns - age_ns, 1, 1, 1)
            index.remember_unchanged("/a", stat, SEEN, now_ns)
            assert index.unchanged("/a", stat) == expected


def test_recall_answers_as_the_single_lookups_do(root: StoreRoot) -> None:
    files = [(f"/{number}", FileStat(number, 1, 1, 1, 1)) for number in range(1200)]
    with open_index(root, mode="w") as index:
        for number, (path, stat) in enumerate(files):
            digest = f"{number % 50:064x}"
            if number % 3:
                index.remember_unchanged(path, stat, Seen(digest, Kind.IMAGE))
            if number % 2:
                index.remember_known(digest, CONTEXT, f"{number % 50:064x}")
            if number == 700:
                index.commit()
        for _ in range(2):
            for (path, stat), found in zip(files, index.recall(files, CONTEXT), strict=True):
                seen = index.unchanged(path, stat)
                assert (found.seen if found else None) == seen
                if found and seen:
                    assert found.key == index.known(seen.source_sha256, CONTEXT)
            index.commit()


def test_recall_finds_few_among_many(root: StoreRoot) -> None:
    files = [(f"/{number:04d}", FileStat(number, 1, 1, 1, 1)) for number in range(3000)]
    with open_index(root, mode="w") as index:
        for path, stat in files:
            index.remember_unchanged(path, stat, SEEN)
        index.commit()
        changed = ("/0010", FileStat(0, 0, 0, 0, 0))
        asked = [*files[::10], changed, ("/none", STAT)]
        found = index.recall(asked, None)
    assert found == [Recall(SEEN, None)] * 300 + [None, None]


def test_only_permanent_failures_are_remembered_and_all_are_forgotten(root: StoreRoot) -> None:
    with open_index(root, mode="w") as index:
        index.remember_failure(SHA, CONTEXT, Failure("write", "io", "x", transient=True))
        assert index.failed(SHA, CONTEXT) is None
        index.remember_failure(SHA, CONTEXT, BROKEN)
        index.commit()
        index.forget_failures()
        assert index.failed(SHA, CONTEXT) is None


def test_the_index_is_a_memo(root: StoreRoot) -> None:
    with open_index(root) as index:
        memo: Memo = index
        assert memo.unchanged("/a", STAT) is None


def test_refresh_finds_what_is_there_and_reads_it_once(root: StoreRoot) -> None:
    made = [entry(number) for number in range(6)]
    for each in made:
        add(root, each)
    with open_index(root, mode="w") as index:
        assert index.refresh().headers_read == 6
        assert keys(index) == {each.key for each in made}
        assert index.refresh().headers_read == 0
        row = next(index.rows("WHERE key = ?", (pack_key(made[0].key),)))
    provenance = made[0].provenance
    assert (row.model, row.stage, row.kind) == ("tiny", "features", "image")
    assert (row.num_tokens, row.source_sha256) == (4, provenance.source_sha256)
    assert row.created_seconds == NOW - DAY
    assert row.used_ns == (NOW - DAY) * 1e9
    assert row.tensors == (("features", "BF16", (4, 8)),)
    assert row.as_json()["created"] == provenance.created


def test_refresh_lists_no_directory_that_did_not_change(root: StoreRoot) -> None:
    for number in range(20):
        add(root, entry(number))
    settle(root)
    with open_index(root, mode="w") as index:
        index.refresh()
        assert index.refresh().directories_read == 0
        path = add(root, entry(99))
        assert index.refresh().headers_read == 1
        path.unlink()
        assert index.refresh().headers_read == 0
        assert len(keys(index)) == 20


def test_refresh_sees_replaced_removed_and_foreign_files(root: StoreRoot) -> None:
    paths = [add(root, entry(number)) for number in range(3)]
    with open_index(root, mode="w") as index:
        index.refresh()
        paths[0].unlink()
        add(root, entry(1), used=NOW)
        paths[2].chmod(0o644)
        paths[2].write_bytes(b"not an entry")
        (root.path / "notes").mkdir()
        (root.path / "notes" / "a.txt").write_bytes(b"12345")
        index.refresh()
        rows = {row.key: row for row in index.rows()}
        assert rows.keys() == {entry(1).key, entry(2).key}
        assert rows[entry(1).key].used_ns == NOW * 1e9
        assert rows[entry(2).key].finding == "header"
        assert rows[entry(2).key].model is None
        assert index.foreign_bytes() == 5
        (root.path / "notes" / "a.txt").unlink()
        (root.path / "notes").rmdir()
        index.refresh()
        assert index.foreign_bytes() == 0


def test_a_row_added_by_a_run_is_not_read_again(root: StoreRoot) -> None:
    made = entry(1)
    path = add(root, made)
    with open_index(root, mode="w") as index:
        index.add_entry(made, path.stat().st_size)
        added = next(index.rows())
        assert index.refresh().headers_read == 0
        os.utime(path, (NOW, NOW))
        assert index.refresh().headers_read == 1
        row = next(index.rows())
    assert {**added.as_json(), "used": row.as_json()["used"]} == row.as_json()


def test_sources_lead_to_keys_and_back(root: StoreRoot) -> None:
    key = entry(1).key
    add(root, entry(1))
    with open_index(root, mode="w") as index:
        index.refresh()
        index.add_source(key, "/b")
        index.add_source(key, "/a\udcff")
        assert index.sources(key) == ["/a\udcff", "/b"]
        assert index.keys_of("/a\udcff") == [key]
        index.remove(key)
        assert index.sources(key) == []
        assert index.totals().entries == 0


def damage_by_garbage(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def damage_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)


def make_newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def make_older(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 0")
    connection.close()


def lose_a_table(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE entries")
    connection.close()


@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        damage_by_garbage,
        damage_in_the_middle,
        make_newer,
        make_older,
        lose_a_table,
        lambda path: path.write_bytes(b""),
    ],
    ids=["deleted", "garbage", "middle", "newer", "older", "table", "empty"],
)
@pytest.mark.parametrize("mode", ["r", "w"])
def test_an_index_in_any_state_is_rebuilt(root: StoreRoot, spoil: object, mode: object) -> None:
    for number in range(5):
        add(root, entry(number))
    with open_index(root, mode="w") as index:
        index.refresh()
    assert callable(spoil)
    spoil(index_path(root.path))
    for _ in range(2):
        with open_index(root, mode="w" if mode == "w" else "r") as index:
            assert index.unchanged("/a", STAT) is None
            index.refresh()
            assert index.totals().entries == 5


def test_a_damaged_index_is_kept_as_evidence(root: StoreRoot) -> None:
    index_path(root.path).write_bytes(b"garbage" * 1000)
    with open_index(root, mode="w") as index:
        assert index.state == "rebuilt"
    assert index_path(root.path).with_suffix(".damaged").read_bytes()[:7] == b"garbage"


def test_an_index_that_breaks_while_open_goes_on_in_memory(root: StoreRoot) -> None:
    for number in range(30):
        add(root, entry(number))
    with open_index(root, mode="w") as index:
        index.refresh()
    with open_index(root, mode="w") as index:
        damage_in_the_middle(index_path(root.path))
        index.refresh()
        index.remember_unchanged("/a", STAT, SEEN)
        index.commit()
        assert index.totals().entries == 30


def test_a_locked_index_costs_memos_but_no_answer(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcache_cli.store.index_schema._BUSY_SECONDS", 0.05)
    add(root, entry(1))
    with open_index(root, mode="w") as index:
        index.refresh()
    holder = sqlite3.connect(index_path(root.path), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    add(root, entry(2))
    with open_index(root, mode="w") as index:
        index.refresh()
        assert index.totals().entries == 2
        index.remember_known(SHA, CONTEXT, KEY)
    holder.execute("ROLLBACK")
    holder.close()
    assert not index_path(root.path).with_suffix(".damaged").exists()
    with open_index(root, mode="r") as index:
        assert index.state == "ok"


def test_a_full_index_costs_memos_but_no_answer(root: StoreRoot) -> None:
    add(root, entry(1))
    with open_index(root, mode="w") as index:
        index.refresh()
        index.query("PRAGMA max_page_count = 1", types=(int,))
        for number in range(5000):
            index.add_source(f"{number:064x}", "/a" * 50)
        add(root, entry(2))
        index.refresh()
        assert index.totals().entries == 2
    with open_index(root, mode="r") as index:
        assert index.state == "ok"


def test_on_a_network_filesystem_a_copy_is_worked_in_and_put_back_whole(
    root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcache_cli.store.filesystem._type_name", lambda _path: "nfs4")
    with open_index(root, mode="w") as index:
        assert index.state == "memory"
        index.remember_known(SHA, CONTEXT, KEY)
    with open_index(root, mode="r") as index:
        assert index.known(SHA, CONTEXT) == KEY
    assert [path.name for path in index_path(root.path).parent.glob("index*")] == ["index.sqlite"]


def test_two_writers_share_an_index(root: StoreRoot) -> None:
    with open_index(root, mode="w") as one, open_index(root, mode="w") as two:
        for number in range(100):
            one.remember_known(f"{number:064x}", CONTEXT, SHA)
            two.remember_known(f"{number + 1000:064x}", CONTEXT, KEY)
            if number % 10 == 0:
                one.commit()
                two.commit()
    with open_index(root) as index:
        assert index.known(f"{99:064x}", CONTEXT) == SHA
        assert index.known(f"{1099:064x}", CONTEXT) == KEY


def test_an_index_without_its_folder_is_in_memory_until_a_run_makes_one(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    add(root, entry(1))
    for path in sorted((root.path / ".vcache").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root.path / ".vcache").rmdir()
    with open_index(root, mode="r") as index:
        index.refresh()
        assert (index.state, index.totals().entries) == ("memory", 1)
    assert not (root.path / ".vcache").exists()
    with open_index(root, mode="w") as index:
        assert index.state == "rebuilt"


def test_keys_are_packed_only_where_that_loses_nothing() -> None:
    for key in ("ab" * 32, "AB" * 32, "ab" * 31, "request 7", "\u00e9" * 64, ""):
        assert unpack_key(pack_key(key)) == key
    assert isinstance(pack_key("ab" * 32), bytes)
    assert isinstance(pack_key("AB" * 32), str)


@pytest.mark.parametrize("there", ["database", "empty", "nothing"])
def test_a_link_in_place_of_the_index_is_not_followed(
    root: StoreRoot, tmp_path: Path, there: str
) -> None:
    outside = tmp_path / "theirs.db"
    if there == "database":
        with closing(sqlite3.connect(outside)) as theirs:
            theirs.execute("CREATE TABLE t (a)")
    elif there == "empty":
        outside.touch()
    before = outside.read_bytes() if outside.exists() else None
    index_path(root.path).symlink_to(outside)
    add(root, entry(1))
    with open_index(root, mode="w") as index:
        index.refresh()
        assert len(keys(index)) == 1
    assert (outside.read_bytes() if outside.exists() else None) == before
    assert not index_path(root.path).is_symlink()


def test_a_pipe_in_place_of_the_index_keeps_nobody_waiting(root: StoreRoot) -> None:
    os.mkfifo(index_path(root.path))
    with open_index(root, mode="w") as index:
        assert index.refresh().directories_read == 1


def test_a_use_that_was_noted_is_found_by_its_shard(root: StoreRoot) -> None:
    path, now_ns = add(root, entry(1)), time.time_ns()
    shard, key = path.parent.name, entry(1).key
    with open_index(root, mode="w") as index:
        index.refresh()
        assert index.used_within(shard, 0, 2**62) == [key]
        index.mark_used(key, now_ns + 5)
        index.commit()
        assert index.used_within(shard, now_ns + 5, now_ns + 5) == [key]
        assert index.used_within("zz", 0, 2**62) == []
        index.mark_used("ff" * 32, 7)  # of an entry that the index does not know
        index.commit()
        assert keys(index) == {key}


def test_keys_of_every_form_are_found_by_their_use(root: StoreRoot) -> None:
    paths = [add(root, entry(number)) for number in range(300)]
    shard = paths[0].parent.name
    hashes = {path.stem for path in paths if path.parent.name == shard}
    with open_index(root, mode="w") as index:
        index.refresh()
        assert set(index.used_within(shard, 0, 2**62)) == hashes
    text = min(hashes)
    with closing(sqlite3.connect(index_path(root.path))) as database, database:
        sql = "UPDATE entries SET key = ? WHERE key = ?"
        database.execute(sql, ("request 7", bytes.fromhex(text)))
    with open_index(root, mode="w") as index:
        assert set(index.used_within(shard, 0, 2**62)) == hashes - {text} | {"request 7"}


@pytest.mark.parametrize("kind", ["ext4", "nfs4"])
def test_a_schema_of_no_text_is_begun_anew(
    root: StoreRoot, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite quotes it in its message, which Python cannot read then."""
    with open_index(root, mode="w") as index:
        index.set_note("name", "value")
    path = index_path(root.path)
    data = path.read_bytes()
    assert b"tensorstensors" in data  # name and table, before the statement
    damaged = data.replace(b"tensorstensors", b"tens\xbdrstensors")
    path.write_bytes(damaged.replace(b"CREATE TABLE tensors", b"CREATE TABLE ten((rs"))
    monkeypatch.setattr("vcache_cli.store.filesystem._type_name", lambda _path: kind)
    with open_index(root, mode="w") as index:
        assert index.note("name") is None
        assert index.totals().entries == 0
