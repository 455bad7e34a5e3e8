"""An S3 server on loopback, a bucket for each test, and the command."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Vcache, running
from tests.remote.proxy import Proxy, proxied

moto = pytest.importorskip("moto.server", reason="install the extra `cluster`")
s3fs = pytest.importorskip("s3fs", reason="install the extra `cluster`")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """URL of an S3 server that forgets everything at the end."""
    service: Any = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    service.start()
    yield "http://{}:{}".format(*service.get_host_and_port())
    service.stop()


@pytest.fixture(scope="session")
def session_proxy(server: str) -> Iterator[Proxy]:
    """One for all tests: the filesystem of a process keeps its endpoint."""
    with proxied(server) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def proxy(session_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """What stands between; it answers nothing itself unless a test says so."""
    session_proxy.fault = lambda _method, _path, _before: None
    session_proxy.asked.clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", session_proxy.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-a-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("VCACHE_ISOLATION", "thread")
    return session_proxy


@dataclass(frozen=True)
class Cloud:
    """What a test has of the service."""

    files: Any
    """The server's own side: reads and writes past the proxy."""
    bucket: str
    proxy: Proxy

    def objects(self) -> list[str]:
        """Paths of all entries' bytes."""
        return sorted(each for each in self.files.find(self.bucket) if "/objects/" in each)


@pytest.fixture
def cloud(server: str, proxy: Proxy) -> Cloud:
    """An empty bucket."""
    files = s3fs.S3FileSystem(endpoint_url=server, use_listings_cache=False)
    bucket = f"test-{secrets.token_hex(6)}"
    files.mkdir(bucket)
    return Cloud(files, bucket, proxy)


@pytest.fixture
def vcache(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Vcache:
    """The command, started in an empty folder."""
    home = tmp_path / "work"
    home.mkdir()
    monkeypatch.chdir(home)
    return running(capsys)
