"""`vcache inspect --picture`: a PNG of what the model sees, over nobody else's file."""

from __future__ import annotations

import json
import shlex
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from samples.make_tiny_qwen import make_checkpoint
from tests.cli.running import Vcache
from vcache_cli.assemble import create_root
from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.items import Stage
from vcache_cli.store import DiskStore
from vcache_cli.targets.native import native_key
from vcache_cli.tensor import Tensor

pytestmark = pytest.mark.usefixtures("_in_threads")
QWEN = "qwen2_5_vl"


@pytest.fixture
def _in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VCACHE_ISOLATION", "thread")


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("models") / "qwen", family=QWEN)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.png"


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        image.load()
        return image.size


def models(folder: Path) -> dict[str, Path]:
    """Folders of JSON alone: pixels need no weights."""
    vision = {"patch_size": 14, "image_size": 112}
    side = {"height": 112, "width": 112}
    families: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "idefics3": (
            {"scale_factor": 2},
            {"size": {"longest_edge": 448}, "max_image_size": {"longest_edge": 112}},
        ),
        "internvl": (
            {"downsample_ratio": 0.5},
            {"image_processor_type": "GotOcr2ImageProcessor", "size": side},
        ),
        "pixtral": ({}, {"size": {"longest_edge": 256}}),
        "gemma3": ({"mm_tokens_per_image": 16}, {"size": side}),
    }
    for name, (config, settings) in families.items():
        (folder / name).mkdir(parents=True)
        every = {"model_type": name, "vision_config": vision, **config}
        (folder / name / "config.json").write_text(json.dumps(every))
        (folder / name / "preprocessor_config.json").write_text(json.dumps(settings))
    return {name: folder / name for name in families}


@pytest.mark.parametrize(
    ("family", "seen"),
    [
        ("idefics3", "what the model sees, 13 tiles of 112 x 112, 208 tokens"),
        ("internvl", "what the model sees, 13 tiles of 112 x 112, 208 tokens"),
        ("pixtral", "what the model sees, 256 x 192, 192 tokens"),
        ("gemma3", "what the model sees, 112 x 112, 16 tokens"),
    ],
)
def test_each_form_of_pixels_is_drawn_beside_its_source(
    vcache: Vcache, media: Path, tmp_path: Path, out: Path, *, family: str, seen: str
) -> None:
    model = models(tmp_path / "models")[family]
    words = ("inspect", "--picture", out, media / "hills.jpg", "-m", model, "--json")
    picture = vcache(*words).document["picture"]
    assert picture["panels"] == ["source, 320 x 240", seen]
    assert (picture["path"], picture["width"], picture["height"]) == (str(out), *size_of(out))


def test_frames_of_a_clip_become_a_contact_sheet(
    vcache: Vcache, media: Path, qwen: Path, out: Path
) -> None:
    result = vcache("inspect", "--picture", out, media / "clip.mp4", "-m", qwen)
    assert "what the model sees, 12 frames of 168 x 112, 144 tokens" in result.out
    assert size_of(out)[0] > 500


def test_an_entry_of_features_has_their_map_beside_its_source(
    vcache: Vcache, media: Path, qwen: Path, out: Path, tmp_path: Path
) -> None:
    source = Path(shutil.copy(media / "hills.jpg", tmp_path / "a.jpg"))
    store = tmp_path / "store"
    vcache("warm", source, "-m", qwen, "-s", store, "--backend", "numpy")
    found = vcache("inspect", "--picture", out, source, "-s", store, "--json").document
    assert [panel.split(":")[0] for panel in found["picture"]["panels"]] == [
        "source, 320 x 240",
        "what the model sees, 308 x 252, 99 tokens",
        "features, 99 x 48",
    ]
    source.unlink()
    key = found["key"]
    alone = vcache("inspect", "--picture", out, key, "-s", store, "--json").document["picture"]
    assert len(alone["panels"]) == 1
    assert alone["note"].startswith(str(source))


def test_an_entry_of_pixels_is_drawn_from_itself(
    vcache: Vcache, media: Path, qwen: Path, out: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    vcache("warm", media / "hills.jpg", "-m", qwen, "-s", store, "--stage", "pixels")
    [file] = store.rglob("*.safetensors")
    panels = vcache("inspect", "--picture", out, file, "--json").document["picture"]["panels"]
    assert panels == ["source, 320 x 240", "what the model sees, 308 x 252, 99 tokens"]


def test_an_entry_of_vllm_is_drawn_by_the_recipe_beside_it(
    vcache: Vcache, media: Path, qwen: Path, out: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    common = ("--target", "vllm-ec", "--backend", "numpy")
    vcache("warm", media / "hills.jpg", "-m", qwen, "-s", store, *common)
    words = ("inspect", "--picture", out, media / "hills.jpg", "-s", store, "--json")
    assert len(vcache(*words).document["picture"]["panels"]) == 3


def test_nothing_of_others_is_replaced(
    vcache: Vcache, media: Path, qwen: Path, out: Path, tmp_path: Path
) -> None:
    mine = Path(shutil.copy(media / "chart.png", tmp_path / "mine.png"))
    (tmp_path / "link.png").symlink_to(mine)
    (tmp_path / "folder.png").mkdir()
    before = mine.read_bytes()
    for name in ("mine.png", "link.png", "folder.png"):
        words = ("inspect", "--picture", tmp_path / name, media / "hills.jpg", "-m", qwen)
        assert vcache(*words).code == 16
    assert mine.read_bytes() == before
    missing = tmp_path / "none" / "a.png"
    assert vcache("inspect", "--picture", missing, media / "hills.jpg", "-m", qwen).code == 2
    for _ in range(2):
        assert vcache("inspect", "--picture", out, media / "hills.jpg", "-m", qwen).code == 0
    assert {path.name for path in tmp_path.glob("out*")} == {"out.png"}


def test_what_cannot_be_drawn_is_told(
    vcache: Vcache, samples: Path, tiny_siglip: Path, tmp_path: Path, out: Path
) -> None:
    store = create_root(tmp_path / "store", target="native").path
    for name, code in (("bad/truncated.jpg", 2), ("media/clip.mp4", 15), ("missing", 2)):
        words = ("inspect", "--picture", out, samples / name, "-m", tiny_siglip)
        assert vcache(*words).code == code
    assert vcache("inspect", "--picture", out, "0000", "-s", store).code == 2
    assert not out.exists()
    both = ("inspect", "--why-miss", "--picture", out, samples / "media/hills.jpg")
    assert vcache(*both, "-m", tiny_siglip, "-s", store).code == 2


SIGLIP = {
    "target": "native",
    "profile": "transformers-pil-5",
    "profile_revision": 1,
    "family": "siglip",
    "family_revision": 1,
    "target_options": {},
}
RESCALED: dict[str, Any] = {
    "size": {"height": 8, "width": 8},
    "rescale_factor": 1,
    "resample": 2,
    "extra_tokens": 0,
    **dict.fromkeys(("do_resize", "do_rescale", "do_normalize", "do_convert_rgb"), True),
}
HOSTILE: tuple[dict[str, Any], ...] = (
    {},
    {**SIGLIP, "settings": {"size": {"height": 10**9, "width": 10**9}, "do_resize": True}},
    {**SIGLIP, "settings": {"image_std": [0, 0, 0], "do_normalize": True}},
    {**SIGLIP, "settings": {**RESCALED, "image_mean": 0.5, "image_std": True}},
    {**SIGLIP, "family": "internvl", "settings": {"max_tiles": 10**9, "grid": "more-tiles"}},
    {**SIGLIP, "family": "../x", "settings": {"clip": {"sampling": {"num_frames": 10**12}}}},
    {**SIGLIP, "profile": "omlx", "target_options": {"max_side": "x"}, "settings": {}},
)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
@pytest.mark.parametrize("stage", Stage)
def test_an_entry_may_say_anything_of_itself(
    vcache: Vcache, media: Path, out: Path, tmp_path: Path, *, number: int, stage: Stage
) -> None:
    encoder = {"tower": "t", "revision": 1, "fingerprint": "f", "output": "hidden"}
    encoder |= {"compute_dtype": "F32", "stored_dtype": "F32"}
    recipe = {**HOSTILE[number], "stage": stage.value}
    if stage is Stage.FEATURES:
        recipe["encoder"] = encoder
    picture = media / "hills.jpg"
    digest = digest_bytes(picture.read_bytes())
    key = native_key(stage, digest, digest_json(recipe))
    name = "features" if stage is Stage.FEATURES else "pixel_values"
    values = np.array([[np.nan, 1, np.inf]] * 12, np.float32).reshape(3, 4, 3)
    made = Provenance(source_sha256=digest, recipe=recipe)
    entry = Entry(key, stage, {name: Tensor.from_numpy(values)}, made)
    with DiskStore(create_root(tmp_path / "store", target="native"), mode="w") as disk:
        disk.put(entry)
    result = vcache("inspect", "--picture", out, picture, "-s", tmp_path / "store")
    assert (result.code, result.err) == (0, "")
    assert max(size_of(out)) < 3000


@pytest.mark.usefixtures("_in_threads")
def test_a_picture_that_was_not_warmed_is_drawn_as_the_model_of_the_settings_sees_it(
    vcache: Vcache, media: Path, tiny_siglip: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("inspect", "--picture", out, media / "hills.jpg", "-s", out.parent / "none")
    assert "add `--model DIR`" in vcache(*asked).err
    monkeypatch.setenv("VCACHE_MODEL", str(tiny_siglip))
    shown = vcache(*asked)
    assert (shown.code, out.exists()) == (0, True)
    assert "what the model sees, 64 x 64" in shown.out


@pytest.mark.usefixtures("_in_threads")
def test_a_member_of_an_archive_is_found_by_the_name_that_a_warm_prints(
    vcache: Vcache, media: Path, tiny_siglip: Path, out: Path
) -> None:
    archive = out.parent / "old albums.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(media / "chart.png", "album/chart 1.png")
        tar.add(media / "hills.jpg", "album/hills \N{PARTY POPPER}.jpg")
    store, member = out.parent / "store", f"{archive}::album/hills \N{PARTY POPPER}.jpg"
    vcache("warm", media / "chart.png", "-m", tiny_siglip, "-s", store)
    missed = vcache("inspect", "--why-miss", member, "-m", tiny_siglip, "-s", store, "--json")
    [command] = missed.document["commands"]
    assert vcache(*shlex.split(command)[1:]).code == 0
    found = vcache("inspect", member, "-s", store, "--json").document
    assert found["source_sha256"] == digest_bytes((media / "hills.jpg").read_bytes())
    assert vcache("inspect", "--why-miss", member, "-m", tiny_siglip, "-s", store).code == 0
    assert "features, 64 x 32" in vcache("inspect", "--picture", out, member, "-s", store).out
    seen = vcache("inspect", "--picture", out, member, "-m", tiny_siglip)
    assert "what the model sees" in seen.out
    assert vcache("inspect", f"{archive}::album/hills", "-s", store).code == 2
