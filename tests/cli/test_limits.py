"""Limits of pictures, and which release's rules are followed, as a user sets them."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from tests.cli.running import Vcache


@pytest.fixture
def args(tiny_siglip: Path, tmp_path: Path) -> tuple[object, ...]:
    return ("--model", tiny_siglip, "--store", tmp_path / "store", "--json")


def test_a_picture_above_the_limit_of_pixels_names_the_option(
    vcache: Vcache, media: Path, args: tuple[object, ...]
) -> None:
    shown = vcache("warm", media / "hills.jpg", *args, "--max-pixels", 99)
    assert shown.code == 3
    [failure] = shown.document["failures"]
    assert failure["kind"] == "bomb"
    assert "the limit is 99" in failure["message"]
    assert "--max-pixels" in shown.err
    plan = vcache("warm", media / "hills.jpg", *args, "--max-pixels", 99, "--dry-run")
    assert plan.document["items"]["unsupported"] == 1


def test_a_file_above_the_limit_of_bytes_names_the_option(
    vcache: Vcache, media: Path, args: tuple[object, ...]
) -> None:
    shown = vcache("warm", media / "hills.jpg", *args, "--max-file-size", "1KiB")
    [failure] = shown.document["failures"]
    assert failure["kind"] == "too_large"
    assert "more than the limit of 1024" in failure["message"]
    assert "--max-file-size" in shown.err


def test_a_dry_run_tells_tokens(vcache: Vcache, media: Path, args: tuple[object, ...]) -> None:
    document = vcache("warm", media / "hills.jpg", *args, "--dry-run").document
    assert document["tokens"] > 0
    assert "tokens" in vcache("warm", media / "hills.jpg", *args[:-1], "--dry-run").out


def test_an_untested_server_is_refused_with_15_unless_forced(
    vcache: Vcache,
    media: Path,
    tiny_siglip: Path,
    args: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda name: "4.57.1" if name == "transformers" else real(name)
    )
    picture = media / "hills.jpg"
    shown = vcache("warm", picture, *args)
    assert shown.code == shown.document["error"]["code"] == 15
    assert "--force-profile" in shown.document["error"]["hint"]
    assert vcache("key", picture, "--model", tiny_siglip).code == 15
    assert vcache("key", picture, "--model", tiny_siglip, "--force-profile").code == 0
    assert vcache("warm", picture, *args, "--force-profile").code == 0
    assert vcache("check", picture, *args, "--force-profile").code == 0


def test_a_plan_says_in_words_what_will_be_skipped_or_fail(
    vcache: Vcache, tiny_siglip: Path, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/notes.txt").write_text("hi")
    (tmp_path / "photos/empty.png").touch()
    plan = vcache(
        "warm", tmp_path / "photos", "-m", tiny_siglip, "-s", tmp_path / "store", "--dry-run"
    )
    assert re.search(r"skipped or failing: +2\n", plan.out)
    assert "1 not media: not a picture or a video" in plan.out
