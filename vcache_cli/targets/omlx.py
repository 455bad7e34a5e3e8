"""oMLX as a target: which features of which model it looks up, and what would harm it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.errors import ModelError, RefusedError, UsageError
from vcache_cli.targets.omlx_layout import OmlxLayout
from vcache_cli.targets.omlx_names import image_hash, omlx_key
from vcache_cli.targets.values import stored, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.items import Features, Pixels
    from vcache_cli.protocols import Evidence, KeyFrom, Unit
    from vcache_cli.recipe import Recipe
    from vcache_cli.tensor import Tensor

__all__ = ["OmlxTarget"]

FLAT_FAMILIES: Final = frozenset(
    {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "gemma4_unified", "mimo_v2"}
)
"""Features of an image are (num_tokens, width); of the other families (1, num_tokens, width)."""

LOSSY_FAMILIES: Final = frozenset({"qwen3_vl"})
"""The server keeps the first of several outputs, and answers from that one alone."""

MIXED_FAMILIES: Final = frozenset({"gemma4"})
"""Images may differ in their token counts; those of a request are (1, all tokens, width)."""

FAMILIES: Final = FLAT_FAMILIES | {"llava", "gemma4"}
"""Those that the server encodes apart from the language model, and `mimo_v2`, of which it is only
known that it looks features up and that the model takes them: none were seen to be stored."""

_MIXED_SINCE: Final = (0, 6, 5)
"""The first version in which images of different token counts do not fail a request."""

_VERSION: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){0,4}")

_MOST_BYTES: Final = int(9.5 * 1024**3)
"""What the whole directory may hold: at 10 GiB the server deletes from the front, good or not."""


_LAYOUT: Final = OmlxLayout()


@dataclass(frozen=True, slots=True)
class OmlxTarget:
    """oMLX's ``vision_features``: keys by model path and decoded pixels. Pure."""

    name: str = "omlx"
    key_from: KeyFrom = "frames"
    unit: Unit = "item"
    profile: str | None = "omlx"
    layout: OmlxLayout = _LAYOUT
    output: str = "projected"
    takes_stills: bool = True
    max_store_bytes: int = _MOST_BYTES
    note: str = "a model that oMLX has loaded sees new files only after it is reloaded"

    def options(self, given: Mapping[str, Any], checkpoint: Checkpoint) -> dict[str, Any]:
        """``model_name``, the string in the server's keys, and ``max_side``, pixels (0: none).

        Args:
            given: those two; ``allow_lossy``; ``omlx_version``; ``groups``: ``only`` where no
                image is warmed alone.
            checkpoint: of the model that the server loads.

        Raises:
            UsageError: an option that makes no sense.
            ModelError: a family whose features the server does not look up.
            RefusedError: entries that would harm, with the option that allows them.
        """
        family = _family(checkpoint)
        if family not in FAMILIES:
            raise ModelError(
                f"oMLX encodes no `{family}` pictures apart from the language model, so it is not "
                "known in which form it would take their features",
                hint=f"families that it does: {', '.join(sorted(FAMILIES))}",
            )
        if family in LOSSY_FAMILIES and _deepstack(checkpoint) and not given.get("allow_lossy"):
            raise RefusedError(
                f"oMLX keeps of `{family}` the last features and drops its DeepStack ones: from "
                "a warmed entry the model sees less of a picture than it was trained with",
                hint="`--allow-lossy` warms it all the same: oMLX itself answers so too",
            )
        version = _version(given.get("omlx_version"))
        if family in MIXED_FAMILIES and given.get("groups") != "only":
            _check_version(family, version)
        max_side = given.get("max_side", 2048)
        if type(max_side) is not int or not 0 <= max_side <= 65536:
            raise UsageError(f"`--max-side`: expected 0 to 65536 pixels, got {max_side!r}")
        name = given.get("model_name")
        if name is None:
            name = str(checkpoint.folder.absolute())
        _check_name(name)
        return {"model_name": name, "max_side": max_side}

    def key(self, recipe: Recipe, evidence: Evidence) -> str:
        """Of the model's name and the hash of all pictures, in order."""
        return omlx_key(recipe.target_options["model_name"], _hash(evidence))

    def is_current(self, recipe: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
        """By weights, settings and our own revisions; how precisely was computed does not count.

        What else decides pixels, such as `max_side`, is in the hash.
        """
        return _decisive(recipe) == _decisive(found)

    def metadata(self, recipe: Recipe, evidence: Evidence) -> dict[str, str]:
        """The names in the key, and the patch grid of a single picture that has one."""
        known = {
            "model_name": recipe.target_options["model_name"],
            "image_hash": _hash(evidence),
        }
        grids = [p.pixels.tensors.get("image_grid_thw") for p in evidence.pictures if p.pixels]
        if len(grids) == 1 and grids[0] is not None:
            known["grid_thw"] = json.dumps([int(side) for side in grids[0].reshape(-1)])
        return known

    def tensors(self, recipe: Recipe, value: Pixels | Features) -> dict[str, Tensor]:
        """`feature`, in the form in which the server joins images.

        Raises:
            EncodeError: a feature that is infinite in the stored dtype.
        """
        return self.group_tensors(recipe, [value])

    def group_tensors(
        self, recipe: Recipe, values: Sequence[Pixels | Features]
    ) -> dict[str, Tensor]:
        """As `tensors`; the rows of all pictures, one after the other.

        Raises:
            EncodeError: see `tensors`; or pictures of one request that do not fit together.
        """
        dtype = recipe.encoder.stored_dtype if recipe.encoder else None
        arrays = [_rows(value) for value in values]
        if recipe.family in MIXED_FAMILIES:
            joined = together([array.reshape(-1, array.shape[-1]) for array in arrays])[None]
        elif recipe.family in FLAT_FAMILIES:
            joined = together(arrays)
        else:
            joined = together([array if array.ndim == 3 else array[None] for array in arrays])
        return {"feature": stored("feature", joined, dtype)}


def _rows(value: Pixels | Features) -> NDArray[Any]:
    """Features of a picture as one array: some models give a list of its parts."""
    parts = [each for name, each in value.tensors.items() if name.startswith("features.")]
    return together(parts) if parts else value.tensors["features"]


def _check_name(name: str) -> None:
    """Refuse what the server never holds.

    Raises:
        UsageError: no path, one whose home is not spelled out, or no Unicode text.
    """
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the server's name of a model is Unicode text, and {name!r:.80} is not",
            hint="`--model-name` is the path under which oMLX loads the model",
        ) from error
    if not name or "\0" in name or name.startswith("~"):
        raise UsageError(
            f"`--model-name`: expected the whole path under which oMLX loads the model, got "
            f"{name!r:.80}"
        )


def _family(checkpoint: Checkpoint) -> str:
    return str(checkpoint.config.get("model_type")).removesuffix("_moe")


def _deepstack(checkpoint: Checkpoint) -> bool:
    """False only where the configuration says that there are no such features."""
    vision = checkpoint.config.get("vision_config")
    indexes = vision.get("deepstack_visual_indexes") if isinstance(vision, dict) else None
    return indexes != []


def _version(text: str | None) -> tuple[int, ...]:
    """Empty where none was given.

    Raises:
        UsageError: not numbers with dots between them.
    """
    if text is None:
        return ()
    if _VERSION.fullmatch(text) is None:
        raise UsageError(f"`--omlx-version`: expected a version such as `0.6.5`, got {text!r:.40}")
    return tuple(map(int, text.split(".")))


def _check_version(family: str, version: tuple[int, ...]) -> None:
    if version < _MIXED_SINCE:
        raise RefusedError(
            f"`{family}` images have different token counts, and oMLX up to 0.6.4 fails a request "
            "with two of them, for as long as their entries are there",
            hint="`--groups FILE` warms whole requests; or say `--omlx-version 0.6.5` or newer",
        )


def _hash(evidence: Evidence) -> str:
    frames = [each.frames for each in evidence.pictures]
    return image_hash(each.rgb[0] for each in frames if each is not None)


def _decisive(recipe: Mapping[str, Any]) -> list[Any]:
    """The parts of a recipe, as JSON, that the server's key leaves out."""
    encoder = recipe.get("encoder")
    made = encoder if isinstance(encoder, dict) else {}
    parts = ("profile_revision", "family", "family_revision", "settings")
    how = ("tower", "revision", "fingerprint", "output")
    return [*(recipe.get(name) for name in parts), *(made.get(name) for name in how)]
