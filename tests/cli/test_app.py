"""The outermost shell: streams, exit codes, and what happens when nothing works."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Vcache, conforming
from vcache_cli.cli import app

VCACHE = [sys.executable, "-m", "vcache_cli"]


def boom(*_: object) -> None:
    raise ZeroDivisionError("division by \x1b zero")


def test_without_a_command_the_help_is_shown(vcache: Vcache) -> None:
    shown = vcache()
    assert shown.code == 0
    assert shown.out == vcache("--help").out
    assert "Fill a store:" in shown.out


def test_the_version_is_one_line(vcache: Vcache) -> None:
    shown = vcache("--version")
    assert shown.out.startswith("vcache ")
    assert shown.out.count("\n") == 1


@pytest.mark.parametrize("args", [["zork"], ["config", "--zork"], ["schema", "a", "b"]], ids=str)
def test_a_usage_error_is_two_lines_on_stderr(vcache: Vcache, args: list[str]) -> None:
    shown = vcache(*args)
    assert shown.code == 2
    assert shown.out == ""
    error, hint = shown.err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: see `vcache")


@pytest.mark.parametrize("args", [["zork"], ["config", "--zork"], ["schema", "zork"]], ids=str)
def test_with_json_a_usage_error_is_a_document(vcache: Vcache, args: list[str]) -> None:
    shown = vcache(*args, "--json")
    assert shown.document["schema"] == "vcache.error/1"
    assert shown.document["error"]["code"] == shown.code == 2


def test_json_after_two_dashes_is_a_name(vcache: Vcache) -> None:
    assert app.run(["schema", "--", "--json"]) == 2


def test_an_unforeseen_error_is_one_line(vcache: Vcache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_invoke", boom)
    shown = vcache("config")
    assert shown.code == 1
    assert shown.err.startswith(
        "error: internal error: ZeroDivisionError: division by \\x1b zero\n"
    )
    assert "Traceback" not in shown.err
    assert vcache("config", "--json").document["error"]["kind"] == "internal"


def test_debug_shows_the_traceback(vcache: Vcache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_invoke", boom)
    assert "Traceback" in vcache("--debug", "config").err
    monkeypatch.setenv("VCACHE_DEBUG", "1")
    assert "Traceback" in vcache("config").err


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (MemoryError, 1)])
def test_whatever_ends_a_command_has_a_code(
    vcache: Vcache, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], code: int
) -> None:
    def end(_: object) -> None:
        raise error

    monkeypatch.setattr(app, "_invoke", end)
    shown = vcache("config", "--json")
    assert shown.document["error"]["code"] == shown.code == code


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" schema warm | exec true', "sh", *VCACHE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_a_real_process_prints_one_document_and_its_code() -> None:
    done = subprocess.run([*VCACHE, "zork", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert conforming(done.stdout)["error"]["message"] == "No such command 'zork'"


def test_a_stream_that_cannot_show_a_name_shows_its_code() -> None:
    done = subprocess.run(
        [*VCACHE, "schema", "caf\u00e9"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "HOME": "/nonexistent"},
    )
    assert done.returncode == 2
    assert "caf\\xe9" in done.stderr


def test_every_schema_is_one_and_names_itself(vcache: Vcache) -> None:
    from jsonschema import Draft202012Validator

    names = vcache("schema").out.split()
    assert "warm" in names
    for name in names:
        schema = json.loads(vcache("schema", name).out)
        Draft202012Validator.check_schema(schema)
        assert schema["$id"] == schema["properties"]["schema"]["const"] == f"vcache.{name}/1"
        assert vcache("schema", f"vcache.{name}/1").out == vcache("schema", name).out


@pytest.mark.parametrize("command", ["config", "doctor", "plugins"])
def test_the_commands_without_a_store_print_their_document(vcache: Vcache, command: str) -> None:
    shown = vcache(command, "--json")
    assert shown.code == 0
    assert shown.document["schema"] == f"vcache.{command}/1"
    assert vcache(command).out


def test_config_shows_values_with_their_origins(
    vcache: Vcache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCACHE_MAX_SIZE", "2GiB")
    monkeypatch.setenv("VCACHE_STROE", "x")
    document = vcache("config", "--json").document
    assert document["settings"]["max_size"]["value"] == 2 * 1024**3
    assert document["settings"]["max_size"]["origin"] == "VCACHE_MAX_SIZE"
    assert document["unknown_variables"] == ["VCACHE_STROE"]
    text = vcache("config").out
    assert "2.0 GiB" in text
    assert "false" in text
    assert document["user_file"].endswith("config.toml")
    assert "VCACHE_STROE is set, but there is no such setting" in text


def test_config_leaves_out_what_a_narrow_terminal_has_no_room_for(
    vcache: Vcache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "119")
    assert "folder of the store" not in vcache("config").out
    monkeypatch.setenv("COLUMNS", "120")
    assert "folder of the store" in vcache("config").out


def test_a_usage_shows_that_sources_may_be_many(vcache: Vcache) -> None:
    assert "[SOURCE...]" in vcache("warm", "--help").out


def test_a_doctor_that_finds_something_wrong_says_so(vcache: Vcache) -> None:
    shown = vcache("doctor", "/dev/null", "--json")
    assert shown.code == 2
    assert shown.document["error"]["kind"] == "doctor"
    assert "fix store:" in vcache("doctor", "/dev/null").out


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("args", ["config --json", "stats --store /nonexistent", "--help"])
def test_streams_that_the_caller_closed_lead_nowhere(closed: str, args: str) -> None:
    words = f"{shlex.join(VCACHE)} {args} {closed}"
    done = subprocess.run(["/bin/sh", "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == (10 if "stats" in args else 0)
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("full", [">/dev/full", ">/dev/full 2>/dev/full"])
@pytest.mark.parametrize("args", ["config --json", "--help"])
def test_a_result_that_cannot_be_written_is_one_error(full: str, args: str) -> None:
    words = f"{shlex.join(VCACHE)} {args} {full}"
    done = subprocess.run(["/bin/sh", "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == 13
    assert "Traceback" not in done.stderr


def test_a_current_folder_that_is_gone_is_told(vcache: Vcache, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    before = Path.cwd()
    os.chdir(tmp_path / "gone")
    try:
        (tmp_path / "gone").rmdir()
        shown = vcache("config")
    finally:
        os.chdir(before)
    assert shown.code == 2
    assert shown.err.startswith("error: the current folder was removed\n")


def test_a_server_is_not_started_for_a_model_folder_that_is_absent(
    vcache: Vcache, tmp_path: Path
) -> None:
    shown = vcache("serve-mlx-vlm", "--model", str(tmp_path / "absent"))
    assert shown.code == 15
    assert "expected a model folder, found nothing there\nhint: give a folder" in shown.err
