"""`vcache report`: every document of a real run, and gates that hold or do not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.running import Vcache, conforming


@pytest.fixture(scope="session")
def ran_once(
    warmed_once: Path, samples: Path, tiny_siglip: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A store whose last run met what is there, and what cannot be read; copy it."""
    from vcache_cli import warm

    root = tmp_path_factory.mktemp("ran") / "store"
    shutil.copytree(warmed_once, root)
    sources = [str(samples / "media"), str(samples / "bad")]
    assert list(warm(sources, store=root, model=tiny_siglip))
    return root


@pytest.fixture
def ran(ran_once: Path, tmp_path: Path) -> Path:
    """The same, of the test's own."""
    root = tmp_path / "store"
    shutil.copytree(ran_once, root)
    return root


def test_the_summary_says_what_came_of_the_run(vcache: Vcache, ran: Path) -> None:
    shown = vcache("report", ran)
    assert shown.code == 0
    assert shown.out.startswith("14 of 17 items are ready\n")
    assert "hit rate:  82.35%" in shown.out
    assert "unrecognised" in shown.out


def test_the_document_follows_its_schema_and_agrees_with_the_run(vcache: Vcache, ran: Path) -> None:
    document = vcache("report", ran, "--compare", "previous", "--json").document
    stats = vcache("stats", ran, "--json").document
    assert document["items"] == stats["last_run"]["items"]
    assert document["holds"]["bytes"] == stats["bytes"]
    assert document["held"]["entries"] == stats["entries"]
    listed = vcache("ls", ran, "--json").document["entries"]
    assert document["tokens"]["total"] == sum(each["num_tokens"] for each in listed)
    assert {each["kind"] for each in document["failures"]} == {"unrecognised", "truncated"}
    assert len(document["comparison"]["newly_failed"]) == 3


def test_every_kind_of_file_is_written(vcache: Vcache, ran: Path, tmp_path: Path) -> None:
    names = ["r.html", "r.md", "r.json", "r.junit.xml", "failed.txt"]
    outs = [part for name in names for part in ("--out", str(tmp_path / name))]
    document = vcache("report", ran, *outs, "--json").document
    assert [each["format"] for each in document["outputs"]] == [
        "html",
        "markdown",
        "json",
        "junit",
        "failed",
    ]
    assert conforming((tmp_path / "r.json").read_text())["items"] == document["items"]
    page = (tmp_path / "r.html").read_text()
    assert page.count('src="data:image/jpeg;base64,') == 2  # the one cut short, and a copied one


def test_what_failed_can_be_warmed_from_the_list(
    vcache: Vcache, ran: Path, tmp_path: Path, tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vcache("report", ran, "--out", tmp_path / "failed.txt")
    monkeypatch.chdir(tmp_path)
    again = vcache("warm", "@failed.txt", "-m", tiny_siglip, "-s", ran, "--json").document
    assert (again["items"]["total"], again["items"]["failed"]) == (3, 3)


def test_a_gate_that_is_not_met_is_exit_code_5_with_its_value(vcache: Vcache, ran: Path) -> None:
    gates = ["--gate", "hit>=95%", "--gate", "corrupt=0", "--gate", "size<=1GiB"]
    shown = vcache("report", ran, *gates, "--json")
    assert shown.code == 5
    assert shown.document["error"]["message"] == "1 of 3 gates not met: `hit>=95%` is 82.35%"
    assert [each["met"] for each in shown.document["gates"]] == [False, True, True]
    assert vcache("report", ran, "--gate", "hit>=82%").code == 0


def test_damage_fails_its_gate(vcache: Vcache, ran: Path) -> None:
    victim = next(ran.glob("??/*.safetensors"))
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.chmod(0o600)
    victim.write_bytes(content)
    shown = vcache("report", ran, "--gate", "corrupt=0", "--json")
    assert (shown.code, shown.document["verified"]["damaged"]) == (5, 1)


def test_entries_that_are_gone_are_no_coverage(vcache: Vcache, ran: Path) -> None:
    before = vcache("report", ran, "--json").document
    vcache("prune", ran, "--stage", "features", "--yes", "--grace", "0s")
    after = vcache("report", ran, "--json").document
    assert before["held"]["gone"] == 0
    assert after["held"]["gone"] == before["held"]["entries"]
    assert after["coverage"] == 0


def test_an_unknown_gate_or_ending_or_run_is_a_mistake(vcache: Vcache, ran: Path) -> None:
    for wrong in (["--gate", "hits=1"], ["--out", "r.pdf"], ["--run", "yesterday"]):
        shown = vcache("report", ran, *wrong)
        assert shown.code == 2
        assert shown.err.startswith("error: ")
    assert not Path("r.pdf").exists()


def test_a_run_file_is_enough_where_the_store_is_not(
    vcache: Vcache, ran: Path, tmp_path: Path
) -> None:
    run = Path(vcache("report", ran, "--json").document["run"]["file"])
    inside = vcache("report", "--run", run, "--json").document
    assert inside["store"] == str(ran)
    carried = tmp_path / "carried.jsonl"
    shutil.copy(run, carried)
    alone = vcache("report", "--run", carried, "--gate", "size<1GiB", "--json")
    assert alone.code == 5
    assert "`size<1GiB` is unknown" in alone.err
    assert "store" not in alone.document
    assert alone.document["items"] == inside["items"]
    (tmp_path / "note.jsonl").write_text("hello\n")
    assert vcache("report", "--run", tmp_path / "note.jsonl").code == 2


def test_quiet_leaves_the_gates_that_are_not_met(vcache: Vcache, ran: Path) -> None:
    shown = vcache("report", ran, "-q", "--gate", "failed=0")
    assert shown.out == "`failed=0` is 3\n"


def test_a_store_without_a_run_says_so(vcache: Vcache, ran: Path) -> None:
    shutil.rmtree(ran / ".vcache/runs")
    shown = vcache("report", ran)
    assert shown.code == 2
    assert "no run of `vcache warm` left a file" in shown.err
    assert json.loads(vcache("report", ran, "--json").out)["error"]["code"] == 2


def test_links_in_a_circle_are_a_mistake_of_whoever_named_them(vcache: Vcache, ran: Path) -> None:
    Path("one.jsonl").symlink_to("other.html")
    Path("other.html").symlink_to("one.jsonl")
    for words in (["--run", "one.jsonl"], ["--compare", "one.jsonl"], ["--out", "other.html"]):
        assert vcache("report", ran, *words).code == 2
