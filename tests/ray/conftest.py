"""A Ray cluster on this machine, nodes to add to it, and a corpus."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from PIL import Image

from tests.cli.running import running
from tests.ray.ground import EPOCH, Ground, RayCluster, RayNode
from vcache_cli import WarmOptions
from vcache_cli.assemble import open_warm
from vcache_cli.media import sources
from vcache_cli.outcome import Status

ROOT = Path(__file__).resolve().parents[2]

cluster_utils = pytest.importorskip("ray.cluster_utils", reason="install the extra `cluster`")

T = TypeVar("T")


def started(start: Callable[[], T], service: Mapping[str, str], *, first: Path | None = None) -> T:
    """What starts processes: they find our tests, after modules in `first`, and know no clock."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in service.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, filter(None, (first, ROOT)))))
        patch.setenv("SOURCE_DATE_EPOCH", EPOCH)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        return start()


@pytest.fixture(scope="session")
def service() -> Iterator[dict[str, str]]:
    """Variables that lead to an S3 server; none where its package is not installed."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError:
        yield {}
        return
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    yield {
        "AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port()),
        "AWS_ACCESS_KEY_ID": "key-of-a-test",
        "AWS_SECRET_ACCESS_KEY": "secret-of-a-test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    server.stop()


@pytest.fixture
def url(service: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a store that nobody has written to yet."""
    s3fs = pytest.importorskip("s3fs", reason="install the extra `cluster`")
    if not service:
        pytest.skip("install the extra `cluster`")
    for name, value in service.items():
        monkeypatch.setenv(name, value)
    bucket = f"test-{secrets.token_hex(6)}"
    s3fs.S3FileSystem(endpoint_url=service["AWS_ENDPOINT_URL"]).mkdir(bucket)
    return f"s3://{bucket}/caches"


@pytest.fixture(scope="session")
def cluster(service: dict[str, str]) -> Iterator[RayCluster]:
    """One of a single node with one CPU; it ends with the tests."""
    head = {
        "num_cpus": 1,
        "include_dashboard": False,
        "object_store_memory": 100 * 1024**2,
        "_system_config": {"health_check_period_ms": 1000, "health_check_failure_threshold": 5},
    }
    found = started(
        lambda: cluster_utils.Cluster(initialize_head=True, head_node_args=head), service
    )
    yield found
    found.shutdown()


@pytest.fixture
def second_node(cluster: RayCluster, service: dict[str, str]) -> Iterator[RayNode]:
    """Another node of one CPU, for one test; the test may kill it."""
    add_node = vars(type(cluster))["add_node"]
    options = {"num_cpus": 1, "object_store_memory": 100 * 1024**2}
    node = started(lambda: add_node(cluster, **options), service)
    yield node
    if node in cluster.worker_nodes:
        cluster.remove_node(node)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many JPEGs as `RAY_PICTURES` says, each of its own content."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(11)
    for number in range(int(os.environ.get("RAY_PICTURES", "120"))):
        coarse = rng.integers(0, 256, (24, 32, 3), np.uint8)
        picture = Image.fromarray(coarse).resize((1024, 768), Image.Resampling.BICUBIC)
        picture.save(folder / f"{number:04d}.jpg", quality=85)
    return folder


@pytest.fixture(scope="session")
def local(pictures: Path, tiny_siglip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a run on this machine."""
    store = tmp_path_factory.mktemp("local") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", EPOCH)
        corpus, options = sources([str(pictures)]), WarmOptions()
        with open_warm(corpus, store=store, model=str(tiny_siglip), options=options) as run:
            assert {outcome.status for outcome in run} == {Status.STORED}
    return store


@pytest.fixture
def ground(
    cluster: RayCluster,
    local: Path,
    pictures: Path,
    tiny_siglip: Path,
    request: pytest.FixtureRequest,
) -> Ground:
    """Everything; a second node is a fixture of its own."""
    request.getfixturevalue("monkeypatch").setenv("SOURCE_DATE_EPOCH", EPOCH)
    folder = request.getfixturevalue("tmp_path")
    vcache = running(request.getfixturevalue("capsys"))
    return Ground(cluster, pictures, local, tiny_siglip, folder, vcache)
