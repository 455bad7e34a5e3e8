"""A server embeds the store and a shell completes commands: neither may wait for libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


def loaded_by(code: str) -> set[str]:
    """Top-level names of the modules that `code` loads in a fresh interpreter."""
    tail = "\nimport sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("module", ["vcache_cli", "vcache_cli.store"])
def test_the_library_loads_no_outside_library_that_it_does_not_need(module: str) -> None:
    assert not loaded_by(f"import {module}") & (HEAVY | TERMINAL)


@pytest.mark.parametrize("code", ["import vcache_cli.cli.app", SHOW_HELP], ids=["import", "help"])
def test_the_command_starts_without_the_heavy_libraries(code: str) -> None:
    assert not loaded_by(code) & HEAVY
