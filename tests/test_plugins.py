"""Plug-ins of other packages: one is really installed, found, used and uninstalled."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import running
from vcache_cli import registry
from vcache_cli.assemble.targets import load_target, usable_targets
from vcache_cli.errors import ModelError

PACKAGE = Path(__file__).resolve().parent / "plugin_package"
OFFLINE = ("-q", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
INSTALLED = ["mlx-vlm", "native", "omlx", "vllm-ec"]


@dataclass(frozen=True)
class Environment:
    """A Python environment of the test's own, on top of the one that runs the tests."""

    python: Path

    def run(self, *words: object, code: int = 0) -> str:
        """Run Python with `words` to its end; what it printed."""
        done = subprocess.run(
            [self.python, *map(str, words)], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def vcache(self, *words: object, code: int = 0) -> dict[str, Any]:
        """Run the command; its document."""
        text = self.run("-m", "vcache_cli", *words, "--json", code=code)
        document: dict[str, Any] = json.loads(text)
        return document

    def pip(self, *words: object) -> None:
        """Run pip on this environment."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def targets(self) -> dict[str, dict[str, Any]]:
        """What `vcache plugins` says of each target."""
        plugins: Sequence[dict[str, Any]] = self.vcache("plugins")["plugins"]
        return {plugin["name"]: plugin for plugin in plugins if plugin["group"] == "targets"}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment that sees what the tests see, and into which a package can be installed."""
    monkeypatch.setenv("VCACHE_ISOLATION", "thread")
    folder = tmp_path / "env"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    own = sysconfig.get_path("purelib", "venv", vars={"base": str(folder)})
    seen = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    lines = [f"import site; site.addsitedir({path!r})" for path in sorted(seen)]
    (Path(own) / "outer.pth").write_text("\n".join(lines), encoding="utf-8")
    return Environment(python)


def test_a_package_brings_a_target_that_passes_the_kit_and_takes_it_away_again(
    environment: Environment, tmp_path: Path, media: Path, tiny_siglip: Path
) -> None:
    source = Path(shutil.copytree(PACKAGE, tmp_path / "source"))
    store = tmp_path / "store"
    assert "flat-demo" not in environment.targets()

    environment.pip("install", *OFFLINE, source)
    found = environment.targets()["flat-demo"]
    assert found["origin"] == "vcache-flat-demo 1.2.3"
    assert (found["available"], found["uses"]) == (True, ["look_after", "warm"])

    warm = ("warm", media, "-m", tiny_siglip, "-s", store, "--target", "flat-demo")
    stored = environment.vcache(*warm)["items"]["stored"]
    assert stored == len(list(store.glob("flat/*.safetensors"))) > 0
    assert environment.vcache(*warm)["items"]["stored"] == 0
    stats = environment.vcache("stats", store)
    assert (stats["target"], stats["entries"]) == ("flat-demo", stored)
    assert len(environment.vcache("ls", store)["entries"]) == stored
    report = environment.vcache("verify", store)
    assert (report["checked"], report["ok"], report["problems"]) == (stored, stored, [])
    shutil.rmtree(store / ".vcache")  # recognised by its files alone
    assert environment.vcache("stats", store)["target"] == "flat-demo"

    tests = shutil.copy(PACKAGE / "test_flat_demo.py", tmp_path)
    assert " passed" in environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", tests)

    environment.pip("uninstall", "--yes", "--quiet", "vcache-flat-demo")
    assert "flat-demo" not in environment.targets()
    environment.vcache("stats", store, code=10)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> dict[str, EntryPoint]:
    """Targets that are none, beside ours."""
    wrong = {
        "missing": "no_such_module:Target",
        "nameless": "vcache_cli.targets:NoSuchTarget",
        "demanding": "vcache_cli.store:DiskStore",
        "another": "vcache_cli.targets:NativeLayout",
    }
    points = {
        name: EntryPoint(name, value, registry.GROUPS["targets"]) for name, value in wrong.items()
    }
    every = {**registry._listed("targets"), **points}
    monkeypatch.setattr(registry, "_listed", lambda group: every if group == "targets" else {})
    return points


def test_a_broken_target_is_explained_where_it_is_asked_for(
    broken: dict[str, EntryPoint],
) -> None:
    for name in broken:
        with pytest.raises(ModelError, match=f"plug-in `{name}` of targets"):
            load_target(name)


def test_a_broken_target_spoils_no_other(
    broken: dict[str, EntryPoint], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert [target.name for target in usable_targets()] == INSTALLED
    vcache = running(capsys)
    assert vcache("stats", tmp_path, "--json").code == 10
    plugins = vcache("plugins", "--json").document["plugins"]
    reasons = {plugin["name"]: plugin.get("reason", "") for plugin in plugins}
    assert sorted(name for name, reason in reasons.items() if reason) == sorted(broken)


@pytest.fixture
def looked_after(monkeypatch: pytest.MonkeyPatch) -> str:
    """A target that can do no more than be looked after."""
    point = EntryPoint("only-look", "tests.targets.only_look:OnlyLook", registry.GROUPS["targets"])
    every = {**registry._listed("targets"), "only-look": point}
    listed = registry._listed
    monkeypatch.setattr(
        registry, "_listed", lambda group: every if group == "targets" else listed(group)
    )
    return point.name


@pytest.mark.parametrize("command", ["warm", "key", "warm --dry-run"])
def test_a_target_that_is_only_looked_after_refuses_to_be_warmed(
    looked_after: str,
    command: str,
    capsys: pytest.CaptureFixture[str],
    media: Path,
    tmp_path: Path,
) -> None:
    name = looked_after
    words = [*command.split(), media, "-m", tmp_path / "no-model", "--target", name, "--json"]
    if "warm" in command:
        words += ["-s", tmp_path / "store"]
    run = running(capsys)(*words)
    assert run.code == 2
    error = json.loads(run.out)["error"]
    assert f"target `{name}` cannot be warmed" in error["message"]
    assert error["hint"].startswith("targets that can be warmed: ")
    assert "native" in error["hint"]
    assert not (tmp_path / "store").exists()


def test_plugins_shows_what_each_target_is_good_for(capsys: pytest.CaptureFixture[str]) -> None:
    run = running(capsys)("plugins")
    lines = [line.split() for line in run.out.splitlines() if line.startswith("targets")]
    assert {line[1]: " ".join(line[4:]) for line in lines} == {
        "mlx-vlm": "look after, warm",
        "native": "look after, warm",
        "omlx": "look after, warm",
        "vllm-ec": "look after, warm",
    }
