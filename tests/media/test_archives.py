"""Members of archives and tables are items like files; what is damaged is told once."""

from __future__ import annotations

import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.media.containers import make_parquet, make_tar, make_zip
from vcache_cli.errors import ReadError
from vcache_cli.items import MediaItem
from vcache_cli.media import read_if, read_item, reopened, shard_of, sources

Make = Callable[[Path, dict[str, bytes]], Path]
MEMBERS = {"000001.jpg": b"\xff\xd8\xff one", "a/000002.png": b"\x89PNG two", "b.txt": b"text"}
MAKERS: dict[str, Make] = {"tar": make_tar, "zip": make_zip}


def items(*specs: Path, exclude: Sequence[str] = ()) -> list[MediaItem]:
    """Items of what is named."""
    found = sources([str(spec) for spec in specs], exclude=exclude).items()
    return [item for item in found if isinstance(item, MediaItem)]


def contents(found: Sequence[MediaItem]) -> list[bytes]:
    return [read_item(item, max_bytes=1 << 20) for item in found]


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_each_member_is_an_item_with_a_name_of_its_own(tmp_path: Path, kind: str) -> None:
    path = MAKERS[kind](tmp_path / f"c.{kind}", MEMBERS)
    found = items(path)
    assert contents(found) == list(MEMBERS.values())
    assert [item.source for item in found] == [f"{path}::{name}" for name in MEMBERS]
    assert [item.name for item in found] == list(MEMBERS)
    assert len({item.absolute_path for item in found}) == len(MEMBERS)
    assert {item.explicit for item in found} == {False}
    assert contents(pickle.loads(pickle.dumps(found))) == list(MEMBERS.values())  # noqa: S301


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_members_of_one_name_are_two_items(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"c.{kind}"
    if kind == "tar":
        with tarfile.open(path, "w") as tar:
            for data in (b"first", b"second"):
                info = tarfile.TarInfo("a.jpg")
                info.size = len(data)
                tar.addfile(info, BytesIO(data))
    else:
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("a.jpg", b"first")
            with pytest.warns(UserWarning, match="Duplicate"):
                packed.writestr("a.jpg", b"second")
    first, second = items(path)
    assert contents([first, second]) == [b"first", b"second"]
    assert first.absolute_path != second.absolute_path


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_only_the_head_decides_and_the_limit_holds(tmp_path: Path, kind: str) -> None:
    data = b"\xff\xd8\xff" + os.urandom(100_000)
    (item,) = items(MAKERS[kind](tmp_path / f"c.{kind}", {"a.jpg": data}))
    heads: list[bytes] = []
    assert read_if(item, heads.append) is None
    assert heads == [data[:64]]
    assert read_item(item, max_bytes=len(data)) == data
    with pytest.raises(ReadError, match="more than the limit") as raised:
        read_item(item, max_bytes=len(data) - 1)
    assert raised.value.item_kind == "too_large"


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_an_archive_that_changed_is_not_read(tmp_path: Path, kind: str) -> None:
    path = MAKERS[kind](tmp_path / f"c.{kind}", MEMBERS)
    found = items(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(ReadError, match="changed") as raised:
        read_item(found[0], max_bytes=99)
    assert raised.value.item_kind == "changed"


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_hidden_and_excluded_members_are_left_out(tmp_path: Path, kind: str) -> None:
    names = ["a.jpg", "./b.jpg", ".c.jpg", "d/._e.jpg", "__MACOSX/f.jpg", "g.txt", "../h.jpg"]
    path = MAKERS[kind](tmp_path / f"c.{kind}", dict.fromkeys(names, b"data"))
    assert [item.name for item in items(path, exclude=["*.txt"])] == [
        "a.jpg",
        "./b.jpg",
        "../h.jpg",
    ]


def test_names_never_touch_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    monkeypatch.chdir(tmp_path)
    for kind, make in MAKERS.items():
        names = {"secret.jpg": b"1", "../secret.jpg": b"2", str(tmp_path / "secret.jpg"): b"3"}
        assert contents(items(make(tmp_path / f"c.{kind}", names))) == [b"1", b"2", b"3"]


def test_a_folder_of_shards_is_a_corpus_and_logs_in_it_are_not(tmp_path: Path) -> None:
    make_tar(tmp_path / "0.tar", {"a.jpg": b"1"})
    make_zip(tmp_path / "1.zip", {"b.jpg": b"2"})
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "a.jpg"}\n')
    (tmp_path / "report.docx").write_bytes(
        make_zip(tmp_path / "1.zip", {"b.jpg": b"2"}).read_bytes()
    )
    names = [os.path.relpath(item.source, tmp_path) for item in items(tmp_path)]
    assert names == ["0.tar::a.jpg", "1.zip::b.jpg", "metadata.jsonl", "report.docx"]


def test_what_is_no_archive_by_its_bytes_is_a_file(tmp_path: Path) -> None:
    for name in ("a.tar", "b.zip", "c.parquet"):
        (tmp_path / name).write_bytes(b"\xff\xd8\xff a picture under a wrong name")
    assert [item.part for item in items(tmp_path)] == [None] * 3
    assert [item.trouble for item in items(tmp_path)] == [None] * 3


def test_a_tar_named_zip_is_a_tar(tmp_path: Path) -> None:
    assert contents(items(make_tar(tmp_path / "a.zip", MEMBERS))) == list(MEMBERS.values())


def test_an_archive_in_an_archive_stays_shut_and_is_told(tmp_path: Path) -> None:
    inner = make_tar(tmp_path / "inner.tar", MEMBERS).read_bytes()
    found = items(make_zip(tmp_path / "c.zip", {"inner.tar": inner, "a.jpg": b"1"}))
    assert [item.trouble and item.trouble.kind for item in found] == ["nested_archive", None]
    assert found[0].trouble is not None
    assert found[0].trouble.skipped


def test_a_packed_tar_is_refused_where_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(b"\x1f\x8b\x08")
    (named,), (walked,) = items(path), items(tmp_path)
    assert named.trouble is not None
    assert named.trouble.kind == "packed_archive"
    assert walked.trouble is None


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_odd_names_of_every_tar_form(tmp_path: Path, form: int) -> None:
    names = ["d/" * 45 + "a.jpg", *([] if form == tarfile.USTAR_FORMAT else ["é" * 150, "n" * 300])]
    path = tmp_path / "c.tar"
    with tarfile.open(path, "w", format=form) as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, BytesIO(b"abc"))
        tar.addfile(tarfile.TarInfo("empty"))
    found = items(path)
    assert [item.name for item in found] == [*names, "empty"]
    assert contents(found) == [b"abc"] * len(names) + [b""]


def test_links_devices_and_folders_hold_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.tar"
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
    with tarfile.open(path, "w") as tar:
        for kind in kinds:
            info = tarfile.TarInfo("a.jpg")
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
    found = items(path)
    assert [item.trouble and item.trouble.kind for item in found] == ["link"] * 4
    assert all(item.trouble and item.trouble.skipped for item in found)


@given(cut=st.integers(1, 4000))
def test_a_cut_archive_keeps_what_came_before(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    members = {f"{number}.jpg": bytes([number]) * 700 for number in range(3)}
    path = make_tar(folder / "c.tar", members)
    whole = path.read_bytes()[: 3 * 1536]
    path.write_bytes(whole[: max(512, len(whole) - cut)])
    found = items(path)
    good = [item for item in found if item.trouble is None]
    assert contents(good) == list(members.values())[: len(good)]
    bad = [item.trouble for item in found if item.trouble]
    (told,) = [each for each in bad if each]
    in_padding = path.stat().st_size % 1536 >= 512 + 700
    at_end = in_padding or path.stat().st_size % 1536 == 0
    assert told.skipped == at_end
    assert ("end mark" if at_end else "damaged at byte") in told.message


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_cells_of_a_table_come_in_any_order(tmp_path: Path, rows: int) -> None:
    members = {f"{number}.jpg": os.urandom(5000 + number) for number in range(40)}
    path = make_parquet(tmp_path / "c.parquet", members, row_group_size=rows)
    found = items(path)
    assert contents(found) == list(members.values())
    assert contents(found[::-1]) == list(members.values())[::-1]
    assert found[7].source == f"{path}::row 7 image.bytes"
    with pytest.raises(ReadError, match="more than the limit"):
        read_item(found[0], max_bytes=10)


def test_a_table_of_plain_bytes_and_empty_cells(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "c.parquet"
    parquet.write_table(pa.table({"x": [b"1", None], "y.z": [b"2", b"3"], "n": [1, 2]}), path)
    assert contents(items(path)) == [b"1", b"2", b"", b"3"]
    parquet.write_table(pa.table({"n": [1, 2]}), path)
    (none,) = items(path)
    assert none.trouble is not None
    assert none.trouble.kind == "no_images"


@pytest.mark.parametrize("kind", ["parquet", "tar", "zip"])
def test_an_item_is_found_again_by_its_place(tmp_path: Path, kind: str) -> None:
    makers: dict[str, Make] = {**MAKERS, "parquet": make_parquet}
    found = items(makers[kind](tmp_path / f"a::b.{kind}", MEMBERS))
    assert contents([reopened(item.absolute_path) for item in found]) == list(MEMBERS.values())
    assert reopened("/gone.tar::a.jpg#1").part is None


def test_parts_of_a_corpus_share_an_archive(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "c.tar", {f"{number}.jpg": b"1" for number in range(50)})
    counts = [
        sum(shard_of(item.locator, count=2) == part for item in items(path)) for part in (0, 1)
    ]
    assert sum(counts) == 50
    assert min(counts) > 10
