"""Qwen's grids of patches against the installed processors of both servers."""

from __future__ import annotations

import importlib
import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from tests.parity.fixtures import Fixtures, differing
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.errors import EncodeError, ModelError
from vcache_cli.preprocess import qwen2_5_vl, qwen2_vl, qwen3_5, qwen3_vl
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, OMLX, TRANSFORMERS_PIL_5

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.parity.tally import Tally
    from vcache_cli.items import Frames, Pixels
    from vcache_cli.preprocess.patches import PatchFamily, PatchPreprocessor
    from vcache_cli.profile import Profile

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

FAMILIES = {each.FAMILY.name: each.FAMILY for each in (qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5)}
PROFILES = {each.name: each for each in (TRANSFORMERS_PIL_5, MLX_VLM_0_7, OMLX)}
CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
TYPE = {"image_processor_type": "Qwen2VLImageProcessorFast"}
QWEN2 = {**TYPE, **CLIP, "patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
QWEN3 = {**TYPE, **HALF, "patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
PUBLISHED: dict[str, dict[str, Any]] = {
    "qwen2_vl": {**QWEN2, "min_pixels": 3136, "max_pixels": 12845056},
    "qwen2_5_vl": {**QWEN2, "min_pixels": 6272, "max_pixels": 401_408},
    "qwen3_vl": {**QWEN3, "size": {"longest_edge": 16777216, "shortest_edge": 65536}},
    "qwen3_5": {**QWEN3, "size": {"longest_edge": 262_144, "shortest_edge": 4096}},
}
"""Settings as checkpoints carry them; half with the narrower limits that users set."""
VARIANTS: dict[str, dict[str, Any]] = {
    "bare": TYPE,
    "null-limits": {**QWEN2, "min_pixels": None, "max_pixels": None},
    "limits-over-size": {
        **QWEN2,
        "size": {"shortest_edge": 3136, "longest_edge": 50176},
        "max_pixels": 100352,
    },
    "null-limits-beside-size": {
        **QWEN3,
        "size": {"shortest_edge": 9216, "longest_edge": 50176},
        "min_pixels": None,
        "max_pixels": None,
    },
    "null-size": {**QWEN3, "size": None, "min_pixels": 9216},
    "size-of-old-names": {
        **QWEN2,
        "size": {"min_pixels": 3136, "max_pixels": 1},
        "min_pixels": 3136,
        "max_pixels": 50176,
    },
    "not-rescaled": {**QWEN3, "do_rescale": False},
    "not-normalised": {**QWEN3, "do_normalize": False},
    "neither": {**QWEN3, "do_normalize": None, "do_rescale": None},
    "another-factor": {**QWEN2, "rescale_factor": 0.00392156862745098},
    "another-grid": {**QWEN2, "patch_size": 8, "merge_size": 3, "temporal_patch_size": 1},
    "not-converted": {**QWEN2, "do_convert_rgb": False},
    "not-resized": {**QWEN2, "do_resize": False},
    "by-lanczos": {**QWEN3, "resample": 1},
    "one-edge": {**QWEN3, "size": {"longest_edge": 50176}},
    "two-sides": {**QWEN3, "size": {"height": 64, "width": 64}},
    "a-number": {**QWEN3, "size": 224},
    "null-patch": {**QWEN3, "patch_size": None},
    "null-mean": {**QWEN3, "image_mean": None},
    "no-mean": {**QWEN3, "image_mean": []},
    "scalar-mean": {**QWEN3, "image_mean": 0.5, "image_std": 0.25},
    "null-factor": {**QWEN3, "rescale_factor": None},
    "null-filter": {**QWEN3, "resample": None},
}
VARIANT_FIXTURES = ("70x42", "333x777", "28x28", "trns-rgb")


def folder_of(folder: Path, family: PatchFamily, found: Mapping[str, Any]) -> Path:
    """A model folder with these image processor settings."""
    (folder / "config.json").write_text(json.dumps({"model_type": family.name}))
    (folder / "preprocessor_config.json").write_text(json.dumps(dict(found)))
    return folder


def server_processor(folder: Path, family: PatchFamily, profile: Profile) -> Any:  # noqa: ANN401
    if profile.processors == "transformers":
        processors = importlib.import_module("transformers")
        return processors.Qwen2VLImageProcessorPil.from_pretrained(folder)
    module = importlib.import_module("mlx_vlm.models.qwen3_vl.processing_qwen3_vl")
    settings = module._qwen_vl_image_kwargs(folder, default_patch_size=family.patch_size)
    return module.Qwen3VLImageProcessor(**settings)


def our_preprocessor(folder: Path, family: PatchFamily, profile: Profile) -> PatchPreprocessor:
    settings = family.resolve(open_checkpoint(str(folder)), profile)
    return family.preprocessor(settings, profile)


def processed_by_server(folder: Path, family: PatchFamily, profile: Profile, path: Path) -> None:
    server_processor(folder, family, profile)(images=[loaded(path, profile)])


def loaded(path: Path, profile: Profile) -> Any:  # noqa: ANN401  untyped libraries
    """A picture as the server's loader hands it over; oMLX's own is tested with decoding."""
    name = "mlx_vlm.utils" if profile.processors == "mlx-vlm" else "transformers.image_utils"
    return importlib.import_module(name).load_image(str(path))


def compare(
    ours: PatchPreprocessor,
    theirs: Any,  # noqa: ANN401  untyped library
    frames: Frames,
    picture: Image.Image,
) -> tuple[int, int]:
    """Differing and all values of one picture; both sides may refuse it, in the same words."""
    try:
        expected = theirs(images=[picture])
    except ValueError as error:
        check_refusal(ours, frames, str(error))
        return 0, 1
    found = ours(frames)
    made = ours.processed([found])
    wide, high = frames.width, frames.height
    assert found.num_tokens == ours.num_tokens(wide, high)
    assert found.num_tokens == int(np.prod(expected["image_grid_thw"][0])) // theirs.merge_size**2
    assert found.size_bytes == ours.pixel_bytes(wide, high)
    count = sum(differing(made[name], np.asarray(expected[name])) for name in made)
    return count, sum(array.size for array in made.values())


def check_refusal(ours: PatchPreprocessor, frames: Frames, message: str) -> None:
    with pytest.raises(EncodeError):
        ours.num_tokens(frames.width, frames.height)
    with pytest.raises(EncodeError) as refusal:
        ours(frames)
    if "aspect ratio" in message:
        assert (refusal.value.item_kind, refusal.value.message) == ("aspect_ratio", message)


def check_compact(ours: PatchPreprocessor, frames: Frames) -> None:
    packed, plain = ours.compact(frames), ours(frames)
    expanded = packed.expanded()
    assert expanded.num_tokens == plain.num_tokens
    for name, array in plain.tensors.items():
        assert differing(expanded.tensors[name], array) == 0
    tables = sum(table.values.nbytes for table in packed.tables.values())
    assert packed.size_bytes + tables == ours.pixel_bytes(frames.width, frames.height, compact=True)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rules", PROFILES)
def test_pixels_equal_those_of_the_image_processor(
    rules: str, name: str, fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    profile, family = PROFILES[rules], FAMILIES[name]
    folder = folder_of(tmp_path, family, PUBLISHED[name])
    theirs = server_processor(folder, family, profile)
    ours = our_preprocessor(folder, family, profile)
    wrong = {}
    for fixture, frames in fixtures.frames(profile).items():
        if profile is OMLX:  # its own loader's result is compared where decoding is
            picture = Image.fromarray(frames.rgb[0])
        else:
            picture = loaded(fixtures.files[fixture], profile)
        count, values = compare(ours, theirs, frames, picture)
        tally.add(profile.name, name, fixture, differing=count, values=values)
        if count:
            wrong[fixture] = count
    assert wrong == {}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("rules", ["transformers-pil-5", "mlx-vlm-0.7"])
def test_settings_are_resolved_as_the_server_resolves_them(
    rules: str, variant: str, fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    """Also nulls, missing and odd ones: what the server cannot use, we refuse."""
    profile, family = PROFILES[rules], qwen2_5_vl.FAMILY
    folder = folder_of(tmp_path, family, VARIANTS[variant])
    names = [each for each in fixtures.files if any(part in each for part in VARIANT_FIXTURES)]
    assert len(names) >= len(VARIANT_FIXTURES)
    try:
        ours = our_preprocessor(folder, family, profile)
    except ModelError:
        with pytest.raises((ValueError, TypeError, IndexError, AttributeError)):
            processed_by_server(folder, family, profile, fixtures.files[names[0]])
        return
    theirs = server_processor(folder, family, profile)
    for fixture in names:
        picture = loaded(fixtures.files[fixture], profile)
        frames = fixtures.frames(profile)[fixture]
        count, values = compare(ours, theirs, frames, picture)
        tally.add(profile.name, f"{family.name}, settings", fixture, differing=count, values=values)
        assert count == 0, fixture
        if values > 1:  # not refused
            check_compact(ours, frames)


def server_sizes(family: PatchFamily, profile: Profile) -> Callable[..., tuple[int, int]]:
    if profile.processors == "transformers":
        module = importlib.import_module(
            "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl"
        )
        return module.smart_resize  # type: ignore[no-any-return]
    module = importlib.import_module("mlx_vlm.models.qwen3_vl.processing_qwen3_vl")
    return module._smart_resize_image  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rules", ["transformers-pil-5", "mlx-vlm-0.7"])
def test_sizes_equal_over_a_grid(rules: str, name: str, tmp_path: Path, tally: Tally) -> None:
    """600 x 600 sizes, enlarged, reduced and refused, by the server's own function."""
    profile, family = PROFILES[rules], FAMILIES[name]
    folder = folder_of(tmp_path, family, {**PUBLISHED[name], "max_pixels": 100_352})
    ours = our_preprocessor(folder, family, profile)
    theirs = server_sizes(family, profile)
    settings = ours.settings
    factor = settings["patch_size"] * settings["merge_size"]
    limits = {each: settings[each] for each in ("min_pixels", "max_pixels")}
    wrong = []
    for height in range(1, 601):
        for width in range(1, 601):
            try:
                high, wide = theirs(height, width, factor, **limits)
            except ValueError:
                with pytest.raises(EncodeError):
                    ours.num_tokens(width, height)
                continue
            if ours.final_size(width, height) != (high, wide):
                wrong.append((width, height))
    tally.add(profile.name, f"{name}, sizes", "1-600 squared", differing=len(wrong), values=360_000)
    assert wrong == []


TOKENS = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "<pad>", "a")


def write_tokenizer(folder: Path) -> None:
    """Just enough for a processor to count its placeholders."""
    tokenizers = importlib.import_module("tokenizers")
    words = tokenizers.models.WordLevel({token: at for at, token in enumerate(TOKENS)}, "a")
    made = tokenizers.Tokenizer(words)
    made.add_special_tokens(list(TOKENS[:-1]))
    made.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def server_processor_of(folder: Path, name: str) -> Any:  # noqa: ANN401  untyped library
    """The whole processor that mlx-vlm loads for a model of that type."""
    write_tokenizer(folder)
    of_type = {
        "qwen2_vl": ("qwen2_vl.processing_qwen2_vl", "Qwen2VLProcessor"),
        "qwen2_5_vl": ("qwen2_5_vl.processing_qwen2_5_vl", "Qwen2_5_VLProcessor"),
        "qwen3_vl": ("qwen3_vl.processing_qwen3_vl", "Qwen3VLProcessor"),
        "qwen3_5": ("qwen3_5", "Qwen3VLProcessor"),
    }
    module, cls = of_type[name]
    return getattr(importlib.import_module(f"mlx_vlm.models.{module}"), cls).from_pretrained(folder)


def our_key(ours: PatchPreprocessor, request: Sequence[Pixels]) -> str:
    mx = importlib.import_module("mlx.core")
    arrays = {name: mx.array(array) for name, array in ours.processed(request).items()}
    key: str = importlib.import_module("mlx_vlm.vision_cache").processed_image_key(**arrays)
    return key


def server_key(processor: Any, paths: Sequence[Path]) -> str:  # noqa: ANN401  untyped library
    """The key as the server makes it of what `prepare_inputs` gives for a request."""
    prompt = "<|vision_start|><|image_pad|><|vision_end|>" * len(paths) + "a"
    inputs = importlib.import_module("mlx_vlm.utils").prepare_inputs(
        processor, images=[str(path) for path in paths], prompts=prompt
    )
    pixels = inputs.pop("pixel_values")
    extra = {name: inputs[name] for name in inputs if name not in {"input_ids", "attention_mask"}}
    key: str = importlib.import_module("mlx_vlm.vision_cache").processed_image_key(pixels, **extra)
    return key


@pytest.mark.parametrize("name", FAMILIES)
def test_the_processed_key_is_the_servers(
    name: str, fixtures: Fixtures, tmp_path: Path, tally: Tally
) -> None:
    """From file to key through `prepare_inputs`: each fixture alone, and requests of several."""
    profile, family = MLX_VLM_0_7, FAMILIES[name]
    folder = folder_of(tmp_path, family, {**PUBLISHED[name], "max_pixels": 100_352})
    processor = server_processor_of(folder, name)
    ours = our_preprocessor(folder, family, profile)
    frames = fixtures.frames(profile)
    fit = [each for each, found in frames.items() if ratio(found) <= 200]
    requests = [*((each,) for each in fit), *itertools.pairwise(fit), tuple(fit[:5])]
    made = {each: ours(frames[each]) for each in fit}
    wrong = []
    for request in requests:
        theirs = server_key(processor, [fixtures.files[each] for each in request])
        if our_key(ours, [made[each] for each in request]) != theirs:
            wrong.append(request)
        named = " + ".join(request)
        tally.add(profile.name, f"{name}, key", named, differing=int(request in wrong))
    assert wrong == []


def ratio(frames: Frames) -> float:
    sides = frames.width, frames.height
    return max(sides) / min(sides)
