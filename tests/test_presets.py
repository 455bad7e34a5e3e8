"""A preset stands between the environment and the files, and sets nothing that surprises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Vcache, running
from vcache_cli.config import Settings, load_settings, preset_files, user_config_path
from vcache_cli.errors import RefusedError, UsageError

PHOTOS = """
workers = 1
stage = "pixels"
max-size = "1GiB"

[preset.photos]
model = "tower"
max-size = "3GiB"
batch-size = 4
workers = 2
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "vcache.toml").write_text(PHOTOS)
    return tmp_path


def load(cwd: Path, preset: str | None = None, **environ: str) -> Settings:
    flags = {"preset": preset, "workers": "7" if preset == "photos" else None}
    return load_settings(flags, environ=environ, cwd=cwd)


def test_flags_and_variables_beat_a_preset_which_beats_the_file(project: Path) -> None:
    settings = load(project, "photos", VCACHE_BATCH_SIZE="5")
    assert (settings.workers, settings.batch_size) == (7, 5)
    assert (settings.max_size, settings.stage) == (3 * 1024**3, "pixels")
    assert settings.origins["max_size"] == f"{project / 'vcache.toml'} [preset.photos]"
    assert settings.origins["stage"] == str(project / "vcache.toml")


def test_without_a_preset_none_of_it_holds(project: Path) -> None:
    assert load(project).max_size == 1024**3


def test_a_variable_chooses_a_preset_and_the_flag_another(project: Path) -> None:
    with open(project / "vcache.toml", "a") as file:
        file.write("[preset.other]\nmax_size = '9GiB'")
    assert load(project, VCACHE_PRESET="photos").max_size == 3 * 1024**3
    assert load(project, "other", VCACHE_PRESET="photos").max_size == 9 * 1024**3


def test_a_path_in_a_preset_is_relative_to_its_file(project: Path) -> None:
    (project / "tower").mkdir()
    (project / "below").mkdir()
    assert load(project / "below", "photos").model == str(project / "tower")


def test_a_users_own_preset_fills_in_what_the_projects_leaves_open(project: Path) -> None:
    own = user_config_path()
    own.parent.mkdir(parents=True)
    own.write_text("[preset.photos]\nmodel = 'mine'\ndtype = 'float32'\n[preset.papers]\n")
    settings = load(project, "photos")
    assert (settings.model, settings.dtype) == ("tower", "float32")
    files = [str(project / "vcache.toml"), str(own)]
    assert preset_files(project) == {"papers": files[1:], "photos": files}


def test_the_table_of_a_tool_has_presets_too(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.vcache.preset.ci]\nworkers = 3")
    assert load(tmp_path, "ci").workers == 3


@pytest.mark.parametrize(
    "line", ["yes = true", "on-full = 'prune'", "blas = 'x.so'", "trust_remote_code = true"]
)
def test_a_preset_cannot_set_what_runs_code_or_deletes(tmp_path: Path, line: str) -> None:
    own = user_config_path()
    own.parent.mkdir(parents=True)
    own.write_text(f"[preset.p]\n{line}")
    with pytest.raises(RefusedError, match=r"\[preset\.p\]: a preset cannot set"):
        load(tmp_path, "p")


def test_an_unknown_preset_is_an_error_that_lists_the_known_ones(project: Path) -> None:
    with pytest.raises(UsageError, match="no preset `photo`") as raised:
        load(project, "photo")
    assert raised.value.hint == "there are: photos"
    with pytest.raises(UsageError, match="no preset `x`") as raised:
        load(project.parent, "x")
    assert "[preset.x]" in raised.value.hint


@pytest.mark.parametrize("text", ["preset = 1", "[preset]\np = 1"])
def test_presets_that_are_no_tables_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "vcache.toml").write_text(text)
    with pytest.raises(UsageError, match="should be a table, found int"):
        load(tmp_path)


def test_a_mistyped_setting_is_named_with_its_preset(tmp_path: Path) -> None:
    (tmp_path / "vcache.toml").write_text("[preset.p]\nsotre = 'x'")
    with pytest.raises(UsageError, match=r"vcache.toml \[preset.p\]: unknown setting `sotre`"):
        load(tmp_path, "p")


@pytest.fixture
def vcache(
    capsys: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> Vcache:
    monkeypatch.chdir(project)
    return running(capsys)


def test_the_command_shows_a_presets_values_with_their_origin(
    vcache: Vcache, project: Path
) -> None:
    result = vcache("config", "--preset", "photos", "--json")
    origin = f"{project / 'vcache.toml'} [preset.photos]"
    assert result.document["settings"]["batch_size"]["origin"] == origin
    assert result.document["presets"] == {"photos": [str(project / "vcache.toml")]}
    assert "presets" in vcache("config").out
    assert vcache("config", "--preset", "nope").code == 2


@pytest.mark.parametrize("command", ["warm", "check", "key"])
def test_a_warm_a_check_and_a_key_take_the_model_of_a_preset(
    vcache: Vcache, media: Path, tiny_siglip: Path, tmp_path: Path, command: str
) -> None:
    with open(tmp_path / "vcache.toml", "a") as file:
        file.write(f"[preset.tiny]\nmodel = '{tiny_siglip}'\nstore = 's'\nstage = 'features'")
    result = vcache(command, media / "hills.jpg", "--preset", "tiny", "--json")
    assert result.code == {"warm": 0, "check": 10, "key": 0}[command]  # no store yet


def test_the_command_finds_a_mistake_in_a_preset_that_was_not_asked_for(
    vcache: Vcache, project: Path
) -> None:
    file = project / "vcache.toml"
    file.write_text(file.read_text() + "\n[preset.other]\nsource = 'x'\n")
    shown = vcache("config")
    assert shown.code == 2
    assert f"{file} [preset.other]: unknown setting `source`" in shown.err
    assert "model" in shown.err
    assert "grace" not in shown.err  # no preset may set it
