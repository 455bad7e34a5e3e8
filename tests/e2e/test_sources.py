"""Every way to name a corpus, every name that a file can have."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.command import entries, vcache


@pytest.fixture
def folder(media: Path, tmp_path: Path) -> Path:
    """Three pictures and a text, in two folders."""
    place = tmp_path / "pictures"
    (place / "deep").mkdir(parents=True)
    shutil.copyfile(media / "hills.jpg", place / "a.jpg")
    shutil.copyfile(media / "chart.png", place / "b.png")
    shutil.copyfile(media / "depth.png", place / "deep/c.png")
    (place / "notes.txt").write_text("no picture", "utf-8")
    return place


@pytest.mark.parametrize(
    ("words", "stdin", "stored"),
    [
        (["."], b"", 3),
        (["a.jpg", "deep"], b"", 2),
        (["a.jpg", "./a.jpg", "."], b"", 3),
        (["*.png"], b"", 1),
        (["**/*.png"], b"", 2),
        (["[ab].*"], b"", 2),
        (["@list"], b"", 2),
        (["@nul", "-0"], b"", 2),
        (["-"], b"a.jpg\nb.png\n\ndeep\n", 3),
        (["-", "-0"], b"a.jpg\0deep/c.png", 2),
        ([".", "--exclude", "deep"], b"", 2),
        ([".", "--limit", "1"], b"", 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_corpus_can_be_named_in_many_ways(
    folder: Path, tiny_siglip: Path, store: Path, *, words: list[str], stdin: bytes, stored: int
) -> None:
    (folder / "list").write_text("a.jpg\n./deep/c.png\n", "utf-8")
    (folder / "nul").write_bytes(b"b.png\0deep/c.png\0")
    args = ("-m", tiny_siglip, "-s", store, "--json")
    run = vcache("warm", *words, *args, cwd=folder, stdin=stdin)
    assert run.code == 0
    assert run.items["stored"] == stored == len(entries(store))
    assert run.items["copy"] == run.items["failed"] == 0


STRANGE = (b"-m.jpg", b"new\nline.jpg", b"--help", b" two  spaces .jpg", b"@list", b"[*].jpg")


def test_any_name_that_a_file_can_have_works(
    media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    names = [*STRANGE] if sys.platform == "darwin" else [*STRANGE, b"caf\xe9.jpg"]
    folder = tmp_path / "strange"
    folder.mkdir()
    data = (media / "hills.jpg").read_bytes()
    for number, name in enumerate(names):
        Path(folder, os.fsdecode(name)).write_bytes(data + bytes([number]))
    options = ("-m", str(tiny_siglip), "-s", str(store), "--json")
    walked = vcache("warm", folder, *options)
    assert walked.code == 0
    assert walked.items["stored"] == len(names)
    again = vcache("warm", *options, "--", *names, cwd=folder)
    assert again.items["present"] == len(names)
    listed = vcache("warm", "-", "-0", *options, cwd=folder, stdin=b"\0".join(names))
    assert listed.items["present"] == len(names)
    globbed = vcache("warm", "*.jpg", *options, cwd=folder)
    assert globbed.items["present"] == len([name for name in names if name.endswith(b".jpg")])
    if b"caf\xe9.jpg" in names:
        (folder / os.fsdecode(b"caf\xe9.jpg")).write_bytes(b"\xff\xd8\xff")
        failed = vcache("warm", b"caf\xe9.jpg", *options, cwd=folder)
        assert failed.code == 3
        assert failed.document["failures"][0]["source"] == "caf\\xe9.jpg"


def test_links_are_survived_and_a_store_among_pictures_is_left_out(
    folder: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    (folder / "again").symlink_to(folder)
    (folder / "deep/up").symlink_to("..")
    (folder / "same.jpg").symlink_to("a.jpg")
    store = folder / "cache"
    args = ("warm", folder, "-m", tiny_siglip, "-s", store, "--json")
    first = vcache(*args)
    assert first.code == 0
    assert first.items["stored"] == 3
    assert first.items["copy"] == 1
    again = vcache(*args)
    assert again.items["total"] == first.items["total"]
    assert again.items["stored"] == 0


def test_shards_are_a_partition(corpus: Path, tiny_siglip: Path, store: Path) -> None:
    args = ("warm", corpus, "-m", tiny_siglip, "-s", store, "--json")
    first, second = (vcache(*args, "--shard", f"{part}/2") for part in (1, 2))
    assert first.items["stored"] > 0
    assert second.items["stored"] > 0
    assert first.items["present"] == second.items["present"] == 0
    whole = vcache(*args)
    assert whole.items["present"] == first.items["total"] + second.items["total"]
    assert whole.items["stored"] == 0


def test_a_plan_says_what_a_warm_then_does(corpus: Path, tiny_siglip: Path, store: Path) -> None:
    args = ("warm", corpus, "-m", tiny_siglip, "-s", store, "--json")
    plan = vcache(*args, "--dry-run")
    assert not store.exists()
    run = vcache(*args)
    assert plan.items["to_do"] == run.items["stored"]
    again = vcache(*args, "--dry-run")
    assert (again.items["to_do"], again.items["present"]) == (0, run.items["total"])
