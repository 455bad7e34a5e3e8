"""Which encoder serves which family here is told before anything is warmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.running import running
from vcache_cli import registry
from vcache_cli.assemble import encoder_choices

if TYPE_CHECKING:
    import pytest


def test_each_family_with_a_tower_has_one_chosen_encoder() -> None:
    choices = list(encoder_choices())
    assert {each.family for each in choices} == set(registry.names("families"))
    for tower in registry.names("towers"):
        mine = [each for each in choices if each.family == tower]
        assert {each.backend for each in mine} == set(registry.names("backends"))
        assert sum(each.chosen for each in mine) == 1
        assert all(each.reason and each.outputs for each in mine)


def test_a_family_without_a_tower_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    names = registry.names
    without = {"towers": [name for name in names("towers") if name != "siglip"]}
    monkeypatch.setattr(registry, "names", lambda group: without.get(group) or names(group))
    (only,) = (each for each in encoder_choices() if each.family == "siglip")
    assert not only.available
    assert "no tower" in only.reason


def test_the_command_lists_them_and_names_the_chosen_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    vcache = running(capsys)
    listed = vcache("plugins", "--encoders", "--json").document["encoders"]
    assert listed == [each.as_json() for each in encoder_choices()]
    assert "siglip" in vcache("plugins", "--encoders").out
    chosen = [f"{each['family']} {each['backend']}" for each in listed if each["chosen"]]
    assert vcache("plugins", "--encoders", "--quiet").out.split("\n")[:-1] == chosen
