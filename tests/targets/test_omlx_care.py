"""What oMLX's server would make of files, judged from values alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.protocols import Examiner, GroupTarget, ServerView, StoredFile
from vcache_cli.targets import OmlxLayout, OmlxTarget, omlx_key
from vcache_cli.targets.omlx_care import CAPACITY_BYTES

LAYOUT = OmlxLayout()
MODEL = "/models/qwen"
NOW = 1_800_000_000.0
HASHES = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(40)]


def stored(
    image: str = HASHES[0],
    shape: tuple[int, ...] = (12, 16),
    path: str | None = None,
    size_bytes: int = 100,
    **more: str,
) -> StoredFile:
    """An entry of one array, under its own name where no path is given."""
    metadata = {"model_name": MODEL, "image_hash": image, "num_tensors": "1", **more}
    key = omlx_key(metadata["model_name"], image)
    tensors = {"feature": ("BF16", shape)}
    where = path or f"{key[0]}/{key}.safetensors"
    return StoredFile(where, size_bytes, int(NOW * 1e9), metadata, tensors)


def view(files: Iterable[StoredFile], *, folders: bool = True, now: float = NOW) -> ServerView:
    return LAYOUT.examine(files, is_folder=lambda _: folders, now=now)


def kinds(*files: StoredFile, folders: bool = True) -> list[str]:
    return [each.kind for each in view(files, folders=folders).findings]


def test_the_target_looks_after_and_warms() -> None:
    target = OmlxTarget()
    assert isinstance(target, GroupTarget)
    assert isinstance(target.layout, Examiner)
    assert (target.name, target.key_from, target.unit) == ("omlx", "frames", "item")


def test_a_good_file_has_no_finding() -> None:
    assert kinds(stored(grid_thw="[1,6,8]")) == []
    assert kinds(stored(shape=(1, 250, 2816))) == []  # a model without grids


@pytest.mark.parametrize(
    ("grid", "found"),
    [
        ("[1, 6, 8]", []),
        ("[4, 6, 2]", []),
        ("[1, 3, 4]", []),  # nothing else says that this model merges
        ("[1, 6, 9]", ["grid_mismatch"]),
        ("[1, 2, 24]", []),
        ("[1, 1, 48]", ["grid_mismatch"]),  # a side that cannot be merged
        ("[0, 6, 8]", ["grid_mismatch"]),
        ("[-1, -6, 8]", ["grid_mismatch"]),
        (f"[{10**20}, {10**20}, 1]", ["grid_mismatch"]),
        ("[1, 6, true]", ["no_grid"]),
        ("1" + "0" * 9999, ["no_grid"]),
        ("[" * 9999, ["no_grid"]),
    ],
)
def test_a_grid_is_compared_with_the_rows(grid: str, found: list[str]) -> None:
    assert kinds(stored(grid_thw=grid)) == found


def test_most_entries_of_a_model_decide_how_many_patches_are_a_token() -> None:
    usual = [stored(image, grid_thw="[1,6,8]") for image in HASHES[:5]]
    odd = stored(HASHES[5], grid_thw="[1,3,4]")
    (found,) = view([*usual, odd]).findings
    assert (found.path, found.kind) == (odd.path, "grid_mismatch")
    assert (
        found.expected == "t * h * w = rows * k * k with k = 2, as in 5 of 6 entries of the model"
    )
    assert found.actual == "1 * 3 * 4 = 12 patches, 12 rows, k = 1"
    assert kinds(usual[0], odd) == ["grid_mismatch", "grid_mismatch"]  # one of them is wrong


def test_a_width_is_compared_within_its_model() -> None:
    files = [stored(image, grid_thw="[1,6,8]") for image in HASHES[:3]]
    wide = stored(HASHES[3], (12, 17), grid_thw="[1,6,8]")
    other = stored(HASHES[4], (12, 17), grid_thw="[1,6,8]", model_name="/models/other")
    (found,) = view([*files, wide, other]).findings
    assert (found.path, found.kind, found.actual) == (wide.path, "width_mismatch", "width 17")


def test_rows_without_a_grid_are_slow() -> None:
    assert kinds(stored()) == ["no_grid"]
    (alone,) = view([stored()]).findings
    assert "if it is of the Qwen family" in (alone.actual or "")
    (beside,) = view([stored(), stored(HASHES[1], grid_thw="[1,6,8]")]).findings
    assert "if it" not in (beside.actual or "")


def test_token_counts_that_an_old_server_cannot_mix_are_told_once() -> None:
    shapes = [(1, 256, 16), (1, 250, 16), (1, 256, 16)]
    files = [stored(image, shape) for image, shape in zip(HASHES, shapes, strict=False)]
    (found,) = view(files).findings
    assert (found.kind, found.path) == ("token_counts", min(files, key=_bucket).path)
    assert "2 token counts in 3 entries" in (found.actual or "")
    assert kinds(files[0], files[2]) == []


def _bucket(file: StoredFile) -> str:
    return file.path[0]


@pytest.mark.parametrize("said", ["2", "x", "", "01", "9" * 9999])
def test_a_count_that_is_wrong_is_found(said: str) -> None:
    assert kinds(stored(shape=(1, 2, 3), num_tensors=said)) == ["num_tensors"]


def test_a_model_without_its_folder_is_found_where_its_name_is_a_path() -> None:
    assert kinds(stored(shape=(1, 2, 3)), folders=False) == ["model_gone"]
    assert kinds(stored(shape=(1, 2, 3), model_name="org/model"), folders=False) == []


def test_a_wrong_name_and_a_second_file_are_found() -> None:
    first, second = stored(shape=(1, 2, 3)), stored(shape=(1, 2, 3), path="f/copy.safetensors")
    found = view([second, first])
    assert {(each.path, each.kind) for each in found.findings} == {
        (first.path, "duplicate"),
        (second.path, "wrong_name"),
    }
    assert found.indexed == (second,)  # in the place of the first that was read
    (only,) = view([second]).findings
    assert only.expected == first.path


@pytest.mark.parametrize(
    "path", ["x.safetensors", "10/x.safetensors", "A/x.safetensors", "a/b/x.safetensors"]
)
def test_nothing_outside_of_the_buckets_is_indexed(path: str) -> None:
    assert kinds(stored(path=path)) == ["never_indexed"]
    assert view([stored(path=path)]).indexed == ()


def test_leftovers_are_told_once_they_are_old() -> None:
    names = [f"a/.{HASHES[0]}.tmp", "b/tmp12345678", f"c/{HASHES[0]}.safetensors.99", "d/x.part"]
    others = [".DS_Store", "a/notes.txt", "a/template.txt", "README"]
    files = [StoredFile(name, 1, int(NOW * 1e9)) for name in names + others]
    assert view(files, now=NOW + 60).findings == ()
    found = view(files, now=NOW + 3600).findings
    assert [(each.path, each.kind) for each in found] == [(name, "leftover") for name in names]


def test_where_no_header_was_read_names_alone_decide() -> None:
    named = stored()
    files = [StoredFile(named.path, 1), StoredFile("x.safetensors", 1)]
    assert [each.path for each in view(files).findings] == ["x.safetensors"]
    assert view(files).indexed == ()


@given(st.lists(st.integers(1, CAPACITY_BYTES // 3), min_size=1, max_size=30))
def test_eviction_begins_above_the_limit_and_ends_below_it(sizes: list[int]) -> None:
    files = [stored(image, size_bytes=size) for image, size in zip(HASHES, sizes, strict=False)]
    found = view(files)
    buckets = [file.path[0] for file in found.indexed]
    assert buckets == sorted(buckets)
    left = sum(file.size_bytes for file in found.indexed[found.evicts_next :])
    if sum(sizes) <= CAPACITY_BYTES:
        assert found.evicts_next == 0
    else:
        before = left + found.indexed[found.evicts_next - 1].size_bytes
        assert left < CAPACITY_BYTES <= before


def test_within_a_bucket_the_listing_is_the_order() -> None:
    same = [stored(image, path=f"3/{image}.safetensors") for image in HASHES[:9]]
    first = stored(HASHES[10], path="0/z.safetensors")
    assert view([*same, first]).indexed == (first, *same)


def test_an_image_hash_leads_to_the_keys_of_both_modes() -> None:
    keys = LAYOUT.keys_of(HASHES[0], [MODEL, "/models/ocr"])
    gundam = hashlib.sha256(f"imgmode:gundam:1024:640:{HASHES[0]}".encode()).hexdigest()
    base = hashlib.sha256(f"imgmode:base:1024:1024:{HASHES[0]}".encode()).hexdigest()
    assert keys[omlx_key(MODEL, HASHES[0])] == "its image hash"
    assert "gundam" in keys[omlx_key("/models/ocr", gundam)]
    assert "base" in keys[omlx_key("/models/ocr", base)]
    assert len(keys) == 6
    assert LAYOUT.keys_of("a picture.jpg", [MODEL]) == {}


def test_a_description_leaves_out_what_is_unknown() -> None:
    assert LAYOUT.describe(StoredFile("a/b", 1)) == {}
    assert LAYOUT.describe(stored(grid_thw="[1,6,8]"))["merge"] == 2
    assert "merge" not in LAYOUT.describe(stored(grid_thw="[1,6,9]"))


_texts = st.text(max_size=9) | st.sampled_from(["1", "[1,2,3]", MODEL, HASHES[0]])
_shapes = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)


@given(
    st.lists(
        st.builds(
            StoredFile,
            st.text() | st.sampled_from(["a/x.safetensors", f"a/{HASHES[0]}.safetensors"]),
            st.integers(0, 2**60),
            st.integers(0, 2**62),
            st.none()
            | st.dictionaries(
                st.sampled_from(["model_name", "image_hash", "num_tensors", "grid_thw"]), _texts
            ),
            st.dictionaries(
                st.sampled_from(["feature", "feature_0", "x"]), st.tuples(st.just("F16"), _shapes)
            ),
            st.none() | st.text(),
        ),
        max_size=6,
    )
)
def test_no_file_stops_the_examination(files: list[StoredFile]) -> None:
    found = view(files)
    known = {file.path for file in files}
    assert {each.path for each in found.findings} <= known
    for file in files:
        LAYOUT.describe(file)
