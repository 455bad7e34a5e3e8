"""A warm straight into an S3 bucket: what is there at the end, and after what went wrong."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.running import Result, Vcache
from tests.patience import PATIENCE_SECONDS, until
from tests.remote.conftest import Cloud
from tests.remote.hasty import start_hasty
from tests.remote.proxy import Hold
from tests.remote.test_push_pull import contents

pytestmark = pytest.mark.needs_remote


@dataclass(frozen=True)
class Job:
    """A warm of some pictures into a bucket."""

    vcache: Vcache
    words: tuple[object, ...]
    url: str
    folder: Path

    def run(self) -> Result:
        return self.vcache(*self.words, "--json")

    def expected(self) -> dict[str, bytes]:
        """Entries of a warm into a folder."""
        assert self.vcache(*self.words[:-1], self.folder / "here").code == 0
        return contents(self.folder / "here")

    def pulled(self, *words: str) -> dict[str, bytes]:
        """Entries in the bucket."""
        store = self.folder / "copy"
        assert self.vcache("pull", self.url, "--store", store, *words).code == 0
        assert self.vcache("verify", store).code == 0
        return contents(store)


@pytest.fixture
def job(
    vcache: Vcache,
    cloud: Cloud,
    media: Path,
    tiny_siglip: Path,
    request: pytest.FixtureRequest,
) -> Job:
    request.getfixturevalue("monkeypatch").setenv("SOURCE_DATE_EPOCH", "1700000000")
    folder = request.getfixturevalue("tmp_path")
    pictures = sorted(path for path in media.iterdir() if path.suffix in {".jpg", ".png", ".bmp"})
    url = f"s3://{cloud.bucket}/caches/one"
    return Job(vcache, ("warm", *pictures, "-m", tiny_siglip, "--store", url), url, folder)


def test_a_bucket_gets_the_bytes_that_a_folder_gets_and_nothing_twice(
    job: Job, cloud: Cloud
) -> None:
    expected = job.expected()
    run = job.run()
    assert (run.code, run.document["items"]["stored"]) == (0, len(expected))
    assert job.pulled() == expected
    cloud.proxy.asked.clear()
    again = job.run().document["items"]
    assert again["present"] == again["total"]
    assert cloud.proxy.count("PUT", "/") == cloud.proxy.count("DELETE", "/") == 0
    stats = job.vcache("stats", job.url, "--scan", "--json").document
    assert (stats["entries"], stats["index"]["drift_entries"]) == (len(expected), 0)
    assert stats["foreign_files"] == []
    assert job.vcache("prune", job.url, "--max-size", "0", "--yes").code == 0
    assert cloud.objects() == []


def test_a_bucket_that_may_not_be_written_ends_it_and_what_went_before_stays(
    job: Job, cloud: Cloud
) -> None:
    expected = job.expected()
    cloud.proxy.fault = lambda method, path, _before: (
        403 if method == "PUT" and re.search("/objects/[89a-f]", path) else None
    )
    run = job.run()
    assert run.code == 14
    assert "s3:PutObject" in run.err
    assert "secret" not in run.out + run.err
    half = {path.rpartition("/")[2] for path in cloud.objects()}
    cloud.proxy.fault = lambda _method, _path, _before: None
    run = job.run()
    assert (run.code, run.document["items"]["stored"]) == (0, len(expected) - len(half))
    assert job.pulled() == expected


def test_a_bucket_that_vanishes_half_way_is_told_as_by_a_push(job: Job, cloud: Cloud) -> None:
    expected = job.expected()
    cloud.proxy.fault = lambda method, path, _before: (
        404 if method == "PUT" and re.search("/objects/[89a-f]", path) else None
    )
    run = job.run()
    assert (run.code, job.url in run.err) == (10, True)
    cloud.proxy.fault = lambda _method, _path, _before: None
    assert job.run().code == 0
    assert job.pulled() == expected


def test_manifests_that_may_not_be_written_are_an_error(job: Job, cloud: Cloud) -> None:
    cloud.proxy.fault = lambda method, path, _before: (
        403 if method == "PUT" and "/manifests/" in path else None
    )
    assert job.run().code == 14
    assert job.vcache("warm", *job.words[1:-1], "s3://no-such-bucket-at-all/x").code in {10, 14}
    cloud.proxy.fault = lambda _method, _path, _before: None
    assert job.run().code == 0


def test_who_may_not_remove_leaves_what_says_the_same_once_more(
    job: Job, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = job.expected()
    monkeypatch.setattr("vcache_cli.remote.record.PART_SECONDS", 0.0)
    cloud.proxy.fault = lambda method, _path, _before: 403 if method == "DELETE" else None
    run = job.run()
    assert run.code == 0
    assert job.vcache("stats", job.url, "--json").document["entries"] == len(expected)
    assert job.pulled("--run", run.document["run"]) == expected


def test_kill_9_of_a_warm_and_run_again(job: Job, cloud: Cloud) -> None:
    expected = job.expected()

    hold = Hold(cloud.proxy, "PUT", after=3)
    with start_hasty([*job.words, "--workers", "1", "--batch-size", "1"]) as driver:
        until(
            lambda: (
                cloud.files.glob(f"{cloud.bucket}/caches/one/manifests/*")
                or driver.poll() is not None
            )
        )
        driver.send_signal(signal.SIGKILL)
    assert driver.returncode == -signal.SIGKILL
    hold.let_go()
    cloud.proxy.fault = lambda _method, _path, _before: None
    said = job.vcache("stats", job.url, "--json").document["entries"]
    run = job.run()
    assert run.code == 0
    items = run.document["items"]
    assert said >= 1
    assert items["stored"] <= len(expected) - said  # the last manifest may have been on its way
    assert job.pulled() == expected


def test_two_that_warm_at_once_lose_nothing_of_each_other(job: Job) -> None:
    command, *pictures = job.words[:-4]
    half = len(pictures) // 2
    parts = pictures[: half + 2], pictures[half - 2 :]
    drivers = [start_hasty([command, *each, *job.words[-4:]]) for each in parts]
    assert [each.wait(PATIENCE_SECONDS) for each in drivers] == [0, 0]
    assert job.pulled() == job.expected()
    assert job.run().document["items"]["stored"] == 0
