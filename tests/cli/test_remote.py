"""The commands about stores in buckets, over a bucket that is a folder."""

from __future__ import annotations

import io
import secrets
import time
from pathlib import Path

import pytest

from tests.cli.running import Vcache
from tests.store.archives import filled
from tests.store.care import add, entry
from vcache_cli.buckets import Moved, Place, open_bucket
from vcache_cli.cli.output import Output
from vcache_cli.cli.ticker import ticking
from vcache_cli.store import StoreRoot


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    """Two models' features."""
    root = filled(tmp_path / "store", [0, 1])
    add(root, entry(2, model="other"))
    return root


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/bucket/caches"


def test_a_store_goes_to_a_bucket_and_back(
    vcache: Vcache, root: StoreRoot, url: str, tmp_path: Path
) -> None:
    run = vcache("push", url, "-s", root.path, "--json")
    assert (run.code, run.document["entries"]["pushed"]) == (0, 3)
    assert run.document["url"] == url
    assert vcache("push", url, "-s", root.path, "--quiet").out.strip() == run.document["run"]
    back = vcache("pull", url, "-s", tmp_path / "copy", "--json")
    assert (back.code, back.document["entries"]["stored"]) == (0, 3)
    text = vcache("pull", url, "-s", tmp_path / "copy").out
    assert "3 (3 present)" in text
    assert url in text


def test_a_bucket_is_looked_at_as_a_store_is(vcache: Vcache, root: StoreRoot, url: str) -> None:
    run = vcache("push", url, "-s", root.path, "--json").document["run"]
    stats = vcache("stats", url, "--json").document
    assert (stats["store"], stats["entries"], stats["target"]) == (url, 3, "native")
    assert stats["last_run"]["id"] == run
    assert [group["entries"] for group in stats["by_model"]] == [1, 2]
    assert "1 manifest" in vcache("stats", "--store", url).out
    listed = vcache("ls", url, "--filter", "model=other", "--json").document
    assert [each["key"] for each in listed["entries"]] == [entry(2, model="other").key]
    assert vcache("ls", url, "--limit", "1", "--sort", "size:desc", "--json").document["more"] == 2
    assert vcache("ls", url, "--filter", "source=*.png").code == 2
    plan = vcache("prune", url, "--model", "other", "--dry-run", "--json").document
    assert (plan["store"], plan["after"]["entries"]) == (url, 2)
    assert vcache("prune", url, "--model", "other").code == 2
    assert vcache("prune", url, "--yes").code == 2
    assert vcache("prune", url, "--incompatible", "--yes").code == 2
    assert vcache("prune", url, "--model", "other", "--yes").code == 0
    assert vcache("stats", url, "--json").document["entries"] == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("push", "http://host/x"), 2),
        (("push", "folder"), 2),
        (("push", "s3://id:secret@bucket/x"), 2),
        (("stats", "s3://id:secret@bucket/x"), 2),
        (("verify", "s3://id:secret@bucket/x"), 2),
        (("warm", "x.jpg", "--store", "s3://id:secret@bucket/x", "--model", "m"), 2),
        (("check", "x.jpg", "--store", "s3://bucket/x", "--model", "m"), 2),
        (("pull", "{url}"), 10),
        (("stats", "{url}"), 10),
        (("push", "{url}", "--jobs", "0", "--store", "nowhere"), 2),
        (("ls", "{url}", "--store", "other"), 2),
    ],
    ids=range(11),
)
def test_what_makes_no_sense_is_refused(
    vcache: Vcache, url: str, words: tuple[str, ...], code: int
) -> None:
    run = vcache(*(word.format(url=url) for word in words), "--json")
    assert run.code == code
    assert "secret" not in run.out + run.err


def test_objects_that_did_not_change_are_not_read_to_keep_their_entries(
    vcache: Vcache, media: Path, tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`prune --not-in` of a corpus that was warmed needs its listing alone."""
    monkeypatch.setenv("VCACHE_ISOLATION", "thread")
    place = Place("memory", secrets.token_hex(8))
    bucket = open_bucket(place)
    bucket.write(place.below("a.jpg").path, (media / "hills.jpg").read_bytes())
    bucket.write(place.below("b.png").path, (media / "chart.png").read_bytes())
    monkeypatch.setattr("vcache_cli.store.memos.SETTLE_NS", -1)
    words = ("-m", tiny_siglip, "-s", "store", "--json")
    assert vcache("warm", place.url, *words).document["items"]["stored"] == 2
    again = vcache("warm", place.url, *words).document
    assert (again["items"]["present"], again["bytes"]["read"]) == (2, 0)
    monkeypatch.setattr("vcache_cli.buckets.Bucket.read", None)
    plan = vcache("prune", "store", "--not-in", f"{place.url}/*.png", "--dry-run", "--json")
    assert (plan.code, len(plan.document["plan"])) == (0, 1)


def test_a_warm_goes_straight_into_a_bucket(
    vcache: Vcache, url: str, media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    words = ("warm", media / "hills.jpg", "-m", tiny_siglip, "--store", url)
    run = vcache(*words, "--json")
    assert (run.code, run.document["items"]["stored"], run.document["store"]) == (0, 1, url)
    text = vcache(*words)
    assert (text.code, "next: " in text.err) == (0, False)
    pull = ("pull", url, "-s", tmp_path / "copy", "--run", run.document["run"], "--json")
    assert vcache(*pull).document["entries"]["stored"] == 1
    more = vcache("warm", media / "chart.png", *words[2:])
    assert f"next: vcache pull {url}" in more.err


def test_commands_that_need_a_folder_say_how_to_have_one(vcache: Vcache, url: str) -> None:
    for words in (("verify", url), ("check", "x.jpg", "-m", "m", "--store", url)):
        run = vcache(*words)
        assert (run.code, "vcache pull URL" in run.err) == (2, True)


def test_what_a_bucket_does_not_have_is_refused_by_flag_and_left_out_of_settings(
    vcache: Vcache, url: str, media: Path, tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("warm", media / "hills.jpg", "-m", tiny_siglip, "--store", url)
    for flag in (("--max-size", "1GiB"), ("--min-free", "1GiB"), ("--on-full", "prune")):
        refused = vcache(*words, *flag)
        assert (refused.code, flag[0] in refused.err) == (2, True)
    assert vcache(*words, "--dry-run", "--max-size", "1GiB").code == 2
    monkeypatch.setenv("VCACHE_MAX_SIZE", "1")
    assert vcache(*words).code == 0


def test_a_warm_into_a_bucket_is_foretold_from_what_is_there(
    vcache: Vcache, url: str, media: Path, tiny_siglip: Path, tmp_path: Path
) -> None:
    words = ("warm", media / "hills.jpg", "-m", tiny_siglip, "--store", url)
    plan = vcache(*words, "--dry-run", "--json").document
    assert (plan["store"], plan["items"]["to_do"], plan["fits"]) == (url, 1, True)
    assert plan["bytes"]["to_write_estimate"] > 0
    assert not plan["bytes"].keys() & {"free", "room"}
    assert not (tmp_path / "bucket").exists()
    assert " free" not in vcache(*words, "--dry-run").out
    assert vcache(*words).code == 0
    again = vcache(*words, media / "press.jpg", "--dry-run", "--json").document
    assert (again["items"]["present"], again["items"]["to_do"]) == (1, 1)
    assert vcache(*words, "--dtype", "float32", "--dry-run", "--json").document["items"]["to_do"]


def test_long_work_tells_how_far_it_is() -> None:
    moved, stderr = Moved(), io.StringIO()
    with ticking(Output(stderr=stderr), moved, seconds=0.01):
        moved.add(2048)
        deadline = time.monotonic() + 10
        while not stderr.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert stderr.getvalue().splitlines()[0] == "1 object, 2.0 KiB"


def test_a_bucket_that_ends_with_the_command_is_refused(
    vcache: Vcache, root: StoreRoot, samples: Path
) -> None:
    model = samples / "tiny-siglip"
    for words in (
        ("push", "memory://bucket/caches", "-s", root.path),
        ("warm", samples / "media", "-m", model, "-s", "memory://bucket/caches"),
    ):
        run = vcache(*words)
        assert run.code == 2
        assert "ends with it" in run.err
