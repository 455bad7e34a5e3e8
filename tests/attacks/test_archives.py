"""Archives and tables that make some reader write, read or swell: here nothing of it happens.

Each is tried as a file and as an object of a bucket.
"""

from __future__ import annotations

import os
import secrets
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.media.containers import make_parquet, make_tar, make_zip
from vcache_cli.buckets import Place, open_bucket
from vcache_cli.errors import ItemError
from vcache_cli.items import MediaItem, Trouble
from vcache_cli.media import read_item, sources

MEMBERS = {"a.jpg": b"\xff\xd8\xff" + b"a" * 900, "b.jpg": b"\xff\xd8\xff" + b"b" * 900}
LIMIT = 1 << 20
IN_MEMORY_BYTES = 1 << 26


def items(path: Path) -> list[MediaItem]:
    return [each for each in sources([str(path)]).items() if isinstance(each, MediaItem)]


def troubles(path: Path) -> list[Trouble]:
    return [each.trouble for each in items(path) if each.trouble]


def outcome(item: MediaItem) -> str:
    """Size of what is read, or the kind of the failure."""
    if item.trouble:
        return item.trouble.kind
    try:
        return str(len(read_item(item, max_bytes=LIMIT)))
    except ItemError as error:
        return error.item_kind


def outcomes(path: Path) -> list[str]:
    """Of each item; in a bucket they are the same."""
    here = [outcome(item) for item in items(path)]
    if path.stat().st_size <= IN_MEMORY_BYTES:
        assert outcomes_in_a_bucket(path) == here
    return here


def outcomes_in_a_bucket(path: Path) -> list[str]:
    place = Place("memory", f"{secrets.token_hex(8)}/{path.name}")
    bucket = open_bucket(place)
    bucket.write(place.path, path.read_bytes())
    found = list(sources([place.url]).items())
    told = [outcome(each) for each in found if isinstance(each, MediaItem)]
    bucket.remove(place.path)
    return told


def patched(path: Path, at: int, data: bytes) -> Path:
    """`path` with some bytes replaced."""
    raw = bytearray(path.read_bytes())
    raw[at : at + len(data)] = data
    path.write_bytes(raw)
    return path


def signed(header: bytes) -> bytes:
    """A tar header with the checksum that it should have."""
    total = sum(header[:148]) + sum(header[156:]) + 8 * 32
    return header[:148] + b"%06o\0 " % total + header[156:]


def tar_header(name: str, size: bytes, kind: bytes = b"0") -> bytes:
    raw = bytearray(512)
    raw[: len(name)] = name.encode()
    raw[124 : 124 + len(size)] = size
    raw[156:157] = kind
    raw[257:265] = b"ustar\x0000"
    return signed(bytes(raw))


def test_a_bomb_is_refused_by_what_it_says_of_itself(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "c.zip", {"a.jpg": b"\xff\xd8\xff" + bytes(200 << 20)})
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    assert outcomes(path) == ["too_large"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_a_bomb_that_lies_is_unpacked_to_what_it_said_and_no_further(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "c.zip", {"a.jpg": b"\xff\xd8\xff" + bytes(200 << 20)})
    directory = path.read_bytes().rindex(b"PK\1\2")
    patched(path, directory + 24, struct.pack("<I", 5000))
    tracemalloc.start()
    assert outcomes(path) == ["damaged"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """Nested local headers, each a quote of the next: a small file that unpacks to petabytes."""
    path = make_zip(tmp_path / "c.zip", MEMBERS, zipfile.ZIP_STORED)
    raw = path.read_bytes()
    first = raw.index(b"PK\1\2")
    size = len(MEMBERS["a.jpg"]) + 100  # reaches into the next member
    patched(path, first + 20, struct.pack("<II", size, size))
    assert outcomes(path) == ["damaged", str(len(MEMBERS["b.jpg"]))]


def test_two_names_of_one_place_are_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "c.zip", MEMBERS, zipfile.ZIP_STORED)
    second = path.read_bytes().rindex(b"PK\1\2")
    patched(path, second + 42, struct.pack("<I", 0))
    assert "damaged" in outcomes(path)
    assert outcomes(path).count("damaged") >= 1


@pytest.mark.parametrize("flag_or_method", [(8, b"\1\0"), (10, b"\x0c\0"), (10, b"\x63\0")])
def test_what_cannot_be_unpacked_says_so(tmp_path: Path, flag_or_method: tuple[int, bytes]) -> None:
    path = make_zip(tmp_path / "c.zip", {"a.jpg": b"1"})
    at, data = flag_or_method
    patched(path, path.read_bytes().index(b"PK\1\2") + at, data)
    (trouble,) = troubles(path)
    assert trouble.kind in {"encrypted", "unsupported_packing"}


@pytest.mark.parametrize("cut", [1, 10, 30, 100])
def test_a_zip_without_its_end_is_one_failure(tmp_path: Path, cut: int) -> None:
    path = make_zip(tmp_path / "c.zip", MEMBERS)
    path.write_bytes(path.read_bytes()[:-cut])
    assert [(each.kind, each.skipped) for each in troubles(path)] == [("damaged", False)]


def test_a_directory_that_promises_too_much_ends(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "c.zip", MEMBERS)
    end = path.read_bytes().rindex(b"PK\5\6")
    patched(path, end + 8, struct.pack("<HH", 60_000, 60_000))
    assert outcomes(path) == ["damaged"]


@given(at=st.integers(0, 2300), data=st.binary(min_size=1, max_size=8))
def test_no_zip_raises(tmp_path_factory: pytest.TempPathFactory, at: int, data: bytes) -> None:
    path = make_zip(tmp_path_factory.mktemp("zip") / "c.zip", MEMBERS, zipfile.ZIP_STORED)
    outcomes(patched(path, min(at, path.stat().st_size - 1), data))


@given(at=st.integers(0, 4000), data=st.binary(min_size=1, max_size=8))
def test_no_tar_raises(tmp_path_factory: pytest.TempPathFactory, at: int, data: bytes) -> None:
    outcomes(patched(make_tar(tmp_path_factory.mktemp("tar") / "c.tar", MEMBERS), at, data))


@pytest.mark.parametrize(
    "size",
    [
        b"77777777777\0",  # 8 GiB
        b"\x80" + b"\0" * 3 + b"\x7f" * 8,  # 2 ** 63
        b"\xff" * 12,  # below zero
        b"-0000000001\0",
        b"9999\0",
        b"0x10\0",
    ],
)
def test_a_tar_that_promises_too_much_is_damaged_and_reads_nothing(
    tmp_path: Path, size: bytes
) -> None:
    path = make_tar(tmp_path / "c.tar", MEMBERS)
    good = path.read_bytes()[:1536]
    path.write_bytes(good + tar_header("bomb.jpg", size) + bytes(5000))
    assert outcomes(path) == ["903", "damaged"]


def test_a_header_with_a_wrong_checksum_ends_the_archive_there(tmp_path: Path) -> None:
    path = patched(make_tar(tmp_path / "c.tar", MEMBERS), 1536 + 3, b"X")
    assert outcomes(path) == ["903", "damaged"]
    assert "byte 1536" in troubles(path)[0].message
    patched(path, 3, b"X")
    assert [item.part for item in items(path)] == [None]  # no tar at all, by its first bytes


def test_sparse_members_are_told_and_not_unfolded(tmp_path: Path) -> None:
    """Old form and pax form: a kilobyte that stands for terabytes."""
    path = tmp_path / "c.tar"
    old = tar_header("sparse.jpg", b"00000000000\0", b"S")
    record = b"GNU.sparse.realsize=9999999999999\n"
    record = b"%d %s" % (len(record) + 3, record)
    pax = tar_header("x", b"%011o\0" % len(record), b"x") + record.ljust(512, b"\0")
    new = tar_header("new.jpg", b"00000000000\0")
    path.write_bytes(old + pax + new + bytes(1024))
    assert [trouble.kind for trouble in troubles(path)] == ["sparse", "sparse"]


@pytest.mark.parametrize("records", [b"9 size=-1\n", b"99 path=a\n", b"x", b"0 a=b\n", b"4 =\n\n"])
def test_pax_records_that_do_not_add_up_are_damage(tmp_path: Path, records: bytes) -> None:
    path = tmp_path / "c.tar"
    pax = tar_header("x", b"%011o\0" % len(records), b"x") + records.ljust(512, b"\0")
    path.write_bytes(pax + tar_header("a.jpg", b"00000000000\0") + bytes(1024))
    assert outcomes(path)[-1] in {"damaged", "0"}


def test_a_long_name_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "c.tar"
    path.write_bytes(tar_header("././@LongLink", b"07777777777\0", b"L"))
    os.truncate(path, 2 << 30)
    assert outcomes(path) == ["damaged"]


def test_a_link_to_a_secret_gives_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(b"\xff\xd8\xff secret")
    path = tmp_path / "c.tar"
    with tarfile.open(path, "w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            info = tarfile.TarInfo("a.jpg")
            info.type, info.linkname, info.size = kind, str(secret), 0
            tar.addfile(info)
        info = tarfile.TarInfo("b.jpg")
        info.size = 1
        tar.addfile(info, BytesIO(b"1"))
    assert outcomes(path) == ["link", "link", "1"]


@given(at=st.integers(4, 3000), data=st.binary(min_size=1, max_size=8))
def test_no_table_raises(tmp_path_factory: pytest.TempPathFactory, at: int, data: bytes) -> None:
    path = make_parquet(tmp_path_factory.mktemp("table") / "c.parquet", MEMBERS)
    outcomes(patched(path, min(at, path.stat().st_size - 9), data))


def test_a_million_members_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.tar"
    path.write_bytes(tar_header("a.jpg", b"00000000000\0") * 40_000 + bytes(1024))
    tracemalloc.start()
    count = sum(1 for _ in sources([str(path)]).items())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 40_000
    assert peak < 1 << 20


def test_the_directory_of_a_zip_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for number in range(20_000):
            packed.writestr(f"{number:080}.jpg", b"")
    tracemalloc.start()
    count = sum(1 for _ in sources([str(path)]).items())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 6 << 20


def test_a_wrong_sum_is_damage(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "c.zip", {"a.jpg": b"\xff\xd8\xff picture"}, zipfile.ZIP_STORED)
    wrong = struct.pack("<I", zlib.crc32(b"other"))
    patched(path, path.read_bytes().index(b"PK\1\2") + 16, wrong)
    assert outcomes(path) == ["damaged"]
