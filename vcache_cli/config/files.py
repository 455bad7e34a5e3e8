"""Where settings come from: flags, variables, and the files of a project and of a user."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcache_cli.config.places import user_config_path
from vcache_cli.config.presets import chosen_layers, split_presets
from vcache_cli.config.settings import SETTINGS
from vcache_cli.errors import AccessError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final, Literal

    Origin = Literal["flag", "variable", "project", "user"]

__all__ = ["Layer", "environ_layer", "flag_layer", "load_layers", "preset_files", "preset_layers"]

_PRESET: Final = "preset"
_PRESET_VARIABLE: Final = "VCACHE_PRESET"

_READ_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Opening a pipe that nobody writes to would wait for ever."""
_MAX_FILE_BYTES: Final = 16 * 1024 * 1024
_MAX_PARSED_BYTES: Final = 256 * 1024
_MAX_KEY_PARTS: Final = 32
"""The time to parse a key grows with the square of its parts: one of 32,768 takes 12 s."""
_STRING: Final = re.compile(rb"""\"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?""")
_LONG_KEY: Final = re.compile(rb"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){%d}" % _MAX_KEY_PARTS)
_FLAGS: Final = {setting.name: setting.flag for setting in SETTINGS}
_VARIABLES: Final = {setting.name: setting.variable for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place, not parsed yet."""

    kind: Origin
    values: Mapping[str, Any]
    path: Path | None = None
    """The file, where it is one."""
    preset: str = ""
    """The preset of that file; empty where the values hold without one."""

    @property
    def place(self) -> str:
        """The file, and the preset in it."""
        return f"{self.path} [preset.{self.preset}]" if self.preset else str(self.path)

    def origin(self, name: str) -> str:
        """Where `name` was set, for people: a flag, a variable or a file."""
        if self.path is not None:
            return self.place
        return (_FLAGS if self.kind == "flag" else _VARIABLES)[name]


def flag_layer(values: Mapping[str, Any]) -> Layer:
    """What the command line gave; None and False are what it did not give."""
    given = {k: v for k, v in values.items() if v is not None and v is not False}
    return Layer("flag", {k: v for k, v in given.items() if k != _PRESET})


def environ_layer(environ: Mapping[str, str]) -> Layer:
    """What the environment gives; an empty variable counts as not set."""
    found = {name: environ.get(variable, "") for name, variable in _VARIABLES.items()}
    return Layer("variable", {name: value for name, value in found.items() if value})


def load_layers(
    flags: Mapping[str, Any], *, environ: Mapping[str, str], cwd: Path
) -> tuple[Layer, ...]:
    """Every layer there is, strongest first.

    Raises:
        UsageError: a file is not TOML, its settings are not a table, or the preset is unknown.
        AccessError: a file cannot be read.
    """
    files = [split_presets(layer) for layer in _file_layers(cwd)]
    name = flags.get(_PRESET) or environ.get(_PRESET_VARIABLE)
    presets = chosen_layers([each for _, each in files], name)
    return (flag_layer(flags), environ_layer(environ), *presets, *(layer for layer, _ in files))


def preset_files(cwd: Path) -> dict[str, list[str]]:
    """Every preset by name, with the files that have it, the strongest first.

    Raises:
        UsageError, AccessError: as `load_layers`.
    """
    found: dict[str, list[str]] = {}
    for layer in preset_layers(cwd):
        found.setdefault(layer.preset, []).append(str(layer.path))
    return dict(sorted(found.items()))


def preset_layers(cwd: Path) -> Iterator[Layer]:
    """Every preset of every file, of the strongest file first.

    Raises:
        UsageError, AccessError: as `load_layers`.
    """
    for _, presets in map(split_presets, _file_layers(cwd)):
        yield from presets.values()


def _file_layers(cwd: Path) -> tuple[Layer, ...]:
    """The files that are there, strongest first."""
    found = (_project_layer(cwd), _user_layer(user_config_path()))
    return tuple(layer for layer in found if layer is not None)


def _project_layer(cwd: Path) -> Layer | None:
    for folder in (cwd, *cwd.parents):
        for name, read in (("vcache.toml", _own_table), ("pyproject.toml", _tool_table)):
            path = folder / name
            table = read(path)
            if table is not None:
                return Layer("project", _named(table), path)
    return None


def _user_layer(path: Path) -> Layer | None:
    table = _own_table(path)
    return None if table is None else Layer("user", _named(table), path)


def _named(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in table.items()}


def _own_table(path: Path) -> dict[str, Any] | None:
    data = _read(path)
    if data is None:
        return None
    if len(data) > _MAX_PARSED_BYTES:
        raise UsageError(
            f"{path}: {len(data):,} bytes, where settings take {_MAX_PARSED_BYTES:,} at most",
            hint="keep settings in a `vcache.toml`, and nothing else there",
        )
    if _LONG_KEY.search(_STRING.sub(b"s", data)):
        raise UsageError(
            f"{path}: a key of more than {_MAX_KEY_PARTS} parts", hint="correct the file"
        )
    try:
        return tomllib.loads(data.decode())
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply", hint="correct the file") from error
    except ValueError as error:  # not TOML, not UTF-8, or a number of too many digits
        raise UsageError(f"{path}: not TOML: {error}", hint="correct the file") from error


def _tool_table(path: Path) -> dict[str, Any] | None:
    data = _read(path)
    if data is None or b"vcache" not in data:  # a project's file is none of our business then
        return None
    tool = (_own_table(path) or {}).get("tool")
    table = tool.get("vcache") if isinstance(tool, dict) else None
    if table is None or isinstance(table, dict):
        return table
    raise UsageError(f"{path}: `tool.vcache` should be a table, found {type(table).__name__}")


def _read(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none, or a folder."""
    try:
        fd = os.open(path, _READ_FLAGS)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise UsageError(f"{path}: expected a file, found a pipe, socket or device")
            data = file.read(_MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        message = f"{path}: cannot be read: {os.strerror(error.errno or 0)}"
        raise AccessError(message, hint=f"make {path} readable, or move it away") from error
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"{path}: more than {_MAX_FILE_BYTES} bytes are no settings")
    return data
