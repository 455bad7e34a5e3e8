"""What a user reads exists: help for every command and option, and a place in the README."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from vcache_cli.cli.app import build
from vcache_cli.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parent.parent


def parameters() -> Iterator[tuple[str, Any]]:
    """(command, parameter) of everything that a user can give."""
    group: Any = typer.main.get_command(build())
    yield from (("vcache", each) for each in group.params)
    for name, command in group.commands.items():
        yield from ((name, each) for each in command.params)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_that_fits_a_line(name: str) -> None:
    first = (COMMANDS[name].__doc__ or "").splitlines()[0]
    assert 10 < len(first) <= 100
    assert first.endswith(".")


@pytest.mark.parametrize(
    ("command", "parameter"), list(parameters()), ids=lambda each: getattr(each, "name", each)
)
def test_every_option_has_help(command: str, parameter: Any) -> None:  # noqa: ANN401  typer's own class
    assert len(parameter.help or "") > 10
    assert parameter.help.endswith((".", "customize the installation."))


def test_help_states_the_default_of_every_setting_that_has_one() -> None:
    from vcache_cli.config import SETTINGS

    told = {flag: each.help for _, each in parameters() for flag in each.opts}
    shown = {"min_free": "256MiB", "max_file_size": "256MiB", "grace": "10m"}
    shown |= {"item_timeout": "5m", "item_memory": "4GiB"}
    for setting in SETTINGS:
        if setting.default not in {None, False}:
            default = shown.get(setting.name, setting.default)
            assert told[setting.flag].endswith(f"Default: {default}.")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_readme_names_every_command(name: str) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"`{name}" in text or f"vcache {name}" in text


def test_the_readme_names_every_setting_that_a_file_can_have() -> None:
    """At least the way to see them all."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "vcache config" in text


def test_the_schemas_are_those_of_the_commands() -> None:
    from vcache_cli.cli.documents import schema_names

    silent = {"schema", "serve-mlx-vlm"}  # one prints others' documents, one is a server
    documents = {"plan", "outcome", "error"}  # of `warm --dry-run`, `--events`, and any command
    assert set(schema_names()) == (set(COMMANDS) - silent) | documents
