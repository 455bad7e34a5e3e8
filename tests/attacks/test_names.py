"""Names that a terminal would obey: no command prints one raw, whatever it has to say of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.running import Result, Vcache, running
from vcache_cli import WarmOptions, warm

CLEAR, TITLE, TURNED = "\x1b[2J", "\x1b]0;owned\x07", "\u202egnp.exe"
BAD = f"{CLEAR}{TITLE}{TURNED}\n"
OBEYED = ("\x1b", "\x07", "\u202e", "\x9b")


@pytest.fixture
def vcache(capsys: pytest.CaptureFixture[str]) -> Vcache:
    return running(capsys)


@pytest.fixture(scope="session")
def hostile_once(
    media: Path, tiny_siglip: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A corpus of hostile names, good and bad pictures, and a store of it under such a name."""
    folder = tmp_path_factory.mktemp("names") / f"corpus {BAD}"
    folder.mkdir()
    shutil.copy(media / "hills.jpg", folder / f"good {BAD}.jpg")
    (folder / f"bad {BAD}.jpg").write_bytes(b"\xff\xd8\xff no picture")
    model = folder.with_name(f"model {BAD}")
    shutil.copytree(tiny_siglip, model)
    store = folder.with_name(f"store {BAD}")
    options = WarmOptions(isolation="thread", workers=1)
    assert list(warm([str(folder)], store=store, model=model, options=options))
    (store / f"stranger {BAD}").write_text("x")
    return folder, store


def words(command: str, corpus: Path, store: Path) -> list[object]:
    """A line that has something to say of every name."""
    model = corpus.with_name(corpus.name.replace("corpus", "model"))
    used: tuple[object, ...] = ("-m", model, "-s", store)
    first = next(store.glob("??/*.safetensors"))
    lines: dict[str, list[object]] = {
        "warm": ["warm", corpus, *used, "--isolation", "thread"],
        "warm missing": ["warm", f"{corpus}/{BAD}", *used],
        "check": ["check", corpus, *used],
        "stats": ["stats", store, "--scan"],
        "ls": ["ls", "-s", store],
        "ls filter": ["ls", "-s", store, "--filter", f"model={BAD}"],
        "inspect": ["inspect", first, "-s", store],
        "inspect picture": ["inspect", corpus / f"good {BAD}.jpg", *used],
        "inspect key": ["inspect", BAD, "-s", store],
        "verify": ["verify", store],
        "prune": ["prune", store, "--older-than", "0s", "--grace", "0s", "--dry-run"],
        "prune key": ["prune", store, f"--key={BAD}", "--dry-run"],
        "export": ["export", corpus.with_name(f"x{BAD}.tar"), "-s", store, "--force"],
        "import": ["import", corpus / f"good {BAD}.jpg", "-s", store],
        "key": ["key", corpus, *used],
        "no store": ["stats", corpus.with_name(f"none {BAD}")],
        "no command": [BAD],
    }
    return lines[command]


COMMANDS = (
    *("warm", "warm missing", "check", "stats", "ls", "ls filter", "inspect", "inspect picture"),
    *("inspect key", "verify", "prune", "prune key", "export", "import", "key", "no store"),
    "no command",
)


UNNAMED = {"key", "ls", "ls filter", "inspect picture", "import", "verify", "prune"}
"""Those that have no name to tell, and should not begin to tell one raw."""


def obeyed(result: Result) -> list[str]:
    return [char for char in OBEYED if char in result.out + result.err]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_name_raw(
    command: str, hostile_once: tuple[Path, Path], vcache: Vcache
) -> None:
    line = words(command, *hostile_once)
    plain = vcache(*line)
    assert obeyed(plain) == []
    assert plain.code != 1
    assert "owned" in plain.out + plain.err or command in UNNAMED
    if plain.code in {2, 10, 16}:  # an error, which has a traceback
        assert obeyed(vcache("--debug", *line)) == []


@pytest.mark.parametrize("command", ["warm", "stats", "inspect", "verify"])
def test_json_escapes_what_a_terminal_would_obey(
    command: str, hostile_once: tuple[Path, Path], vcache: Vcache
) -> None:
    done = vcache(*words(command, *hostile_once), "--json")
    assert obeyed(done) == []
    assert done.document


def test_a_name_that_is_no_text_is_told_all_the_same(
    hostile_once: tuple[Path, Path], vcache: Vcache, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9 \x9b2J.jpg")
    try:
        odd.write_bytes(b"\xff\xd8\xff no picture")
    except OSError:
        pytest.skip("this filesystem takes text only")
    done = vcache("warm", odd, *words("warm", *hostile_once)[2:])
    assert done.code == 3
    assert "caf\\xe9 \\x9b2J.jpg" in done.err
