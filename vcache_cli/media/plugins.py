"""Formats that Pillow reads with a plug-in, loaded when the first such picture is met."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from typing import TYPE_CHECKING

from vcache_cli.errors import MediaError

if TYPE_CHECKING:
    from typing import Final

__all__ = ["PLUGINS", "Plugin", "plugin_format", "plugin_versions"]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A Pillow plug-in, and the extra of ours that installs it."""

    package: str
    module: str
    extra: str
    register: str
    """A function of the module; empty where importing is enough."""
    pillow_format: str
    """What Pillow calls the format then."""


PLUGINS: Final = {
    "HEIC": Plugin("pillow-heif", "pillow_heif", "heic", "register_heif_opener", "HEIF"),
    "JPEG XL": Plugin("pillow-jxl-plugin", "pillow_jxl", "jxl", "", "JXL"),
}
"""By the name that `sniff` gives the format."""


def plugin_format(found: str) -> str | None:
    """What Pillow calls the format `found`, its plug-in loaded; None where it needs none.

    Raises:
        MediaError: the plug-in is not installed, or cannot be loaded.
    """
    plugin = PLUGINS.get(found)
    if plugin is None:
        return None
    try:
        _load(plugin)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == plugin.module
        why = "is not installed" if missing else f"cannot be loaded: {error}"
        raise MediaError(
            f"{found} pictures are decoded by a plug-in of Pillow, `{plugin.package}`, which {why}",
            kind="unsupported",
            hint=f"`pip install 'vcache-cli[{plugin.extra}]'`, or convert it to JPEG or PNG;"
            " the server needs the same plug-in",
        ) from error
    return plugin.pillow_format


def plugin_versions() -> dict[str, str]:
    """Versions of the plug-ins that are installed; none is loaded."""
    found = {}
    for plugin in PLUGINS.values():
        try:
            found[plugin.package] = metadata.version(plugin.package)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def _load(plugin: Plugin) -> None:
    module = import_module(plugin.module)
    if plugin.register:
        getattr(module, plugin.register)()
