"""From names to a recipe, and to the objects that carry it out."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from vcache_cli import media, registry
from vcache_cli.assemble.clips import ClipParts, StillsParts, load_clips
from vcache_cli.assemble.fit import check_fit
from vcache_cli.assemble.options import COMPUTE_DTYPES, WarmOptions
from vcache_cli.assemble.releases import check_release
from vcache_cli.assemble.servers import choose_family, encode_by_server, open_server
from vcache_cli.assemble.targets import demanded, load_warm_target, resolve_options
from vcache_cli.checkpoint import (
    SETTINGS_FILES,
    Checkpoint,
    download,
    is_hub_name,
    open_checkpoint,
)
from vcache_cli.config import memo_folder
from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.encode import FingerprintMemo, choose_backend, load_encoder
from vcache_cli.errors import MissingWeightsError, UsageError
from vcache_cli.items import Stage
from vcache_cli.outcome import Failure
from vcache_cli.preprocess.processors import are_usual, check_processors
from vcache_cli.protocols import Evidence
from vcache_cli.recipe import EncoderRecipe, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vcache_cli.encode import TowerEncoder
    from vcache_cli.profile import Profile
    from vcache_cli.protocols import Backend, Encoder, Preprocessor, WarmTarget

__all__ = ["LoadedRecipe", "load_recipe"]


@dataclass(frozen=True, slots=True)
class LoadedRecipe:
    """A recipe with everything that carries it out."""

    recipe: Recipe
    target: WarmTarget
    checkpoint: Checkpoint
    profile: Profile
    make_preprocessor: Callable[[], Preprocessor]
    """Gives the same one each time; of a checkpoint that it cannot follow it raises ModelError."""
    encoder: Encoder | None
    """None for stage ``pixels``."""
    clips: ClipParts | StillsParts | Failure
    """What is done with videos, or why they are skipped."""

    @property
    def preprocessor(self) -> Preprocessor:
        """Made at its first use: where nothing is to be done, its libraries are not loaded.

        Raises:
            ModelError: settings that give no finite pixels.
        """
        return self.make_preprocessor()

    @property
    def context(self) -> str:
        """Digest of the recipe and the library versions: what memos were learnt under."""
        known: dict[str, Any] = {"recipe": self.recipe.digest, "versions": media.versions()}
        if not isinstance(self.clips, Failure):
            known |= {"clips": self.clips.recipe.digest, "av": media.av_version()}
        return digest_json(known)

    @property
    def versions(self) -> Mapping[str, str]:
        """What makes the tensors, as provenance."""
        made_by = {**self.encoder.device, **self.encoder.versions} if self.encoder else {}
        return {**media.versions(), **made_by}

    def describe(self) -> dict[str, Any]:
        """The fields by which documents name a recipe."""
        options = dict(self.recipe.target_options)
        return {
            "target": self.recipe.target,
            "stage": self.recipe.stage.value,
            "model": self.checkpoint.label,
            "profile": self.recipe.profile,
            "recipe": self.recipe.digest,
            **({"target_options": options} if options else {}),
        }

    def key_of(self, data: bytes) -> str:
        """The entry key of a picture's encoded bytes; decodes only where the target's key needs it.

        Raises:
            MediaError, EncodeError: the picture is needed and cannot be used.
        """
        source_sha256 = digest_bytes(data)
        frames = pixels = None
        if self.target.key_from != "digest":
            frames = media.PillowDecoder(self.profile).decode(data)
        if frames and self.target.key_from == "pixels":
            pixels = self.preprocessor(frames)
        processed = self.preprocessor.processed
        evidence = Evidence(source_sha256, frames, pixels, processed=processed)
        return self.target.key(self.recipe, evidence)


def load_recipe(model: str | os.PathLike[str], options: WarmOptions | None = None) -> LoadedRecipe:
    """Everything that `model` and `options` name, weights loaded where the stage needs them.

    Raises:
        UsageError: a name that nothing answers to.
        ModelError: the model, its settings, its weights or the backend are not usable.
        RefusedError: the model brings code that would be run.
    """
    options, name = options or WarmOptions(), os.fspath(model)
    if not options.download or os.path.isdir(name) or not is_hub_name(name):
        return _load_recipe(name, options)
    download(name, SETTINGS_FILES)
    try:
        return _load_recipe(name, options)
    except MissingWeightsError as error:
        download(name, error.files)  # of the files that an index names, only those needed
        return _load_recipe(name, options)


def _load_recipe(model: str, options: WarmOptions) -> LoadedRecipe:
    target = load_warm_target(options.target)
    options = demanded(target, options)
    profile: Profile = registry.load("profiles", target.profile or options.profile)
    check_release(profile, force=options.force_profile)
    checkpoint = open_checkpoint(model)
    target_options = resolve_options(target, options, checkpoint)
    if "max_side" in target_options:
        profile = replace(profile, max_side=target_options["max_side"] or None)
    server = open_server(checkpoint, options)
    family, settings = choose_family(checkpoint, profile, server)
    make_preprocessor = cache(partial(family.preprocessor, settings, profile))
    check_processors(profile)
    if server or not are_usual(settings):
        make_preprocessor()  # refuses what it cannot follow
    encoder = tower_encoder = encoder_recipe = None
    if options.stage is Stage.FEATURES and server:
        encoder, encoder_recipe = encode_by_server(server, make_preprocessor(), options)
    elif options.stage is Stage.FEATURES:
        tower_encoder, encoder_recipe = _load_encoder(checkpoint, family.name, options)
    recipe = Recipe(
        stage=options.stage,
        target=target.name,
        profile=profile.name,
        profile_revision=profile.revision,
        family=family.name,
        family_revision=family.revision,
        settings=settings,
        target_options=target_options,
        encoder=encoder_recipe,
    )
    if tower_encoder:
        check_fit(checkpoint, recipe, make_preprocessor, tower_encoder, _memo())
    encoder = encoder or tower_encoder
    clips = load_clips(checkpoint, profile, recipe, options, target)
    return LoadedRecipe(recipe, target, checkpoint, profile, make_preprocessor, encoder, clips)


def _load_encoder(
    checkpoint: Checkpoint, name: str, options: WarmOptions
) -> tuple[TowerEncoder, EncoderRecipe]:
    tower = registry.load("towers", name)
    available: list[Backend] = [
        registry.load("backends", each) for each in registry.names("backends")
    ]
    backend = choose_backend(options.backend, available)
    encoder = load_encoder(
        checkpoint,
        tower,
        backend,
        output=options.output,
        compute_dtype=COMPUTE_DTYPES[options.compute_dtype],
        memo=_memo(),
    )
    recipe = EncoderRecipe(
        tower=tower.name,
        revision=tower.revision,
        fingerprint=encoder.fingerprint,
        output=encoder.output,
        compute_dtype=encoder.compute_dtype,
        stored_dtype=options.stored_dtype,
    )
    return encoder, recipe


def _memo() -> FingerprintMemo | None:
    """None for a user without a home: then nothing is remembered."""
    try:
        return FingerprintMemo(memo_folder() / "fingerprints.json")
    except UsageError:
        return None
