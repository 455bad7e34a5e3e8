"""Tiles of InternVL against the installed processors of both servers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.parity.fixtures import Fixtures, differing
from tests.parity.tally import Tally
from tests.parity.words import write_tokenizer
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.items import Frames
from vcache_cli.preprocess.internvl import FAMILY, internvl_plan
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, OMLX, TRANSFORMERS_PIL_5
from vcache_cli.preprocess.tiles import TilePreprocessor
from vcache_cli.profile import Profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

MARKS = ("<IMG_CONTEXT>", "<img>", "</img>")
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
SIDES = range(16, 16 * 250, 16)
"""249 of them: among 62,001 pairs are many where two grids are equally near."""


def found(side: int = 448, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  JSON values
    """Settings of an image processor as transformers publishes them."""
    nulls = ("crop_size", "device", "do_center_crop", "input_data_format", "return_tensors")
    steps = ("default_to_square", "do_convert_rgb", "do_normalize", "do_rescale", "do_resize")
    return {
        **dict.fromkeys(nulls),
        **dict.fromkeys(steps, True),
        **IMAGENET,
        "crop_to_patches": False,
        "data_format": "channels_first",
        "image_processor_type": "GotOcr2ImageProcessorFast",
        "max_patches": 12,
        "min_patches": 1,
        "processor_class": "InternVLProcessor",
        "resample": 3,
        "rescale_factor": 0.00392156862745098,
        "size": {"height": side, "width": side},
        **changes,
    }


def hf_config(side: int = 448, patch: int = 14) -> dict[str, Any]:
    """The layout of transformers, in which InternVL3-1B-hf is published."""
    vision = {"image_size": [side, side], "patch_size": [patch, patch]}
    return {
        "model_type": "internvl",
        "downsample_ratio": 0.5,
        "image_seq_length": 256,
        "vision_config": {"model_type": "internvl_vision", **vision},
    }


def chat_config(side: int = 448, patch: int = 14, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """The layout of the model's makers, which conversions for MLX keep."""
    vision = {"model_type": "intern_vit_6b", "image_size": side, "patch_size": patch}
    return {
        "model_type": "internvl_chat",
        "downsample_ratio": 0.5,
        "force_image_size": side,
        "dynamic_image_size": True,
        "max_dynamic_patch": 12,
        "min_dynamic_patch": 1,
        "use_thumbnail": True,
        "vision_config": vision,
        **changes,
    }


def folder_of(
    folder: Path, config: Mapping[str, Any], settings: Mapping[str, Any] | None, tokens: int
) -> Path:
    """A model folder as it is published."""
    key = "num_image_token" if config["model_type"] == "internvl_chat" else "image_seq_length"
    named = {key: tokens, "processor_class": "InternVLProcessor"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "processor_config.json").write_text(json.dumps(named))
    if settings is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    write_tokenizer(folder, *MARKS)
    return folder


def our_preprocessor(folder: Path, profile: Profile) -> TilePreprocessor:
    return FAMILY.preprocessor(FAMILY.resolve(open_checkpoint(str(folder)), profile), profile)


class Theirs:
    """The installed processor of one server, and what it gives for a request."""

    def __init__(self, folder: Path, profile: Profile) -> None:
        self.mlx = profile.processors == "mlx-vlm"
        loader = "mlx_vlm.utils" if self.mlx else "transformers.image_utils"
        self.load_image = importlib.import_module(loader).load_image
        config = json.loads((folder / "config.json").read_text())
        if not self.mlx:
            self.processor = importlib.import_module("transformers").GotOcr2ImageProcessorPil
            whole = importlib.import_module("transformers.models.internvl.processing_internvl")
            self.options = whole.InternVLProcessor.images_kwargs
            self.processor = self.processor.from_pretrained(folder)
        elif config["model_type"] == "internvl_chat":
            module = importlib.import_module("mlx_vlm.models.internvl_chat.processor")
            self.processor = module.InternVLChatProcessor.from_pretrained(folder)
        else:
            module = importlib.import_module("mlx_vlm.models.internvl.processing_internvl")
            self.processor = module.InternVLProcessor.from_pretrained(folder)

    def __call__(self, paths: Sequence[Path], tile_tokens: int) -> tuple[NDArray[Any], int]:
        """`pixel_values` of a request of several pictures, and its tokens."""
        pictures = [self.load_image(str(path)) for path in paths]
        if not self.mlx:
            made = self.processor(pictures, **self.options)
            return np.stack(made["pixel_values"]), sum(made["num_patches"]) * tile_tokens
        text = "<image>" * len(pictures)
        made = self.processor(images=pictures, text=text, return_tensors="np")
        mark = self.processor.tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")
        return np.asarray(made["pixel_values"]), int((np.asarray(made["input_ids"]) == mark).sum())


def compare(
    ours: TilePreprocessor, theirs: Theirs, request: Sequence[tuple[Frames, Path]]
) -> tuple[int, int]:
    """Differing and all values of one request."""
    tile_tokens = ours.settings["tile_tokens"]
    expected, tokens = theirs([path for _, path in request], tile_tokens)
    pixels = [ours(frames) for frames, _ in request]
    made = ours.processed(pixels)
    if theirs.mlx and ours.settings.get("image_token_index") is not None:
        assert int(made.pop("image_token_index")) == theirs.processor.img_context_token_id
    assert list(made) == ["pixel_values"]
    assert sum(each.num_tokens for each in pixels) == tokens
    count = differing(made["pixel_values"], expected)
    for (frames, _), each in zip(request, pixels, strict=True):
        wide, high = frames.width, frames.height
        packed = ours.compact(frames)
        tables = sum(table.values.nbytes for table in packed.tables.values())
        expanded = packed.expanded().tensors["pixel_values"]
        count += differing(expanded, each.tensors["pixel_values"])
        assert each.num_tokens == packed.num_tokens == ours.num_tokens(wide, high)
        assert each.size_bytes == ours.pixel_bytes(wide, high)
        assert packed.size_bytes + tables == ours.pixel_bytes(wide, high, compact=True)
    return count, expected.size


HF, MLX = TRANSFORMERS_PIL_5, MLX_VLM_0_7
TINY, TINY_CHAT = hf_config(32, 8), chat_config(32, 8)
VARIANTS: dict[str, tuple[Profile, dict[str, Any], dict[str, Any] | None]] = {
    "hf": (HF, TINY, found(32)),
    "hf-few": (HF, TINY, found(32, max_patches=5, min_patches=3)),
    "hf-one": (HF, TINY, found(32, max_patches=1, min_patches=2)),
    "hf-oblong": (HF, TINY, found(32, size={"height": 32, "width": 64})),
    "hf-size-int": (HF, TINY, found(32, size=32)),
    "hf-not-resized": (HF, TINY, found(32, do_resize=False, resample=None)),
    "hf-lanczos": (HF, TINY, found(32, resample=1)),
    "hf-not-normalised": (HF, TINY, found(32, do_normalize=None)),
    "hf-not-rescaled": (HF, TINY, found(32, do_rescale=False)),
    "hf-keeps-key": (HF, TINY, found(32, do_convert_rgb=False)),
    "mlx": (MLX, TINY, found(32, image_mean=[0.5] * 3)),
    "mlx-chat": (MLX, TINY_CHAT, None),
    "mlx-chat-few": (MLX, {**TINY_CHAT, "min_dynamic_patch": 2, "max_dynamic_patch": 6}, None),
    "mlx-chat-no-overview": (MLX, {**TINY_CHAT, "use_thumbnail": False}, None),
    "mlx-chat-one": (MLX, {**TINY_CHAT, "max_dynamic_patch": 1}, None),
}
ALL_VARIANTS = {"hf", "mlx", "mlx-chat"}
VARIANT_FIXTURES = (
    *("1x1.png", "1x300.png", "2000x10.png", "31x33.png", "48x80.png", "333x777.png"),
    *("608x672.png", "trns-rgb.png", "cmyk.jpg", "1280x640.png"),
)


@pytest.mark.parametrize("variant", VARIANTS)
def test_tiles_equal_those_of_the_processor(
    variant: str, fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    profile, config, settings = VARIANTS[variant]
    folder = folder_of(tmp_path, config, settings, 4)
    ours, theirs = our_preprocessor(folder, profile), Theirs(folder, profile)
    frames, wrong = fixtures.frames(profile), []
    for fixture in frames if variant in ALL_VARIANTS else VARIANT_FIXTURES:
        count, values = compare(ours, theirs, [(frames[fixture], fixtures.files[fixture])])
        tally.add(profile.name, "internvl", fixture, differing=count, values=values)
        if count:
            wrong.append(fixture)
    assert wrong == []


PUBLISHED = {
    "hf": (HF, hf_config(), found()),
    "mlx-hf": (MLX, hf_config(), found()),
    "mlx-chat": (MLX, chat_config(), None),
}
PUBLISHED_FIXTURES = ("640x480.png", "608x672.png", "704x704.png", "1280x640.png", "exif-6.jpg")


@pytest.mark.parametrize("layout", PUBLISHED)
def test_tiles_and_tokens_of_published_settings_are_the_servers(
    layout: str, fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    profile, config, settings = PUBLISHED[layout]
    folder = folder_of(tmp_path, config, settings, 256)
    ours, theirs = our_preprocessor(folder, profile), Theirs(folder, profile)
    assert ours.settings["tile_tokens"] == 256
    frames, wrong = fixtures.frames(profile), []
    for fixture in PUBLISHED_FIXTURES:
        count, values = compare(ours, theirs, [(frames[fixture], fixtures.files[fixture])])
        tally.add(profile.name, "internvl", fixture, differing=count, values=values)
        if count:
            wrong.append(fixture)
    assert wrong == []


@pytest.mark.parametrize("profile", [HF, MLX, OMLX], ids=lambda profile: profile.name)
def test_a_request_of_several_pictures_is_the_servers(
    profile: Profile, fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    folder = folder_of(tmp_path, TINY, found(32), 4)
    ours, theirs = our_preprocessor(folder, profile), Theirs(folder, profile)
    frames = fixtures.frames(profile)
    chosen = ("48x80.png", "10x2000.png", "31x33.png", "cmyk.jpg")
    request = [(frames[fixture], fixtures.files[fixture]) for fixture in chosen]
    count, values = compare(ours, theirs, request)
    tally.add(profile.name, "internvl", "+".join(chosen), differing=count, values=values)
    assert count == 0


def test_keys_of_mlx_vlm_are_those_of_its_own_pixels(
    fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    mlx = importlib.import_module("mlx.core")
    key_of = importlib.import_module("mlx_vlm.vision_cache").processed_image_key
    folder = folder_of(tmp_path, TINY_CHAT, None, 4)
    ours, theirs = our_preprocessor(folder, MLX), Theirs(folder, MLX)
    for fixture, picture in fixtures.frames(MLX).items():
        expected, _ = theirs([fixtures.files[fixture]], 4)
        made = ours.processed([ours(picture)])["pixel_values"]
        keys = {key_of(mlx.array(each)) for each in (expected, made)}
        tally.add(MLX.name, "internvl key", fixture, differing=len(keys) - 1)
        assert len(keys) == 1


def grid_settings(grid: str, *, side: int, fewest: int, most: int) -> dict[str, Any]:
    tile = {"height": side, "width": side}
    return {
        "tile": tile,
        "min_tiles": fewest,
        "max_tiles": most,
        "overview": True,
        "grid": grid,
    }


LIMITS = [(448, 1, 12), (100, 2, 7), (224, 4, 40)]


@pytest.mark.parametrize(("side", "fewest", "most"), LIMITS)
def test_grids_are_those_of_transformers_over_62_001_sizes(
    side: int, fewest: int, most: int, tally: Tally
) -> None:
    module = importlib.import_module("transformers.models.got_ocr2.image_processing_pil_got_ocr2")
    settings = grid_settings("more-tiles", side=side, fewest=fewest, most=most)
    wrong = []
    for height in SIDES:
        for width in SIDES:
            plan = internvl_plan(settings, height, width)
            theirs = module.get_optimal_tiled_canvas((height, width), (side, side), fewest, most)
            if (plan.columns, plan.rows) != theirs:
                wrong.append((height, width))
    name = f"{side}-{fewest}-{most}"
    tally.add(HF.name, "internvl grids", name, differing=len(wrong), values=62_001)
    assert wrong == []


class Picture:
    """What mlx-vlm asks of a picture before it has pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.size = (width, height)

    def resize(self, size: tuple[int, int], **_: object) -> Picture:
        return Picture(*size)

    def crop(self, box: tuple[int, int, int, int]) -> Picture:
        left, top, right, bottom = box
        return Picture(right - left, bottom - top)


@pytest.mark.parametrize(("side", "fewest", "most"), LIMITS)
def test_grids_are_those_of_mlx_vlm_over_62_001_sizes(
    side: int, fewest: int, most: int, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("mlx_vlm.models.internvl_chat.processor")
    choose = module.find_closest_aspect_ratio
    candidates: dict[str, Any] = {}

    def chosen(ratio: float, targets: Any, *rest: int) -> Any:  # noqa: ANN401
        candidates["all"] = targets
        return choose(ratio, targets, *rest)

    monkeypatch.setattr(module, "find_closest_aspect_ratio", chosen)
    tiles = module.dynamic_preprocess(
        Picture(640, 480), min_num=fewest, max_num=most, image_size=side, use_thumbnail=True
    )
    settings = grid_settings("closest-area", side=side, fewest=fewest, most=most)
    assert len(tiles) == internvl_plan(settings, 480, 640).num_tiles
    wrong = []
    for height in SIDES:
        for width in SIDES:
            plan = internvl_plan(settings, height, width)
            theirs = choose(width / height, candidates["all"], width, height, side)
            if (plan.columns, plan.rows) != theirs:
                wrong.append((height, width))
    name = f"{side}-{fewest}-{most}"
    tally.add(MLX.name, "internvl grids", name, differing=len(wrong), values=62_001)
    assert wrong == []
