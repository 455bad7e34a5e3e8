"""`VisionFeatureSSDCache`: the members that a server calls, each row of its contract a test."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.patience import PATIENCE_SECONDS
from tests.serving.feature_case import MODEL, entries, features, held_back, image
from tests.serving.omlx_files import file_of, rules_met, write_file
from tests.serving.omlx_files import read_file as read_plainly
from vcache_cli.serving import VisionFeatureSSDCache


def fresh(path: Path) -> VisionFeatureSSDCache:
    """A restart of the server."""
    return VisionFeatureSSDCache(path)


# --- row 1: the constructor ------------------------------------------------------------------


def test_row_constructor_has_the_names_and_defaults_of_the_server() -> None:
    parameters = inspect.signature(VisionFeatureSSDCache).parameters
    assert [(name, parameters[name].default) for name in list(parameters)[:4]] == [
        ("cache_dir", None),
        ("max_size_bytes", 10 * 1024**3),
        ("max_memory_entries", 20),
        ("max_memory_bytes", 1024**3),
    ]


def test_row_constructor_without_a_directory_is_memory_only(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(cache_dir=None, max_memory_entries=3)
    for number in range(4):
        cache.put(image(number), MODEL, features(number))
    assert cache.get(image(0), MODEL) is None
    np.testing.assert_array_equal(cache.get(image(3), MODEL), features(3))
    assert cache.stats == {"hits": 1, "misses": 1, "saves": 4, "ssd_loads": 0, "errors": 0}
    assert cache.flush()
    assert cache.size_bytes == 0
    cache.close()


def test_row_constructor_bounds_memory_by_bytes_too(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(None, max_memory_bytes=2 * features(0).nbytes)
    for number in range(3):
        cache.put(image(number), MODEL, features(number))
    assert cache.get(image(0), MODEL) is None
    assert cache.memory_bytes == 2 * features(0).nbytes


# --- row 2: get ------------------------------------------------------------------------------


def test_row_get_asks_memory_then_the_disk_and_promotes(tmp_path: Path) -> None:
    with fresh(tmp_path) as cache:
        cache.put(image(1), MODEL, features(1))
    with fresh(tmp_path) as cache:
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))
        file_of(tmp_path, image(1), MODEL).unlink()
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))
        assert cache.get(image(2), MODEL) is None
        assert cache.stats == {"hits": 2, "misses": 1, "saves": 0, "ssd_loads": 1, "errors": 0}


def test_row_get_tells_models_apart(tmp_path: Path) -> None:
    with fresh(tmp_path) as cache:
        cache.put(image(1), "a", features(1))
        cache.put(image(1), "b", features(2))
    with fresh(tmp_path) as cache:
        np.testing.assert_array_equal(cache.get(image(1), "a"), features(1))
        np.testing.assert_array_equal(cache.get(image(1), "b"), features(2))


def test_row_get_tells_pairs_apart_whose_texts_run_together_alike(tmp_path: Path) -> None:
    """`a:b` and `c` have the file of `a` and `b:c`; neither ever gets the other's features."""
    with fresh(tmp_path) as cache:
        cache.put("c", "a:b", features(1))
        assert cache.get("b:c", "a") is None
    with fresh(tmp_path) as cache:
        assert cache.get("b:c", "a") is None
        assert cache.get_grid("b:c", "a") is None
        np.testing.assert_array_equal(cache.get("c", "a:b"), features(1))
        assert cache.stats["errors"] == 0


# --- row 3: put ------------------------------------------------------------------------------


def test_row_put_has_memory_at_once_and_the_disk_behind(tmp_path: Path) -> None:
    cache = fresh(tmp_path)
    gate = held_back(cache)
    cache.put(image(1), MODEL, features(1))
    assert gate.reached.wait(10)
    assert entries(tmp_path) == []
    np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))
    gate.opened.set()
    cache.close()
    assert entries(tmp_path) == [file_of(tmp_path, image(1), MODEL)]


def test_row_put_finds_what_waits_for_the_disk_and_left_memory(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(tmp_path, max_memory_entries=0)
    gate = held_back(cache)
    cache.put(image(1), MODEL, features(1))
    cache.put(image(1), MODEL, features(2), grid=(1, 2, 16))
    np.testing.assert_array_equal(cache.get(image(1), MODEL), features(2))
    assert cache.get_grid(image(1), MODEL) == (1, 2, 16)
    gate.opened.set()
    cache.close()
    assert cache.stats["saves"] == 2


def test_row_put_takes_the_bytes_on_the_callers_thread(tmp_path: Path) -> None:
    """What the caller does with its array afterwards changes nothing."""
    cache = fresh(tmp_path)
    gate = held_back(cache)
    mine = features(1)
    cache.put(image(1), MODEL, mine)
    mine[:] = -1
    gate.opened.set()
    np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))
    cache.close()
    np.testing.assert_array_equal(fresh(tmp_path).get(image(1), MODEL), features(1))


def test_row_put_stores_a_list_of_one_as_a_list(tmp_path: Path) -> None:
    with fresh(tmp_path) as cache:
        cache.put(image(1), MODEL, [features(1)])
        cache.put(image(2), MODEL, [features(2), features(3)[:2]])
    metadata, tensors = read_plainly(file_of(tmp_path, image(1), MODEL))
    assert metadata["num_tensors"] == "1"
    assert list(tensors) == ["feature_0"]
    with fresh(tmp_path) as cache:
        one, two = cache.get(image(1), MODEL), cache.get(image(2), MODEL)
    assert [len(one), len(two)] == [1, 2]
    np.testing.assert_array_equal(one[0], features(1))
    np.testing.assert_array_equal(two[1], features(3)[:2])


def test_row_put_keeps_eleven_arrays_in_their_order(tmp_path: Path) -> None:
    """`feature_10` sorts before `feature_2` as text."""
    with fresh(tmp_path) as cache:
        cache.put(image(1), MODEL, [features(number) for number in range(11)])
    found = fresh(tmp_path).get(image(1), MODEL)
    assert [array[0, 0] for array in found] == [10_000.0 * number for number in range(11)]


@pytest.mark.parametrize("grid", [(1, 4, 8), [1, 4, 8], np.array([[1, 4, 8]])])
def test_row_put_and_get_grid(tmp_path: Path, grid: object) -> None:
    with fresh(tmp_path) as cache:
        cache.put(image(1), MODEL, features(1), grid=grid)
        cache.put(image(2), MODEL, features(2))
        assert cache.get_grid(image(1), MODEL) == (1, 4, 8)
    metadata, _ = read_plainly(file_of(tmp_path, image(1), MODEL))
    assert metadata["grid_thw"] == "[1, 4, 8]"
    with fresh(tmp_path) as cache:
        assert cache.get_grid(image(1), MODEL) == (1, 4, 8)
        assert cache.get_grid(image(2), MODEL) is None
        assert cache.get_grid(image(3), MODEL) is None
        assert cache.stats == dict.fromkeys(cache.stats, 0)


# --- row 4: close ----------------------------------------------------------------------------


def test_row_close_flushes_then_refuses_and_misses(tmp_path: Path) -> None:
    cache = fresh(tmp_path)
    for number in range(40):  # more than the queue holds
        cache.put(image(number), MODEL, features(number))
    cache.close()
    assert len(entries(tmp_path)) == cache.stats["saves"] == 40
    cache.put(image(99), MODEL, features(99))
    assert cache.get(image(1), MODEL) is None
    assert cache.get(image(99), MODEL) is None
    assert cache.get_grid(image(1), MODEL) is None
    assert cache.drops == 1
    assert cache.memory_bytes == 0
    assert len(entries(tmp_path)) == 40
    cache.close()  # again does nothing


def test_row_close_of_a_cache_without_a_directory() -> None:
    cache = VisionFeatureSSDCache()
    cache.put(image(1), MODEL, features(1))
    cache.close()
    cache.put(image(1), MODEL, features(1))
    assert cache.get(image(1), MODEL) is None
    assert cache.stats == {"hits": 0, "misses": 1, "saves": 1, "ssd_loads": 0, "errors": 0}


# --- row 5: stats ----------------------------------------------------------------------------


def test_row_stats_is_a_copy_and_saves_counts_what_was_written(tmp_path: Path) -> None:
    cache = fresh(tmp_path)
    gate = held_back(cache)
    cache.put(image(1), MODEL, features(1))
    assert cache.stats["saves"] == 0
    cache.stats["saves"] = 99
    gate.opened.set()
    assert cache.flush()
    assert cache.stats == {"hits": 0, "misses": 0, "saves": 1, "ssd_loads": 0, "errors": 0}
    cache.close()


# --- row 6: the background writer ------------------------------------------------------------


def test_row_writer_never_shows_half_a_file(tmp_path: Path) -> None:
    cache = fresh(tmp_path)
    gate = held_back(cache)
    cache.put(image(1), MODEL, features(1))
    assert gate.reached.wait(10)
    (temp,) = (tmp_path / ".vcache" / "tmp").iterdir()
    assert temp.suffix == ""
    assert list(tmp_path.rglob("*.safetensors")) == []
    gate.opened.set()
    cache.close()
    assert list((tmp_path / ".vcache" / "tmp").iterdir()) == []


def test_row_writer_files_meet_the_servers_rules(tmp_path: Path) -> None:
    with fresh(tmp_path) as cache:
        cache.put(image(1), MODEL, features(1), grid=(1, 4, 8))
        cache.put(image(2), "/Modelle/Größe ☃", [features(2).astype(np.float16), features(3)])
        cache.put(image(3), MODEL, np.zeros((0, 4), np.uint8))
        cache.put(image(4), MODEL, np.array(7, np.int64))
    assert len(entries(tmp_path)) == 4
    for path in entries(tmp_path):
        rules_met(tmp_path, path)
        read = load_file(path)
        _, tensors = read_plainly(path)
        assert {name: array.tobytes() for name, array in read.items()} == {
            name: data for name, (_, _, data) in tensors.items()
        }


# --- row 7: recovery -------------------------------------------------------------------------


def test_row_recovery_finds_what_the_server_itself_wrote(tmp_path: Path) -> None:
    write_file(tmp_path, image(1), MODEL, features(1), grid_thw="[1,4,8]")
    write_file(tmp_path, image(2), MODEL, [features(2), features(3)])
    with fresh(tmp_path) as cache:
        np.testing.assert_array_equal(cache.get(image(1), MODEL), features(1))
        assert cache.get_grid(image(1), MODEL) == (1, 4, 8)
        np.testing.assert_array_equal(cache.get(image(2), MODEL)[1], features(3))


@pytest.mark.parametrize("damage", ["cut", "flip", "text", "empty", "foreign"])
def test_row_recovery_drops_and_counts_a_corrupted_file(tmp_path: Path, damage: str) -> None:
    with fresh(tmp_path) as cache:
        cache.put(image(1), MODEL, features(1))
    path = file_of(tmp_path, image(1), MODEL)
    good = path.read_bytes()
    path.chmod(0o600)
    other = write_file(tmp_path, image(2), MODEL, features(2))
    path.write_bytes(
        {
            "cut": good[:-1],
            "flip": good[:-1] + bytes([good[-1] ^ 1]),
            "text": b"corrupted data",
            "empty": b"",
            "foreign": other.read_bytes(),
        }[damage]
    )
    with fresh(tmp_path) as cache:
        assert cache.get(image(1), MODEL) is None
        assert not path.exists()
        assert cache.get(image(1), MODEL) is None
        assert cache.stats == {"hits": 0, "misses": 2, "saves": 0, "ssd_loads": 0, "errors": 1}
        assert cache.size_bytes == other.stat().st_size


def test_row_recovery_misses_a_file_deleted_by_someone_else(tmp_path: Path) -> None:
    cache = VisionFeatureSSDCache(tmp_path, max_memory_entries=0)
    cache.put(image(1), MODEL, features(1))
    cache.flush()
    file_of(tmp_path, image(1), MODEL).unlink()
    assert cache.get(image(1), MODEL) is None
    assert cache.stats["errors"] == 0
    assert cache.size_bytes == 0
    cache.close()


# --- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ({"image_hash": 3}, TypeError, "`image_hash`"),
        ({"model_name": None}, TypeError, "`model_name`"),
        ({"model_name": ""}, ValueError, "`model_name`"),
        ({"model_name": "\udcff"}, ValueError, "surrogates"),
        ({"features": "text"}, TypeError, "`features`"),
        ({"features": None}, TypeError, "`features`"),
        ({"features": []}, ValueError, "`features`"),
        ({"features": np.array([object()])}, ValueError, "`features`"),
        ({"features": np.zeros(2, np.float64)}, ValueError, "`features`"),
        ({"features": np.zeros(2, np.complex64)}, ValueError, "`features`"),
        ({"grid": (1, 2)}, ValueError, "`grid`"),
        ({"grid": (1.0, 2.0, 3.0)}, ValueError, "`grid`"),
        ({"grid": 3}, TypeError, "`grid`"),
        ({"grid": "123"}, TypeError, "`grid`"),
    ],
)
def test_a_bad_argument_is_named_and_changes_nothing(
    tmp_path: Path, bad: dict[str, object], error: type[Exception], words: str
) -> None:
    cache = fresh(tmp_path)
    good: dict[str, object] = {"image_hash": image(1), "model_name": MODEL, "features": features(1)}
    with pytest.raises(error, match=words):
        cache.put(**{**good, **bad})  # type: ignore[arg-type]
    cache.flush()
    assert entries(tmp_path) == []
    assert cache.memory_bytes == 0
    cache.close()
    assert cache.drops == 0


@pytest.mark.parametrize(
    "bad",
    [{"max_memory_entries": -1}, {"max_memory_bytes": -1}, {"on_full": "never"}],
    ids=["entries", "memory", "on_full"],
)
def test_a_bad_bound_is_refused(tmp_path: Path, bad: dict[str, object]) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(ValueError, match=r".+"):
            VisionFeatureSSDCache(folder, **bad)  # type: ignore[arg-type]


# --- arrays ----------------------------------------------------------------------------------


def test_a_value_from_the_cache_cannot_be_changed(tmp_path: Path) -> None:
    with fresh(tmp_path) as cache:
        cache.put(image(1), MODEL, [features(1)])
        cache.get(image(1), MODEL).clear()
        with pytest.raises(ValueError, match="read-only"):
            cache.get(image(1), MODEL)[0][:] = 0


def test_mlx_is_never_loaded_for_numpy_arrays(tmp_path: Path) -> None:
    code = f"""
import sys, numpy as np
from vcache_cli.serving import VisionFeatureSSDCache
with VisionFeatureSSDCache({str(tmp_path)!r}, max_memory_entries=0) as cache:
    cache.put("a", "m", np.ones(3, np.float32))
    cache.flush()
    assert type(cache.get("a", "m")) is np.ndarray
assert "mlx.core" not in sys.modules and "mlx" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_SECONDS)


@pytest.mark.needs_mlx
def test_mlx_arrays_keep_their_dtype_bfloat16_too(tmp_path: Path) -> None:
    import mlx.core as mx

    made = {
        name: mx.array(features(number)).astype(getattr(mx, name))
        for number, name in enumerate(("bfloat16", "float16", "float32", "uint32", "bool_"))
    }
    with fresh(tmp_path) as cache:
        for name, array in made.items():
            cache.put(name, MODEL, array)
        cache.put("list", MODEL, [made["bfloat16"], made["float16"][:1].T])
    for path in entries(tmp_path):
        assert set(mx.load(str(path))) == set(read_plainly(path)[1])
    with fresh(tmp_path) as cache:
        for name, array in made.items():
            found = cache.get(name, MODEL)
            assert found.dtype == array.dtype
            assert mx.array_equal(found, array)
        assert mx.array_equal(cache.get("list", MODEL)[1], made["float16"][:1].T)


@pytest.mark.needs_mlx
def test_arrays_of_the_kind_that_was_put_come_back(tmp_path: Path) -> None:
    import mlx.core as mx

    with fresh(tmp_path) as cache:
        cache.put("mlx", MODEL, mx.ones((2, 2)).astype(mx.bfloat16))
        cache.put("numpy", MODEL, features(1))
    write_file(tmp_path, "server", MODEL, features(2))
    with fresh(tmp_path) as cache:
        assert isinstance(cache.get("mlx", MODEL), mx.array)
        assert isinstance(cache.get("numpy", MODEL), np.ndarray)
        assert isinstance(cache.get("server", MODEL), mx.array)
    with VisionFeatureSSDCache(tmp_path, arrays="numpy") as cache:
        found = cache.get("mlx", MODEL)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.ones((2, 2)))


@pytest.mark.needs_mlx
def test_arrays_of_two_kinds_in_one_list_are_refused(tmp_path: Path) -> None:
    import mlx.core as mx

    with fresh(tmp_path) as cache, pytest.raises(TypeError, match="mixes"):
        cache.put("a", MODEL, [features(1), mx.ones(2)])
