"""One corpus as a folder, archives, a table and logs: the same entries, never made twice."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from samples.make_tiny_qwen import make_checkpoint
from tests.cli.running import Vcache, running
from tests.e2e.command import HOUR_SECONDS, aged, entries, keys, vcache
from tests.e2e.omlx_lookup import Engine
from tests.e2e.test_omlx_warm import LEAST, MOST, tiny_model
from tests.media.clips import made_clip
from tests.media.containers import (
    chat,
    clip_uri,
    filmed_chat,
    filmed_messages,
    filmed_responses,
    log,
    make_parquet,
    make_tar,
    make_zip,
    messages,
    responses,
    uri,
)

Make = Callable[[Path, dict[str, bytes]], Path]


def pairs(members: dict[str, bytes]) -> list[list[bytes]]:
    """Requests of two pictures each."""
    data = list(members.values())
    return [data[at : at + 2] for at in range(0, len(data), 2)]


def chat_log(folder: Path, members: dict[str, bytes]) -> Path:
    return log(folder / "log.jsonl", [chat(*map(uri, each)) for each in pairs(members)])


def responses_log(folder: Path, members: dict[str, bytes]) -> Path:
    bodies = [responses(*map(uri, each)) for each in pairs(members)]
    lines = [
        {"custom_id": "x", "method": "POST", "url": "/v1/responses", "body": b} for b in bodies
    ]
    return log(folder / "log.jsonl", lines)


def messages_log(folder: Path, members: dict[str, bytes]) -> Path:
    return log(folder / "log.jsonl", [{"request": messages(*each)} for each in pairs(members)])


def log_of_files(folder: Path, members: dict[str, bytes]) -> Path:
    for name, data in members.items():
        (folder / name).write_bytes(data)
    return log(folder / "log.jsonl", [chat(*members)])


MAKERS: dict[str, Make] = {
    "tar": lambda folder, members: make_tar(folder / "c.tar", members),
    "zip": lambda folder, members: make_zip(folder / "c.zip", members),
    "parquet": lambda folder, members: make_parquet(
        folder / "c.parquet", members, row_group_size=4
    ),
    "folder of shards": lambda folder, members: make_tar(folder / "c.tar", members).parent,
    "chat": chat_log,
    "responses": responses_log,
    "messages": messages_log,
    "files of a log": log_of_files,
}


@pytest.fixture(scope="module")
def pictures(media: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A flat folder of a dozen pictures."""
    folder = tmp_path_factory.mktemp("flat")
    for path in media.iterdir():
        if path.is_file() and path.suffix != ".mp4":
            shutil.copy(path, folder)
    return aged(folder)


@pytest.fixture(scope="module")
def members(pictures: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(pictures.iterdir())}


@pytest.fixture(scope="module")
def by_folder(
    pictures: Path, tiny_siglip: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[set[str], str]:
    """Keys of the entries, and the key of the corpus."""
    store = tmp_path_factory.mktemp("by-folder") / "store"
    assert vcache("warm", pictures, "-m", tiny_siglip, "-s", store).code == 0
    return set(entries(store)), vcache("key", pictures, "-m", tiny_siglip).out


@pytest.mark.parametrize("form", sorted(MAKERS))
def test_every_form_of_a_corpus_gives_the_same_keys_and_is_present_the_second_time(
    tmp_path: Path,
    members: dict[str, bytes],
    by_folder: tuple[set[str], str],
    tiny_siglip: Path,
    form: str,
) -> None:
    (tmp_path / "in").mkdir()
    source = MAKERS[form](tmp_path / "in", members)
    aged(tmp_path / "in")
    args = ("warm", source, "-m", tiny_siglip, "-s", tmp_path / "s", "--json")
    first, second = vcache(*args), vcache(*args)
    assert first.code == second.code == 0
    assert first.items["stored"] == first.items["total"] == len(members)
    assert (set(entries(tmp_path / "s")), vcache("key", source, "-m", tiny_siglip).out) == by_folder
    assert second.items["present"] == len(members)
    assert second.document["bytes"] == {"read": 0, "written": 0}
    assert second.document["seconds"]["decode"] == 0


def filmed_logs(folder: Path, clips: dict[str, bytes], picture: bytes) -> dict[str, Path]:
    """Requests of a clip, and of a picture beside it, in each form."""
    (folder / "files").mkdir(parents=True)
    for name, data in clips.items():
        (folder / "files" / name).write_bytes(data)
    (folder / "files" / "p.png").write_bytes(picture)
    made: dict[str, list[object]] = {
        "chat": [filmed_chat(clip_uri(each), uri(picture)) for each in clips.values()],
        "responses": [filmed_responses(clip_uri(each), uri(picture)) for each in clips.values()],
        "messages": [filmed_messages(each, picture) for each in clips.values()],
        "files/log": [filmed_chat(name, "p.png") for name in clips],
    }
    return {name: log(folder / f"{name}.jsonl", lines) for name, lines in made.items()}


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vcache:
    """The command in this process: here many runs of it are compared."""
    monkeypatch.setenv("VCACHE_ISOLATION", "thread")
    return running(capsys)


def test_clips_of_logs_have_the_keys_of_files_and_are_present_the_second_time(
    tmp_path: Path, members: dict[str, bytes], here: Vcache
) -> None:
    model = make_checkpoint(tmp_path / "model", family="qwen3_vl")
    clips = {"a.mp4": made_clip(12), "b.mkv": made_clip(9, "matroska", first=50)}
    picture = next(data for name, data in members.items() if name.endswith(".png"))
    logs = filmed_logs(tmp_path / "logs", clips, picture)
    sources = {**logs, "tar": make_tar(tmp_path / "c.tar", {**clips, "p.png": picture})}
    aged(tmp_path)
    words = ("-m", model, "--stage", "pixels", "--json")
    folder = ("warm", tmp_path / "logs" / "files", *words, "-s", tmp_path / "files")
    assert here(*folder).document["items"]["stored"] == 3
    for form, source in sources.items():
        store = tmp_path / "stores" / form
        first = here("warm", source, *words, "-s", store)
        assert first.code == 0, first.err
        assert set(entries(store)) == set(entries(tmp_path / "files")), form
        second = here("warm", source, *words, "-s", store)
        items = second.document["items"]
        assert items["present"] == items["total"], form
        assert second.document["bytes"] == {"read": 0, "written": 0}


def test_clips_of_a_log_are_skipped_where_the_model_takes_none(
    tmp_path: Path, members: dict[str, bytes], tiny_siglip: Path, here: Vcache
) -> None:
    data = next(iter(members.values()))
    path = log(tmp_path / "l.jsonl", [filmed_chat(clip_uri(made_clip(3)), uri(data))])
    run = here("warm", path, "-m", tiny_siglip, "-s", tmp_path / "s", "--json")
    assert run.code == 0
    assert run.document["skips"] == {"video": 1}
    assert run.document["items"]["stored"] == 1


def test_damage_is_one_failure_after_what_came_before(
    tmp_path: Path, members: dict[str, bytes], tiny_siglip: Path
) -> None:
    path = make_tar(tmp_path / "c.tar", members)
    os.truncate(path, path.stat().st_size // 2)
    run = vcache("warm", path, "-m", tiny_siglip, "-s", tmp_path / "s", "--json")
    assert run.code == 3
    assert run.items["stored"] > 2
    (failure,) = run.document["failures"]
    assert (failure["source"], failure["stage"], failure["kind"]) == (
        str(path),
        "discover",
        "damaged",
    )
    assert vcache("key", path, "-m", tiny_siglip).code == 3


def test_a_picture_that_fails_is_named_by_its_archive(tmp_path: Path, tiny_siglip: Path) -> None:
    path = make_zip(tmp_path / "c.zip", {"a/bad.jpg": b"\xff\xd8\xff\xe0 no picture"})
    run = vcache("warm", path, "-m", tiny_siglip, "-s", tmp_path / "s", "--json")
    assert run.code == 3
    assert run.document["failures"][0]["source"] == f"{path}::a/bad.jpg"


def test_a_log_line_that_is_not_json_is_one_warning_with_its_number(
    tmp_path: Path, members: dict[str, bytes], tiny_siglip: Path
) -> None:
    data = next(iter(members.values()))
    path = log(tmp_path / "l.jsonl", [chat(uri(data)), "{oh", chat("https://example.com/a.png")])
    run = vcache("warm", path, "-m", tiny_siglip, "-s", tmp_path / "s", "--json")
    assert run.code == 0
    told = [(each["source"], each["kind"]) for each in run.document["warnings"]]
    assert (f"{path}::line 2", "log_line") in told
    assert (f"{path}::line 3 image 1", "http_not_allowed") in told
    assert run.items["stored"] == 1
    assert f"{path}::line 2: warning: log_line: not JSON" in run.err


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/a.png", "http://169.254.169.254/latest"])
def test_an_address_of_this_machine_is_refused_even_where_http_is_allowed(
    tmp_path: Path, tiny_siglip: Path, url: str
) -> None:
    path = log(tmp_path / "l.jsonl", [chat(url)])
    words = ["warm", path, "-m", tiny_siglip, "-s", tmp_path / "s", "--allow-http", "--json"]
    run = vcache(*words)
    assert run.code == 3
    assert run.document["failures"][0]["kind"] == "refused_address"


def test_files_of_a_log_are_read_below_the_media_root_alone(
    tmp_path: Path, pictures: Path, members: dict[str, bytes], tiny_siglip: Path
) -> None:
    name = next(iter(members))
    path = log(tmp_path / "l.jsonl", [chat(str(pictures / name))])
    words = ["warm", path, "-m", tiny_siglip, "-s", tmp_path / "s", "--json"]
    refused = vcache(*words)
    assert refused.code == 3
    assert refused.document["failures"][0]["kind"] == "outside_root"
    assert "--media-root" in refused.document["failures"][0]["hint"]
    assert vcache(*words, "--media-root", pictures).items["stored"] == 1
    assert vcache(*words, "--media-root", tmp_path / "none").code == 2


def test_shards_of_a_corpus_share_what_lies_in_archives(
    tmp_path: Path, members: dict[str, bytes], tiny_siglip: Path
) -> None:
    path = make_tar(tmp_path / "c.tar", members)
    words = ["warm", path, "-m", tiny_siglip, "-s", tmp_path / "s", "--json"]
    totals = [vcache(*words, "--shard", f"{part}/2").items["total"] for part in (1, 2)]
    assert sum(totals) == len(members)
    assert len(entries(tmp_path / "s")) == len(set(members.values()))


def test_what_lies_in_an_archive_is_not_pruned(
    tmp_path: Path, members: dict[str, bytes], tiny_siglip: Path
) -> None:
    path = make_tar(tmp_path / "c.tar", members)
    kept = make_zip(tmp_path / "kept.zip", dict(list(members.items())[:2]))
    vcache("warm", path, "-m", tiny_siglip, "-s", tmp_path / "s")
    words = ["prune", "-s", tmp_path / "s", "--yes", "--grace", "0s", "--json", "--not-in"]
    assert vcache(*words, path).document["removed"] == 0
    assert vcache(*words, kept).code == 0
    assert len(entries(tmp_path / "s")) == 2
    os.truncate(kept, 50)
    refused = vcache(*words, kept)
    assert refused.code == 2
    assert "nothing was removed" in refused.document["error"]["message"]


def test_entries_of_members_are_computed_anew(
    tmp_path: Path, members: dict[str, bytes], tiny_siglip: Path
) -> None:
    vcache("warm", make_tar(tmp_path / "c.tar", members), "-m", tiny_siglip, "-s", tmp_path / "s")
    words = ["verify", "-s", tmp_path / "s", "--level", "recompute", "-m", tiny_siglip]
    assert vcache(*words, "--json").code == 0
    listed = vcache("ls", "-s", tmp_path / "s", "--json").document["entries"]
    assert len(keys(listed)) == len(set(members.values()))


@pytest.mark.slow
def test_the_requests_of_a_log_hit_in_the_server(tmp_path: Path, pictures: Path) -> None:
    model = tiny_model(tmp_path / "Qwen2.5-VL-tiny", "qwen2_5_vl")
    first, second, third = [path.read_bytes() for path in sorted(pictures.glob("*.jpg"))[:3]]
    lines: list[object] = [chat(uri(first), uri(second)), messages(second, third, first), "junk"]
    path = log(tmp_path / "log.jsonl", [*lines, responses(uri(third))])
    then = path.stat().st_mtime - HOUR_SECONDS
    os.utime(path, (then, then))
    store = tmp_path / "vision_features"
    run = vcache("warm", path, "-m", model, "--target", "omlx", "-s", store, "--json")
    assert run.code == 0
    assert run.items["stored"] == 3 + 2  # three pictures, two requests of several
    requests = [[first, second], [second, third, first], [third]]
    engine = Engine(store, str(model), LEAST, MOST)
    assert [engine.ask(*each).hit for each in requests] == ["images"] * 3
    only = tmp_path / "only"
    words = ["warm", "--groups", path, "-m", model, "--target", "omlx", "-s", only, "--json"]
    assert vcache(*words).items["stored"] == 3
    engine = Engine(only, str(model), LEAST, MOST)
    assert [engine.ask(*each).hit for each in requests] == ["request", "request", "images"]
    assert engine.ask(second, first).hit == "none"
    again = vcache(*words)
    assert again.items["present"] == 3
    assert again.document["bytes"]["read"] == 0
    assert json.dumps(again.document["skips"]) == '{"log_line": 1}'
