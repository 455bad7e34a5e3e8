"""Entries that move between machines: by archive, by merge, and through interruptions."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from samples.make_tiny_qwen import make_checkpoint
from tests.e2e import omlx_store
from tests.e2e.command import VCACHE, entries, many, start, vcache
from tests.patience import PATIENCE_SECONDS, until
from tests.targets import ec_files

EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}


def contents(store: Path) -> dict[str, bytes]:
    """Every entry of a store of any target, by path."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.rglob("*.safetensors"))
        if ".vcache" not in path.parts
    }


def holds(store: Path, least: int) -> bool:
    return len(contents(store)) >= least


def moved(store: Path, to: Path) -> dict[str, bytes]:
    """What `to` holds after an export without a file between."""
    sent = subprocess.run(
        [*VCACHE, "export", "-", "--store", store],
        capture_output=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    done = vcache("import", "-", "--store", to, "--json", stdin=sent.stdout)
    assert done.code == 0, done.err
    again = vcache("import", "-", "--store", to, "--json", stdin=sent.stdout)
    assert again.document["entries"]["present"] == done.document["entries"]["stored"]
    return contents(to)


def test_three_shards_merged_are_one_whole_warm(
    corpus: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    """Machines share a corpus without talking, and nobody can tell afterwards."""
    stores = [tmp_path / f"part{number}" for number in (1, 2, 3)]
    whole, merged = tmp_path / "whole", tmp_path / "merged"
    options = ("-m", tiny_siglip, "--backend", "numpy", "--batch-size", "1")
    assert vcache("warm", corpus, *options, "-s", whole, env=EPOCH).code == 0
    for number, store in enumerate(stores, 1):
        done = vcache(
            *("warm", corpus, *options, "-s", store, "--shard", f"{number}/3", "--json"), env=EPOCH
        )
        assert done.items["stored"] > 0
    before = [contents(store) for store in stores]
    run = vcache("merge", *stores, "--store", merged, "--json")
    assert run.code == 0
    assert run.document["entries"]["failed"] == run.document["entries"]["kept"] == 0
    assert contents(merged) == contents(whole)
    assert [contents(store) for store in stores] == before
    archives = [tmp_path / "whole.tar", tmp_path / "merged.tar"]
    for archive, store in zip(archives, (whole, merged), strict=True):
        assert vcache("export", archive, "-s", store).code == 0
    assert archives[0].read_bytes() == archives[1].read_bytes()
    assert all(path.stat().st_nlink == 1 for path in entries(merged).values())


def test_pixels_as_levels_come_back_the_same(media: Path, tmp_path: Path) -> None:
    model, store = make_checkpoint(tmp_path / "model", family="qwen2_5_vl"), tmp_path / "store"
    pictures = (media / "hills.jpg", media / "chart.png")
    run = vcache("warm", *pictures, "-m", model, "-s", store, "--stage", "pixels")
    assert run.code == 0
    assert moved(store, tmp_path / "copy") == contents(store) != {}


def test_features_come_back_the_same(warmed: Path, tmp_path: Path) -> None:
    assert moved(warmed, tmp_path / "copy") == contents(warmed) != {}
    assert vcache("verify", tmp_path / "copy").code == 0


def test_kill_9_in_the_middle_and_run_again(media: Path, tiny_siglip: Path, tmp_path: Path) -> None:
    """Nothing is half there, and nothing that was there is written twice."""
    store, archive, copy = tmp_path / "store", tmp_path / "a.tar", tmp_path / "copy"
    pictures = many(tmp_path / "pictures", media / "thumbnail.bmp", 400)
    assert vcache("warm", pictures, "-m", tiny_siglip, "-s", store).code == 0
    assert vcache("export", archive, "-s", store).code == 0
    wanted, data = contents(store), archive.read_bytes()
    for least in (1, 40, 150):
        process = start("import", "-", "--store", copy, stdin=subprocess.PIPE)
        assert process.stdin
        process.stdin.write(data[: len(data) * (least + 100) // len(wanted)])
        process.stdin.flush()
        until(partial(holds, copy, least))
        process.kill()  # it waits for the rest
        process.communicate()
        found = contents(copy)
        assert all(wanted[path] == each for path, each in found.items())
    there = len(contents(copy))
    run = vcache("import", archive, "--store", copy, "--json")
    assert run.code == 0
    assert run.document["entries"]["present"] == there
    assert contents(copy) == wanted


def test_an_interrupt_keeps_what_is_finished(warmed: Path, tmp_path: Path) -> None:
    """The sender stops in the middle; so does the user."""
    sent = subprocess.run(
        [*VCACHE, "export", "-", "--store", warmed],
        capture_output=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    copy = tmp_path / "copy"
    process = subprocess.Popen(
        [*VCACHE, "import", "-", "--store", copy],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    process.stdin.write(sent.stdout[: len(sent.stdout) // 2])
    process.stdin.flush()
    until(lambda: contents(copy))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert b"Traceback" not in err
    whole = contents(warmed)
    assert all(whole[path] == data for path, data in contents(copy).items())


def test_an_export_while_others_prune_and_warm_is_whole(
    media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    """What it holds is good, and what went meanwhile is told."""
    store, archive, copy = tmp_path / "store", tmp_path / "a.tar", tmp_path / "copy"
    pictures = many(tmp_path / "pictures", media / "thumbnail.bmp", 300)
    more = many(tmp_path / "more", media / "scan.tiff", 200)
    assert vcache("warm", pictures, "-m", tiny_siglip, "-s", store).code == 0
    known = contents(store)
    others = [
        start("warm", more, "-m", tiny_siglip, "-s", store, "-q"),
        start("prune", store, "--max-size", "400KiB", "--yes", "--grace", "0s"),
    ]
    for _ in range(6):
        run = vcache("export", archive, "--store", store, "--force", "--json")
        assert run.code == 0, run.err
        target = copy.with_name(f"copy{time.monotonic_ns()}")
        done = vcache("import", archive, "--store", target, "--json")
        assert done.code == 0
        assert done.document["entries"]["stored"] == run.document["entries"]
        found = contents(target)
        assert all(known.get(path, data) == data for path, data in found.items())
        shutil.rmtree(target)
    for each in others:
        each.communicate(timeout=PATIENCE_SECONDS)
        assert each.returncode == 0


def test_an_archive_has_its_name_once_it_is_whole(warmed: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    assert vcache("export", archive, "--store", warmed).code == 0
    before = archive.read_bytes()
    assert vcache("export", archive, "--store", warmed).code == 2
    assert vcache("export", archive, "--store", warmed, "--force").code == 0
    assert archive.read_bytes() == before
    assert vcache("export", warmed / "in.tar", "--store", warmed).code == 2
    assert vcache("export", tmp_path, "--store", warmed, "--force").code == 2
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "warmed"]


def test_a_reader_that_goes_away_is_an_error(warmed: Path) -> None:
    """Half an archive must not look like a whole one."""
    process = subprocess.Popen(
        [*VCACHE, "export", "-", "--store", warmed],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.read(100)
    process.stdout.close()
    assert process.stderr
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) in {0, 3}  # a small archive fits into the pipe
    assert b"Traceback" not in err


def test_a_budget_holds_for_an_import(warmed: Path, tmp_path: Path) -> None:
    archive, copy = tmp_path / "a.tar", tmp_path / "copy"
    assert vcache("export", archive, "--store", warmed).code == 0
    run = vcache("import", archive, "--store", copy, "--max-size", "60KiB", "--json")
    assert (run.code, run.document["complete"]) == (13, False)
    assert 0 < sum(map(len, contents(copy).values())) <= 60 * 1024
    assert vcache("import", archive, "--store", copy).code == 0
    assert contents(copy) == contents(warmed)


def test_merging_reports_what_differs_and_what_is_damaged(warmed: Path, tmp_path: Path) -> None:
    other, merged = tmp_path / "other", tmp_path / "merged"
    shutil.copytree(warmed, other)
    shutil.copytree(warmed, merged)
    victim = next(iter(entries(other).values()))
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[:-1] + b"\xff")
    next(iter(entries(merged).values())).unlink()
    run = vcache("merge", other, "--store", merged, "--json")
    assert run.code == 4
    assert [each["key"] for each in run.document["failures"]] == [victim.stem]
    assert vcache("merge", warmed, "--store", merged, "--json").code == 0
    assert contents(merged) == contents(warmed)
    assert vcache("merge", merged, "--store", merged).code == 2
    assert vcache("merge", tmp_path / "nothing", "--store", merged).code == 10


@pytest.mark.parametrize("target", ["omlx", "vllm-ec"])
def test_what_was_warmed_for_a_server_comes_back_the_same(
    target: str, media: Path, tmp_path: Path
) -> None:
    model = make_checkpoint(tmp_path / "model", family="qwen2_5_vl")
    store = tmp_path / "store"
    run = vcache(
        *("warm", media / "hills.jpg", media / "chart.png", "-m", model, "-s", store),
        *("--target", target, "--backend", "numpy"),
    )
    assert run.code == 0, run.err
    assert moved(store, tmp_path / "copy") == contents(store) != {}


def test_what_a_server_wrote_itself_comes_back_the_same(tmp_path: Path) -> None:
    """Files without our metadata, and ids that a client made up."""
    omlx, ec = tmp_path / "omlx", tmp_path / "ec"
    for number in range(3):
        omlx_store.write(omlx, "/models/qwen", omlx_store.image(number), 4096)
    for name in (ec_files.digest_id(1), "caf\u00e9 \u2603", "x" * 250, "a\nb\x1b[2J"):
        ec_files.put(ec, name)
    for store, count in ((omlx, 3), (ec, 4)):
        assert len(contents(store)) == count
        assert moved(store, tmp_path / f"{store.name}-copy") == contents(store)


def test_stores_of_two_targets_are_not_joined(warmed: Path, tmp_path: Path) -> None:
    ec = tmp_path / "ec"
    ec_files.put(ec, ec_files.digest_id(1))
    before = contents(ec)
    assert vcache("merge", ec, "--store", warmed).code == 16
    assert vcache("merge", ec, warmed, "--store", tmp_path / "new").code == 16
    assert vcache("export", tmp_path / "a.tar", "--store", warmed).code == 0
    assert vcache("import", tmp_path / "a.tar", "--store", ec).code == 16
    assert contents(ec) == before
