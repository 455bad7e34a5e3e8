"""Tiles of Idefics 3 and SmolVLM against the installed processors of both servers."""

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
from vcache_cli.errors import EncodeError
from vcache_cli.items import Frames
from vcache_cli.preprocess import idefics3, smolvlm
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, OMLX, TRANSFORMERS_PIL_5
from vcache_cli.preprocess.tiles import TilePreprocessor
from vcache_cli.profile import Profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

FAMILIES: dict[str, idefics3.Idefics3Family] = {
    each.FAMILY.name: each.FAMILY for each in (idefics3, smolvlm)
}
CLASSES = {"idefics3": "Idefics3", "smolvlm": "SmolVLM"}
PROFILES = {each.name: each for each in (TRANSFORMERS_PIL_5, MLX_VLM_0_7, OMLX)}
SERVERS = (TRANSFORMERS_PIL_5.name, MLX_VLM_0_7.name)
"""Whose processors are installed; oMLX takes those of mlx-vlm."""
MARKS = ("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")

STEPS = dict.fromkeys(
    (
        *("do_convert_rgb", "do_image_splitting", "do_normalize", "do_pad", "do_rescale"),
        "do_resize",
    ),
    True,
)
HALVES = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
COMMON = {**STEPS, **HALVES, "resample": 1, "rescale_factor": 0.00392156862745098}


def tiled(side: int, longest: int, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  JSON values
    sizes = {"max_image_size": {"longest_edge": side}, "size": {"longest_edge": longest}}
    return {**COMMON, **sizes, **changes}


SAMPLING = {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": 512}}
PUBLISHED: dict[str, tuple[str, dict[str, Any], dict[str, Any], int]] = {
    "Idefics3-8B-Llama3": (
        "idefics3",
        tiled(364, 1456, processor_class="Idefics3Processor"),
        {"scale_factor": 2, "vision_config": {"image_size": 364, "patch_size": 14}},
        169,
    ),
    "SmolVLM-256M-Instruct": (
        "idefics3",
        tiled(512, 2048),
        {"scale_factor": 4, "vision_config": {"image_size": 512, "patch_size": 16}},
        64,
    ),
    "SmolVLM-Instruct": (
        "idefics3",
        tiled(384, 1536),
        {"scale_factor": 3, "vision_config": {"image_size": 384, "patch_size": 14}},
        81,
    ),
    "SmolVLM2-500M-Video-Instruct": (
        "smolvlm",
        tiled(512, 2048, video_sampling=SAMPLING),
        {"scale_factor": 4, "vision_config": {"image_size": 512, "patch_size": 16}},
        64,
    ),
}
"""Family, image processor settings, what config.json says, and tokens of a tile."""
PUBLISHED_FIXTURES = ("333x777.png", "640x480.png", "exif-6.jpg")

TINY = {"scale_factor": 2, "vision_config": {"image_size": 32, "patch_size": 8}}
VARIANTS: dict[str, dict[str, Any]] = {
    "tiny": tiled(32, 128),
    "uneven": tiled(32, 101),
    "one-tile": tiled(32, 32),
    "smaller-than-a-tile": tiled(32, 19),
    "over-the-cap": tiled(512, 5001),
    "not-split": tiled(32, 128, do_image_splitting=False),
    "splitting-null": tiled(32, 128, do_image_splitting=None, do_pad=None),
    "not-resized": tiled(64, 128, do_resize=False),
    "not-resized-null-filter": tiled(64, 128, do_resize=None, size=None, resample=None),
    "not-resized-not-split": tiled(64, 128, do_resize=False, do_image_splitting=False),
    "not-padded": tiled(32, 128, do_pad=False),
    "bicubic": tiled(32, 128, resample=3),
    "fixed-size": tiled(32, 0, size={"height": 70, "width": 101}),
    "size-int": tiled(32, 0, size=96),
    "both-edges": tiled(32, 0, size={"shortest_edge": 11, "longest_edge": 96}),
    "not-normalised": tiled(32, 128, do_normalize=False),
    "not-rescaled": tiled(32, 128, do_rescale=False),
    "keeps-key": tiled(32, 128, do_convert_rgb=None),
    "exact-factor": {k: v for k, v in tiled(32, 96).items() if k != "rescale_factor"},
}
VARIANT_FIXTURES = (
    *("1x1.png", "1x300.png", "300x1.png", "10x2000.png", "2000x10.png", "31x33.png", "63x64.png"),
    *("48x80.png", "333x777.png", "448x896.png", "trns-rgb.png", "cmyk.jpg", "1921x1081.png"),
)
ALL_VARIANT = "tiny"
"""Whose sizes are small enough for every fixture."""


def folder_of(
    folder: Path, name: str, found: Mapping[str, Any], config: Mapping[str, Any], tokens: int
) -> Path:
    """A model folder as it is published."""
    kind = {"image_processor_type": f"{CLASSES[name]}ImageProcessor"}
    named = {"image_seq_len": tokens, "processor_class": f"{CLASSES[name]}Processor"}
    for file, content in (
        ("config.json", {"model_type": name, **config}),
        ("preprocessor_config.json", {**kind, **found}),
        ("processor_config.json", named),
    ):
        (folder / file).write_text(json.dumps(content))
    write_tokenizer(folder, *MARKS)
    return folder


def our_preprocessor(folder: Path, name: str, profile: Profile) -> TilePreprocessor:
    family = FAMILIES[name]
    return family.preprocessor(family.resolve(open_checkpoint(str(folder)), profile), profile)


class Theirs:
    """The installed processor of one server, and what it gives for a request."""

    def __init__(self, folder: Path, name: str, profile: Profile) -> None:
        self.mlx = profile.processors == "mlx-vlm"
        loader = "mlx_vlm.utils" if self.mlx else "transformers.image_utils"
        self.load_image = importlib.import_module(loader).load_image
        if self.mlx:
            module = importlib.import_module(f"mlx_vlm.models.{name}.processing_{name}")
            self.processor = getattr(module, f"{CLASSES[name]}Processor").from_pretrained(folder)
        else:
            kind = getattr(
                importlib.import_module("transformers"), f"{CLASSES[name]}ImageProcessorPil"
            )
            self.processor = kind.from_pretrained(folder)

    def __call__(self, paths: Sequence[Path]) -> tuple[dict[str, NDArray[Any]], list[int]]:
        """Tensors of a request of several pictures, and tiles of each."""
        pictures = [self.load_image(str(path)) for path in paths]
        if not self.mlx:
            made = self.processor(pictures, return_row_col_info=True)
            grids = zip(made.pop("rows")[0], made.pop("cols")[0], strict=True)
            return arrays(made), [rows * columns + 1 for rows, columns in grids]
        made = self.processor(images=pictures, text="<image>" * len(pictures))
        marks = np.asarray(made["input_ids"])[0] == self.processor.image_token_id
        return arrays(made), [int(marks.sum()) // self.processor.image_seq_len]


def arrays(made: Any) -> dict[str, NDArray[Any]]:  # noqa: ANN401  untyped libraries
    names = ("pixel_values", "pixel_attention_mask")
    return {name: np.asarray(made[name]) for name in names if name in made}


def compare(
    ours: TilePreprocessor, theirs: Theirs, request: Sequence[tuple[Frames, Path]]
) -> tuple[int, int]:
    """Differing and all values of one request; both sides may refuse it."""
    try:
        expected, tiles = theirs([path for _, path in request])
    except ValueError:  # one side of a resize is 0
        with pytest.raises(EncodeError):
            [ours(frames) for frames, _ in request]
        return 0, 1
    pixels = [ours(frames) for frames, _ in request]
    made = ours.processed(pixels)
    assert made.keys() == expected.keys()
    count = sum(differing(made[name], expected[name]) for name in made)
    per_tile = ours.settings["tile_tokens"]
    assert sum(each.num_tokens for each in pixels) == sum(tiles) * per_tile
    for (frames, _), found in zip(request, pixels, strict=True):
        wide, high = frames.width, frames.height
        packed = ours.compact(frames)
        tables = sum(table.values.nbytes for table in packed.tables.values())
        expanded = packed.expanded().tensors["pixel_values"]
        count += differing(expanded, found.tensors["pixel_values"])
        assert found.num_tokens == packed.num_tokens == ours.num_tokens(wide, high)
        assert found.size_bytes == ours.pixel_bytes(wide, high)
        assert packed.size_bytes + tables == ours.pixel_bytes(wide, high, compact=True)
    return count, sum(array.size for array in made.values())


CASES = (*(("idefics3", variant) for variant in VARIANTS), ("smolvlm", ALL_VARIANT))
"""The class of SmolVLM is a copy of that of Idefics 3."""


@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.parametrize("rules", SERVERS)
def test_tiles_equal_those_of_the_image_processor(
    rules: str, case: tuple[str, str], fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    profile, (name, variant) = PROFILES[rules], case
    folder = folder_of(tmp_path, name, VARIANTS[variant], TINY, 4)
    ours, theirs = our_preprocessor(folder, name, profile), Theirs(folder, name, profile)
    frames, wrong = fixtures.frames(profile), []
    chosen = tuple(frames) if variant == ALL_VARIANT else VARIANT_FIXTURES
    if variant != ALL_VARIANT and profile.processors == "mlx-vlm":  # the same class, on the same
        chosen = VARIANT_FIXTURES[1::3]
    if variant == "over-the-cap":
        chosen = ("10x2000.png", "300x1.png")
    for fixture in chosen:
        count, values = compare(ours, theirs, [(frames[fixture], fixtures.files[fixture])])
        tally.add(rules, name, fixture, differing=count, values=values)
        if count:
            wrong.append(fixture)
    assert wrong == []


@pytest.mark.parametrize("model", PUBLISHED)
@pytest.mark.parametrize("rules", SERVERS)
def test_tiles_and_tokens_of_published_settings_are_the_servers(
    rules: str, model: str, fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    profile = PROFILES[rules]
    name, found, config, tokens = PUBLISHED[model]
    folder = folder_of(tmp_path, name, found, config, tokens)
    ours, theirs = our_preprocessor(folder, name, profile), Theirs(folder, name, profile)
    assert ours.settings["tile_tokens"] == tokens
    frames, wrong = fixtures.frames(profile), []
    for fixture in PUBLISHED_FIXTURES:
        count, values = compare(ours, theirs, [(frames[fixture], fixtures.files[fixture])])
        tally.add(rules, name, fixture, differing=count, values=values)
        if count:
            wrong.append(fixture)
    assert wrong == []


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rules", PROFILES)
def test_a_request_of_several_pictures_is_the_servers(
    rules: str, name: str, fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    profile = PROFILES[rules]
    folder = folder_of(tmp_path, name, VARIANTS["tiny"], TINY, 4)
    ours, theirs = our_preprocessor(folder, name, profile), Theirs(folder, name, profile)
    assert ours.settings == our_preprocessor(folder, name, MLX_VLM_0_7).settings
    frames = fixtures.frames(profile)
    chosen = ("48x80.png", "10x2000.png", "31x33.png", "cmyk.jpg")
    request = [(frames[fixture], fixtures.files[fixture]) for fixture in chosen]
    count, values = compare(ours, theirs, request)
    tally.add(rules, name, "+".join(chosen), differing=count, values=values)
    assert count == 0


def test_keys_of_mlx_vlm_are_those_of_its_own_pixels(
    fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    mlx = importlib.import_module("mlx.core")
    key_of = importlib.import_module("mlx_vlm.vision_cache").processed_image_key
    folder = folder_of(tmp_path, "smolvlm", VARIANTS["tiny"], TINY, 4)
    ours = our_preprocessor(folder, "smolvlm", MLX_VLM_0_7)
    theirs = Theirs(folder, "smolvlm", MLX_VLM_0_7)
    for fixture, picture in fixtures.frames(MLX_VLM_0_7).items():
        expected, _ = theirs([fixtures.files[fixture]])
        made = ours.processed([ours(picture)])
        keys = {key_of(mlx.array(each["pixel_values"])) for each in (expected, made)}
        tally.add(MLX_VLM_0_7.name, "smolvlm key", fixture, differing=len(keys) - 1)
        assert len(keys) == 1


SPLIT = {"do_image_splitting": True}


def square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


def sizer() -> Any:  # noqa: ANN401  a class of an untyped library
    """The server's processor over pictures without pixels: its arithmetic of sizes alone."""
    backends = importlib.import_module("transformers.image_processing_backends")
    theirs = importlib.import_module("transformers").Idefics3ImageProcessorPil

    def resize(self: Any, image: Any, size: Any, **rest: Any) -> Any:  # noqa: ANN401
        return np.broadcast_to(np.uint8(0), (3, size.height, size.width))

    blank = type("Blank", (backends.PilBackend,), {"resize": resize})
    return type("Sizer", (theirs, blank), {})


def test_sizes_are_the_servers_over_600_by_600(tally: Tally) -> None:
    size = importlib.import_module("transformers.image_utils").SizeDict(longest_edge=1456)
    theirs, wrong = sizer()(), []
    settings = {**SPLIT, "do_resize": True, "size": {"longest_edge": 1456}, "tile": square(364)}
    for height in range(1, 601):
        for width in range(1, 601):
            plan = idefics3.idefics3_plan(settings, height, width)
            picture = np.broadcast_to(np.uint8(0), (3, height, width))
            first = theirs.resize(picture, size)
            try:
                second = theirs.resize_for_vision_encoder(first, 364).shape[1:]
            except ValueError:
                second = plan.resizes[1] if 0 in plan.resizes[1] else ()
            if plan.resizes != (first.shape[1:], second):
                wrong.append((height, width))
    tally.add(*SERVERS[:1], "idefics3 sizes", "600x600", differing=len(wrong), values=360_000)
    assert wrong == []


def test_grids_are_the_servers_over_62_001_sizes(tally: Tally) -> None:
    theirs, wrong = sizer()(), []
    settings = {**SPLIT, "do_resize": False, "tile": square(32)}
    for height in range(1, 250):
        for width in range(1, 250):
            plan = idefics3.idefics3_plan(settings, height, width)
            picture = np.broadcast_to(np.uint8(0), (3, height, width))
            try:
                whole = theirs.resize_for_vision_encoder(picture, 32)
            except ValueError:
                wrong += [] if 0 in plan.resizes[0] else [(height, width)]
                continue
            tiles, rows, columns = theirs.split_images(whole, {"longest_edge": 32})
            grid = (rows or 1, columns or 1, len(tiles))
            if grid != (plan.rows, plan.columns, plan.num_tiles):
                wrong.append((height, width))
    tally.add(*SERVERS[:1], "idefics3 grids", "249x249", differing=len(wrong), values=62_001)
    assert wrong == []
