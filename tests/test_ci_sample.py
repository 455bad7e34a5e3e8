"""The CI samples do what they say: their own steps, run in order, several times."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from tests.ci_machines import INSTALL, Caches, GitlabJob, Job, StepFailedError
from tests.conftest import ROOT

WORKFLOW = ROOT / "samples/ci/github-actions.yml"


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
    first = Job.of_workflow(checkout, tmp_path / "first", caches).run()
    assert first.outputs["restore"]["cache-hit"] == ""
    assert first.items["stored"] > 10
    assert first.items["present"] == 0
    assert first.ran[-1] == "Save the store"
    assert "Heal the restored store" not in first.ran
    assert len(caches.saved) == 1

    second = Job.of_workflow(checkout, tmp_path / "second", caches).run()
    assert second.outputs["restore"]["cache-hit"] == "true"
    assert second.items["stored"] == second.items["copy"] == 0
    assert second.items["present"] == first.items["stored"] + first.items["copy"]
    assert "Save the store" not in second.ran
    assert second.summary.startswith(f"## All {second.items['present']} items are there already")
    assert second.kept == ["vision-cache.html"]

    _change(checkout / "media")
    third = Job.of_workflow(checkout, tmp_path / "third", caches).run()
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
    job = Job.of_workflow(checkout, tmp_path / "machine", caches)
    with pytest.raises(StepFailedError) as failed:
        job.run()
    assert (failed.value.name, failed.value.code) == ("Warm what is new", 3)
    assert "media/bad.jpg: decode: " in failed.value.said
    assert "### 1 item failed" in job.summary
    assert caches.saved == []


def test_a_model_that_is_not_there_is_summed_up_too(
    checkout: Path, caches: Caches, tmp_path: Path
) -> None:
    job = Job.of_workflow(checkout, tmp_path / "machine", caches)
    next(step for step in job.steps if step.get("id") == "warm")["run"] += " --backend abacus"
    with pytest.raises(StepFailedError, match="Warm what is new: exit 15"):
        job.run()
    assert job.summary == "**Vision cache:** nothing was warmed\n"


def test_a_damaged_cache_is_healed(checkout: Path, caches: Caches, tmp_path: Path) -> None:
    Job.of_workflow(checkout, tmp_path / "first", caches).run()
    entry = next((tmp_path / "caches").rglob("*.safetensors"))
    data = bytearray(entry.read_bytes())
    data[-1] ^= 1
    entry.chmod(0o600)
    entry.write_bytes(data)
    second = Job.of_workflow(checkout, tmp_path / "second", caches).run()
    assert second.ran.index("Heal the restored store") < second.ran.index("Warm what is new")
    assert second.items["stored"] == 1


def test_a_cap_that_is_too_small_fails_the_job_and_keeps_what_it_made(
    checkout: Path, caches: Caches, tmp_path: Path
) -> None:
    job = Job.of_workflow(checkout, tmp_path / "machine", caches)
    job.env["MAX_SIZE"] = "20KiB"
    with pytest.raises(StepFailedError) as failed:
        job.run()
    assert (failed.value.name, failed.value.code) == ("Check that every picture would hit", 5)
    assert len(caches.saved) == 1


def test_a_lower_threshold_bears_a_cap(checkout: Path, caches: Caches, tmp_path: Path) -> None:
    job = Job.of_workflow(checkout, tmp_path / "machine", caches)
    job.env |= {"MAX_SIZE": "20KiB", "MIN_COVERAGE": "10%"}
    assert job.run().ran[-1] == "Save the store"


def test_the_action_restores_what_it_saved_and_then_hits_all(
    checkout: Path, caches: Caches, tmp_path: Path
) -> None:
    inputs = {"corpus": "media", "model": "models/siglip", "store": "kept/store"}
    first = Job.of_action(checkout, tmp_path / "first", caches, **inputs).run()
    assert first.items["stored"] > 10
    assert "## " in first.summary
    second = Job.of_action(checkout, tmp_path / "second", caches, **inputs).run()
    assert second.outputs["restore"]["cache-hit"] == "true"
    assert second.items["present"] == first.items["stored"] + first.items["copy"]
    assert "Save the store" not in second.ran


def test_gitlab_restores_what_it_kept_and_then_hits_all(checkout: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = GitlabJob(checkout, tmp_path / "first", cache).run()
    assert first.document("workspace/warm.json")["items"]["stored"] > 10
    assert first.coverage == "100"
    (checkout / "media/bad.jpg").write_bytes(b"\xff\xd8\xff")
    second = GitlabJob(checkout, tmp_path / "second", cache)
    with pytest.raises(StepFailedError, match="script: exit 3") as failed:
        second.run()
    assert "media/bad.jpg: decode: " in failed.value.said
    items = second.document("workspace/warm.json")["items"]
    assert (items["stored"], items["failed"]) == (0, 1)
    assert (second.workspace / "vision-cache.html").is_file()
    tests = ET.parse(second.workspace / "vision-cache.xml").getroot()  # noqa: S314  our own
    assert (tests.attrib["tests"], tests.attrib["failures"]) == (str(items["total"]), "1")


def test_the_workflow_asks_for_little() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow["jobs"]["warm"]
    scripts = [step["run"] for step in workflow["jobs"]["warm"]["steps"] if "run" in step]
    assert scripts[0] == INSTALL
    assert not [script for script in scripts if "${{" in script]  # nothing is pasted into a shell
