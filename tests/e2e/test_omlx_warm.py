"""After `vcache warm --target omlx`, the server's first request is a hit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from samples.make_tiny_qwen import make_checkpoint
from tests.e2e.command import Run, aged, vcache
from tests.e2e.omlx_lookup import Answer, Engine
from tests.e2e.omlx_store import image, write

pytestmark = pytest.mark.filterwarnings("ignore:Palette images with Transparency")  # Pillow's

LEAST, MOST = 56 * 56, 28 * 28 * 16
SMALL = {"min_pixels": LEAST, "max_pixels": MOST}
"""Few patches, so that a tiny tower is quick; the server reads the same limits."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "Qwen2.5-VL-tiny", "qwen2_5_vl")


def tiny_model(folder: Path, family: str) -> Path:
    make_checkpoint(folder, family=family)
    path = folder / "preprocessor_config.json"
    settings = json.loads(path.read_text())
    settings.pop("size", None)
    path.write_text(json.dumps(settings | SMALL))
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every way in which a loader can go wrong, large ones among them."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(5)
    levels = rng.integers(0, 256, (90, 140, 4), np.uint8)
    rgba = Image.fromarray(levels)
    smooth = np.linspace(0, 255, 8000 * 3, dtype=np.uint8).reshape(1, 8000, 3)
    large = Image.fromarray(np.repeat(smooth, 6000, axis=0))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        rgba.convert("RGB").save(folder / f"exif-{orientation}.jpg", exif=exif)
        turned = Image.fromarray(np.resize(levels[:, :, :3], (300, 2500, 3)))
        turned.save(folder / f"large-exif-{orientation}.jpg", exif=exif)
    for mode in ("RGBA", "LA", "P", "1", "L"):
        rgba.convert(mode).save(folder / f"mode-{mode}.png")
        wide = Image.fromarray(np.resize(levels, (40, 2300, 4)))
        wide.convert(mode).save(folder / f"large-{mode}.png")
    rgba.convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray(levels[:, :, 0].astype(np.uint16) * 200).save(folder / "deep.png")
    palette = rgba.convert("RGB").quantize(16)
    palette.save(folder / "palette-key.png", transparency=3)
    large.save(folder / "48-megapixels.jpg", quality=90)
    Image.fromarray(np.resize(levels[:, :, :3], (200, 3000, 3))).save(folder / "3000x200.png")
    return aged(folder)


def warm(store: Path, model: Path, *more: object) -> Run:
    return vcache("warm", *more, "-m", model, "--target", "omlx", "-s", store, "--json")


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def answers(engine: Engine, requests: Sequence[Sequence[Path]]) -> list[Answer]:
    return [engine.ask(*(path.read_bytes() for path in request)) for request in requests]


@pytest.mark.slow
def test_every_warmed_picture_hits_alone_and_in_pairs(
    tmp_path: Path, model: Path, pictures: Path
) -> None:
    store = tmp_path / "vision_features"
    run = warm(store, model, pictures)
    found = files(pictures)
    assert run.code == 0
    assert run.document["target_options"] == {"model_name": str(model), "max_side": 2048}
    assert run.items["stored"] + run.items["copy"] == len(found)
    engine = Engine(store, str(model), LEAST, MOST)
    alone = answers(engine, [[path] for path in found])
    pairs = answers(engine, list(pairwise(found)))
    for what, asked in (("pictures", alone), ("pairs", pairs)):
        hits = [answer.hit for answer in asked].count("images")
        assert hits == len(asked), f"{what}: {hits} of {len(asked)} requests hit"
    assert (len(alone), len(pairs)) == (len(found), len(found) - 1)
    assert all(answer.skips_processor for answer in [*alone, *pairs])
    assert warm(store, model, pictures).items["present"] == len(found)
    assert vcache("check", pictures, "-m", model, "--target", "omlx", "-s", store).code == 0


def test_another_path_or_limit_of_the_server_misses(
    tmp_path: Path, model: Path, pictures: Path
) -> None:
    store, large = tmp_path / "vision_features", pictures / "3000x200.png"
    assert warm(store, model, large, "--model-name", "/srv/model").code == 0
    data = large.read_bytes()
    assert Engine(store, "/srv/model", LEAST, MOST).ask(data).hit == "images"
    assert Engine(store, str(model), LEAST, MOST).ask(data).hit == "none"
    assert Engine(store, "/srv/model", LEAST, MOST, max_side=0).ask(data).hit == "none"
    assert warm(store, model, large, "--model-name", "/srv/model", "--max-side", 0).code == 0
    assert Engine(store, "/srv/model", LEAST, MOST, max_side=0).ask(data).hit == "images"


def test_a_check_says_why_the_server_would_miss(
    tmp_path: Path, model: Path, pictures: Path
) -> None:
    store, picture = tmp_path / "vision_features", pictures / "exif-1.jpg"
    assert warm(store, model, picture, "--model-name", "/srv/old").code == 0
    words = ["check", picture, "-m", model, "--target", "omlx", "-s", store, "--json"]
    assert vcache(*words, "--model-name", "/srv/old").code == 0
    missed = vcache(*words, "--model-name", "/srv/new")
    assert missed.code == 5
    (cold,) = missed.document["cold_items"]
    assert "/srv/old" in cold["reason"]
    assert "/srv/new" in cold["reason"]
    (never,) = vcache(*words[:1], pictures / "mode-L.png", *words[2:]).document["cold_items"]
    assert never["reason"] == "no entry under its key"


def test_a_whole_request_hits_in_its_order_only(
    tmp_path: Path, model: Path, pictures: Path
) -> None:
    store, groups = tmp_path / "vision_features", pictures / "requests.jsonl"
    first, second = pictures / "exif-1.jpg", pictures / "mode-P.png"
    lines = [json.dumps([first.name, second.name]), "", json.dumps({"images": [str(second)]})]
    groups.write_text("\n".join(lines))
    run = warm(store, model, "--groups", groups)
    assert run.items["stored"] == 2
    engine = Engine(store, str(model), LEAST, MOST)
    one, two = first.read_bytes(), second.read_bytes()
    assert engine.ask(one, two).hit == "request"
    assert engine.ask(two, one).hit == "none"
    assert engine.ask(two).hit == "images"  # a request of one picture is that picture
    again = warm(store, model, "--groups", groups)
    assert again.items["present"] == 2
    assert again.document["bytes"]["read"] == 0
    groups.unlink()


def test_a_server_s_own_entries_stay_and_count(tmp_path: Path, model: Path, pictures: Path) -> None:
    store = tmp_path / "vision_features"
    theirs = write(store, "/models/other", image(1), 9 * 1024**3)
    before = theirs.stat()
    picture = pictures / "exif-1.jpg"
    assert warm(store, model, picture).items["stored"] == 1
    assert Engine(store, str(model), LEAST, MOST).ask(picture.read_bytes()).hit == "images"
    write(store, "/models/other", image(2), 1024**3 // 2)
    full = warm(store, model, pictures / "mode-L.png")
    assert full.code == 13
    assert (theirs.stat().st_mtime_ns, theirs.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    refused = warm(store, model, picture, "--max-size", "10GiB")
    assert refused.code == 16
    assert "9.5 GiB" in refused.document["error"]["message"]
    pruning = warm(store, model, picture, "--on-full", "prune")
    assert pruning.code == 16
    assert "vcache prune" in pruning.document["error"]["hint"]
    assert theirs.exists()


def test_models_that_the_server_would_answer_worse_for_are_refused(
    tmp_path: Path, pictures: Path
) -> None:
    lossy = tiny_model(tmp_path / "qwen3", "qwen3_vl")
    store, picture = tmp_path / "vision_features", pictures / "exif-1.jpg"
    refused = warm(store, lossy, picture)
    assert refused.code == 16
    assert "--allow-lossy" in refused.document["error"]["hint"]
    assert not store.exists()
    assert warm(store, lossy, picture, "--allow-lossy").code == 0


def test_a_model_without_a_vision_path_of_its_own_is_refused(
    tmp_path: Path, tiny_siglip: Path, pictures: Path
) -> None:
    run = warm(tmp_path / "vision_features", tiny_siglip, pictures / "exif-1.jpg")
    assert run.code == 15
    assert "siglip" in run.document["error"]["message"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 1"),
        ("[]", "line 1"),
        ('["a.jpg", 3]', "line 1"),
        ('{"images": "a.jpg"}', "JSON"),
    ],
)
def test_a_line_that_names_no_pictures_is_refused(
    tmp_path: Path, model: Path, line: str, told: str
) -> None:
    groups = tmp_path / "groups.jsonl"
    groups.write_text(line)
    run = warm(tmp_path / "vision_features", model, "--groups", groups)
    assert run.code == 2
    assert told in run.document["error"]["message"]


def test_a_picture_that_fails_fails_its_request_by_name(
    tmp_path: Path, model: Path, pictures: Path
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    groups = tmp_path / "groups.jsonl"
    groups.write_text(json.dumps([str(pictures / "exif-1.jpg"), "bad.jpg"]) + '\n["gone.jpg"]')
    run = warm(tmp_path / "vision_features", model, "--groups", groups)
    assert run.code == 3
    assert run.items["failed"] == 2
    messages = " ".join(each["message"] for each in run.document["failures"])
    assert "bad.jpg" in messages
    assert "gone.jpg" in messages


def test_a_target_without_requests_says_so(tmp_path: Path, tiny_siglip: Path) -> None:
    groups = tmp_path / "groups.jsonl"
    groups.write_text('["a.jpg"]')
    run = vcache("warm", "--groups", groups, "-m", tiny_siglip, "-s", tmp_path / "s", "--json")
    assert run.code == 2
    assert "looks each picture up alone" in run.document["error"]["message"]


def test_entries_of_older_weights_or_settings_are_made_anew(
    tmp_path: Path, model: Path, pictures: Path
) -> None:
    """The server's key names the model by its path alone: it would take the old ones for hits."""
    own = Path(shutil.copytree(model, tmp_path / "model"))
    store, picture = tmp_path / "vision_features", pictures / "exif-1.jpg"
    assert warm(store, own, picture).items["stored"] == 1
    (path,) = store.glob("?/*.safetensors")
    before = path.read_bytes()
    make_checkpoint(own, family="qwen2_5_vl", seed=7)
    shutil.copy(model / "preprocessor_config.json", own)
    check = ["check", picture, "-m", own, "--target", "omlx", "-s", store, "--json"]
    missed = vcache(*check)
    assert missed.code == 5
    (cold,) = missed.document["cold_items"]
    assert cold["reason"].startswith("the entry under its key was made with encoder.fingerprint")
    assert warm(store, own, picture).items["stored"] == 1
    assert path.read_bytes() != before
    assert vcache(*check).code == 0
    assert warm(store, own, picture, "--compute-dtype", "float32").items["present"] == 1
