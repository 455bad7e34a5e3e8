"""A Ray cluster: joined, looked over, and divided into seats for encoders."""

from __future__ import annotations

import io
import logging
import os
import platform
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from vcache_cli.errors import ModelError, UsageError
from vcache_cli.version import __version__

if TYPE_CHECKING:
    from types import ModuleType
    from typing import TextIO

__all__ = ["Seat", "as_options", "check_nodes", "joined", "parse_resources", "plan_seats"]

_CONNECT_SECONDS: Final = 5.0
_PROBE_SECONDS: Final = 60.0
_START: Final = "start one with Ray's `ray start`, or name one with `--ray-address HOST:PORT`"


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one encoder works, and with what."""

    node: str
    """The node's id; empty: wherever there is room."""
    cpus: int
    gpus: float = 0


def parse_resources(text: str) -> dict[str, float]:
    """What one encoder takes, such as ``CPU=4,GPU=1``.

    Raises:
        UsageError: it says something else.

    >>> parse_resources("CPU=4,GPU=0.5")
    {'CPU': 4.0, 'GPU': 0.5}
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(
            r"\s*(CPU|GPU)\s*=\s*(\d+|\d*\.\d+)\s*", part, re.ASCII | re.IGNORECASE
        )
        if not match or match[1].upper() in found:
            raise _not_resources(text)
        found[match[1].upper()] = float(match[2])
    cpus = found.setdefault("CPU", 1.0)
    if cpus < 1 or cpus != int(cpus):
        raise _not_resources(text)
    return found


def _not_resources(text: str) -> UsageError:
    return UsageError(
        f"`--encoder-resources`: expected CPUs and GPUs of one encoder, such as `CPU=4` or"
        f" `CPU=4,GPU=1`, got `{text}`",
        hint="a whole number of CPUs, at least 1",
    )


def plan_seats(
    nodes: Iterable[tuple[str, Mapping[str, float]]], wanted: Mapping[str, float] | None
) -> list[Seat]:
    """As many seats as fit, by what each node has. Pure.

    Without a wish: a seat for each GPU, with its share of the node's CPUs; where no node has one,
    a seat for each node, with all CPUs, since one pass uses them all.

    >>> plan_seats([("a", {"CPU": 8.0}), ("b", {"CPU": 2.0})], None)
    [Seat(node='a', cpus=8, gpus=0), Seat(node='b', cpus=2, gpus=0)]
    >>> plan_seats([("a", {"CPU": 8.0, "GPU": 2.0}), ("b", {"CPU": 2.0})], None)
    [Seat(node='a', cpus=4, gpus=1), Seat(node='a', cpus=4, gpus=1)]
    >>> plan_seats([("a", {"CPU": 8.0})], {"CPU": 3.0})
    [Seat(node='a', cpus=3, gpus=0), Seat(node='a', cpus=3, gpus=0)]
    """
    found = [(name, has.get("CPU", 0.0), has.get("GPU", 0.0)) for name, has in nodes]
    seats: list[Seat] = []
    if wanted is not None:
        cpus, gpus = wanted["CPU"], wanted.get("GPU", 0)
        for name, has_cpus, has_gpus in found:
            fits = min(has_cpus // cpus, has_gpus // gpus) if gpus else has_cpus // cpus
            seats += [Seat(name, int(cpus), gpus)] * int(fits)
        return seats
    on_gpus = any(gpus >= 1 for _, _, gpus in found)
    for name, has_cpus, has_gpus in found:
        if on_gpus and has_gpus >= 1 and has_cpus >= has_gpus:
            seats += [Seat(name, int(has_cpus // int(has_gpus)), 1)] * int(has_gpus)
        elif not on_gpus and has_cpus >= 1:
            seats.append(Seat(name, int(has_cpus)))
    return seats


@contextmanager
def joined(address: str) -> Iterator[ModuleType]:
    """Ray, connected to the cluster at `address`; left again, unless the caller was there before.

    Raises:
        UsageError: the address is none.
        ModelError: Ray is not installed, no cluster answers, or it is of another version.
    """
    place = _place(address)
    ray = _imported()
    if ray.is_initialized():  # a program that uses Ray itself
        yield ray
        return
    if place:
        _check_answers(*place)
    with redirect_stdout(cast("TextIO", _WithoutRay(sys.stdout))):
        try:
            ray.init(
                address=address,
                log_to_driver=False,  # of workers; what they have to say comes as Outcomes
                logging_level=logging.ERROR,
                namespace="vcache",
            )
        except (ConnectionError, RuntimeError, ValueError, SystemExit) as error:
            raise _not_joined(address, str(error)) from error
        try:
            yield ray
        finally:
            with redirect_stdout(io.StringIO()):  # it prints lines that it held back
                ray.shutdown()


class _WithoutRay:
    """A standard output on which Ray's own threads say nothing; results alone belong there.

    They print there whatever they are told: that a node was lost, or a worker. Items tell that,
    too (see `StationWork.again`).
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write it, if it is not Ray that speaks."""
        if threading.current_thread().name.startswith("ray_"):
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def _imported() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before it is loaded: nothing is sent
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # nor a warning about it
    try:
        import ray
    except ImportError as error:
        raise ModelError(
            "`--engine ray` needs Ray, which is not installed",
            hint="install the extra: `pip install 'vcache-cli[ray]'`, on every node",
        ) from error
    module: ModuleType = ray
    return module


def _place(address: str) -> tuple[str, int] | None:
    """Host and port; None for the cluster of this machine, whose processes Ray finds itself.

    Raises:
        UsageError: neither.
    """
    named = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    if named == "auto":
        return None
    host, _, port = named.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"`--ray-address`: expected `auto` or HOST:PORT, got `{named}`")
    return host.strip("[]"), int(port)


def _check_answers(host: str, port: int) -> None:
    """Ray itself tries for minutes, and then ends the process.

    Raises:
        ModelError: nothing answers there.
    """
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        raise _not_joined(f"{host}:{port}", error.strerror or str(error)) from error


def _not_joined(address: str, why: str) -> ModelError:
    if "ersion mismatch" in why:
        told = " ".join(why.split())
        return ModelError(f"the Ray cluster at `{address}` is of another version: {told}")
    where = "on this machine" if address == "auto" else f"at `{address}`"
    told = "" if address == "auto" else f": {' '.join(why.split())}"
    return ModelError(f"no Ray cluster answers {where}{told}", hint=_START)


def check_nodes(ray: ModuleType) -> list[tuple[str, Mapping[str, float]]]:
    """Each living node's id and resources, once all were asked for their versions.

    Raises:
        ModelError: a node has another vcache or Python than this process, or does not answer.
    """
    nodes, told = _answers(ray)
    ours = (__version__, _series(platform.python_version()))
    for node, (vcache, python) in zip(nodes, told, strict=True):
        if (vcache, _series(python)) != ours:
            theirs = f"vcache {vcache}" if vcache else "no vcache"
            raise ModelError(
                f"node {node['NodeManagerAddress']} has {theirs} on Python {python};"
                f" here it is vcache {__version__} on Python {platform.python_version()}",
                hint="install the same versions on every node, `vcache-cli[ray]` of each",
            )
    return [(each["NodeID"], each["Resources"]) for each in nodes]


def _series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _answers(ray: ModuleType) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The living nodes, and what each has. One that was lost just now is still said to live."""
    until = time.monotonic() + _PROBE_SECONDS
    while True:
        nodes = [each for each in ray.nodes() if each["Alive"]]
        try:
            return nodes, _probed(ray, [each["NodeID"] for each in nodes])
        except ray.exceptions.RayError as error:
            if time.monotonic() > until:
                raise ModelError(
                    f"a node of the Ray cluster does not answer: {_first_line(error)}",
                    hint="see `ray status`",
                ) from error
        time.sleep(1.0)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _probed(ray: ModuleType, nodes: list[str]) -> list[tuple[str, str]]:
    """Versions of vcache and Python on each node.

    Raises:
        RayError: a node cannot tell.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe = ray.remote(num_cpus=0, max_retries=1)(_probe())
    asked = [
        probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()
        for node in nodes
    ]
    told: list[tuple[str, str]] = ray.get(asked, timeout=_PROBE_SECONDS)
    return told


def _probe() -> Callable[[], tuple[str, str]]:
    """Sent by value, since a node may not have vcache."""

    def versions() -> tuple[str, str]:
        import platform
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("vcache-cli"), platform.python_version()
        except PackageNotFoundError:
            return "", platform.python_version()

    return versions


def as_options(seat: Seat) -> dict[str, Any]:
    """What Ray is told of an actor that is to take that seat."""
    options: dict[str, Any] = {"num_cpus": seat.cpus, "num_gpus": seat.gpus}
    if seat.node:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(seat.node, soft=False)
        options["scheduling_strategy"] = strategy
    return options
