"""What the tests of the command line share."""

from __future__ import annotations

import shutil
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


@pytest.fixture(scope="session")
def warmed_once(media: Path, tiny_siglip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the sample pictures; copy it before changing it."""
    from vcache_cli import warm

    root = tmp_path_factory.mktemp("warmed") / "store"
    outcomes = list(warm([str(media)], store=root, model=tiny_siglip))
    assert outcomes
    return root


@pytest.fixture
def warmed(warmed_once: Path, tmp_path: Path) -> Path:
    """A store of the sample pictures of the test's own."""
    root = tmp_path / "store"
    shutil.copytree(warmed_once, root)
    return root
