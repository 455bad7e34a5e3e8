"""The main job, as a user sees it: results, lines, codes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import Vcache, conforming
from tests.e2e.command import many, start
from tests.e2e.held import Hold
from tests.patience import PATIENCE_SECONDS, until


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_the_second_run_stores_nothing(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path
) -> None:
    args = ("warm", media, "--model", tiny_siglip, "--store", store, "--json")
    first, second = vcache(*args).document, vcache(*args).document
    assert first["items"]["stored"] > 10
    assert first["items"]["copy"] == 1
    assert second["items"]["stored"] == second["bytes"]["read"] == 0
    assert second["items"]["present"] == first["items"]["stored"] + 1
    assert not second["interrupted"]
    assert first["encoder"]["backend"]


def test_people_see_counts_and_each_warning_once(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path
) -> None:
    shown = vcache("warm", media, "-m", tiny_siglip, "-s", store)
    assert shown.code == 0
    assert "stored" in shown.out
    assert len([line for line in shown.err.splitlines() if ": warning: " in line]) == 4
    again = vcache("warm", media, "-m", tiny_siglip, "-s", store, "-q")
    assert (again.code, again.out, again.err) == (0, "", "")


@pytest.mark.processes
def test_a_failure_is_one_line_and_exit_3(
    vcache: Vcache, samples: Path, tiny_siglip: Path, store: Path
) -> None:
    bad = samples / "bad/truncated.jpg"
    shown = vcache("warm", bad, samples / "media", "-m", tiny_siglip, "-s", store, "--json")
    assert shown.code == shown.document["error"]["code"] == 3
    assert shown.document["items"]["failed"] == len(shown.document["failures"]) == 1
    line = next(line for line in shown.err.splitlines() if line.startswith(str(bad)))
    assert line.startswith(f"{bad}: decode: truncated: ")


def test_what_is_said_after_failures_helps(
    vcache: Vcache, samples: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    """A mended file is tried again by itself; only one that did not change needs the option."""
    bad = tmp_path / "a.jpg"
    bad.write_bytes((samples / "bad/truncated.jpg").read_bytes())
    args = ("warm", bad, "-m", tiny_siglip, "-s", store, "--json")
    assert "did not change" in vcache(*args).document["error"]["hint"]
    bad.write_bytes((samples / "media/hills.jpg").read_bytes())
    assert vcache(*args).document["items"]["stored"] == 1


def test_skipped_items_are_counted_by_kind(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    args = ("warm", media, "-m", tiny_siglip, "-s", store)
    assert vcache(*args, "--json").document["skips"] == {"video": 1}
    shown = vcache(*args)
    assert "skipped:  1 video\n" in shown.out
    assert shown.err == "1 video skipped: models of family `siglip` take no videos here\n"
    assert "numpy" not in shown.out  # nothing was encoded
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/notes").write_text("x")
    more = vcache("warm", tmp_path / "docs", *args[1:], "-q", "--json").document
    assert more["skips"] == {"not_media": 1, "video": 1}


def test_a_full_store_is_told_once(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path
) -> None:
    shown = vcache("warm", media, "-m", tiny_siglip, "-s", store, "--max-size", "20KiB")
    assert shown.code == 13
    told = [line for line in shown.err.splitlines() if "KiB" in line]
    assert len(told) == 1
    assert told[0].startswith("error: the store's cap of 20.0 KiB is reached: ")
    assert "hint: raise --max-size" in shown.err


def test_a_flood_of_warnings_is_counted(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    data = (media / "fruit-faded.png").read_bytes()
    for number in range(5):
        (tmp_path / f"{number}.png").write_bytes(data + bytes([number]))
    args = ("warm", f"{tmp_path}/*.png", "-m", tiny_siglip, "-s", store)
    shown = vcache(*args)
    assert shown.err.count(": warning: alpha_dropped: ") == 3
    assert shown.err.endswith("alpha_dropped: 2 more; all are in the run's file\n")
    vcache("prune", store, "--stage", "features", "--yes")
    assert vcache(*args, "-v").err.count(": warning: alpha_dropped: ") == 5


def test_the_run_s_file_is_named_where_something_failed(
    vcache: Vcache, samples: Path, tiny_siglip: Path, store: Path
) -> None:
    args = ("-m", tiny_siglip, "-s", store)
    shown = vcache("warm", samples / "bad/truncated.jpg", *args)
    named = re.search(r"^run: +(/.+)$", shown.out, re.MULTILINE)
    assert named
    assert "truncated" in Path(named[1]).read_text()
    assert "named above" not in shown.err
    well = vcache("warm", samples / "media/hills.jpg", *args)
    assert re.search(r"^run: +\d{8}T", well.out, re.MULTILINE)


def test_debug_shows_where_a_run_gave_up(
    vcache: Vcache, samples: Path, tiny_siglip: Path, store: Path
) -> None:
    args = ("warm", samples / "bad", "-m", tiny_siglip, "-s", store, "--on-error", "fail")
    assert "Traceback" not in vcache(*args).err
    assert "Traceback" in vcache("--debug", *args).err


def test_a_missing_model_is_told_with_every_way_to_name_one(vcache: Vcache, media: Path) -> None:
    shown = vcache("warm", media)
    assert "VCACHE_MODEL" in shown.err
    assert "--model" in shown.err


def test_quiet_still_names_what_failed(
    vcache: Vcache, samples: Path, tiny_siglip: Path, store: Path
) -> None:
    shown = vcache("warm", samples / "bad/truncated.jpg", "-m", tiny_siglip, "-s", store, "-q")
    assert shown.code == 3
    assert shown.out == ""
    assert "truncated.jpg: decode: truncated" in shown.err


def test_on_error_fail_ends_the_run(
    vcache: Vcache, samples: Path, tiny_siglip: Path, store: Path
) -> None:
    shown = vcache(
        "warm", samples / "bad", samples / "media", "-m", tiny_siglip, "-s", store,
        "--on-error", "fail", "--json",
    )  # fmt: skip
    assert shown.code == 3
    assert shown.document["error"]["kind"] == "too_many_failures"


def test_events_are_one_line_per_item(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    args = ("warm", media, "-m", tiny_siglip, "-s", store, "--json")
    events = tmp_path / "events.jsonl"
    total = vcache(*args, "--events", events).document["items"]["total"]
    lines = [conforming(line) for line in events.read_text().splitlines()]
    assert len(lines) == total
    to_stderr = vcache(*args, "--events", "-")
    assert len([conforming(line) for line in to_stderr.err.splitlines()]) == total


def test_verbose_names_every_item(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path
) -> None:
    shown = vcache("warm", media / "hills.jpg", "-m", tiny_siglip, "-s", store, "-v")
    assert f"{media / 'hills.jpg'}: stored" in shown.err


def test_a_dry_run_is_a_plan_and_makes_nothing(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path
) -> None:
    args = ("warm", media, "-m", tiny_siglip, "-s", store, "--dry-run")
    plan = vcache(*args, "--json").document
    assert plan["items"]["to_do"] == plan["items"]["total"] - plan["items"]["unsupported"]
    assert "to do" in vcache(*args).out
    assert "copies count as work" in vcache(*args).out
    assert not store.exists()


def test_shards_are_a_partition(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path
) -> None:
    args = ("warm", media, "-m", tiny_siglip, "-s", store, "--json")
    parts = [vcache(*args, "--shard", f"{part}/2").document["items"] for part in (1, 2)]
    whole = vcache(*args).document["items"]
    assert sum(part["total"] for part in parts) == whole["total"]
    assert whole["stored"] == 0


def test_limit_exclude_and_lists_choose_items(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    args = ("-m", tiny_siglip, "-s", store, "--json")
    assert vcache("warm", media, "--limit", 2, *args).document["items"]["total"] == 2
    found = vcache("warm", media, "--exclude", "*.png", "--exclude", "trip", *args).document
    assert 2 < found["items"]["total"] < 15
    names = tmp_path / "names"
    names.write_bytes(b"\0".join(os.fsencode(media / name) for name in ("hills.jpg", "chart.png")))
    assert vcache("warm", f"@{names}", "-0", *args).document["items"]["total"] == 2


def test_pixels_need_no_weights(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for path in tiny_siglip.glob("*.json"):
        (model / path.name).write_bytes(path.read_bytes())
    shown = vcache("warm", media, "-m", model, "-s", store, "--stage", "pixels", "--json")
    assert shown.code == 0
    assert "encoder" not in shown.document
    assert vcache("warm", media, "-m", model, "-s", store, "--json").code == 15


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ([], 2),
        (["media"], 2),
        (["media", "-m", "/nonexistent"], 15),
        (["media", "-m", "MODEL", "--backend", "abacus"], 15),
        (["media", "-m", "MODEL", "--target", "abacus"], 2),
        (["media", "-m", "MODEL", "--profile", "abacus"], 2),
        (["media", "-m", "MODEL", "--dtype", "int3"], 2),
        (["media", "-m", "MODEL", "--shard", "3/2"], 2),
        (["media", "-m", "MODEL", "--max-errors", "x"], 2),
        (["media", "-m", "MODEL", "--max-size", "huge"], 2),
        (["media", "-m", "MODEL", "--events", "/nonexistent/x"], 2),
        (["media", "-m", "MODEL", "--events", "/dev/full"], 13),
        (["", "-m", "MODEL"], 2),
        (["empty", "-m", "MODEL"], 2),
        (["@absent", "-m", "MODEL"], 2),
        (["media", "-m", "MODEL", "-s", "occupied"], 16),
        (["media", "-m", "MODEL", "--max-size", "1"], 13),
    ],
    ids=str,
)
def test_what_cannot_be_done_has_its_code(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path, *, flags: list[str], code: int
) -> None:
    os.symlink(media, "media")
    os.mkdir("empty")
    os.mkdir("occupied")
    Path("occupied/letter.txt").touch()
    words = [str(tiny_siglip) if word == "MODEL" else word for word in flags]
    named = words if "-s" in words else [*words, "-s", str(store)]
    shown = vcache("warm", *named, "--json")
    assert shown.code == shown.document["error"]["code"] == code
    assert shown.document["error"]["message"]
    assert "Traceback" not in shown.err


@pytest.mark.processes
def test_check_says_what_would_miss(
    vcache: Vcache, warmed: Path, media: Path, tiny_siglip: Path
) -> None:
    args = ("check", media, "-m", tiny_siglip, "-s", warmed)
    assert vcache(*args, "--json").document["coverage"] == 1
    key = vcache("inspect", media / "hills.jpg", "-s", warmed, "-q").out.strip()
    vcache("prune", warmed, "--key", key, "--yes")
    shown = vcache(*args, "--json")
    assert shown.code == shown.document["error"]["code"] == 5
    message = shown.document["error"]["message"]
    assert re.fullmatch(r"coverage is [\d.]+%, below the 100% of --fail-under", message)
    assert {Path(item["source"]).name for item in shown.document["cold_items"]} == {
        "hills.jpg",
        "hills-copy.jpg",
    }
    assert vcache(*args, "--fail-under", "50%").code == 0
    assert vcache(*args, "--fail-under", "50").code == 0
    assert vcache(*args, "--fail-under", "0.5").code == 2  # a share, or half a percent?
    assert "hills-copy.jpg" in vcache(*args, "-q").out


def test_the_hint_of_a_check_is_about_what_is_left(
    vcache: Vcache, warmed: Path, media: Path, samples: Path, tiny_siglip: Path
) -> None:
    os.symlink(media / "hills.jpg", "good.jpg")
    os.symlink("nowhere", "dangling.jpg")
    args = ("-m", tiny_siglip, "-s", warmed, "--json")
    unreadable = vcache("check", "good.jpg", "dangling.jpg", *args)
    assert unreadable.code == 5
    assert "vcache warm" not in unreadable.document["error"]["hint"]
    cold = vcache("check", samples / "bad/truncated.jpg", "dangling.jpg", *args)
    assert "vcache warm" in cold.document["error"]["hint"]


def test_a_key_without_some_pictures_is_exit_3(
    vcache: Vcache, media: Path, tiny_siglip: Path
) -> None:
    os.symlink(media / "hills.jpg", "good.jpg")
    os.symlink("nowhere", "dangling.jpg")
    shown = vcache("key", "good.jpg", "dangling.jpg", "-m", tiny_siglip, "--json")
    assert shown.code == 3
    assert shown.document["error"]["kind"] == "items_failed"
    assert "dangling.jpg" in shown.document["error"]["message"]
    assert shown.document["key"] == vcache("key", "good.jpg", "-m", tiny_siglip, "-q").out.strip()
    none = vcache("key", "dangling.jpg", "-m", tiny_siglip, "--json")
    assert none.code == 2
    told = "no picture was found, and 1 file could not be read; dangling.jpg: "
    assert none.document["error"]["message"].startswith(told)


@pytest.mark.processes
def test_the_key_follows_content_and_recipe_not_names(
    vcache: Vcache, media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    def key(*args: object) -> str:
        return vcache("key", *args, "-m", tiny_siglip).out.strip()

    moved = tmp_path / "moved"
    moved.mkdir()
    for number, name in enumerate(("hills.jpg", "chart.png")):
        (moved / f"{number}").write_bytes((media / name).read_bytes())
    named = key(media / "chart.png", media / "hills.jpg")
    assert named == key(moved)
    assert named != key(media / "hills.jpg")
    assert named != key(moved, "--stage", "pixels")
    document = vcache("key", moved, "-m", tiny_siglip, "--json").document
    assert document["key"] == named


def test_settings_of_a_project_are_followed(
    vcache: Vcache, media: Path, tiny_siglip: Path, store: Path
) -> None:
    lines = (f"model = '{tiny_siglip}'", f"store = '{store}'", "stage = 'pixels'")
    Path("vcache.toml").write_text("\n".join(lines))
    document = vcache("warm", media, "--json").document
    assert document["stage"] == "pixels"
    assert document["store"] == str(store)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"]
)
def test_an_interrupted_run_keeps_what_is_finished(
    media: Path, tiny_siglip: Path, store: Path, tmp_path: Path, *, number: int, code: int
) -> None:
    corpus = many(tmp_path / "corpus", media / "chart.png", 100)
    hold = Hold(tmp_path / "hold", 30)  # of each worker
    env = hold.environment | {"VCACHE_ISOLATION": "process"}
    args = ("warm", corpus, "-m", tiny_siglip, "-s", store, "--workers", "2", "--json")
    with start(*args, env=env, stderr=subprocess.PIPE) as process:
        until(lambda: list(store.glob("??/*.safetensors")) or process.poll() is not None)
        process.send_signal(number)
        assert process.stderr
        assert any(b"stopping: " in line for line in process.stderr)
        hold.let_go()
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    document = conforming(out.decode())
    assert process.returncode == document["error"]["code"] == code
    assert document["interrupted"]
    assert document["items"]["stored"] == len(list(store.glob("??/*.safetensors")))


def test_a_dry_run_foretells_what_machines_would_cost(
    vcache: Vcache, media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    where = ("-m", tiny_siglip, "-s", tmp_path / "store", "--isolation", "thread")
    line = ("warm", media / "hills.jpg", *where)
    plan = vcache(*line, "--dry-run", "--nodes", "10", "--json").document
    assert plan["scale"]["nodes"] == 10
    assert "on 10 machines:" in vcache(*line, "--dry-run", "--nodes", "10").out
    assert vcache(*line, "--nodes", "10").code == 2
    assert vcache(*line, "--dry-run", "--nodes", "0").code == 2
