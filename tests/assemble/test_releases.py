"""A profile is followed only where the installed server is of a version that it was tested with."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from vcache_cli import WarmOptions
from vcache_cli.assemble import load_recipe
from vcache_cli.assemble.releases import check_release
from vcache_cli.errors import ModelError
from vcache_cli.profile import Profile

PROFILE = Profile("demo-1", 1, "demo", ("1.4", "1.5"))


def install(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """As if these packages, and no others, were installed."""

    def version(name: str) -> str:
        if name in versions:
            return versions[name]
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)


@pytest.mark.parametrize("version", ["1.4", "1.4.0", "1.5.2", "1.5.2.post1"])
def test_a_tested_version_is_followed(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, demo=version)
    check_release(PROFILE)


@pytest.mark.parametrize("version", ["1.3.9", "1.40", "2.0", "1", "1.6.0"])
def test_another_version_is_refused_unless_forced(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, demo=version)
    with pytest.raises(ModelError, match=f"{version} is installed") as error:
        check_release(PROFILE)
    assert error.value.exit_code == 15
    assert "--force-profile" in error.value.hint
    check_release(PROFILE, force=True)


def test_a_server_that_is_not_here_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    check_release(PROFILE)


def test_a_recipe_is_refused_before_anything_is_read(
    tiny_siglip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, transformers="4.57.1")
    with pytest.raises(ModelError, match=r"4\.57\.1"):
        load_recipe(tiny_siglip)
    forced = load_recipe(tiny_siglip, WarmOptions(force_profile=True))
    assert forced.profile.name == "transformers-pil-5"
