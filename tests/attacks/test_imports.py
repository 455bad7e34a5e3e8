"""Archives made to harm an importer: each is refused, and changes nothing where it lies."""

from __future__ import annotations

import io
import json
import os
import random
import tarfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.running import Result, Vcache, running
from tests.store.archives import Draft, Member, draft, exported, filled, member
from tests.store.care import add, entry, make_store
from vcache_cli.assemble import WarmOptions, import_archive
from vcache_cli.errors import FormatTooNewError, RefusedError
from vcache_cli.store import StoreRoot
from vcache_cli.store.archive_parts import ArchivedFile, Origin, Part
from vcache_cli.store.archive_tar import member_header

Bad = Callable[[Draft], bytes]


@pytest.fixture
def vcache(capsys: pytest.CaptureFixture[str]) -> Vcache:
    """The command, in this process."""
    return running(capsys)


@pytest.fixture
def good(tmp_path: Path) -> Draft:
    """What a store of four entries exports."""
    return draft(filled(tmp_path / "source"))


@pytest.fixture
def store(tmp_path: Path) -> StoreRoot:
    """The store to import into, which holds one of the four entries and a fifth."""
    return filled(tmp_path / "store", [0, 9])


def state(folder: Path) -> dict[str, bytes]:
    """Every file but what only says that vcache was there."""
    own = {".vcache/locks", ".vcache/index.sqlite"}
    return {
        name: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any((name := str(path.relative_to(folder))).startswith(each) for each in own)
    }


def imported(vcache: Vcache, data: bytes, store: Path) -> Result:
    """What `vcache import` says of the archive."""
    file = store.parent / "archive.tar"
    file.write_bytes(data)
    return vcache("import", file, "--store", store, "--json", "--min-free", "0")


def headed(archive: Draft, header: Callable[[str, int], bytes]) -> bytes:
    """The archive, its first file's header made otherwise."""
    first, *others = archive.members
    bad = replace(first, header=header(first.file.path, first.file.size_bytes))
    part = Part(0, archive.origin, tuple(each.file for each in archive.members)).encoded()
    return replace(archive, members=(bad, *others), part=part).encoded()


def other(**changes: object) -> Bad:
    """A first member that Python's tarfile writes with these attributes."""

    def header(name: str, size_bytes: int) -> bytes:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = size_bytes, 0o444, 0
        for attribute, value in changes.items():
            setattr(info, attribute, value)
        return info.tobuf(tarfile.PAX_FORMAT)

    return lambda archive: headed(archive, header)


def before_it(kind: bytes, record: bytes) -> Bad:
    """A pax record, or a long name, before the first member."""

    def header(name: str, size_bytes: int) -> bytes:
        info = tarfile.TarInfo("././@PaxHeader")
        info.type, info.size = kind, len(record)
        filled_up = record + bytes(-len(record) % 512)
        return info.tobuf(tarfile.USTAR_FORMAT) + filled_up + member_header(name, size_bytes)

    return lambda archive: headed(archive, header)


def named(*paths: str) -> Bad:
    """A first file of another name, properly described."""

    def bad(archive: Draft) -> bytes:
        first, *others = archive.members
        files = tuple(member(path, first.data) for path in paths)
        return replace(archive, members=(*files, *others)).encoded()

    return bad


def in_place(change: Callable[[bytes], bytes]) -> Bad:
    """A manifest whose bytes are changed."""

    def bad(archive: Draft) -> bytes:
        part = Part(0, archive.origin, tuple(each.file for each in archive.members))
        return replace(archive, part=change(part.encoded())).encoded()

    return bad


def huge(size_bytes: int) -> Bad:
    """A file that is said to have that many bytes, and has few."""

    def bad(archive: Draft) -> bytes:
        first, *others = archive.members
        bomb = replace(first, file=replace(first.file, size_bytes=size_bytes))
        return replace(archive, members=(bomb, *others)).encoded()

    return bad


def swapped(part: bytes) -> bytes:
    value = json.loads(part)
    value["files"].reverse()
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


REFUSED: dict[str, Bad] = {
    "symbolic link": other(type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "hard link": other(type=tarfile.LNKTYPE, linkname="../../etc/passwd"),
    "character device": other(type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "block device": other(type=tarfile.BLKTYPE, devmajor=8),
    "pipe": other(type=tarfile.FIFOTYPE),
    "folder": other(type=tarfile.DIRTYPE),
    "sparse file": other(type=tarfile.GNUTYPE_SPARSE),
    "unknown type": other(type=b"Z"),
    "setuid": other(mode=0o4777),
    "writable by all": other(mode=0o666),
    "owned by someone": other(uid=1000),
    "owned by a name": other(uname="root"),
    "dated": other(mtime=1),
    "another size": other(size=1),
    "another name": other(name="00/other.safetensors"),
    "absolute name in the header": other(name="/etc/cron.d/vcache"),
    "dots in the header": other(name="../../outside.safetensors"),
    "pax path": before_it(b"x", b"22 path=../../outside\n"),
    "pax size": before_it(b"x", b"22 size=1099511627776\n"),
    "pax link": before_it(b"x", b"24 linkpath=/etc/passwd\n"),
    "pax without end": before_it(b"x", b"999999 path=a\n"),
    "global pax": before_it(b"g", b"22 path=../../outside\n"),
    "gnu long name": before_it(b"L", b"../../outside\0"),
    "absolute name": named("/etc/passwd"),
    "dots": named("../outside.safetensors"),
    "dots within": named("00/../../outside.safetensors"),
    "double slash": named("00//outside.safetensors"),
    "folder as name": named("00/"),
    "empty name": named(""),
    "nul in the name": named("00/a\0b.safetensors"),
    "own description": named(".vcache/store.json"),
    "own index": named(".vcache/index.sqlite"),
    "own index in capitals": named(".VCACHE/index.sqlite"),
    "a manifest as a file": named(".vcache-export/000001.json"),
    "tag": named("CACHEDIR.TAG"),
    "stranger": named("readme.txt"),
    "escape sequence": named("00/\x1b[2J\x1b]0;pwned\x07.safetensors"),
    "out of order": in_place(swapped),
    "manifest with a key twice": in_place(lambda part: b'{"part":0,' + part[1:]),
    "manifest with spaces": in_place(lambda part: part.replace(b'"part":0', b'"part": 0')),
    "manifest with nan": in_place(lambda part: part.replace(b'"part":0', b'"part":NaN')),
    "negative size": in_place(lambda part: part.replace(b'"bytes":', b'"bytes":-', 1)),
    "size that is a text": in_place(lambda part: part.replace(b'"part":0', b'"part":"0"')),
    "nested manifest": in_place(lambda _: b"[" * 100_000),
    "manifest no json": in_place(lambda _: b"\xff\xfe"),
    "manifest too large": in_place(lambda part: part + b" " * 2**20),
    "part of another number": in_place(lambda part: part.replace(b'"part":0', b'"part":1')),
    "bomb of 3 GiB": huge(3 * 1024**3),
    "bomb of 2 GiB without data": huge(2 * 1024**3 - 1),
    "bomb of an exabyte": huge(2**60),
    "unknown target": lambda archive: replace(archive, origin=Origin("no-such")).encoded(),
    "target with a path": lambda archive: replace(archive, origin=Origin("../x")).encoded(),
    "other target": lambda archive: replace(archive, origin=Origin("omlx")).encoded(),
    "other options": lambda archive: replace(
        archive, origin=Origin("native", {"family": "other"})
    ).encoded(),
    "options without end": lambda archive: replace(
        archive, origin=Origin("native", {"a": "b" * 20_000})
    ).encoded(),
    "nothing": lambda _: b"",
    "zeros": lambda _: bytes(10_240),
    "noise": lambda _: bytes(range(256)) * 40,
    "gzip": lambda _: b"\x1f\x8b\x08" + bytes(600),
    "plain tar": lambda _: other_tar(),
}


def other_tar() -> bytes:
    """What any other program writes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a/b.safetensors"))
    return out.getvalue()


@pytest.mark.parametrize("bad", REFUSED.values(), ids=REFUSED)
def test_a_hostile_archive_is_refused_and_changes_nothing(
    vcache: Vcache, good: Draft, store: StoreRoot, bad: Bad
) -> None:
    before, around = state(store.path), set(os.listdir(store.path.parent))
    done = imported(vcache, bad(good), store.path)
    assert done.code == 16
    assert done.document["error"]["kind"] == "refused"
    assert state(store.path) == before
    assert set(os.listdir(store.path.parent)) == around | {"archive.tar"}
    assert "\x1b" not in done.err + done.out


@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.replace(b'"format":1', b'"format":2'),
        lambda part: part.replace(b'"store_format":1', b'"store_format":2'),
    ],
    ids=["export", "store"],
)
def test_a_newer_format_is_too_new(
    vcache: Vcache, good: Draft, store: StoreRoot, change: Callable[[bytes], bytes]
) -> None:
    before = state(store.path)
    assert imported(vcache, in_place(change)(good), store.path).code == 12
    assert state(store.path) == before


def test_the_archive_that_all_others_are_made_from_is_taken(
    vcache: Vcache, good: Draft, store: StoreRoot
) -> None:
    done = imported(vcache, good.encoded(), store.path)
    assert done.code == 0
    counts = {"total": 4, "stored": 3, "present": 1, "kept": 0, "repaired": 0, "failed": 0}
    assert done.document["entries"] == counts


BYTES: dict[str, tuple[str, Callable[[bytes], bytes], bool]] = {
    "other digest": ("digest", lambda data: data[:-1] + bytes([data[-1] ^ 1]), False),
    "flipped bit with its digest": ("checksum", lambda data: data[:-1] + b"\xff", True),
    "cut": ("header", lambda data: data[:-8], True),
    "header only": ("header", lambda data: data[:8], True),
    "empty": ("header", lambda _: b"", True),
    "shape below zero": ("header", lambda data: data.replace(b"[4,8]", b"[-4,-8]"), True),
    "program": ("header", lambda data: b"#!/bin/sh\n" + data, True),
}


@pytest.mark.parametrize("case", BYTES.values(), ids=BYTES)
def test_an_entry_that_is_none_is_refused_and_the_others_are_stored(
    vcache: Vcache, good: Draft, tmp_path: Path, case: tuple[str, Callable[[bytes], bytes], bool]
) -> None:
    """Also where the manifest's digest is right: whoever wrote it can compute one."""
    kind, change, honest = case
    store = make_store(tmp_path / "new")
    first, *others = good.members
    data = change(first.data)
    bad = member(first.file.path, data) if honest else replace(first, data=data)
    done = imported(vcache, replace(good, members=(bad, *others)).encoded(), store.path)
    assert done.code == 16
    assert done.document["entries"] | {"stored": 3, "failed": 1} == done.document["entries"]
    (failure,) = done.document["failures"]
    assert failure["kind"] == kind
    assert not (store.path / first.file.path).exists()


def test_an_entry_under_another_s_key_is_refused(
    vcache: Vcache, good: Draft, tmp_path: Path
) -> None:
    """The features of one picture must not be served for another."""
    store = make_store(tmp_path / "new")
    first, second, *_ = good.members
    swapped_data = Member(
        ArchivedFile(first.file.path, len(second.data), second.file.sha256), second.data
    )
    done = imported(vcache, replace(good, members=(swapped_data,)).encoded(), store.path)
    assert done.code == 16
    assert done.document["failures"][0]["kind"] == "key_mismatch"
    assert not list(store.path.glob("??/*.safetensors"))


def test_what_the_manifest_does_not_name_is_refused(
    vcache: Vcache, good: Draft, tmp_path: Path
) -> None:
    store = make_store(tmp_path / "new")
    *named_ones, last = good.members
    extra = replace(good, members=tuple(named_ones), extra=last.encoded()).encoded()
    done = imported(vcache, extra, store.path)
    assert (done.code, done.document["complete"]) == (16, False)
    assert not (store.path / last.file.path).exists()
    beyond = imported(vcache, good.encoded() + last.encoded(), store.path)
    assert beyond.code == 16


def test_a_file_that_comes_twice_is_refused(vcache: Vcache, good: Draft, store: StoreRoot) -> None:
    before = state(store.path)
    twice = (good.members[0], *good.members)
    assert imported(vcache, replace(good, members=twice).encoded(), store.path).code == 16
    assert state(store.path) == before


def test_wherever_it_is_cut_off_nothing_is_half_there(good: Draft, tmp_path: Path) -> None:
    data = good.encoded()
    wanted = {each.file.path: each.data for each in good.members}
    for number, end in enumerate(range(0, len(data), 300)):
        root = tmp_path / f"cut{number}"
        try:
            result = import_archive(io.BytesIO(data[:end]), store=root, options=WarmOptions())
        except RefusedError:
            assert not root.exists()
            continue
        assert isinstance(result.error, RefusedError)
        found = {str(path.relative_to(root)): path for path in root.glob("??/*.safetensors")}
        assert len(found) == result.counts["stored"]
        for name, path in found.items():
            assert path.read_bytes() == wanted[name]


def test_no_flipped_byte_lets_anything_else_in(good: Draft, tmp_path: Path) -> None:
    """Wherever it lies: in a header, the manifest, an entry, the zeros between or the end."""
    data, chosen = good.encoded(), random.Random(0)
    wanted = {each.file.path: each.data for each in good.members}
    for number in range(150):
        at = chosen.randrange(len(data))
        bad = data[:at] + bytes([data[at] ^ (1 << chosen.randrange(8))]) + data[at + 1 :]
        root = tmp_path / f"flip{number}"
        try:
            result = import_archive(io.BytesIO(bad), store=root, options=WarmOptions())
        except (RefusedError, FormatTooNewError):
            continue
        assert result.error or result.remarks.failures, at
        for path in root.glob("??/*.safetensors"):
            assert path.read_bytes() == wanted[str(path.relative_to(root))], at


def test_memory_follows_the_bytes_that_come_not_those_announced(
    good: Draft, store: StoreRoot
) -> None:
    data = huge(2 * 1024**3 - 1)(good)
    tracemalloc.start()
    try:
        result = import_archive(io.BytesIO(data), store=store.path, options=WarmOptions())
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024**2
    finally:
        tracemalloc.stop()
    assert isinstance(result.error, RefusedError)


def test_a_link_in_the_place_of_an_entry_is_replaced_not_followed(
    vcache: Vcache, good: Draft, store: StoreRoot, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = store.path / store.layout.path_of(entry(1).key)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(victim)
    assert imported(vcache, good.encoded(), store.path).code == 0
    assert victim.read_text() == "precious"
    assert not path.is_symlink()


def test_a_link_in_the_place_of_a_shard_lets_nothing_out(
    vcache: Vcache, good: Draft, store: StoreRoot, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    path = store.path / store.layout.path_of(entry(1).key)
    path.parent.symlink_to(outside)
    done = imported(vcache, good.encoded(), store.path)
    assert done.code == 3
    assert [each["key"] for each in done.document["failures"]] == [path.stem]
    assert not list(outside.iterdir())


def test_a_store_that_others_may_write_to_is_not_filled(
    vcache: Vcache, good: Draft, store: StoreRoot
) -> None:
    store.path.chmod(0o777)
    assert imported(vcache, good.encoded(), store.path).code == 16


def test_a_good_entry_is_never_replaced(vcache: Vcache, store: StoreRoot, tmp_path: Path) -> None:
    """An archive of whole entries can still be of anything: what is there stays."""
    other_one = make_store(tmp_path / "other")
    path = store.path / store.layout.path_of(entry(0).key)
    before = path.read_bytes()
    add(other_one, entry(0, created=1.0))
    done = imported(vcache, exported(other_one), store.path)
    assert (done.code, done.document["entries"]["kept"]) == (0, 1)
    assert done.document["warnings"][0]["kind"] == "conflict"
    assert path.read_bytes() == before
    os.chmod(path, 0o644)
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    mended = imported(vcache, exported(other_one), store.path)
    assert (mended.code, mended.document["entries"]["repaired"]) == (0, 1)
