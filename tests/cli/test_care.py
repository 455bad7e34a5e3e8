"""The commands that look after a store: they agree with each other and with the directory."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Vcache


class Terminal(io.StringIO):
    """Someone who answers."""

    def isatty(self) -> bool:
        return True


def files(root: Path) -> list[Path]:
    return sorted(root.glob("??/*.safetensors"))


def test_stats_ls_and_the_directory_agree(vcache: Vcache, warmed: Path) -> None:
    stats = vcache("stats", warmed, "--json").document
    listed = vcache("ls", "--store", warmed, "--json").document
    assert stats["entries"] == len(listed["entries"]) == len(files(warmed))
    sizes = sum(path.stat().st_size for path in files(warmed))
    assert stats["bytes"]["logical"] == sum(each["bytes"] for each in listed["entries"]) == sizes
    assert listed["more"] == 0


def test_stats_with_scan_shows_drift_and_foreign_files(vcache: Vcache, warmed: Path) -> None:
    vcache("stats", warmed)
    (warmed / "note\x1b.txt").write_text("x")
    shown = vcache("stats", warmed, "--scan")
    assert shown.code == 0
    assert "foreign file: note\\x1b.txt" in shown.out
    document = vcache("stats", warmed, "--scan", "--json").document
    assert document["index"]["drift_entries"] == 0


def test_stats_shows_limits_with_their_origin(
    vcache: Vcache, warmed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCACHE_MAX_SIZE", "1GiB")
    limits = vcache("stats", warmed, "--json").document["limits"]
    assert limits["max_size"] == {"value": 1024**3, "origin": "VCACHE_MAX_SIZE"}
    assert "max size:     1.0 GiB (VCACHE_MAX_SIZE)" in vcache("stats", warmed).out


def test_quiet_leaves_what_a_script_needs(vcache: Vcache, warmed: Path) -> None:
    count = len(files(warmed))
    assert vcache("stats", warmed, "-q").out == f"{count}\n"
    assert vcache("ls", warmed, "-q").out.split() == sorted(path.stem for path in files(warmed))


def test_ls_filters_sorts_and_limits(vcache: Vcache, warmed: Path) -> None:
    shown = vcache(
        "ls", warmed, "--filter", "size>1B", "--sort", "key:desc", "--limit", "2", "--json"
    )
    keys = [each["key"] for each in shown.document["entries"]]
    assert keys == sorted((path.stem for path in files(warmed)), reverse=True)[:2]
    assert shown.document["more"] == len(files(warmed)) - 2
    assert vcache("ls", warmed, "--filter", "model=other", "-q").out == ""


def test_ls_says_where_nothing_matches(vcache: Vcache, warmed: Path) -> None:
    shown = vcache("ls", warmed, "--filter", "model=other")
    assert (shown.out, shown.err) == ("", f"no entry matches, of {len(files(warmed))}\n")
    assert vcache("ls", warmed).err == ""
    vcache("prune", warmed, "--stage", "features", "--yes")
    assert vcache("ls", warmed).err == "the store is empty\n"


def test_ls_filters_and_sorts_by_source_and_model(vcache: Vcache, warmed: Path) -> None:
    def sources(*flags: str) -> list[str]:
        document = vcache("ls", warmed, *flags, "--json").document
        return [Path(entry["source"]).name for entry in document["entries"]]

    pngs = sources("--filter", "source=*.png", "--sort", "source")
    assert "chart.png" in pngs
    assert pngs == sorted(pngs)
    assert sources("--filter", "source=media/chart.png") == ["chart.png"]
    assert len(sources("--filter", "source!=chart.png")) == len(files(warmed)) - 1
    assert len(sources("--sort", "model:desc")) == len(files(warmed))


@pytest.mark.parametrize(
    "flags",
    [["--filter", "size~1"], ["--sort", "colour"], ["--limit", "0"], ["--limit", "x"]],
    ids=str,
)
def test_ls_refuses_what_it_cannot_read(vcache: Vcache, warmed: Path, flags: list[str]) -> None:
    shown = vcache("ls", warmed, *flags, "--json")
    assert shown.code == 2
    assert shown.document["error"]["kind"] == "usage"


@pytest.mark.parametrize("command", ["stats", "ls", "prune", "inspect", "verify"])
def test_what_is_no_store_is_exit_10(vcache: Vcache, tmp_path: Path, command: str) -> None:
    extra = {"prune": ["--max-size", "1"], "inspect": ["ab"]}.get(command, [])
    shown = vcache(command, tmp_path, *extra, "--json")
    assert shown.code == 10
    assert shown.document["error"]["hint"]


def test_a_folder_that_is_not_there_is_told_as_that(vcache: Vcache, tmp_path: Path) -> None:
    shown = vcache("ls", tmp_path / "absent")
    assert shown.code == 10
    assert "is no store: no such folder" in shown.err


def test_a_newer_format_is_exit_12(vcache: Vcache, warmed: Path) -> None:
    meta = warmed / ".vcache/store.json"
    value = json.loads(meta.read_text())
    meta.chmod(0o600)
    meta.write_text(json.dumps({**value, "format": 99}))
    assert vcache("stats", warmed, "--json").code == 12


def test_two_stores_are_one_too_many(vcache: Vcache, warmed: Path) -> None:
    shown = vcache("stats", warmed, "--store", "other")
    assert shown.code == 2
    assert "two stores were named" in shown.err


def test_inspect_finds_an_entry_by_key_prefix_file_and_picture(
    vcache: Vcache, warmed: Path, media: Path
) -> None:
    picture = media / "hills.jpg"
    by_picture = vcache("inspect", picture, "--store", warmed, "--json").document
    key = by_picture["key"]
    file = warmed / by_picture["path"]
    for target in (key, key[:12], file):
        document = vcache("inspect", warmed, target, "--json").document
        assert document["key"] == key
        assert document["checksum"]["ok"]
        assert document["recipe"]["family"] == "siglip"
    assert vcache("inspect", file, "-q").out == f"{key}\n"
    text = vcache("inspect", file).out
    assert "checksum:" in text
    assert re.search(r"^settings: +\w+ .+\n {10,}\w+ ", text, re.MULTILINE)  # one a line


def test_inspect_finds_a_picture_by_its_content_not_its_name(
    vcache: Vcache, warmed: Path, media: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "renamed.bin"
    copy.write_bytes((media / "hills.jpg").read_bytes())
    assert vcache("inspect", copy, "-s", warmed).code == 0
    copy.write_bytes((media / "chart.png").read_bytes() + b"x")
    shown = vcache("inspect", copy, "-s", warmed)
    assert shown.code == 2
    assert "no entry for" in shown.err


@pytest.mark.parametrize("targets", [[], ["a", "b", "c"], ["zz"]], ids=str)
def test_inspect_takes_one_target_that_is_there(
    vcache: Vcache, warmed: Path, targets: list[str]
) -> None:
    assert vcache("inspect", *targets, "-s", warmed, "--json").code == 2


def test_inspect_of_a_damaged_entry_is_exit_4(vcache: Vcache, warmed: Path) -> None:
    path = files(warmed)[0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    shown = vcache("inspect", path, "--json")
    assert shown.code == shown.document["error"]["code"] == 4
    assert not shown.document["checksum"]["ok"]
    assert "DOES NOT MATCH" in vcache("inspect", path).out
    hint = shown.document["error"]["hint"]
    words = shlex.split(hint.split("`")[1])  # a command that works as it stands
    assert vcache(*words[1:]).code == 0
    assert not path.exists()


def test_the_plan_of_a_dry_run_is_the_deed(vcache: Vcache, warmed: Path) -> None:
    half = sum(path.stat().st_size for path in files(warmed)) // 2
    before = files(warmed)
    plan = vcache("prune", warmed, "--max-size", half, "--dry-run", "--json").document
    assert files(warmed) == before
    done = vcache("prune", warmed, "--max-size", half, "--yes", "--json").document
    assert done["plan"] == plan["plan"]
    assert done["after"] == plan["after"]
    assert done["removed"] == len(plan["plan"]) == len(before) - len(files(warmed))
    assert {path.stem for path in before} - {path.stem for path in files(warmed)} == {
        each["key"] for each in plan["plan"]
    }


def test_prune_without_a_scope_or_without_consent_removes_nothing(
    vcache: Vcache, warmed: Path
) -> None:
    before = files(warmed)
    assert vcache("prune", warmed, "--yes").code == 2
    shown = vcache("prune", warmed, "--older-than", "0s", "--json")
    assert shown.code == 2
    assert shown.document["error"]["message"].startswith("nothing was removed: ")
    assert "--yes" in shown.document["error"]["hint"]
    assert "stdin is no terminal" in vcache("prune", warmed, "--older-than", "0s").err
    assert files(warmed) == before


@pytest.mark.parametrize(("answer", "left"), [("y\n", False), ("\n", True), ("no\n", True)])
def test_on_a_terminal_the_plan_is_shown_and_asked_about(
    vcache: Vcache, warmed: Path, monkeypatch: pytest.MonkeyPatch, *, answer: str, left: bool
) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", err)
    shown = vcache("prune", warmed, "--older-than", "0s")
    assert shown.code == 0
    assert bool(files(warmed)) == left
    assert "aged" in err.getvalue()
    assert "[y/N]" in err.getvalue()
    assert "aged" not in shown.out  # the plan is on the terminal already


def test_a_setting_can_give_consent_but_no_scope(
    vcache: Vcache, warmed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCACHE_YES", "1")
    monkeypatch.setenv("VCACHE_MAX_SIZE", "1")
    assert vcache("prune", warmed).code == 2
    assert vcache("prune", warmed, "--older-than", "0s").code == 0
    assert files(warmed) == []


def test_prune_by_key_source_and_absence(
    vcache: Vcache, warmed: Path, media: Path, tmp_path: Path
) -> None:
    count = len(files(warmed))
    first = files(warmed)[0].stem
    assert vcache("prune", warmed, "--key", first[:12], "--yes", "-q").out == f"{first}\n"
    kept = vcache("prune", warmed, "--not-in", media, "--yes", "--json").document
    assert kept["removed"] == 0
    rest = len(files(warmed))
    assert rest == count - 1
    vcache("prune", warmed, "--source", media / "hills.jpg", "--yes")
    assert len(files(warmed)) in {rest, rest - 1}
    other = tmp_path / "other.jpg"
    other.write_bytes((media / "hills.jpg").read_bytes() + b"x")
    vcache("prune", warmed, "--not-in", other, "--yes")
    assert files(warmed) == []


def without_a_picture(folder: Path) -> dict[str, Path]:
    """Corpora that say nothing of what is to be kept."""
    (folder / "empty").mkdir()
    (folder / "notes").mkdir()
    (folder / "notes/README").write_text("no picture")
    (folder / "list").touch()
    (folder / "dangling").mkdir()
    (folder / "dangling/a.jpg").symlink_to("nowhere")
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe/a.jpg")
    corpora = {name: folder / name for name in ("empty", "notes", "dangling", "pipe", "absent")}
    return {**corpora, "list": Path(f"@{folder / 'list'}")}


@pytest.mark.parametrize("corpus", ["empty", "notes", "list", "dangling", "pipe", "absent"])
@pytest.mark.parametrize("also", [[], ["--stage", "features"], ["--older-than", "0s"]], ids=str)
def test_a_corpus_without_a_picture_removes_nothing(
    vcache: Vcache, warmed: Path, tmp_path: Path, *, corpus: str, also: list[str]
) -> None:
    """Not even with another scope: the restriction that was asked for must not vanish."""
    before = files(warmed)
    named = without_a_picture(tmp_path)[corpus]
    assert vcache("prune", warmed, "--not-in", named, *also, "--yes", "--json").code == 2
    if corpus not in {"notes", "list"}:
        assert vcache("prune", warmed, "--source", named, *also, "--yes", "--json").code == 2
    assert files(warmed) == before


@pytest.mark.parametrize(
    "flags",
    [
        ["--max-size", "big"],
        ["--older-than", "7"],
        ["--grace", "x"],
        ["--stage", "tokens"],
        ["--key", "zz"],
        ["--source", "/nonexistent"],
        ["--not-in", "/nonexistent/*.jpg"],
    ],
    ids=str,
)
def test_prune_refuses_what_it_cannot_read(vcache: Vcache, warmed: Path, flags: list[str]) -> None:
    before = files(warmed)
    assert vcache("prune", warmed, *flags, "--yes", "--json").code == 2
    assert files(warmed) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_what_cannot_be_removed_is_exit_3(vcache: Vcache, warmed: Path) -> None:
    folder = files(warmed)[0].parent
    folder.chmod(0o500)
    shown = vcache("prune", warmed, "--older-than", "0s", "--yes", "--json")
    folder.chmod(0o700)
    assert shown.code == 3
    assert shown.document["failed"]


def flip(path: Path, position: int) -> None:
    """One bit, in place."""
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)


@pytest.mark.parametrize("level", ["stat", "header", "data"])
def test_a_whole_store_verifies_clean(vcache: Vcache, warmed: Path, level: str) -> None:
    shown = vcache("verify", warmed, "--level", level, "--json")
    assert shown.code == 0
    assert shown.document["level"] == level
    assert shown.document["checked"] == shown.document["ok"] == len(files(warmed))
    assert shown.document["complete"]


def test_damage_is_exit_4_until_it_is_repaired_and_warmed_again(
    vcache: Vcache, warmed: Path, media: Path, tiny_siglip: Path
) -> None:
    hurt = files(warmed)[::3]
    for number, path in enumerate(hurt):
        flip(path, -1 - 100 * number)
    found = vcache("verify", warmed, "--json")
    assert found.code == found.document["error"]["code"] == 4
    damaged = {each["path"] for each in found.document["problems"]}
    assert damaged == {str(path.relative_to(warmed)) for path in hurt}
    assert "checksum" in vcache("verify", warmed).out
    repaired = vcache("verify", warmed, "--repair", "--json")
    assert repaired.code == 0
    assert {each["action"] for each in repaired.document["problems"]} == {"quarantined"}
    assert vcache("verify", warmed).code == 0
    again = vcache("warm", media, "-m", tiny_siglip, "-s", warmed, "--json").document
    assert again["items"]["stored"] == len(hurt)


def test_quiet_verify_names_only_damage(vcache: Vcache, warmed: Path) -> None:
    (warmed / "note.txt").write_text("x")
    assert vcache("verify", warmed, "-q").out == ""
    flip(files(warmed)[0], -1)
    assert vcache("verify", warmed, "-q").out.startswith("checksum: ")


@pytest.mark.parametrize(
    "flags", [["--level", "deep"], ["--subset", "0.5"], ["--max-duration", "10"]], ids=str
)
def test_verify_refuses_what_it_cannot_read(vcache: Vcache, warmed: Path, flags: list[str]) -> None:
    assert vcache("verify", warmed, *flags, "--json").code == 2


def test_a_part_can_be_verified(vcache: Vcache, warmed: Path) -> None:
    document = vcache("verify", warmed, "--subset", "50%", "--json").document
    assert 0 < document["checked"] < len(files(warmed))
    assert vcache("verify", warmed, "--subset", "0.01%", "--json").document["checked"] == 1


@pytest.mark.parametrize("command", ["stats", "ls", "verify"])
def test_looking_after_a_store_loads_no_decoder_and_no_encoder(warmed: Path, command: str) -> None:
    code = "import sys; from vcache_cli.cli.app import run; run(sys.argv[1:]); print(*sys.modules)"
    args = [sys.executable, "-c", code, command, str(warmed), "--level", "header"]
    words = args if command == "verify" else args[:-2]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"PIL", "av", "mlx", "numpy", "rich", "torch"}
