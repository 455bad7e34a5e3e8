"""A shell completes options, names and keys: quickly, and never with an error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Vcache
from vcache_cli.assemble import open_root
from vcache_cli.store.create import create_meta
from vcache_cli.store.glimpse import glimpse_keys


class Complete:
    """Asks as a shell does: with what stands on the line, the last word unfinished."""

    def __init__(self, vcache: Vcache, monkeypatch: pytest.MonkeyPatch) -> None:
        self._vcache = vcache
        self._monkeypatch = monkeypatch

    def __call__(self, line: str, shell: str = "bash") -> list[str]:
        words = line.split(" ")
        environ = {
            "_VCACHE_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        with self._monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            result = self._vcache()
        assert result.code == 0
        assert result.err == ""
        return result.out.split()


@pytest.fixture
def complete(vcache: Vcache, monkeypatch: pytest.MonkeyPatch) -> Complete:
    return Complete(vcache, monkeypatch)


def test_commands_options_and_choices_are_offered(complete: Complete) -> None:
    assert {"warm", "check", "doctor"} <= set(complete("vcache "))
    assert complete("vcache war") == ["warm"]
    assert "--retry-errors" in complete("vcache warm --re")
    assert complete("vcache warm --stage ") == ["features", "pixels"]
    assert complete("vcache warm --on-full p") == ["prune"]
    assert complete("vcache verify --level h") == ["header"]


def test_installed_names_are_offered(complete: Complete) -> None:
    assert {"native", "omlx"} <= set(complete("vcache warm --target "))
    assert complete("vcache check --profile mlx") == ["mlx-vlm-0.7"]
    assert "mlx-vlm" in complete("vcache warm --backend ")
    assert "warm" in complete("vcache schema ")


def test_presets_are_offered_also_where_a_file_is_broken(complete: Complete) -> None:
    Path("vcache.toml").write_text("[preset.photos]\n[preset.papers]\n")
    assert complete("vcache warm --preset ph") == ["photos"]
    assert complete("vcache config --preset ") == ["papers", "photos"]
    Path("vcache.toml").write_text("[preset")
    assert complete("vcache warm --preset ") == []


def test_models_of_the_local_hugging_face_cache_are_offered(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert complete("vcache warm -m ") == []  # so the shell offers folders
    (tmp_path / "models--org--some-model").mkdir()
    assert complete("vcache warm -m or") == ["org/some-model"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_keys_of_the_store_that_the_line_names_are_offered(
    complete: Complete, warmed: Path, shell: str
) -> None:
    keys = sorted(path.stem for path in warmed.glob("??/*.safetensors"))
    offered = complete(f"vcache inspect -s {warmed} ", shell)
    assert [key for key in keys if not any(key in word for word in offered)] == []
    assert complete(f"vcache prune --store {warmed} --key {keys[3][:9]}") == [keys[3]]


def test_keys_are_offered_of_the_store_of_a_variable(
    complete: Complete, warmed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCACHE_STORE", str(warmed))
    assert len(complete("vcache inspect ")) == len(list(warmed.glob("??/*.safetensors")))


def test_where_there_is_no_store_nothing_is_offered(complete: Complete, tmp_path: Path) -> None:
    assert complete(f"vcache inspect -s {tmp_path / 'absent'} ") == []


def test_of_a_large_store_a_bound_of_keys_is_offered_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_meta(tmp_path / "s", target="native")
    for number in range(4096):
        name = f"{number:04x}".ljust(64, "0")
        folder = tmp_path / "s" / name[:2]
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.safetensors").touch()
    root = open_root(tmp_path / "s")
    scandir, listed = os.scandir, list[str]()

    def counted(path: str) -> Iterator[os.DirEntry[str]]:
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    assert len(glimpse_keys(root, "", most=50)) == 50
    assert listed == [str(tmp_path / "s/00")]  # each folder of them costs time
    assert glimpse_keys(root, "0ff", most=50)[0] == "0ff0".ljust(64, "0")
    assert len(glimpse_keys(root, "0ff", most=50)) == 16
    assert glimpse_keys(root, "zz", most=50) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_shown(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vcache_cli", "--show-completion", shell],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_VCACHE_COMPLETE=complete_{shell}" in done.stdout


def test_a_shell_without_completion_is_refused(vcache: Vcache) -> None:
    shown = vcache("--show-completion", "tcsh")
    assert shown.code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in shown.err


def test_completion_is_installed_for_the_shell_that_is_named(
    vcache: Vcache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert vcache("--install-completion", "fish").code == 0
    script = tmp_path / ".config/fish/completions/vcache.fish"
    assert "_VCACHE_COMPLETE=complete_fish" in script.read_text()


def test_no_word_is_offered_that_a_shell_would_run(complete: Complete) -> None:
    names = ("$(touch x)", "`touch x`", "a;b", "a b", "a\\nb", "\\u001b[31m", "caf\u00e9", "a-1.b")
    text = "".join(f'[preset."{name}"]\nmodel = "m"\n' for name in names)
    Path("vcache.toml").write_text(text, encoding="utf-8")
    for shell in ("bash", "zsh", "fish"):
        offered = " ".join(complete("vcache warm --preset ", shell))
        assert "a-1.b" in offered
        assert "caf\u00e9" in offered
        assert not set(offered) & set("$`;\x1b")
        assert "touch" not in offered
