"""What every test gets: an environment of its own, the samples, a Hypothesis profile."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from vcache_cli.assemble import passes
from vcache_cli.engines import Limits, ThreadEngine

# No deadline, and no limit to the time that drawing examples takes: a shared machine is slow now
# and then, and that is no property of the code. `ci` draws the same examples each time.
# `ci` runs each state machine 10,000 steps: of 12,000, as examples may end early.
SLOW = (HealthCheck.too_slow,)
settings.register_profile(
    "ci",
    max_examples=200,
    stateful_step_count=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=SLOW,
)
settings.register_profile("dev", max_examples=25, deadline=None, suppress_health_check=SLOW)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

ROOT = Path(__file__).resolve().parent.parent

CLEARED = ("VCACHE_", "HF_", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "SOURCE_DATE_EPOCH")


@cache
def _mlx_runs() -> bool:
    try:
        importlib.import_module("mlx.core")
    except ImportError:
        return False
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what runs MLX where no backend of it is installed."""
    if item.get_closest_marker("needs_mlx") and not _mlx_runs():
        pytest.skip("no MLX backend here; install the extra `cpu`, `cuda12` or `cuda13`")


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new folder for each test; pytest's own would list all earlier ones each time."""
    top = tmp_path_factory.mktemp("homes")
    return (top / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_environment(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting, store or model of the person who runs the tests reaches them."""
    for name in [name for name in os.environ if name.startswith(CLEARED)]:
        monkeypatch.delenv(name)
    home = next(_homes)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))


@pytest.fixture(autouse=True)
def _threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test runs in this process decodes here too, unless it is marked `processes`.

    Processes take a third of a second to start. Commands that have a process of their own are
    not touched by this.
    """
    if request.node.get_closest_marker("processes") is None:
        here = SimpleNamespace(
            Limits=Limits,
            ProcessEngine=lambda workers, _: ThreadEngine(workers),
            ThreadEngine=ThreadEngine,
        )
        monkeypatch.setattr(passes, "engines", here)


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of samples; read only."""
    return ROOT / "samples"


@pytest.fixture(scope="session")
def media(samples: Path) -> Path:
    """A dozen small good images and a video; read only."""
    return samples / "media"


@pytest.fixture(scope="session")
def tiny_siglip(samples: Path) -> Path:
    """A checkpoint folder with seeded random weights; read only."""
    return samples / "tiny-siglip"
