"""A folder that someone sent: its settings run no code, delete nothing and lead nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import Vcache, running
from tests.store.care import add, entry, make_store


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def vcache(capsys: pytest.CaptureFixture[str]) -> Vcache:
    return running(capsys)


SETTINGS = {
    "yes": "yes = true",
    "grace": 'grace = "0s"',
    "on full": 'on_full = "prune"',
    "a library": 'blas = "./evil.so"',
    "remote code": "trust_remote_code = true",
    "a server's words": 'server_args = "--exec=evil"',
}


@pytest.mark.parametrize("line", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("file", ["vcache.toml", "pyproject.toml"])
def test_settings_that_run_code_or_delete_end_the_command(
    file: str, line: str, project: Path, vcache: Vcache
) -> None:
    root = make_store(project / "store")
    kept = add(root, entry(1))
    table = "[tool.vcache]\n" if file == "pyproject.toml" else ""
    (project / file).write_text(f"{table}{line}\n")
    done = vcache("prune", root.path, "--older-than", "0s", "--grace", "0s")
    assert done.code == 16
    assert file in done.err
    assert kept.exists()


def test_settings_are_data(project: Path, vcache: Vcache) -> None:
    """Nothing in them is expanded by a shell, or evaluated."""
    (project / "vcache.toml").write_text('model = "$(touch owned)`touch owned`"\n')
    done = vcache("config", "--json")
    assert done.code == 0
    assert "$(touch owned)" in json.dumps(done.document)
    assert not (project / "owned").exists()


@pytest.mark.parametrize("name", ["json.py", "numpy.py", "sitecustomize.py", "xxhash.py"])
def test_a_module_in_the_folder_is_not_imported(name: str, project: Path, vcache: Vcache) -> None:
    (project / name).write_text("open('owned', 'w')\nraise SystemExit(9)\n")
    make_store(project / "store")
    assert vcache("stats", project / "store").code == 0
    assert not (project / "owned").exists()


def test_a_settings_file_that_is_a_pipe_or_huge_keeps_nobody_waiting(
    project: Path, vcache: Vcache
) -> None:
    with (project / "vcache.toml").open("wb") as file:
        file.truncate(1 << 33)
    assert vcache("config").code == 2
    (project / "vcache.toml").write_text("a" + ".a" * 20_000 + " = 1")  # 3 s for a parser
    assert vcache("config").code == 2
