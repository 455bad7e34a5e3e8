"""Stand-ins for the machines of GitHub and GitLab, which run the steps of a sample in order.

GitHub's part is played by expressions, step outputs, and a cache of folders by key; GitLab's by
scripts in one shell, and a cache of the folders of a job. One step is left out: `pip install`,
since the package under test is installed already.
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

import yaml

from tests.conftest import ROOT
from tests.e2e.forked import FORKS, channel_handle, shim
from tests.patience import PATIENCE_SECONDS

__all__ = ["INSTALL", "Caches", "GitlabJob", "Job", "StepFailedError"]

SAMPLES = ROOT / "samples/ci"
EXPRESSION = re.compile(r"\$\{\{ *([a-z][\w.-]*) *\}\}")
CONDITION = re.compile(r"([a-z][\w.-]*) (==|!=) '([^']*)'")
ALWAYS = "always()"
INSTALL = 'pip install "vcache-cli[cpu]"'
BASH = shutil.which("bash") or "bash"


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
class Machine:
    """An empty machine with a checkout, and with `python` and `vcache` on the path."""

    checkout: Path
    machine: Path

    @property
    def workspace(self) -> Path:
        return self.machine / "workspace"

    def document(self, name: str) -> dict[str, Any]:
        """What a `--json` of the job wrote."""
        found: dict[str, Any] = json.loads((self.machine / name).read_text())
        return found

    def start(self) -> None:
        """What `setup-python`, or an image, and `pip install` leave."""
        (self.machine / "bin").mkdir(parents=True)
        for name, words in (("python", ""), ("vcache", "-m vcache_cli")):
            command = self.machine / "bin" / name
            command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
            command.chmod(0o755)
        if FORKS:
            shim(self.machine / "bin/vcache")

    def bash(self, name: str, script: str, environ: dict[str, str]) -> str:
        """Run a script in the workspace; what it said.

        Raises:
            StepFailedError: it did not exit with 0.
        """
        own = {"PATH": f"{self.machine / 'bin'}:{os.environ['PATH']}", "HOME": str(self.machine)}
        done = subprocess.run(
            [BASH, "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.workspace,
            env={**os.environ, "VCACHE_ISOLATION": "thread", **own, **environ},
            capture_output=True,
            pass_fds=[channel_handle()] if FORKS else [],
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode:
            raise StepFailedError(name, done)
        return done.stdout


@dataclass
class Job(Machine):
    """One run of GitHub's steps."""

    caches: Caches
    steps: list[dict[str, Any]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    """Of an action."""
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    """``success``, ``failure`` or ``skipped``, by id."""
    ran: list[str] = field(default_factory=list)
    """Names of the steps that ran."""
    kept: list[str] = field(default_factory=list)
    """Files that were uploaded beside the job."""
    failure: StepFailedError | None = None
    """Of the first step that failed: only steps that always run come after it."""

    @classmethod
    def of_workflow(cls, checkout: Path, machine: Path, caches: Caches) -> Job:
        """The only job of the workflow."""
        read = yaml.safe_load((SAMPLES / "github-actions.yml").read_text())
        return cls(checkout, machine, caches, read["jobs"]["warm"]["steps"], read["env"])

    @classmethod
    def of_action(cls, checkout: Path, machine: Path, caches: Caches, **inputs: str) -> Job:
        """A job that checks out, and then uses the action."""
        read = yaml.safe_load((SAMPLES / "action/action.yml").read_text())
        assert read["runs"]["using"] == "composite"
        wanted = {name for name, each in read["inputs"].items() if each.get("required")}
        defaults = {n: each["default"] for n, each in read["inputs"].items() if "default" in each}
        assert wanted <= set(inputs) <= set(read["inputs"])
        steps = [{"name": "Check out", "uses": "actions/checkout@v5"}, *read["runs"]["steps"]]
        return cls(checkout, machine, caches, steps, inputs=defaults | inputs)

    @property
    def summary(self) -> str:
        return (self.machine / "summary").read_text()

    @property
    def items(self) -> dict[str, int]:
        """The counts of the warm."""
        counts: dict[str, int] = self.document("warm.json")["items"]
        return counts

    def run(self) -> Job:
        """Run every step in order.

        Raises:
            StepFailedError: a step failed, and those that run nevertheless are done.
        """
        self.start()
        for step in self.steps:
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
            assert "${{" not in step["run"]  # nothing is pasted into a shell
            return {} if step["run"] == INSTALL else self._run_script(step)
        action, _, version = step["uses"].partition("@")
        assert re.fullmatch(r"v\d+", version)
        given = {name: self._fill(str(value)) for name, value in step.get("with", {}).items()}
        if action == "actions/checkout":
            shutil.copytree(self.checkout, self.workspace)
        elif action == "actions/cache/restore":
            path, key = self.workspace / given["path"], given["key"]
            return self.caches.restore(path, key, given["restore-keys"])
        elif action == "actions/cache/save":
            self.caches.save(self.workspace / given["path"], given["key"])
        elif action == "actions/upload-artifact":
            self._keep(given)
        else:
            assert action == "actions/setup-python"
        return {}

    def _keep(self, given: dict[str, str]) -> None:
        found = (self.workspace / given["path"]).is_file()
        assert found or given["if-no-files-found"] == "ignore"
        self.kept += [given["path"]] * found

    def _run_script(self, step: dict[str, Any]) -> dict[str, str]:
        output = self.machine / "output"
        output.write_text("")
        own = {name: self._fill(str(value)) for name, value in step.get("env", {}).items()}
        files = {
            "RUNNER_TEMP": str(self.machine),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.machine / "summary"),
        }
        self.bash(step["name"], step["run"], {**self.env, **own, **files})
        return dict(line.split("=", 1) for line in output.read_text().splitlines())

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
                return str(self.env[variable])
            case ["inputs", given]:
                return self.inputs[given]
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


@dataclass
class GitlabJob(Machine):
    """One run of GitLab's job; `cache` is what the runner keeps of its folders."""

    cache: Path
    job: dict[str, Any] = field(default_factory=dict)
    said: str = ""

    def run(self) -> GitlabJob:
        """Take the cache, run the scripts, keep the cache.

        Raises:
            StepFailedError: the script failed; what comes after it is done.
        """
        read = yaml.safe_load((SAMPLES / "gitlab-ci.yml").read_text())
        self.job = read["warm-vision-cache"]
        assert self.job["before_script"] == [INSTALL]
        assert self.job["cache"]["when"] == "always"
        self.start()
        shutil.copytree(self.checkout, self.workspace)
        if self.cache.exists():
            shutil.copytree(self.cache, self.store)
        try:
            self.said = self.bash("script", "\n".join(self.job["script"]), self.variables)
        finally:
            self.bash("after_script", "\n".join(self.job["after_script"]), self.variables)
            shutil.copytree(self.store, self.cache, dirs_exist_ok=True)
        return self

    @property
    def variables(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.job["variables"].items()}

    @property
    def store(self) -> Path:
        """The folder that is cached."""
        (path,) = self.job["cache"]["paths"]
        return self.workspace / self.variables[path.removeprefix("$")]

    @property
    def coverage(self) -> str:
        """What GitLab reads off the log."""
        (found,) = re.findall(self.job["coverage"].strip("/"), self.said, re.MULTILINE)
        return str(found)
