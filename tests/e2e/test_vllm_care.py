"""Looking after a directory that vLLM's encoder cache connector filled, by the command itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import keys, vcache
from tests.e2e.isolation import on_a_read_only_disk
from tests.targets.ec_files import FILE, OTHER_UID, content, digest_id, look, put, snapshot

DAY = 86_400
SOUND = 300
ODD = ["img 1", "ünïcode-画像", "-rf", "a\nb", "\x1b[31mred", ".hidden", "A" * 255, "..a", "*"]
DAMAGED = {
    "d-name": content(name="features"),
    "d-shape": content(shape=[24]),
    "d-short": content()[:-1],
    "d-empty": b"",
    "d-length": b"\xff" * 8 + b"{}",
    "d-json": b"\x08\0\0\0\0\0\0\0notjson!",
    "d-deep": b"\x00\x80\0\0\0\0\0\0" + b'{"ec_cache":' + b"[" * 32_756,
}
ENTRIES = SOUND + len(ODD) + len(DAMAGED)
READING = [
    ["stats"],
    ["stats", "--scan"],
    ["ls"],
    ["ls", "--sort", "size:desc", "--limit", "5"],
    ["inspect", digest_id(0)],
    ["verify"],
    ["verify", "--level", "stat"],
    ["verify", "--level", "header"],
    ["prune", "--max-size", "10KiB", "--dry-run"],
]


@pytest.fixture
def ec(tmp_path: Path) -> Path:
    """A directory like `/tmp`: entries of every kind and of every age, and strangers."""
    root = tmp_path / "shared"
    root.mkdir()
    root.chmod(0o1777)
    for number in range(SOUND):
        data = content(rows=number % 7, width=64, dtype=("BF16", "F16")[number % 2])
        put(root, digest_id(number), data, age=(number + 1) * 3600)
    for name in ODD:
        put(root, name, age=3600)
    for name, data in DAMAGED.items():
        put(root, name, data, age=2 * DAY)
    for number in range(1000, 1020):
        look(root, digest_id(number), age=2 * DAY)
    for number in range(1020, 1030):
        look(root, digest_id(number), age=DAY - 600)
    _add_strangers(root, tmp_path)
    return root


def _add_strangers(root: Path, tmp_path: Path) -> None:
    put(root, "with/slash", age=9 * DAY)
    put(tmp_path / "outside", digest_id(0), age=9 * DAY)
    (root / "to-outside").symlink_to(tmp_path / "outside" / digest_id(0))
    (look(root, "linked") / FILE).symlink_to(tmp_path / "outside" / digest_id(0) / FILE)
    os.mkfifo(look(root, "pipe") / FILE)
    (root / "loose.safetensors").write_bytes(content())
    (root / "project").mkdir()
    (root / "project" / "main.py").write_text("print()")
    (root / os.fsdecode(b"by\xffte")).mkdir()
    (root / os.fsdecode(b"by\xffte") / FILE).write_bytes(content())
    if os.geteuid() == 0:
        for place in (put(root, "theirs", age=9 * DAY), put(root, "their-file", age=9 * DAY)):
            os.chown(place, OTHER_UID, OTHER_UID)
        os.chown(root / "theirs", OTHER_UID, OTHER_UID)


def test_stats_counts_what_is_the_servers_and_what_is_not(ec: Path) -> None:
    run = vcache("stats", ec, "--scan", "--json")
    assert run.code == 0
    found = run.document
    assert (found["target"], found["entries"]) == ("vllm-ec", ENTRIES)
    assert found["empty_directories"] == 30
    own = [*map(digest_id, range(SOUND)), *ODD, *DAMAGED]
    assert found["bytes"]["logical"] == sum((ec / name / FILE).stat().st_size for name in own)
    assert found["bytes"]["index"] == 0
    strangers = {"project", "with", "to-outside", f"linked/{FILE}", f"pipe/{FILE}"}
    assert strangers <= set(found["foreign_files"])
    assert found["index"] == {"state": "memory", "drift_entries": 0}


def test_stats_are_printed_for_people(ec: Path) -> None:
    run = vcache("stats", ec)
    lines = dict(line.split(":", 1) for line in run.out.splitlines() if ": " in line)
    assert lines["target"].strip() == "vllm-ec"
    assert lines["entries"].strip() == f"{ENTRIES}"
    assert lines["empty directories"].strip() == "30"


def test_ls_sorts_and_prints_hostile_names_as_text(ec: Path) -> None:
    listed = vcache("ls", ec, "--sort", "used", "--json").document["entries"]
    assert len(listed) == ENTRIES
    assert set(keys(listed)) >= {*ODD, *DAMAGED}
    assert [row["used"] for row in listed] == sorted(row["used"] for row in listed)
    assert listed[0]["key"] == digest_id(SOUND - 1)
    sound = next(row for row in listed if row["key"] == digest_id(3))
    assert sound["tensors"] == [{"name": "ec_cache", "dtype": "F16", "shape": [3, 64]}]
    assert sound["path"] == f"{digest_id(3)}/{FILE}"
    printed = vcache("ls", ec).out
    assert "\x1b" not in printed
    assert len(printed.splitlines()) == ENTRIES + 1


def test_verify_says_structure_only_and_names_all_damage(ec: Path) -> None:
    run = vcache("verify", ec, "--json")
    assert run.code == 4
    found = run.document
    assert (found["checked"], found["ok"]) == (ENTRIES, ENTRIES - len(DAMAGED))
    assert found["structure_only"] is True
    assert found["empty_directories"] == 30
    damage = {each["key"]: each["kind"] for each in found["problems"] if "key" in each}
    assert damage == dict.fromkeys(DAMAGED, "header")
    assert "structure only" in vcache("verify", ec).out


def test_inspect_shows_one_entry_by_key_and_by_file(ec: Path) -> None:
    key = digest_id(5)
    by_key = vcache("inspect", ec, key[:20], "--json").document
    by_file = vcache("inspect", ec, ec / key / FILE, "--json").document
    assert by_key["key"] == by_file["key"] == key
    assert by_key["tensors"] == [{"name": "ec_cache", "dtype": "F16", "shape": [5, 64]}]
    assert "checksum" not in by_key
    assert vcache("inspect", ec, "d-shape").code == 4


def test_no_reading_command_changes_a_name_or_a_byte(ec: Path) -> None:
    before = snapshot(ec)
    for words in READING:
        run = vcache(words[0], "-s", ec, *words[1:], "--json")
        assert run.code in {0, 4}, run.err
        assert snapshot(ec) == before, words


def test_reading_commands_work_on_a_read_only_mount(ec: Path) -> None:
    launcher = on_a_read_only_disk(ec)
    before = snapshot(ec)
    for words in (READING[1], READING[2], READING[5], READING[8]):
        run = vcache(words[0], "-s", ec, *words[1:], "--json", launcher=launcher)
        assert run.code in {0, 4}, run.err
        assert "error" not in run.document or run.code == 4
    run = vcache("prune", ec, "--max-size", "0", "--yes", "--json", launcher=launcher)
    assert run.code == 14
    assert snapshot(ec) == before


def test_the_deed_is_the_plan_and_nothing_else(ec: Path, tmp_path: Path) -> None:
    words = ("prune", ec, "--older-than", "5d", "--json")
    outside, before = snapshot(tmp_path / "outside"), names_of(ec)
    plan = vcache(*words, "--dry-run").document
    assert names_of(ec) == before
    run = vcache(*words, "--yes")
    assert run.code == 0
    done = run.document
    assert done["plan"] == plan["plan"]
    assert done["after"] == plan["after"]
    aged = {each["key"] for each in plan["plan"] if each["reason"] == "aged"}
    assert aged == {digest_id(number) for number in range(119, SOUND)}
    empty = {each["key"] for each in plan["plan"] if each["reason"] == "empty"}
    assert empty == {digest_id(number) for number in range(1000, 1020)}
    gone = before - names_of(ec)
    assert gone == {*empty, *aged, *(f"{key}/{FILE}" for key in aged)}
    assert {name for name in names_of(ec) - before if not name.startswith(".vcache")} == set()
    assert snapshot(tmp_path / "outside") == outside
    assert vcache("stats", ec, "--json").document["entries"] == done["after"]["entries"]


def names_of(root: Path) -> set[str]:
    return {os.fspath(path.relative_to(root)) for path in root.rglob("*")}


def test_a_prune_is_printed_for_people(ec: Path) -> None:
    dry = vcache("prune", ec, "--older-than", "5d", "--dry-run").out
    assert "would remove:  201 files" in dry
    assert "\x1b" not in dry
    assert "removed:  201 files" in vcache("prune", ec, "--older-than", "5d", "--yes").out


def test_prune_to_a_size_takes_the_oldest_and_never_what_is_not_ours(ec: Path) -> None:
    found = vcache("prune", ec, "--max-size", "60000", "--yes", "--json").document
    assert 0 < found["after"]["bytes"] <= 60_000
    left = vcache("ls", ec, "--json").document["entries"]
    assert sum(row["bytes"] for row in left) == found["after"]["bytes"]
    for stranger in ("loose.safetensors", "project/main.py", f"linked/{FILE}", "to-outside"):
        assert os.path.lexists(ec / stranger)
    if os.geteuid() == 0:
        assert (ec / "theirs" / FILE).exists()
        assert (ec / "their-file" / FILE).exists()


def test_damaged_files_go_when_asked_for(ec: Path) -> None:
    found = vcache("prune", ec, "--incompatible", "--yes", "--json").document
    removed = {each["key"] for each in found["plan"] if each["reason"] == "incompatible"}
    assert removed == set(DAMAGED)
    assert vcache("verify", ec).code == 0


def test_an_entry_with_a_hostile_name_goes_by_its_key(ec: Path) -> None:
    run = vcache("prune", ec, "--key=-rf", "--key", "\x1b[31mred", "--yes", "--json")
    assert run.code == 0
    assert {each["key"] for each in run.document["plan"]} >= {"-rf", "\x1b[31mred"}
    assert not (ec / "-rf" / FILE).exists()
    assert (ec / "*" / FILE).exists()


def test_a_directory_that_looks_like_two_servers_asks_which(ec: Path) -> None:
    import hashlib

    name = hashlib.sha256(b"/models/m:" + b"ab" * 32).hexdigest()
    (ec / name[0]).mkdir()
    (ec / name[0] / f"{name}.safetensors").write_bytes(content(name="feature"))
    for command in ("stats", "ls", "verify"):
        run = vcache(command, ec)
        assert run.code == 2
        assert "--target omlx or --target vllm-ec" in run.err
    assert vcache("prune", ec, "--max-size", "0", "--yes").code == 2
    assert vcache("inspect", ec, digest_id(0)).code == 2
    assert vcache("stats", ec, "--target", "vllm-ec", "--json").document["entries"] == ENTRIES
    assert vcache("ls", ec, "--target", "omlx", "--json").document["entries"][0]["key"] == name
    assert vcache("stats", ec, "--target", "nonsense").code == 2


def test_a_directory_without_an_entry_is_no_store_unless_the_user_says_so(tmp_path: Path) -> None:
    look(tmp_path / "new", digest_id(1), age=2 * DAY)
    assert vcache("stats", tmp_path / "new").code == 10
    found = vcache("stats", tmp_path / "new", "--target", "vllm-ec", "--json").document
    assert (found["entries"], found["empty_directories"]) == (0, 1)
    assert vcache("stats", tmp_path / "missing", "--target", "vllm-ec").code == 10


def test_a_store_that_says_whose_it_is_is_not_taken_for_another(tmp_path: Path, ec: Path) -> None:
    vcache("prune", ec, "--max-size", "0", "--yes")
    assert vcache("stats", ec).code == 0
    run = vcache("stats", ec, "--target", "native")
    assert run.code == 2
    assert "is a store of target `vllm-ec`" in run.err


READER = """
import os, sys, time
from safetensors.numpy import load_file

root, ids = sys.argv[1], sys.argv[2:]
hits = misses = between = 0
while not (hits and misses and os.path.exists(root + "/../stop")):
    for name in ids:
        path = f"{root}/{name}/encoder_cache.safetensors"
        if not os.path.exists(path):
            misses += 1
            continue
        try:
            tensor = load_file(path)["ec_cache"]
        except FileNotFoundError:
            between += 1
            continue
        assert tensor.tobytes() == bytes(index % 251 for index in range(tensor.nbytes)), name
        hits += 1
    if not misses:
        print("ready", flush=True)
print(hits, misses, between)
"""


def test_a_server_that_reads_meanwhile_finds_whole_files_or_none(tmp_path: Path) -> None:
    """What it does: look whether the file exists, then load it."""
    root = tmp_path / "ec"
    ids = [digest_id(number) for number in range(200)]
    for number, name in enumerate(ids):
        put(root, name, content(rows=4, width=64, dtype="F16"), age=DAY + number)
    words = [sys.executable, "-c", READER, str(root), *ids]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout
        assert reader.stdout.readline() == "ready\n"
        for most in (80_000, 40_000, 8_000):
            assert vcache("prune", root, "--max-size", most, "--yes").code == 0
        (tmp_path / "stop").touch()
        hits, misses, between = map(int, reader.stdout.readlines()[-1].split())
    assert reader.returncode == 0
    assert hits
    assert misses
    assert between <= 200
