"""The sample workflow does what it says: its own steps, run in order, several times.

GitHub's part is played by `Job`: expressions, the step outputs, and a cache of folders by key.
One step is left out: `pip install`, since the package under test is installed already.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

WORKFLOW = ROOT / "samples/ci/github-actions.yml"
EXPRESSION = re.compile(r"\$\{\{ *([a-z][\w.-]*) *\}\}")
CONDITION = re.compile(r"([a-z][\w.-]*) (==|!=) '([^']*)'")
ALWAYS = "always()"
INSTALL = 'pip install "vcache-cli[cpu]"'


class StepFailedError(Exception):
    """A step ended with an exit code that is not 0, which ends the job."""

    def __init__(self, name: str, done: subprocess.CompletedProcess[str]) -> None:
        super().__init__(f"{name}: exit {done.returncode}: {done.stdout}{done.stderr}")
        self.name = name
        self.code = done.returncode
        self.said = done.stderr


@dataclass
class Caches:
    """A stand-in for GitHub's cache service: folders by key, never overwritten."""

    folder: Path
    saved: list[str] = field(default_factory=list)

    def restore(self, path: Path, key: str, prefix: str) -> dict[str, str]:
        """The outputs of `actions/cache/restore`: the very key, else the newest by prefix."""
        held = reversed(self.saved)
        found = key if key in self.saved else next((k for k in held if k.startswith(prefix)), "")
        if found:
            shutil.copytree(self.folder / found, path)
        hit = str(found == key).lower() if found else ""
        return {"cache-primary-key": key, "cache-matched-key": found, "cache-hit": hit}

    def save(self, path: Path, key: str) -> None:
        """What `actions/cache/save` does; a key can be saved once."""
        assert key not in self.saved
        shutil.copytree(path, self.folder / key)
        self.saved.append(key)


@dataclass
class Job:
    """One run of the workflow's only job, on an empty machine with this checkout."""

    checkout: Path
    machine: Path
    caches: Caches
    workflow: dict[str, Any] = field(default_factory=lambda: yaml.safe_load(WORKFLOW.read_text()))
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    """``success``, ``failure`` or ``skipped``, by id."""
    ran: list[str] = field(default_factory=list)
    """Names of the steps that ran."""
    failure: StepFailedError | None = None
    """Of the first step that failed: only steps that always run come after it."""

    @property
    def workspace(self) -> Path:
        return self.machine / "workspace"

    @property
    def summary(self) -> str:
        return (self.machine / "summary").read_text()

    @property
    def items(self) -> dict[str, int]:
        """The counts of the warm."""
        counts: dict[str, int] = json.loads((self.machine / "warm.json").read_text())["items"]
        return counts

    def run(self) -> Job:
        """Run every step in order.

        Raises:
            StepFailedError: a step failed, and those that run nevertheless are done.
        """
        self.machine.mkdir()
        self._install_commands()
        for step in self.workflow["jobs"]["warm"]["steps"]:
            outcome = self._try_step(step) if self._is_wanted(step.get("if")) else "skipped"
            if "id" in step:
                self.outcomes[step["id"]] = outcome
        if self.failure:
            raise self.failure
        return self

    def _try_step(self, step: dict[str, Any]) -> str:
        self.ran.append(step["name"])
        try:
            outputs = self._run_step(step)
        except StepFailedError as error:
            self.failure = self.failure or error
            return "failure"
        if "id" in step:
            self.outputs[step["id"]] = outputs
        return "success"

    def _run_step(self, step: dict[str, Any]) -> dict[str, str]:
        if "run" in step:
            return {} if step["run"] == INSTALL else self._run_script(step["name"], step["run"])
        action, _, version = step["uses"].partition("@")
        assert re.fullmatch(r"v\d+", version)
        given = {name: self._fill(str(value)) for name, value in step["with"].items()}
        if action == "actions/checkout":
            shutil.copytree(self.checkout, self.workspace)
        elif action == "actions/cache/restore":
            path, key = self.workspace / given["path"], given["key"]
            return self.caches.restore(path, key, given["restore-keys"])
        elif action == "actions/cache/save":
            self.caches.save(self.workspace / given["path"], given["key"])
        else:
            assert action == "actions/setup-python"
        return {}

    def _run_script(self, name: str, script: str) -> dict[str, str]:
        output = self.machine / "output"
        output.write_text("")
        done = subprocess.run(
            [shutil.which("bash") or "bash", "-e", "-c", self._fill(script)],
            cwd=self.workspace,
            env={**os.environ, **self.workflow["env"], **self._machine_env(output)},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        if done.returncode:
            raise StepFailedError(name, done)
        lines = output.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def _machine_env(self, output: Path) -> dict[str, str]:
        return {
            "PATH": f"{self.machine / 'bin'}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.machine),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.machine / "summary"),
        }

    def _install_commands(self) -> None:
        """What `setup-python` and `pip install` leave: `python` and `vcache` on the path."""
        (self.machine / "bin").mkdir()
        for name, words in (("python", ""), ("vcache", "-m vcache_cli")):
            command = self.machine / "bin" / name
            command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
            command.chmod(0o755)

    def _fill(self, text: str) -> str:
        """`text` with each expression's value; one that is not a plain name fails."""
        filled = EXPRESSION.sub(lambda found: self._value(found[1]), text)
        assert "${{" not in filled
        return filled

    def _value(self, name: str) -> str:
        match name.split("."):
            case ["runner", "os"]:
                return "Linux"
            case ["env", variable]:
                return str(self.workflow["env"][variable])
            case ["steps", step, "outputs", output]:
                return self.outputs[step][output]
            case ["steps", step, "outcome"]:
                return self.outcomes[step]
        raise AssertionError(f"no expression `{name}` is known here")

    def _is_wanted(self, condition: str | None) -> bool:
        parts = condition.split(" && ") if condition else []
        if self.failure and ALWAYS not in parts:
            return False
        return all(self._holds(part) for part in parts if part != ALWAYS)

    def _holds(self, comparison: str) -> bool:
        found = CONDITION.fullmatch(comparison)
        assert found
        return (self._value(found[1]) == found[3]) == (found[2] == "==")


@pytest.fixture
def checkout(media: Path, tiny_siglip: Path, tmp_path: Path) -> Path:
    """A repository that has what the workflow names, under the very names that it has there."""
    folder = tmp_path / "repository"
    shutil.copytree(media, folder / "media")
    shutil.copytree(tiny_siglip, folder / "models/siglip")
    return folder


@pytest.fixture
def caches(tmp_path: Path) -> Caches:
    (tmp_path / "caches").mkdir()
    return Caches(tmp_path / "caches")


def test_runs_hit_what_earlier_runs_made(checkout: Path, caches: Caches, tmp_path: Path) -> None:
    first = Job(checkout, tmp_path / "first", caches).run()
    assert first.outputs["restore"]["cache-hit"] == ""
    assert first.items["stored"] > 10
    assert first.items["present"] == 0
    assert first.ran[-1] == "Save the store"
    assert "Heal the restored store" not in first.ran
    assert len(caches.saved) == 1

    second = Job(checkout, tmp_path / "second", caches).run()
    assert second.outputs["restore"]["cache-hit"] == "true"
    assert second.items["stored"] == second.items["copy"] == 0
    assert second.items["present"] == first.items["stored"] + first.items["copy"]
    assert "Save the store" not in second.ran
    assert f" 0 stored, {second.items['present']} present, " in second.summary
    assert second.summary.endswith(" 0 failed\n")

    _change(checkout / "media")
    third = Job(checkout, tmp_path / "third", caches).run()
    assert third.outputs["restore"]["cache-hit"] == "false"
    assert third.outputs["restore"]["cache-matched-key"] == caches.saved[0]
    assert third.items["stored"] == 2
    assert third.items["present"] == second.items["present"] - 1
    assert len(caches.saved) == 2


def _change(folder: Path) -> None:
    """One picture goes, two come, one gets another name."""
    (folder / "coast.avif").unlink()
    (folder / "chart.png").rename(folder / "figure.png")
    for number, name in enumerate(("hills.jpg", "valley.webp")):
        (folder / f"new-{name}").write_bytes((folder / name).read_bytes() + bytes([number]))


def test_a_bad_picture_fails_the_job_and_saves_nothing(
    checkout: Path, caches: Caches, tmp_path: Path
) -> None:
    (checkout / "media/bad.jpg").write_bytes(b"\xff\xd8\xff")
    job = Job(checkout, tmp_path / "machine", caches)
    with pytest.raises(StepFailedError) as failed:
        job.run()
    assert (failed.value.name, failed.value.code) == ("Warm what is new", 3)
    assert "media/bad.jpg: decode: " in failed.value.said
    assert job.summary.endswith(" 1 failed\n")
    assert caches.saved == []


def test_a_model_that_is_not_there_is_summed_up_too(
    checkout: Path, caches: Caches, tmp_path: Path
) -> None:
    job = Job(checkout, tmp_path / "machine", caches)
    steps = job.workflow["jobs"]["warm"]["steps"]
    next(step for step in steps if step.get("id") == "warm")["run"] += " --backend abacus"
    with pytest.raises(StepFailedError, match="Warm what is new: exit 15"):
        job.run()
    assert job.summary == "**Vision cache:** nothing was warmed\n"


def test_a_damaged_cache_is_healed(checkout: Path, caches: Caches, tmp_path: Path) -> None:
    Job(checkout, tmp_path / "first", caches).run()
    entry = next((tmp_path / "caches").rglob("*.safetensors"))
    data = bytearray(entry.read_bytes())
    data[-1] ^= 1
    entry.chmod(0o600)
    entry.write_bytes(data)
    second = Job(checkout, tmp_path / "second", caches).run()
    assert second.ran.index("Heal the restored store") < second.ran.index("Warm what is new")
    assert second.items["stored"] == 1


def test_a_cap_that_is_too_small_fails_the_job_and_keeps_what_it_made(
    checkout: Path, caches: Caches, tmp_path: Path
) -> None:
    job = Job(checkout, tmp_path / "machine", caches)
    job.workflow["env"]["MAX_SIZE"] = "20KiB"
    with pytest.raises(StepFailedError) as failed:
        job.run()
    assert (failed.value.name, failed.value.code) == ("Check that every picture would hit", 5)
    assert len(caches.saved) == 1


def test_a_lower_threshold_bears_a_cap(checkout: Path, caches: Caches, tmp_path: Path) -> None:
    job = Job(checkout, tmp_path / "machine", caches)
    job.workflow["env"] |= {"MAX_SIZE": "20KiB", "MIN_COVERAGE": "10%"}
    assert job.run().ran[-1] == "Save the store"


def test_the_workflow_asks_for_little() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow["jobs"]["warm"]
    scripts = [step["run"] for step in workflow["jobs"]["warm"]["steps"] if "run" in step]
    assert scripts[0] == INSTALL
    assert not [script for script in scripts if "${{" in script]  # nothing is pasted into a shell
