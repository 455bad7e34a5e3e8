"""Settings: flag > ``VCACHE_*`` > preset > project file > user file > default, with origins."""

from __future__ import annotations

from vcache_cli.config.files import Layer, environ_layer, flag_layer, load_layers, preset_files
from vcache_cli.config.places import memo_folder, user_config_path
from vcache_cli.config.resolve import (
    Settings,
    check_presets,
    load_settings,
    resolve,
    unknown_variables,
)
from vcache_cli.config.settings import SETTINGS, Setting
from vcache_cli.config.values import one_of, parse_count, parse_fraction, parse_shard

__all__ = [
    "SETTINGS",
    "Layer",
    "Setting",
    "Settings",
    "check_presets",
    "environ_layer",
    "flag_layer",
    "load_layers",
    "load_settings",
    "memo_folder",
    "one_of",
    "parse_count",
    "parse_fraction",
    "parse_shard",
    "preset_files",
    "resolve",
    "unknown_variables",
    "user_config_path",
]
