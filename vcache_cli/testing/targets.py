"""The contract of a target: what it declares, and that a real store of it works."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from vcache_cli.digest import digest_bytes
from vcache_cli.entry import Entry, Provenance
from vcache_cli.items import Features, Frames, Pixels
from vcache_cli.protocols import (
    Annotator,
    Evidence,
    Exclusive,
    GroupTarget,
    Layout,
    Target,
    WarmTarget,
)
from vcache_cli.recipe import Recipe
from vcache_cli.store import DiskStore, StoreRoot, create_meta
from vcache_cli.store.recognise import looks_like
from vcache_cli.store.scan import scan_store
from vcache_cli.store.writer import pack_entry
from vcache_cli.testing.audit import watch_io
from vcache_cli.testing.files import contents
from vcache_cli.testing.layouts import LayoutTests

__all__ = ["ExclusiveTests", "GroupTargetTests", "TargetTests", "WarmTargetTests"]


class TargetTests(LayoutTests):
    """What every target does, its layout's tests among it. Override `target` and `entries`."""

    @pytest.fixture
    def target(self) -> Target:
        """The target under test."""
        raise NotImplementedError("override the fixture `target`")

    @pytest.fixture
    def layout(self, target: Target) -> Layout:
        """The target's own."""
        return target.layout

    def test_it_declares_its_contract(self, target: Target) -> None:
        """Names are those that entry points, stores and commands carry."""
        assert isinstance(target, Target)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", target.name)
        assert target.key_from in {"digest", "frames", "pixels"}
        assert target.unit in {"item", "group"}
        assert target.profile is None or target.profile

    def test_it_is_made_without_arguments_and_crosses_to_another_process(
        self, target: Target
    ) -> None:
        """An entry point is called with nothing; workers get a copy."""
        for again in (type(target)(), pickle.loads(pickle.dumps(target))):  # noqa: S301  our own
            assert (again.name, again.key_from, again.unit, again.profile) == (
                *(target.name, target.key_from, target.unit),
                target.profile,
            )

    def test_a_store_of_it_holds_what_was_put(
        self, target: Target, entries: Sequence[Entry], tmp_path: Path
    ) -> None:
        """Put, recognised, scanned and got; a stranger beside the entries is none of them."""
        root = _store(tmp_path / "store", target)
        with DiskStore(root, mode="w") as store:
            for entry in entries:
                store.put(entry)
        place = root.path / target.layout.path_of(entries[0].key)
        place.with_name("stranger.txt").write_bytes(b"not an entry")
        assert looks_like(root.path, target.layout)
        keys = {target.layout.key_of(file.path) for file in scan_store(root).entries}
        assert keys == {target.layout.key_of(target.layout.path_of(one.key)) for one in entries}
        with DiskStore(root) as store:
            for entry in entries:
                found = store.get(entry.key)
                assert found is not None, store.findings
                assert contents(found.tensors) == contents(entry.tensors)

    def test_an_empty_directory_is_not_taken_for_its_store(
        self, target: Target, tmp_path: Path
    ) -> None:
        """A directory is recognised by its entries, never by directories alone."""
        for name in (target.layout.shards or ("some-id",))[:3]:
            (tmp_path / name).mkdir()
        assert not looks_like(tmp_path, target.layout)


class WarmTargetTests(TargetTests):
    """What a target that can be warmed does besides. Override `recipe`, `evidence`, `value` too."""

    @pytest.fixture
    def recipe(self) -> Recipe:
        """A recipe for the target."""
        raise NotImplementedError("override the fixture `recipe`")

    @pytest.fixture
    def evidence(self) -> Evidence:
        """All that is known of an item after the last step: frames and pixels are there."""
        raise NotImplementedError("override the fixture `evidence`")

    @pytest.fixture
    def value(self) -> Pixels | Features:
        """What the recipe's last step gives for that item."""
        raise NotImplementedError("override the fixture `value`")

    @pytest.fixture
    def warm_target(self, target: Target) -> WarmTarget:
        """The target, known to be one that can be warmed."""
        assert isinstance(target, WarmTarget)
        return target

    def test_a_key_needs_no_later_step_than_declared(
        self, warm_target: WarmTarget, recipe: Recipe, evidence: Evidence
    ) -> None:
        """`key_from` is what a warm relies on to skip the steps behind it."""
        known = evidence
        if warm_target.key_from != "pixels":
            known = replace(known, pixels=None)
        if warm_target.key_from == "digest":
            known = replace(known, frames=None)
        key = warm_target.key(recipe, known)
        assert key == warm_target.key(recipe, evidence)
        assert warm_target.layout.path_of(key)

    def test_what_is_warmed_can_be_stored(
        self,
        warm_target: WarmTarget,
        recipe: Recipe,
        evidence: Evidence,
        value: Pixels | Features,
    ) -> None:
        """Its own key and tensors, with the provenance of a warm, make a file of its layout."""
        provenance = Provenance(evidence.source_sha256, recipe.as_json(), "a-model")
        key, tensors = warm_target.key(recipe, evidence), warm_target.tensors(recipe, value)
        metadata: Mapping[str, str] = {}
        if isinstance(warm_target, Annotator):
            metadata = warm_target.metadata(recipe, evidence)
        entry = Entry(key, recipe.stage, tensors, provenance, metadata)
        packed = pack_entry(entry, warm_target.layout)
        assert packed.relative == warm_target.layout.path_of(key)

    def test_features_are_stored_in_the_recipes_dtype(
        self, warm_target: WarmTarget, recipe: Recipe, value: Pixels | Features
    ) -> None:
        """Floats of an encoder are narrowed; whole numbers and pixels stay what they are."""
        floats = {
            tensor.dtype
            for tensor in warm_target.tensors(recipe, value).values()
            if tensor.dtype in {"BF16", "F16", "F32", "F64"}
        }
        assert recipe.encoder is None or floats == {recipe.encoder.stored_dtype}

    def test_keys_and_tensors_take_no_input_or_output(
        self,
        warm_target: WarmTarget,
        recipe: Recipe,
        evidence: Evidence,
        value: Pixels | Features,
    ) -> None:
        """They run in any worker, on any machine."""
        for watched in (False, True):  # the first round may import
            with watch_io() as found:
                warm_target.key(recipe, evidence)
                warm_target.tensors(recipe, value)
            assert not watched or found == []

    def test_another_picture_has_another_key(
        self, warm_target: WarmTarget, recipe: Recipe, evidence: Evidence
    ) -> None:
        """Of a key that follows the source's digest, at least."""
        if warm_target.key_from == "digest":
            other = replace(evidence, source_sha256=digest_bytes(b"another picture"))
            assert warm_target.key(recipe, other) != warm_target.key(recipe, evidence)


class GroupTargetTests(WarmTargetTests):
    """What a target does that can hold the pictures of a request as one entry."""

    @pytest.fixture
    def another(self, evidence: Evidence) -> Evidence:
        """Of another picture of the same size; override it where the key comes from pixels."""
        assert evidence.frames is not None
        frames = Frames(255 - evidence.frames.rgb)
        return replace(evidence, source_sha256=digest_bytes(b"another picture"), frames=frames)

    @pytest.fixture
    def group_target(self, target: Target) -> GroupTarget:
        """The target, known to have the capability."""
        assert isinstance(target, GroupTarget)
        return target

    def test_a_request_is_known_by_its_pictures_in_order(
        self, group_target: GroupTarget, recipe: Recipe, evidence: Evidence, another: Evidence
    ) -> None:
        """The language model sees them in that order."""
        request = _request(evidence, another)
        keys = [
            group_target.key(recipe, each)
            for each in (request, _request(another, evidence), evidence, another)
        ]
        assert len(set(keys)) == 4
        assert group_target.key(recipe, request) == keys[0]

    def test_a_request_of_one_picture_is_that_picture(
        self, group_target: GroupTarget, recipe: Recipe, evidence: Evidence
    ) -> None:
        """So that either way of warming it makes the same entry."""
        assert group_target.key(recipe, _request(evidence)) == group_target.key(recipe, evidence)

    def test_a_warmed_request_can_be_stored(
        self,
        group_target: GroupTarget,
        recipe: Recipe,
        evidence: Evidence,
        value: Pixels | Features,
    ) -> None:
        """As `test_what_is_warmed_can_be_stored`, of a picture that a request has twice."""
        request = _request(evidence, evidence)
        key = group_target.key(recipe, request)
        tensors = group_target.group_tensors(recipe, [value, value])
        metadata: Mapping[str, str] = {}
        if isinstance(group_target, Annotator):
            metadata = group_target.metadata(recipe, request)
        provenance = Provenance(request.source_sha256, recipe.as_json(), "a-model")
        entry = Entry(key, recipe.stage, tensors, provenance, metadata)
        assert pack_entry(entry, group_target.layout).relative == group_target.layout.path_of(key)


class ExclusiveTests(WarmTargetTests):
    """What a target does whose stores are of one model each."""

    def test_a_store_remembers_whose_it_is(self, target: Target, recipe: Recipe) -> None:
        """JSON values, equal for the model and others for other weights."""
        assert isinstance(target, Exclusive)
        known = dict(target.store_options(recipe))
        assert known
        assert json.loads(json.dumps(known)) == known == target.store_options(recipe)
        assert recipe.encoder is not None
        other = replace(recipe, encoder=replace(recipe.encoder, fingerprint="0" * 64))
        assert target.store_options(other) != known


def _request(*pictures: Evidence) -> Evidence:
    whole = digest_bytes(" ".join(each.source_sha256 for each in pictures).encode())
    return Evidence(whole, members=pictures, processed=pictures[0].processed)


def _store(path: Path, target: Target) -> StoreRoot:
    return StoreRoot(path, target.layout, create_meta(path, target=target.name))
