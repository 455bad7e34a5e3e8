"""The strongest value wins, everything wrong is named with its place, and nothing is ignored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.config import (
    SETTINGS,
    Layer,
    Settings,
    load_settings,
    parse_fraction,
    parse_shard,
    resolve,
    unknown_variables,
)
from vcache_cli.errors import AccessError, RefusedError, UsageError

HOME = Path("/nowhere/cache")


def resolved(*layers: Layer) -> Settings:
    return resolve(layers, default_store=HOME)


def project(**values: object) -> Layer:
    return Layer("project", values, Path("/nowhere/vcache.toml"))


def test_without_any_layer_all_is_default() -> None:
    settings = resolved()
    assert settings.store == HOME
    assert settings.stage == "features"
    assert set(settings.origins.values()) == {"default"}


def test_the_defaults_are_those_of_the_library() -> None:
    from vcache_cli.assemble.options import WarmOptions

    settings, options = resolved(), WarmOptions()
    same = ("target", "stage", "profile", "backend", "dtype", "workers", "batch_size", "on_error")
    assert [getattr(settings, name) for name in same] == [getattr(options, name) for name in same]


def test_every_setting_has_a_field_and_an_origin() -> None:
    settings = resolved()
    assert {setting.name for setting in SETTINGS} == set(settings.origins)
    assert set(settings.as_json()) == set(settings.origins)


def test_the_stronger_layer_wins_and_is_named() -> None:
    user = Layer("user", {"workers": 1, "stage": "pixels", "max_size": "1GiB"}, Path("/u.toml"))
    layers = (
        Layer("flag", {"workers": "4"}),
        Layer("variable", {"workers": "3", "stage": "features"}),
        project(workers=2),
        user,
    )
    settings = resolved(*layers)
    assert settings.workers == 4
    assert settings.origins["workers"] == "--workers"
    assert settings.stage == "features"
    assert settings.origins["stage"] == "VCACHE_STAGE"
    assert settings.max_size == 1024**3
    assert settings.origins["max_size"] == "/u.toml"


def test_a_beaten_layer_is_checked_all_the_same() -> None:
    with pytest.raises(UsageError, match="`workers`: expected a number of at least 1, got `0`"):
        resolved(Layer("flag", {"workers": "4"}), project(workers=0))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max_size", "ten", "a size such as"),
        ("max_size", -1, "a size such as"),
        ("max_size", True, "a size such as"),
        ("stage", "tokens", "`features` or `pixels`"),
        ("dtype", "int8", "`bfloat16`"),
        ("workers", "two", "a number of at least 1"),
        ("workers", 1.5, "a number of at least 1"),
        ("batch_size", True, "a number of at least 1"),
        ("on_error", "panic", "`skip` or `fail`"),
        ("max_errors", "120%", "a percentage such as"),
        ("max_errors", -1, "a percentage such as"),
        ("model", "", "a model folder or name"),
        ("store", 7, "a directory"),
    ],
)
def test_a_bad_value_is_named_with_what_is_expected(
    name: str, value: object, expected: str
) -> None:
    with pytest.raises(UsageError) as raised:
        resolved(project(**{name: value}))
    assert f"/nowhere/vcache.toml: `{name}`: expected" in raised.value.message
    assert expected in raised.value.message
    assert f"got `{value}`" in raised.value.message


def test_an_unknown_key_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown setting `sotre`") as raised:
        resolved(project(sotre="x"))
    assert "store" in raised.value.hint


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("yes", True, "decides what is deleted"),
        ("grace", "0s", "decides what is deleted"),
        ("on_full", "prune", "decides what is deleted"),
        ("isolation", "thread", "bounds what a hostile picture can do here"),
        ("item_timeout", "none", "bounds what a hostile picture can do here"),
        ("item_memory", "none", "bounds what a hostile picture can do here"),
        ("blas", "x.so", "runs code"),
        ("trust_remote_code", True, "runs code"),
        ("server_args", "x", "runs code"),
    ],
)
def test_a_project_cannot_set_what_runs_code_deletes_or_guards(
    name: str, value: object, why: str
) -> None:
    with pytest.raises(RefusedError, match=f"cannot set `{name}`") as raised:
        resolved(project(**{name: value}))
    known = name in {setting.name for setting in SETTINGS}
    assert raised.value.message.endswith(f"which {why}")
    assert (f"VCACHE_{name.upper()}" in raised.value.hint) == known


def test_a_user_may_set_what_deletes() -> None:
    settings = resolved(Layer("user", {"yes": True, "grace": "1m"}, Path("/u.toml")))
    assert settings.yes
    assert settings.grace == 60


@pytest.mark.parametrize(
    ("value", "expected"), [("none", None), ("0 B", 0), (0, 0), ("5 MB", 5000000)]
)
def test_a_limit_can_be_taken_away(value: object, expected: int | None) -> None:
    assert resolved(project(min_free=value)).min_free == expected


def load(cwd: Path, **environ: str) -> Settings:
    return load_settings({}, environ=environ, cwd=cwd)


def test_the_nearest_project_file_is_taken(tmp_path: Path) -> None:
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    (tmp_path / "vcache.toml").write_text("workers = 1")
    (tmp_path / "a/pyproject.toml").write_text("[tool.vcache]\nbatch-size = 2")
    settings = load(below)
    assert settings.batch_size == 2
    assert settings.workers is None
    assert settings.origins["batch_size"] == str(tmp_path / "a/pyproject.toml")


def test_a_pyproject_without_our_table_is_passed_by(tmp_path: Path) -> None:
    below = tmp_path / "a"
    below.mkdir()
    (tmp_path / "vcache.toml").write_text("workers = 1")
    (below / "pyproject.toml").write_text("[tool.other]\nname = 'vcache'")
    assert load(below).workers == 1


@pytest.mark.parametrize("name", ["vcache.toml", "pyproject.toml"])
def test_a_pipe_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError, match="expected a file"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["vcache.toml", "pyproject.toml"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vcache = " + "[" * 100_000, "too deeply"),
        ("vcache = " + "9" * 10_000, "not TOML"),
        ("vcache = \xff", "not TOML"),
        ("vcache =" + " " * 2**24, "no settings"),
        ("vcache.a = 1\n" + "#" * 2**18, "262,144 at most"),
        ("vcache" + ".a" * 32 + " = 1", "more than 32 parts"),
        ("[ vcache" + " . 'a'" * 32 + " ]", "more than 32 parts"),
        ("vcache = {" + '"\\"".' * 32 + "a = 1}", "more than 32 parts"),
    ],
    ids=["deep", "digits", "bytes", "long", "large", "dotted", "table", "inline"],
)
def test_a_file_that_cannot_be_parsed_is_named(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=f"{name}: .*{words}"):
        load(tmp_path)


def test_a_key_has_the_parts_that_anyone_needs(tmp_path: Path) -> None:
    text = "other" + ".a" * 31 + " = '" + "a." * 100 + "'\n[tool.vcache]\nworkers = 3\n"
    (tmp_path / "pyproject.toml").write_text(text)
    assert load(tmp_path).workers == 3


def test_a_pyproject_whose_tools_are_no_table_is_passed_by(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 'vcache'")
    assert load(tmp_path).workers is None


def test_a_path_in_a_file_is_relative_to_the_file(tmp_path: Path) -> None:
    below = tmp_path / "a"
    below.mkdir()
    (tmp_path / "tower").mkdir()
    (tmp_path / "vcache.toml").write_text("store = 'cache'\nmodel = 'tower'")
    settings = load(below)
    assert settings.store == tmp_path / "cache"
    assert settings.model == str(tmp_path / "tower")


def test_a_model_that_is_no_folder_stays_a_name(tmp_path: Path) -> None:
    (tmp_path / "vcache.toml").write_text("model = 'google/some-model'")
    assert load(tmp_path).model == "google/some-model"


@pytest.mark.parametrize("variables", [{}, {"VCACHE_STORE": "/s"}, {"VCACHE_STORE": "~/s"}])
def test_a_user_without_a_home_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    """In a container a user need not be in the system's list."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
    with pytest.raises(UsageError, match="no home directory"):
        load(tmp_path, **variables)


def test_a_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert load(tmp_path, VCACHE_STORE="~/store").store == Path("/home/someone/store")


def test_the_user_file_lies_in_the_platform_folder(tmp_path: Path) -> None:
    from vcache_cli.config import user_config_path

    path = user_config_path()
    path.parent.mkdir(parents=True)
    path.write_text("workers = 5")
    settings = load(tmp_path)
    assert settings.workers == 5
    assert settings.origins["workers"] == str(path)


@pytest.mark.parametrize("text", ["workers = ", "\xff"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "vcache.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"vcache\.toml: not TOML"):
        load(tmp_path)


def test_a_tool_table_that_is_no_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nvcache = 1")
    with pytest.raises(UsageError, match=r"`tool\.vcache` should be a table, found int"):
        load(tmp_path)


def test_a_file_that_cannot_be_read_is_an_access_error(tmp_path: Path) -> None:
    (tmp_path / "vcache.toml").symlink_to("vcache.toml")
    with pytest.raises(AccessError, match="cannot be read"):
        load(tmp_path)


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    assert load(tmp_path, VCACHE_WORKERS="").workers is None


def test_a_misspelt_variable_is_told() -> None:
    found = unknown_variables({"VCACHE_STROE": "x", "VCACHE_STORE": "y", "VCACHE_DEBUG": "1"})
    assert found == ["VCACHE_STROE"]


@given(st.integers(0, 10_000))
def test_a_percentage_is_a_share(hundredths: int) -> None:
    assert parse_fraction(f"{hundredths / 100}%") == hundredths / 100 / 100


@given(st.text(max_size=12))
def test_no_text_breaks_a_parser(text: str) -> None:
    for setting in SETTINGS:
        try:
            setting.parse(text)
        except (ValueError, UsageError):
            continue


@given(st.integers(1, 999), st.integers(1, 999))
def test_a_shard_lies_within_its_parts(part: int, parts: int) -> None:
    if part <= parts:
        assert parse_shard(f"{part}/{parts}") == (part, parts)
        return
    with pytest.raises(ValueError, match=f"{part}/{parts}"):
        parse_shard(f"{part}/{parts}")
