"""`vcache inspect --why-miss`: the part that differs, and a command that makes it hit."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from samples.make_tiny_checkpoints import make_checkpoint as make_siglip
from samples.make_tiny_qwen import make_checkpoint
from tests.cli.running import Result, Vcache
from vcache_cli.assemble import create_root
from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.items import Stage
from vcache_cli.store import DiskStore
from vcache_cli.targets.native import native_key
from vcache_cli.tensor import Tensor

QWEN = "qwen2_5_vl"

pytestmark = pytest.mark.usefixtures("_in_threads")


@pytest.fixture
def _in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VCACHE_ISOLATION", "thread")


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return settled(
        make_checkpoint(tmp_path_factory.mktemp("models") / "qwen", family=QWEN), max_pixels=12_544
    )


def settled(folder: Path, **settings: int) -> Path:
    """The model with other settings of its image processor."""
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    return folder


@pytest.fixture
def picture(media: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    return Path(shutil.copy(media / "hills.jpg", folder / "a b.jpg"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def reasons(result: Result) -> list[str]:
    found: list[str] = result.document["reasons"]
    return found


def rerun(vcache: Vcache, commands: list[str]) -> None:
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "vcache"
        assert vcache(*words).code == 0


def test_what_is_there_would_hit(
    vcache: Vcache, picture: Path, tiny_siglip: Path, store: Path
) -> None:
    asked = ("inspect", "--why-miss", picture, "-m", tiny_siglip, "-s", store)
    vcache("warm", picture, "-m", tiny_siglip, "-s", store)
    result = vcache(*asked, "--json")
    assert (result.code, result.document["would_hit"]) == (0, True)
    [key] = [path.stem for path in store.rglob("*.safetensors")]
    assert result.document["wanted"]["key"] == key
    assert "commands" not in result.document
    assert f"would hit: {key}" in vcache(*asked).out
    assert vcache(*asked, "-q").out == f"{key}\n"


def test_an_empty_store_says_so_and_its_command_helps(
    vcache: Vcache, picture: Path, media: Path, tiny_siglip: Path, store: Path
) -> None:
    vcache("warm", media / "chart.png", "-m", tiny_siglip, "-s", store)
    asked = ("inspect", "--why-miss", picture, "-m", tiny_siglip, "-s", store)
    result = vcache(*asked, "--json")
    assert (result.code, result.document["error"]["kind"]) == (5, "gate")
    assert reasons(result) == [
        "nothing in this store is of this picture",
        "entries of other pictures agree in model and settings: this one was not warmed",
    ]
    rerun(vcache, result.document["commands"])
    assert vcache(*asked).code == 0


def test_a_processor_setting_is_told_with_both_values(
    vcache: Vcache, picture: Path, qwen: Path, store: Path, tmp_path: Path
) -> None:
    vcache("warm", picture, "-m", qwen, "-s", store)
    other = settled(Path(shutil.copytree(qwen, tmp_path / "other")), max_pixels=6_272)
    result = vcache("inspect", "--why-miss", picture, "-m", other, "-s", store, "--json")
    told = "processor setting differs: max_pixels 12544 -> 6272"
    assert reasons(result) == [f"same bytes, {told}"]
    [near] = result.document["nearest"]
    assert [each["part"] for each in near["differs_in"]] == ["settings.max_pixels"]
    rerun(vcache, result.document["commands"])
    assert vcache("inspect", "--why-miss", picture, "-m", other, "-s", store).code == 0


def test_other_weights_are_told(
    vcache: Vcache, picture: Path, tiny_siglip: Path, store: Path, tmp_path: Path
) -> None:
    vcache("warm", picture, "-m", tiny_siglip, "-s", store)
    make_siglip(tmp_path / "other", family="siglip", shards=1, seed=1)
    result = vcache("inspect", "--why-miss", picture, "-m", tmp_path / "other", "-s", store)
    assert result.code == 5
    assert "same bytes, weights differ: " in result.out


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--dtype", "float32"), "stored dtype differs: BF16 -> F32"),
        (("--stage", "pixels"), "stage differs: features -> pixels"),
        (("--profile", "omlx"), "profile differs: transformers-pil-5 -> omlx"),
    ],
)
def test_what_a_flag_decides_can_be_asked_for_instead(
    vcache: Vcache,
    picture: Path,
    tiny_siglip: Path,
    store: Path,
    *,
    flags: tuple[str, ...],
    told: str,
) -> None:
    vcache("warm", picture, "-m", tiny_siglip, "-s", store)
    asked = ("inspect", "--why-miss", picture, "-m", tiny_siglip, "-s", store, *flags)
    result = vcache(*asked, "--json")
    assert reasons(result)[0].startswith(f"same bytes, {told}")
    rerun(vcache, result.document["instead_commands"])
    rerun(vcache, result.document["commands"])
    assert vcache(*asked).code == 0


def test_a_changed_file_is_found_by_its_name(
    vcache: Vcache, picture: Path, media: Path, tiny_siglip: Path, store: Path
) -> None:
    vcache("warm", picture, "-m", tiny_siglip, "-s", store)
    shutil.copy(media / "chart.png", picture)
    result = vcache("inspect", "--why-miss", picture, "-m", tiny_siglip, "-s", store, "--json")
    [reason] = reasons(result)
    assert reason.startswith("same picture file name, bytes changed since (sha256 ")
    moved = picture.parent.parent / "elsewhere" / picture.name
    moved.parent.mkdir()
    shutil.copy(media / "chart.png", moved)
    result = vcache("inspect", "--why-miss", moved, "-m", tiny_siglip, "-s", store, "--json")
    assert reasons(result)[0].startswith("a file of the same name was warmed elsewhere")


def test_a_damaged_entry_is_damage_and_its_commands_mend_it(
    vcache: Vcache, picture: Path, tiny_siglip: Path, store: Path
) -> None:
    vcache("warm", picture, "-m", tiny_siglip, "-s", store)
    [file] = store.rglob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    os.chmod(file, 0o600)
    file.write_bytes(data)
    asked = ("inspect", "--why-miss", picture, "-m", tiny_siglip, "-s", store)
    result = vcache(*asked, "--json")
    assert (result.code, result.document["state"]) == (4, "damaged")
    rerun(vcache, result.document["commands"])
    assert vcache(*asked).code == 0


def test_omlx_misses_under_another_model_name(
    vcache: Vcache, picture: Path, qwen: Path, store: Path
) -> None:
    common = ("-m", qwen, "-s", store, "--backend", "numpy")
    vcache("warm", picture, *common, "--target", "omlx", "--model-name", "/m/a")
    asked = ("inspect", "--why-miss", picture, *common, "--model-name", "/m/b")
    result = vcache(*asked, "--json")
    told = "stored for --model-name /m/a, the server would ask for /m/b"
    assert reasons(result) == [f"same bytes, {told}"]
    assert result.document["wanted"]["server"]["model_name"] == "/m/b"
    rerun(vcache, result.document["instead_commands"])
    rerun(vcache, result.document["commands"])
    assert vcache(*asked).code == 0


def test_omlx_would_take_what_is_out_of_date(
    vcache: Vcache, picture: Path, qwen: Path, store: Path, tmp_path: Path
) -> None:
    common = ("-s", store, "--backend", "numpy", "--target", "omlx", "--model-name", "/m/a")
    vcache("warm", picture, "-m", qwen, *common)
    other = settled(Path(shutil.copytree(qwen, tmp_path / "other")), max_pixels=6_272)
    asked = ("inspect", "--why-miss", picture, "-m", other, *common)
    result = vcache(*asked, "--json")
    assert (result.code, result.document["state"]) == (5, "stale")
    assert "max_pixels 12544 -> 6272" in reasons(result)[0]
    rerun(vcache, result.document["commands"])
    assert vcache(*asked).code == 0


def test_vllm_entries_are_known_by_the_recipes_beside_them(
    vcache: Vcache, picture: Path, qwen: Path, store: Path, tmp_path: Path
) -> None:
    common = ("-s", store, "--backend", "numpy", "--target", "vllm-ec")
    vcache("warm", picture, "-m", qwen, *common)
    for index in (store / ".vcache").glob("index*"):
        index.unlink()
    other = settled(Path(shutil.copytree(qwen, tmp_path / "other")), max_pixels=6_272)
    asked = ("inspect", "--why-miss", picture, "-m", other, *common)
    result = vcache(*asked, "--json")
    told = "processor setting differs: max_pixels 12544 -> 6272"
    assert reasons(result) == [f"same bytes, {told}"]
    shutil.rmtree(store / ".vcache/recipes")
    assert reasons(vcache(*asked, "--json")) == ["nothing in this store is of this picture"]


def test_a_vllm_store_of_another_model_needs_another_store(
    vcache: Vcache, picture: Path, qwen: Path, store: Path, tmp_path: Path
) -> None:
    common = ("--backend", "numpy", "--target", "vllm-ec")
    vcache("warm", picture, "-m", qwen, "-s", store, *common)
    other = make_checkpoint(tmp_path / "other", family=QWEN, seed=3)
    result = vcache("inspect", "--why-miss", picture, "-m", other, "-s", store, *common, "--json")
    assert result.document["state"] == "other_model"
    [command] = result.document["commands"]
    rerun(vcache, [command])
    assert (tmp_path / "store-other").is_dir()


@pytest.mark.parametrize(
    ("name", "code"),
    [("bad/truncated.jpg", 3), ("media", 2), ("missing.png", 2), ("media/clip.mp4", 3)],
)
def test_what_is_no_one_picture_is_told(
    vcache: Vcache, samples: Path, tiny_siglip: Path, store: Path, *, name: str, code: int
) -> None:
    create_root(store, target="native")
    result = vcache("inspect", "--why-miss", samples / name, "-m", tiny_siglip, "-s", store)
    assert result.code == code
    assert "internal" not in result.err


def test_options_of_the_question_are_refused_without_it(
    vcache: Vcache, picture: Path, tiny_siglip: Path, store: Path
) -> None:
    result = vcache("inspect", picture, "-s", store, "-m", tiny_siglip)
    assert (result.code, "belongs to `--why-miss`" in result.err) == (2, True)


HOSTILE: tuple[dict[str, Any], ...] = (
    {},
    {"settings": [1, 2], "encoder": "x", "stage": 5, "target_options": [], "profile": ["\x1b[2J"]},
    {"stage": {"a": 1}, "encoder": {"stored_dtype": {"b": []}, "fingerprint": 7}, "family": None},
    {"settings": {"\x1b]0;x\x07": "\n" * 300, "x" * 5000: {"y": {"z": {"deep": [[[[1]]]]}}}}},
    {"settings": {f"n{number}": number for number in range(3000)}},
    {
        "stage": "pixels",
        "profile": "../../etc",
        "target_options": {"model_name": 1, "max_side": "a"},
    },
)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_an_entry_may_say_anything_of_itself(
    vcache: Vcache, picture: Path, tiny_siglip: Path, store: Path, number: int
) -> None:
    recipe = HOSTILE[number]
    digest = digest_bytes(picture.read_bytes())
    key = native_key(Stage.FEATURES, digest, digest_json(recipe))
    made = Provenance(source_sha256=digest, recipe=recipe, model="\x1b[31mred")
    entry = Entry(key, Stage.FEATURES, {"features": Tensor("F32", (1, 1), b"\0" * 4)}, made)
    with DiskStore(create_root(store, target="native"), mode="w") as disk:
        disk.put(entry)
    result = vcache("inspect", "--why-miss", picture, "-m", tiny_siglip, "-s", store)
    assert result.code == 5
    assert "\x1b" not in result.out + result.err
    assert len(result.out) < 5_000
    words = ("inspect", "--why-miss", picture, "-m", tiny_siglip, "-s", store, "--json")
    assert vcache(*words).document["state"] == "cold"


def test_a_reason_is_said_once_and_without_a_view_it_is_said_all_the_same(
    vcache: Vcache, picture: Path, media: Path, tiny_siglip: Path, store: Path
) -> None:
    vcache("warm", media / "chart.png", "-m", tiny_siglip, "-s", store)
    asked = ("inspect", "--why-miss", picture, "-m", tiny_siglip, "-s", store)
    shown = vcache(*asked)
    assert shown.code == 5
    assert (shown.out + shown.err).count("nothing in this store is of this picture") == 1
    assert (shown.out + shown.err).count("vcache warm") == 1
    quiet = vcache(*asked, "-q")
    assert "nothing in this store is of this picture" in quiet.err
    assert "hint: run `vcache warm" in quiet.err
