"""`export`, `import` and `merge`: what is chosen, what is said, and where."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path

import pytest

from tests.cli.running import Vcache
from tests.store.archives import draft, exported, filled
from tests.store.care import add, entry
from vcache_cli.items import Stage
from vcache_cli.store import StoreRoot


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """Two models' features, and pixels."""
    root = filled(tmp_path / "store", [0, 1])
    add(root, entry(2, model="other"))
    add(root, entry(3, stage=Stage.PIXELS, tokens=100))
    return root


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ((), {0, 1, 2, 3}),
        (("--model", "other"), {2}),
        (("--stage", "pixels"), {3}),
        (("--filter", "size>1KiB", "--filter", "stage=pixels"), {3}),
        (("--model", "tiny", "--stage", "features"), {0, 1}),
        (("--model", "nobody"), set()),
        (("--key", entry(1).key[:12], "--key", entry(2, model="other").key), {1, 2}),
        (("--key", entry(1).key, "--model", "other"), set()),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_an_export_has_what_fits_all_that_was_given(
    vcache: Vcache, root: StoreRoot, tmp_path: Path, words: tuple[str, ...], numbers: set[int]
) -> None:
    made = {
        number: entry(number, **more).key
        for number, more in (
            *((0, {}), (1, {}), (2, {"model": "other"})),
            (3, {"stage": Stage.PIXELS, "tokens": 100}),
        )
    }
    done = vcache("export", tmp_path / "a.tar", "--store", root.path, "--json", *words)
    assert done.code == 0
    with tarfile.open(tmp_path / "a.tar") as tar:
        names = {Path(name).stem for name in tar.getnames() if not name.startswith(".")}
    assert names == {made[number] for number in numbers}
    assert done.document["entries"] == len(numbers)


def test_an_export_for_a_corpus_has_what_that_corpus_needs(
    vcache: Vcache, warmed: Path, media: Path, tmp_path: Path
) -> None:
    """What goes to a server is what it will be asked for, wherever the pictures lie there."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    for name in ("hills.jpg", "chart.png"):
        (other / f"my-{name}").write_bytes((media / name).read_bytes())
    done = vcache("export", tmp_path / "a.tar", "-s", warmed, "--for", other, "--json")
    assert (done.code, done.document["entries"]) == (0, 2)
    for wrong in (tmp_path / "nowhere", tmp_path / "a.tar"):
        assert vcache("export", tmp_path / "b.tar", "-s", warmed, "--for", wrong).code == 2
    assert not (tmp_path / "b.tar").exists()


def test_a_choice_that_makes_no_sense_writes_nothing(
    vcache: Vcache, root: StoreRoot, tmp_path: Path
) -> None:
    archive = tmp_path / "a.tar"
    for words in (("--key", "f" * 64), ("--stage", "pictures"), ("--filter", "colour=red")):
        assert vcache("export", archive, "--store", root.path, *words).code == 2
    assert vcache("export", tmp_path / "no" / "a.tar", "--store", root.path).code == 2
    assert vcache("export", archive, "--store", tmp_path / "nowhere").code == 10
    assert not archive.exists()


def test_people_see_how_much_and_where(vcache: Vcache, root: StoreRoot, tmp_path: Path) -> None:
    archive, copy = tmp_path / "a.tar", tmp_path / "copy"
    out = vcache("export", archive, "--store", root.path).out
    assert "exported:  4 entries" in out
    assert str(archive) in out
    taken = vcache("import", archive, "--store", copy)
    assert "entries:  4 (4 stored)" in taken.out
    assert "was not checked" in taken.err
    merged = vcache("merge", copy, "--store", copy.with_name("m"))
    assert "entries:  4 (4 stored)" in merged.out
    assert vcache("import", archive, "--store", copy, "--quiet").out == ""


def test_people_see_which_entries_were_refused(
    vcache: Vcache, root: StoreRoot, tmp_path: Path
) -> None:
    data = draft(root).encoded()
    (tmp_path / "a.tar").write_bytes(data.replace(b'"[4,8]"', b"").replace(b"BF16", b"F16\x20"))
    done = vcache("import", tmp_path / "a.tar", "--store", tmp_path / "copy")
    assert done.code == 16
    assert done.out.count(": digest: ") == 4
    assert done.err.startswith("error: 4 entries were refused; ")


def test_stdout_takes_the_archive_or_a_document(
    vcache: Vcache, root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = vcache("export", "-", "--store", root.path, "--json")
    assert refused.code == 2
    assert json.loads(refused.out)["error"]["code"] == 2
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    done = vcache("export", "-", "--store", root.path)
    assert done.code == 0
    assert "exported" in done.err
    assert isinstance(out.buffer, io.BytesIO)
    assert out.buffer.getvalue() == exported(root)


def test_what_is_no_archive_is_told_with_what_to_do(vcache: Vcache, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"\x1f\x8b\x08" + bytes(100))
    done = vcache("import", tmp_path / "a.tar.gz", "--store", tmp_path / "copy")
    assert (done.code, "gzip -dc" in done.err) == (16, True)
    assert vcache("import", tmp_path / "none.tar", "--store", tmp_path / "copy").code == 2
    assert vcache("import", tmp_path, "--store", tmp_path / "copy").code == 2
    assert not (tmp_path / "copy").exists()
