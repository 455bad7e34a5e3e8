"""Bad input: the exact exit code, one clear line for people, one valid document for programs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.command import Run, entries, many, vcache
from tests.e2e.damaged import MODELS, PICTURES, broken_models


def _lines_of_problem(run: Run) -> list[str]:
    return [line for line in run.err.splitlines() if line.startswith("error: ")]


@pytest.fixture(scope="module")
def mixed(
    media: Path, tiny_siglip: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Path], Path, Run]:
    """Every bad picture by what is wrong, the store, and one run over them and a good one."""
    folder, good = tmp_path_factory.mktemp("mixed"), media / "hills.jpg"
    paths = {}
    for number, (what, (name, make, _, _)) in enumerate(PICTURES.items()):
        paths[what] = folder / f"corpus-{number}" / name
        paths[what].parent.mkdir(parents=True)
        make(paths[what], good)
    args = ("-m", tiny_siglip, "-s", folder / "store", "--json")
    return paths, folder / "store", vcache("warm", *paths.values(), good, *args)


@pytest.mark.parametrize("what", PICTURES)
def test_a_bad_picture_is_named_with_stage_kind_and_what_to_do(
    what: str, mixed: tuple[dict[str, Path], Path, Run]
) -> None:
    (paths, _, run), (_, _, stage, kind) = mixed, PICTURES[what]
    source = str(paths[what])
    [failure] = [each for each in run.document["failures"] if each["source"] == source]
    assert (failure["stage"], failure["kind"]) == (stage, kind)
    [line] = [line for line in run.err.splitlines() if line.startswith(source)]
    said, _, hint = line.removeprefix(f"{source}: {stage}: {kind}: ").partition("; ")
    assert said == failure["message"]
    assert hint


def test_bad_pictures_do_not_end_the_run(mixed: tuple[dict[str, Path], Path, Run]) -> None:
    _, store, run = mixed
    assert run.code == run.document["error"]["code"] == 3
    bad = len(PICTURES)
    assert (run.items["stored"], run.items["failed"], run.items["total"]) == (1, bad, bad + 1)
    assert _lines_of_problem(run) == [f"error: {bad} of {bad + 1} items failed"]
    assert len(entries(store)) == 1
    [log] = (store / ".vcache/runs").iterdir()
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    kinds = [line["error"]["kind"] for line in lines if line.get("status") == "failed"]
    assert sorted(kinds) == sorted(kind for _, _, _, kind in PICTURES.values())


@pytest.mark.parametrize("what", MODELS)
def test_a_bad_model_is_exit_15_saying_what_was_found(
    what: str, media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    model = broken_models(what, good=tiny_siglip, place=tmp_path / "model")
    run = vcache("warm", media, "-m", model, "-s", store, "--json")
    assert run.code == run.document["error"]["code"] == 15
    assert run.document["error"]["kind"] == "model"
    [line] = _lines_of_problem(run)
    assert MODELS[what][1] in line
    assert "expected" in line or "known: " in line
    assert not store.exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["warm", "MEDIA", "-s", "new"], 2, "no model"),
        (["warm", "-m", "MODEL", "-s", "new"], 2, "no source"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "new", "--max-errors", "few"], 2, "few"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "new", "--backend", "abacus"], 15, "numpy"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "new", "--dtype", "int3"], 2, "float32"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "new", "--stage", "soup"], 2, "pixels"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "new", "--shard", "0/2"], 2, "I/N"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "new", "--no-such-flag"], 2, "no-such-flag"),
        (["warm", "empty", "-m", "MODEL", "-s", "new"], 2, "empty"),
        (["warm", "*.tga", "-m", "MODEL", "-s", "new"], 2, "*.tga"),
        (["warm", "@none", "-m", "MODEL", "-s", "new"], 2, "none"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "occupied"], 16, "occupied"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "letter"], 10, "letter"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "new", "--max-size", "1KiB"], 13, "1.0 KiB"),
        (["warm", "MEDIA", "-m", "MODEL", "-s", "newer"], 12, "newer"),
        (["check", "MEDIA", "-m", "MODEL", "-s", "new"], 10, "new"),
        (["stats", "new"], 10, "new"),
        (["stats", "occupied"], 10, "occupied"),
        (["ls", "newer"], 12, "newer"),
        (["verify", "newer"], 12, "newer"),
        (["prune", "letter", "--older-than", "0s", "--yes"], 10, "letter"),
        (["inspect", "0" * 64, "-s", "STORE"], 2, "0000"),
        (["frobnicate"], 2, "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_said_in_one_line(
    media: Path,
    tiny_siglip: Path,
    warmed_once: Path,
    tmp_path: Path,
    *,
    words: list[str],
    code: int,
    said: str,
) -> None:
    _furnish(tmp_path, warmed_once)
    named = {"MEDIA": str(media), "MODEL": str(tiny_siglip), "STORE": str(warmed_once)}
    run = vcache(*(named.get(word, word) for word in words), "--json", cwd=tmp_path)
    assert run.code == run.document["error"]["code"] == code
    [line] = _lines_of_problem(run)
    assert said in line
    assert not entries(tmp_path / "new")


def _furnish(folder: Path, store: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "occupied").mkdir()
    (folder / "occupied/letter.txt").touch()
    (folder / "letter").touch()
    newer = Path(shutil.copytree(store, folder / "newer"))
    meta = newer / ".vcache/store.json"
    described = json.loads(meta.read_text("utf-8"))
    os.chmod(meta, 0o600)
    meta.write_text(json.dumps({**described, "format": described["format"] + 1}), "utf-8")


def test_people_are_told_what_to_do(samples: Path, tiny_siglip: Path, store: Path) -> None:
    args = ("warm", samples / "bad", "-m", tiny_siglip, "-s", store)
    run = vcache(*args)
    lines = [line for line in run.err.splitlines() if line.startswith(str(samples / "bad"))]
    assert len(lines) == len(list((samples / "bad").iterdir()))
    assert run.code == 3
    assert "hint: " in run.err
    assert "3" in run.out


def test_a_failure_is_remembered_until_it_is_tried_again(
    media: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "corpus/cut.jpg"
    bad.parent.mkdir()
    PICTURES["a truncated JPEG"][1](bad, media / "hills.jpg")
    os.utime(bad, (1, 1))
    args = ("warm", bad, "-m", tiny_siglip, "-s", store, "--json")
    first, again, retried = vcache(*args), vcache(*args), vcache(*args, "--retry-errors")
    assert [run.code for run in (first, again, retried)] == [3, 3, 3]
    assert first.document["failures"] == again.document["failures"]
    assert first.document["failures"] == retried.document["failures"]
    decoded = [run.document["seconds"]["decode"] > 0 for run in (first, again, retried)]
    assert decoded == [True, False, True]


@pytest.mark.parametrize("limit", ["--max-pixels", "--max-file-size"])
def test_what_passed_a_limit_is_tried_again_with_another(
    media: Path, tiny_siglip: Path, store: Path, tmp_path: Path, limit: str
) -> None:
    """The hint says to raise it."""
    picture = shutil.copyfile(media / "chart.png", tmp_path / "chart.png")
    os.utime(picture, (1, 1))
    args = ("warm", picture, "-m", tiny_siglip, "-s", store, "--stage", "pixels")
    assert [vcache(*args, limit, "1").code, vcache(*args).code] == [3, 0]


@pytest.mark.parametrize(
    ("flags", "failed", "code"),
    [
        (["--on-error", "fail"], 1, 3),
        (["--max-errors", "2"], 3, 3),
        (["--max-errors", "5%"], 2, 3),
        (["--max-errors", "50"], 10, 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_run_bears_as_many_failures_as_it_is_told_to(
    media: Path,
    tiny_siglip: Path,
    store: Path,
    tmp_path: Path,
    *,
    flags: list[str],
    failed: int,
    code: int,
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    many(corpus, media / "thumbnail.bmp", 90)
    for number in range(10, 20):
        (corpus / f"000{number}-bad.png").write_bytes(bytes([number]))
    run = vcache("warm", corpus, "-m", tiny_siglip, "-s", store, "--workers", 1, *flags, "--json")
    assert run.code == code
    assert run.items["failed"] >= failed
    stopped_early = run.items["total"] < 100
    assert stopped_early == (flags[-1] != "50")
    assert run.document["interrupted"] == stopped_early
