"""An archive that says who made it: nothing of it is taken where that is not so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import Vcache, running
from tests.store.archives import filled
from vcache_cli.store import StoreRoot

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs `ssh-keygen`")


@pytest.fixture
def vcache(capsys: pytest.CaptureFixture[str]) -> Vcache:
    return running(capsys)


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return filled(tmp_path / "source", [0, 1])


def key(folder: Path, name: str) -> Path:
    """A new key, and a list of signers of it alone."""
    path = folder / name
    line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(line, check=True)
    signers = path.with_suffix(".signers")
    signers.write_text(f"{name}@example.org {path.with_suffix('.pub').read_text()}")
    return path


@pytest.fixture
def archive(root: StoreRoot, tmp_path: Path, vcache: Vcache) -> Path:
    """Signed by `ada`."""
    path = tmp_path / "a.tar"
    done = vcache("export", path, "-s", root.path, "--sign", key(tmp_path, "ada"))
    assert done.code == 0, done.err
    assert path.with_suffix(".tar.sig").read_text().startswith("-----BEGIN SSH SIGNATURE")
    return path


def test_an_archive_of_someone_on_the_list_is_taken(
    archive: Path, tmp_path: Path, vcache: Vcache
) -> None:
    store = tmp_path / "store"
    done = vcache("import", archive, "-s", store, "--signed-by", tmp_path / "ada.signers")
    assert done.code == 0, done.err
    assert "signed by ada@example.org" in done.err
    assert len(list(store.glob("??/*.safetensors"))) == 2


def test_all_others_are_refused_and_nothing_is_stored(
    archive: Path, root: StoreRoot, tmp_path: Path, vcache: Vcache
) -> None:
    store, signers = tmp_path / "store", tmp_path / "ada.signers"
    key(tmp_path, "eve")

    def refused(path: Path, who: Path = signers) -> bool:
        done = vcache("import", path, "-s", store, "--signed-by", who)
        return done.code == 16 and not store.exists()

    assert refused(archive, tmp_path / "eve.signers")
    good, signature = archive.read_bytes(), archive.with_suffix(".tar.sig")
    other = tmp_path / "other.tar"
    assert vcache("export", other, "-s", filled(tmp_path / "b", [7]).path).code == 0
    assert refused(other)  # not signed
    shutil.copy(signature, other.with_suffix(".tar.sig"))
    assert refused(other)  # with a signature of another one
    at = good.index(b'"sha256":"') + 12
    archive.write_bytes(good[:at] + (b"0" if good[at : at + 1] != b"0" else b"1") + good[at + 1 :])
    assert refused(archive)  # its manifest changed
    archive.write_bytes(good)
    signature.write_bytes(b"no signature")
    assert refused(archive)


def test_what_is_signed_stands_for_every_byte_of_every_entry(
    archive: Path, tmp_path: Path, vcache: Vcache
) -> None:
    good = archive.read_bytes()
    at = good.index(b"vcache.xxh3_128") + 20
    archive.write_bytes(good[:at] + (b"0" if good[at : at + 1] != b"0" else b"1") + good[at + 1 :])
    store = tmp_path / "store"
    done = vcache("import", archive, "-s", store, "--signed-by", tmp_path / "ada.signers")
    assert done.code == 16
    assert len(list(store.glob("??/*.safetensors"))) == 1


def test_a_pipe_is_refused_and_a_key_that_is_none_named(
    root: StoreRoot, tmp_path: Path, vcache: Vcache
) -> None:
    assert vcache("export", "-", "-s", root.path, "--sign", "x").code == 2
    done = vcache("export", tmp_path / "b.tar", "-s", root.path, "--sign", tmp_path / "none")
    assert done.code == 2
    assert "none cannot sign" in done.err


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "huge"])
def test_a_signature_that_never_ends_is_none(
    root: StoreRoot, tmp_path: Path, vcache: Vcache, kind: str
) -> None:
    path, store = tmp_path / "a.tar", tmp_path / "store"
    assert vcache("export", path, "-s", root.path).code == 0
    signature = path.with_suffix(".tar.sig")
    if kind == "pipe":
        os.mkfifo(signature)
    elif kind == "device":
        signature.symlink_to("/dev/zero")
    elif kind == "folder":
        signature.mkdir()
    else:
        signature.touch()
        os.truncate(signature, 1024**4)
    (tmp_path / "signers").write_text("")
    done = vcache("import", path, "-s", store, "--signed-by", tmp_path / "signers")
    assert (done.code, store.exists()) == (16, False)
    assert "is no signature" in done.err


def test_an_empty_name_is_no_leave_to_go_without(
    root: StoreRoot, tmp_path: Path, vcache: Vcache
) -> None:
    path, store = tmp_path / "a.tar", tmp_path / "store"
    assert vcache("export", path, "-s", root.path, "--sign", "").code == 2
    path.unlink()
    assert vcache("export", path, "-s", root.path).code == 0
    path.with_suffix(".tar.sig").write_text("x")
    assert vcache("import", path, "-s", store, "--signed-by", "").code == 2
    assert not store.exists()
