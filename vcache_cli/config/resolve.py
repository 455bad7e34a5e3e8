"""Layers to one frozen value: pure, so that what wins can be tested without files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vcache_cli.buckets import is_url
from vcache_cli.buckets.place import redacted
from vcache_cli.config.files import Layer, load_layers, preset_layers
from vcache_cli.config.places import default_store, expand_user
from vcache_cli.config.settings import RESERVED, SETTINGS, Setting
from vcache_cli.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Settings", "check_presets", "load_settings", "resolve", "unknown_variables"]

_BUCKET = "`warm --store URL` fills one, and `vcache pull URL --store DIR` brings its entries here"
_BY_NAME = {setting.name: setting for setting in SETTINGS}

NOT_SETTINGS = frozenset({"VCACHE_DEBUG", "VCACHE_PRESET"})
"""Variables of ours that are no settings."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved settings. None is: not set, so the command or the machine decides."""

    store: Path
    model: str | None = None
    target: str = "native"
    model_name: str | None = None
    max_side: int | None = None
    """Pixels; 0 is no limit."""
    omlx_version: str | None = None
    stage: str = "features"
    profile: str = "transformers-pil-5"
    force_profile: bool = False
    backend: str | None = None
    dtype: str = "bfloat16"
    compute_dtype: str = "auto"
    workers: int | None = None
    batch_size: int | None = None
    max_pixels: int = 178_956_970
    """Width times height of the largest picture that is decoded."""
    max_file_size: int = 256 * 1024**2
    isolation: Literal["process", "thread"] = "process"
    item_timeout: float | None = 300.0
    item_memory: int | None = 4 * 1024**3
    """Bytes."""
    on_error: Literal["skip", "fail"] = "skip"
    max_errors: str | None = None
    """A number of items, or a percentage such as ``5%``."""
    max_size: int | None = None
    """Bytes; None is no cap."""
    min_free: int | None = None
    """Bytes; None is no minimum."""
    on_full: Literal["stop", "prune"] = "stop"
    grace: float = 600.0
    """Seconds."""
    yes: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each setting comes from: a flag, a variable, a file or ``default``."""

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Each setting that has a value, with its origin; sizes in bytes, ages in seconds."""
        shown = {name: getattr(self, name) for name in _BY_NAME}
        shown["store"] = str(self.store)
        return {
            name: {"value": value, "origin": self.origins[name]}
            if value is not None
            else {"origin": self.origins[name]}
            for name, value in shown.items()
        }


def load_settings(flags: Mapping[str, Any], *, environ: Mapping[str, str], cwd: Path) -> Settings:
    """The settings of a command that was given `flags`.

    Raises:
        UsageError: an unknown key or a bad value, named with its place and what is expected.
        RefusedError: a project's file sets what it may not: what runs code, deletes or guards.
        AccessError: a settings file cannot be read.
    """
    layers = load_layers(flags, environ=environ, cwd=cwd)
    return resolve(layers, default_store=default_store())


def resolve(layers: Sequence[Layer], *, default_store: Path) -> Settings:
    """The strongest value of each setting; every layer is checked, the beaten ones too. Pure.

    Raises:
        UsageError: an unknown key or a bad value.
        RefusedError: a project's file sets what it may not: what runs code, deletes or guards.
    """
    values: dict[str, Any] = {"store": str(default_store)}
    values |= {s.name: s.default for s in SETTINGS if s.name != "store"}
    origins = dict.fromkeys(_BY_NAME, "default")
    for layer in reversed(layers):
        for name, raw in layer.values.items():
            values[name] = _parsed(layer, name, raw)
            origins[name] = layer.origin(name)
    store = Path(values.pop("store"))
    return Settings(store=store, origins=origins, **values)


def check_presets(cwd: Path) -> None:
    """Nothing, where every preset of every file could be used.

    Raises:
        UsageError, RefusedError, AccessError: as `load_settings`.
    """
    for layer in preset_layers(cwd):
        resolve((layer,), default_store=Path())


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that start like ours but set nothing: most likely misspelt."""
    known = {setting.variable for setting in SETTINGS} | NOT_SETTINGS
    return sorted(name for name in environ if name.startswith("VCACHE_") and name not in known)


def _parsed(layer: Layer, name: str, raw: object) -> Any:  # noqa: ANN401  each setting's own type
    setting = _BY_NAME.get(name)
    bound = layer.kind == "project" or layer.preset  # a preset must not surprise its user either
    if bound and (name in RESERVED or (setting and not setting.project)):
        raise _refused(layer, name, setting)
    if setting is None:
        takes = (each.name for each in SETTINGS if each.project or not bound)
        known = ", ".join(sorted(takes))
        raise UsageError(f"{layer.place}: unknown setting `{name}`", hint=f"known: {known}")
    try:
        return _located(setting, setting.parse(raw), layer)
    except (ValueError, UsageError):
        place = f"{layer.place}: `{name}`" if layer.path else f"`{layer.origin(name)}`"
        raise UsageError(
            f"{place}: expected {setting.expected}, got `{redacted(str(raw))}`",
            hint=_BUCKET if setting.name == "store" and is_url(str(raw)) else "",
        ) from None


def _refused(layer: Layer, name: str, setting: Setting | None) -> RefusedError:
    does = setting.danger if setting else "runs code"
    elsewhere = f"; give {setting.flag} or set {setting.variable} instead" if setting else ""
    what = "a preset" if layer.preset else "a project's file"
    return RefusedError(
        f"{layer.place}: {what} cannot set `{name}`, which {does}",
        hint=f"remove it from {'the preset' if layer.preset else 'that file'}{elsewhere}",
    )


def _located(setting: Setting, value: Any, layer: Layer) -> Any:  # noqa: ANN401  as parsed
    if not setting.path:
        return value
    path = expand_user(value)
    if layer.path is None or path.is_absolute():
        return str(path) if value.startswith("~") else value
    beside = layer.path.parent / path
    # A model may be a name instead of a folder: only what is there is taken for a folder.
    return str(beside) if setting.name == "store" or beside.is_dir() else value
