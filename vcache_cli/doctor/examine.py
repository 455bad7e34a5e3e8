"""All checks in one go."""

from __future__ import annotations

import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcache_cli import registry
from vcache_cli.doctor.checks import Check, State
from vcache_cli.doctor.machine import (
    check_clock,
    check_codecs,
    check_open_files,
    check_packages,
    check_profiles,
    check_python,
    package_versions,
)
from vcache_cli.doctor.servers import Kept, check_mlx_vlm, check_omlx
from vcache_cli.doctor.speed import Backends, check_backends, measure_backends
from vcache_cli.doctor.store import check_store
from vcache_cli.errors import ModelError, VcacheError
from vcache_cli.store import read_meta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vcache_cli.profile import Profile
    from vcache_cli.store import StoreRoot

__all__ = ["Diagnosis", "examine"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor found."""

    checks: tuple[Check, ...]
    versions: Mapping[str, str]
    backends: Backends
    not_checked: tuple[str, ...]
    """What cannot be looked at from here, said so that nobody takes it for well."""

    @property
    def failed(self) -> tuple[Check, ...]:
        """What keeps vcache from working."""
        return tuple(check for check in self.checks if check.state is State.FAIL)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``vcache.doctor/1``."""
        return {
            "checks": [check.as_json() for check in self.checks],
            "versions": dict(self.versions),
            "backend": self.backends.as_json(),
            "backends": dict(self.backends.gflops),
            "not_checked": list(self.not_checked),
        }


def examine(store: Path, opened: StoreRoot | None = None) -> Diagnosis:
    """Look at the machine and at `store`. Changes nothing; takes about a second.

    Args:
        store: where it is, or would be.
        opened: it, where it was recognised.
    """
    versions = package_versions()
    codecs = _codec_versions()
    backends = measure_backends()
    profiles = _profiles()
    checks = (
        check_python(),
        check_packages(versions),
        check_open_files(),
        check_clock(),
        check_codecs(codecs),
        check_profiles(profiles, versions),
        *check_backends(backends),
        *check_store(store, opened),
        *_servers(store, opened, versions, profiles),
    )
    return Diagnosis(checks, {**versions, **codecs}, backends, _not_checked(backends))


def _servers(
    store: Path,
    opened: StoreRoot | None,
    versions: Mapping[str, str],
    profiles: Iterable[Profile],
) -> Iterator[Check]:
    kept = Kept(store, opened.meta.target if opened else _target_of(store))
    with suppress(RuntimeError):  # a user without a home has no oMLX in it
        yield check_omlx(kept, Path.home() / ".omlx")
    served = next((each for each in profiles if each.package == "mlx-vlm"), None)
    yield check_mlx_vlm(kept, versions, served)


def _target_of(store: Path) -> str | None:
    try:
        return read_meta(store).target
    except VcacheError:  # its own check says why
        return None


def _profiles() -> list[Profile]:
    """Every installed profile by name, a broken plug-in left out."""
    found = []
    for name in registry.names("profiles"):
        try:
            found.append(registry.load("profiles", name))
        except ModelError:
            continue
    return found


def _codec_versions() -> dict[str, str]:
    try:
        from vcache_cli import media
    except ImportError:  # Pillow is missing: its own check says so
        return {}
    return media.versions()


def _not_checked(backends: Backends) -> tuple[str, ...]:
    missing = [
        "whether a running server finds the entries: no server is asked, oMLX's own files are read"
    ]
    if platform.system() != "Darwin":
        missing.append("Metal: only a Mac has it")
    if "mlx" not in backends.gflops:
        missing.append("MLX: no backend of it can be used here")
    return tuple(missing)
