"""A kit that lets a broken layout pass proves nothing: each of these is caught."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping

import pytest

from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.entry import Entry, Provenance
from vcache_cli.header import HeaderLimits
from vcache_cli.items import Stage
from vcache_cli.targets import NativeLayout, native_key
from vcache_cli.tensor import Tensor
from vcache_cli.testing import LayoutTests


def entry(name: bytes) -> Entry:
    source = digest_bytes(name)
    key = native_key(Stage.FEATURES, source, digest_json({}))
    return Entry(key, Stage.FEATURES, {"features": Tensor("U8", (2,), b"ab")}, Provenance(source))


ENTRIES = [entry(b"one"), entry(b"two")]


class Escaping(NativeLayout):
    def path_of(self, key: str) -> str:
        return f"{key[:2]}/{key}.safetensors"


class Greedy(NativeLayout):
    def key_of(self, path: str) -> str | None:
        return super().key_of(path.strip())


class Generous(NativeLayout):
    def key_of(self, path: str) -> str | None:
        return super().key_of(path.removesuffix(".tmp"))


class Crowded(NativeLayout):
    def path_of(self, key: str) -> str:
        return super().path_of("0" * 64)


class Trusting(NativeLayout):
    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        tokens = int(metadata["vcache.num_tokens"]) if "vcache.num_tokens" in metadata else None
        known = Provenance(metadata["vcache.source_sha256"], num_tokens=tokens)
        return Entry(self.key_of(path) or "", Stage.FEATURES, tensors, known, metadata)


class Confused(NativeLayout):
    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        found = super().unpack(path, metadata, tensors)
        return Entry("0" * 64, found.stage, tensors, found.provenance, metadata)


class Forgetful(NativeLayout):
    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        found = super().unpack(path, metadata, tensors)
        return Entry(found.key, found.stage, {}, found.provenance, metadata)


class Looking(NativeLayout):
    def key_of(self, path: str) -> str | None:
        os.listdir("/")
        return super().key_of(path)


class Misaligned(NativeLayout):
    @property
    def limits(self) -> HeaderLimits:
        return HeaderLimits(alignment_bytes=48)


class Bound(NativeLayout):
    def __reduce__(self) -> tuple[object, ...]:
        return Crowded, ()


Check = Callable[..., None]
CAUGHT: list[tuple[type[NativeLayout], Check]] = [
    (Escaping, LayoutTests.test_a_path_never_leaves_the_root),
    (Greedy, LayoutTests.test_foreign_files_have_no_key),
    (Generous, LayoutTests.test_foreign_files_have_no_key),
    (Crowded, LayoutTests.test_a_key_has_one_place_and_the_place_one_key),
    (Trusting, LayoutTests.test_no_field_can_lie_about_its_type),
    (Confused, LayoutTests.test_unpacking_what_was_packed_gives_the_same_entry),
    (Confused, LayoutTests.test_hostile_metadata_gives_invalid_entry_error_only),
    (Forgetful, LayoutTests.test_unpacking_what_was_packed_gives_the_same_entry),
    (Looking, LayoutTests.test_it_does_no_input_or_output),
    (Misaligned, LayoutTests.test_its_limits_make_sense),
    (Bound, LayoutTests.test_it_crosses_to_another_process),
]
SOUND = sorted({check.__name__ for _, check in CAUGHT})


@pytest.mark.parametrize(
    ("layout", "check"), CAUGHT, ids=[f"{kind.__name__}-{each.__name__}" for kind, each in CAUGHT]
)
def test_a_broken_layout_is_caught(layout: type[NativeLayout], check: Check) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError, ExceptionGroup)):
        ask(check, layout())


@pytest.mark.parametrize("check", SOUND, ids=SOUND)
def test_a_sound_layout_is_not(check: str) -> None:
    ask(getattr(LayoutTests, check), NativeLayout())


def ask(check: Check, layout: NativeLayout) -> None:
    """Run one test of the kit, outside pytest."""
    wanted = {"layout": layout, "entries": ENTRIES}
    names = inspect.signature(check).parameters
    check(LayoutTests(), **{name: value for name, value in wanted.items() if name in names})
