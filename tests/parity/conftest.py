"""What comparisons share: the fixtures, decoded once per profile, and one table at the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity.fixtures import Fixtures, image_fixtures
from tests.parity.tally import Tally

TALLY = pytest.StashKey[Tally]()


def pytest_configure(config: pytest.Config) -> None:
    """One tally a session."""
    config.stash[TALLY] = Tally()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands on what it counted."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["tally"] = session.config.stash[TALLY].packed()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401  pytest-xdist has no types
    """Count what a worker counted."""
    node.config.stash[TALLY].merge(getattr(node, "workeroutput", {}).get("tally", ()))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The table, where anything was compared."""
    tally = config.stash[TALLY]
    if tally.rows:
        terminalreporter.section("values that differ from the server's own")
        for line in tally.lines():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Tally:
    """Where every comparison is counted."""
    return request.config.stash[TALLY]


@pytest.fixture(scope="session")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> Fixtures:
    """The fixtures; read only."""
    return Fixtures(image_fixtures(tmp_path_factory.mktemp("fixtures")))
