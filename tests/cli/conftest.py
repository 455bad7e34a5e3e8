"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Vcache, running


@pytest.fixture
def vcache(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Vcache:
    """The command, started in an empty folder with a store of its own."""
    home = tmp_path / "work"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("COLUMNS", "100")
    return running(capsys)
