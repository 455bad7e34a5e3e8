"""A server embeds the store and a shell completes commands: neither may wait for libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.media.pictures import encoded, noise

HEAVY = {"PIL", "av", "fsspec", "mlx", "numpy", "ray", "torch", "transformers"}
TERMINAL = {"rich", "typer"}

SHOW_HELP = """
import sys
from vcache_cli.cli.app import main
sys.argv = ["vcache", "--help"]
try:
    main()
except SystemExit as leaving:
    assert not leaving.code, leaving.code
"""


def loaded_by(code: str, *words: object) -> set[str]:
    """Top-level names of the modules that `code` loads in a fresh interpreter.

    A namespace, such as that which holds MLX's parts, is no module of its own.
    """
    tail = (
        "\nimport sys; print(*(name for name, module in sys.modules.items()"
        " if getattr(module, '__file__', None) or not hasattr(module, '__path__')),"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + tail, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("module", ["vcache_cli", "vcache_cli.store"])
def test_the_library_loads_no_outside_library_that_it_does_not_need(module: str) -> None:
    assert not loaded_by(f"import {module}") & (HEAVY | TERMINAL)


WARM = """
import sys
from vcache_cli.cli.app import run
assert run(["warm", *sys.argv[1:], "--isolation", "thread", "--quiet"]) == 0
"""


@pytest.mark.parametrize("stage", ["pixels", "features"])
def test_a_warm_that_finds_everything_there_computes_with_nothing(
    tmp_path: Path, tiny_siglip: Path, stage: str
) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(encoded(noise(), "PNG"))
    os.utime(picture, (1_600_000_000, 1_600_000_000))
    words = (picture, "-m", tiny_siglip, "-s", tmp_path / "store", "--stage", stage)
    assert loaded_by(WARM, *words) >= {"PIL", "numpy"}
    assert not loaded_by(WARM, *words) & HEAVY


@pytest.mark.parametrize("code", ["import vcache_cli.cli.app", SHOW_HELP], ids=["import", "help"])
def test_the_command_starts_without_the_heavy_libraries(code: str) -> None:
    assert not loaded_by(code) & HEAVY
