"""Everything found leaves as one item, in a fixed order, whatever the names and links."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.errors import NothingToDoError, ReadError, UsageError
from vcache_cli.items import MediaItem
from vcache_cli.media import Sources, read_item, shard_of, sources
from vcache_cli.media.lists import split_lines

TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n"


def make(folder: Path, *names: str) -> None:
    """Files with their own name as content."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))


def files_of(corpus: Sources) -> Iterator[MediaItem]:
    """Its items; there are no groups."""
    for item in corpus.items():
        assert isinstance(item, MediaItem)
        yield item


def names(folder: Path, items: Sequence[MediaItem]) -> list[str]:
    """Paths of items, below `folder`."""
    return [os.path.relpath(item.path, folder) for item in items]


def found(folder: Path, *specs: str, exclude: Sequence[str] = ()) -> list[str]:
    """Names below `folder` that the specs, relative to it, give."""
    named = [os.path.join(folder, spec) for spec in specs]
    return names(folder, list(files_of(sources(named, exclude=exclude))))


def test_a_folder_gives_its_files_by_name_and_then_its_folders(tmp_path: Path) -> None:
    make(tmp_path, "b.jpg", "a/z.jpg", "a/a/y.jpg", "c/x.jpg", "B.jpg")
    assert found(tmp_path, ".") == ["B.jpg", "b.jpg", "a/z.jpg", "a/a/y.jpg", "c/x.jpg"]


def test_hidden_names_and_caches_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", ".hidden.jpg", ".vcache/index", "store/CACHEDIR.TAG", "store/e.jpg")
    (tmp_path / "store/CACHEDIR.TAG").write_bytes(TAG)
    assert found(tmp_path, ".") == ["a.jpg"]


def test_a_pipe_by_the_name_of_a_cache_tag_keeps_nobody_waiting(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "b/c.jpg")
    os.mkfifo(tmp_path / "b/CACHEDIR.TAG")
    assert found(tmp_path, ".") == ["a.jpg", "b/CACHEDIR.TAG", "b/c.jpg"]


def test_a_hidden_file_or_a_cache_that_is_named_is_taken(tmp_path: Path) -> None:
    make(tmp_path, ".hidden.jpg", "store/e.jpg", "store/CACHEDIR.TAG")
    (tmp_path / "store/CACHEDIR.TAG").write_bytes(TAG)
    assert found(tmp_path, ".hidden.jpg", "store") == [
        ".hidden.jpg",
        "store/CACHEDIR.TAG",
        "store/e.jpg",
    ]


def test_a_cache_tag_without_the_signature_hides_nothing(tmp_path: Path) -> None:
    make(tmp_path, "store/CACHEDIR.TAG", "store/e.jpg")
    assert found(tmp_path, ".") == ["store/CACHEDIR.TAG", "store/e.jpg"]


def test_links_to_folders_are_not_followed_and_loops_end(tmp_path: Path) -> None:
    make(tmp_path, "real/a.jpg", "elsewhere/b.jpg")
    (tmp_path / "real/up").symlink_to(tmp_path)
    (tmp_path / "real/side").symlink_to(tmp_path / "elsewhere")
    assert found(tmp_path, "real") == ["real/a.jpg"]


def test_a_link_to_a_folder_that_is_named_is_walked(tmp_path: Path) -> None:
    make(tmp_path, "real/a.jpg")
    (tmp_path / "link").symlink_to("real")
    assert found(tmp_path, "link") == ["link/a.jpg"]


def test_a_link_to_a_file_has_the_facts_of_the_file(tmp_path: Path) -> None:
    make(tmp_path, "real.jpg")
    (tmp_path / "link.jpg").symlink_to("real.jpg")
    link, real = files_of(sources([str(tmp_path)]))
    assert link.stat == real.stat
    assert link.stat is not None


def test_what_cannot_be_read_is_an_item_whose_reading_says_why(tmp_path: Path) -> None:
    (tmp_path / "dangling.jpg").symlink_to("nowhere")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.jpg"))
        kinds = {}
        for item in files_of(sources([str(tmp_path)])):
            assert item.stat is None
            with pytest.raises(ReadError) as error:
                read_item(item, max_bytes=10)
            kinds[os.path.basename(item.path)] = error.value.item_kind
    assert kinds == {
        "dangling.jpg": "not_found",
        "loop.jpg": "not_found",
        "pipe.jpg": "not_a_file",
        "socket.jpg": "not_a_file",
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_listed_is_an_item(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "closed/b.jpg")
    (tmp_path / "closed").chmod(0)
    try:
        items = list(files_of(sources([str(tmp_path)])))
        assert names(tmp_path, items) == ["a.jpg", "closed"]
        with pytest.raises(ReadError, match="permission denied"):
            read_item(items[1], max_bytes=10)
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_a_folder_that_vanished_since_it_was_listed_is_an_item(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "gone/b.jpg")
    items = files_of(sources([str(tmp_path)]))
    next(items)
    (tmp_path / "gone/b.jpg").unlink()
    (tmp_path / "gone").rmdir()
    assert names(tmp_path, list(items)) == ["gone"]


def test_the_first_item_comes_before_other_folders_are_listed(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "later/b.jpg")
    items = files_of(sources([str(tmp_path)]))
    next(items)
    make(tmp_path, "later/c.jpg")
    assert names(tmp_path, list(items)) == ["later/b.jpg", "later/c.jpg"]


def test_a_named_file_is_explicit_and_a_found_one_is_not(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "d/b.jpg")
    items = files_of(sources([str(tmp_path / "a.jpg"), str(tmp_path / "d")]))
    assert [item.explicit for item in items] == [True, False]


def test_a_named_file_that_is_not_there_is_an_item(tmp_path: Path) -> None:
    (item,) = files_of(sources([str(tmp_path / "none.jpg")]))
    assert item.stat is None
    assert item.explicit


def test_an_item_named_twice_comes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a.jpg", "b.jpg")
    monkeypatch.chdir(tmp_path)
    items = sources(["b.jpg", "./b.jpg", ".", "*.jpg"]).items()
    assert [item.path for item in items] == ["b.jpg", "./a.jpg"]


@pytest.mark.parametrize(
    "name",
    [b"caf\xe9.jpg", b"new\nline.jpg", b"-dash.jpg", b"@at.jpg", b"sp ace.jpg", b"[x].jpg"],
    ids=["not-utf8", "newline", "dash", "at", "space", "brackets"],
)
def test_any_name_works_found_named_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    with open(name, "wb") as file:
        file.write(b"content")
    listed = sources(["-"], stdin=BytesIO(name + b"\0"), null=True)
    for corpus in (sources(["."]), sources([os.fsdecode(name)]), listed):
        (item,) = files_of(corpus)
        assert os.fsencode(os.path.basename(item.path)) == name
        assert read_item(item, max_bytes=100) == b"content"


GLOBS = {
    "*.jpg": ["a.jpg", "b.jpg"],
    "?.jpg": ["a.jpg", "b.jpg"],
    "[b-z].*": ["b.jpg", "c.png"],
    "d*": ["d/e/g.jpg"],
    "d/*/*.jpg": ["d/e/g.jpg"],
    "**/*.jpg": ["a.jpg", "b.jpg", "d/e/g.jpg"],
    "d/**": ["d/e/g.jpg"],
    "**": ["a.jpg", "b.jpg", "c.png", "d/e/g.jpg"],
    "**/e/**/*.jpg": ["d/e/g.jpg"],
    ".*.jpg": [".h.jpg"],
    "*/e/g.jpg": ["d/e/g.jpg"],
}


@pytest.mark.parametrize("pattern", GLOBS)
def test_a_glob_gives_what_a_shell_would_give(tmp_path: Path, pattern: str) -> None:
    make(tmp_path, "a.jpg", "b.jpg", "c.png", "d/e/g.jpg", ".h.jpg", "d/.i/j.jpg")
    assert found(tmp_path, pattern) == GLOBS[pattern]


def test_a_relative_glob_gives_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "d/a.jpg")
    monkeypatch.chdir(tmp_path)
    assert [item.path for item in sources(["**/*.jpg"]).items()] == ["d/a.jpg"]


def test_a_glob_without_a_match_stops_before_the_first_item(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg")
    with pytest.raises(NothingToDoError, match=r"no file matches `.*\*\.gif`"):
        next(sources([str(tmp_path), str(tmp_path / "*.gif")]).items())


@pytest.mark.parametrize("specs", [[], ["."]], ids=["nothing-named", "empty-folder"])
def test_an_empty_corpus_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, specs: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NothingToDoError, match="no file found"):
        list(sources(specs).items())


def test_an_empty_name_is_no_source() -> None:
    with pytest.raises(UsageError, match="an empty source"):
        next(sources([""]).items())


def test_a_list_names_files_and_folders_and_may_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "a.jpg", "d/b.jpg", "*.gif")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list").write_bytes(b"a.jpg\n\nd\na.jpg\nmissing.jpg\n*.gif")
    items = list(sources(["@list"]).items())
    assert [item.path for item in items] == ["a.jpg", "d/b.jpg", "missing.jpg", "*.gif"]
    assert [item.explicit for item in items] == [True, False, True, True]


def test_a_list_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no list file"):
        next(sources([f"@{tmp_path}/none"]).items())


def test_standard_input_that_is_not_there_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="standard input"):
        next(sources(["-"]).items())


def test_excluded_names_and_paths_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "a.txt", "thumbs/b.jpg", "d/e/c.jpg", "d/f/c.jpg")
    assert found(tmp_path, ".", exclude=["*.txt", "thumbs", "*/e/*"]) == ["a.jpg", "d/f/c.jpg"]


@given(st.lists(st.binary(min_size=1)), st.booleans())
def test_a_list_holds_any_bytes_but_its_separator(parts: list[bytes], null: bool) -> None:  # noqa: FBT001
    separator = b"\0" if null else b"\n"
    whole = [part for part in parts if separator not in part]
    read = split_lines(BytesIO(separator.join(whole)), null=null)
    assert [os.fsencode(path) for path in read] == whole


@given(st.binary(min_size=1), st.integers(1, 64))
def test_each_path_belongs_to_one_shard(name: bytes, count: int) -> None:
    assert 0 <= shard_of(os.fsdecode(name), count=count) < count


def test_shards_are_about_even() -> None:
    counts = [0] * 4
    for number in range(4000):
        counts[shard_of(f"photos/{number}.jpg", count=4)] += 1
    assert min(counts) > 900
