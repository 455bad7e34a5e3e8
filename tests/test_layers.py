"""The layer picture is true: linted here too, and drawn in full for people."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"


def test_every_import_points_down() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_contributing_names_every_module_of_the_top_level() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = [path.stem for path in (ROOT / "vcache_cli").iterdir() if is_module(path)]
    words = set(re.findall(r"\w+", text))
    assert sorted(set(found) - words) == []


def is_module(path: Path) -> bool:
    """A module or package of ours, the dunder files aside."""
    is_code = path.suffix == ".py" or (path / "__init__.py").exists()
    return is_code and not path.name.startswith("_")
