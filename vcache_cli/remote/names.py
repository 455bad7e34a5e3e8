"""Names of the objects of a remote store. Pure."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from typing import Final

from vcache_cli.store.run_id import RUN_ID_PATTERN, is_run_id, new_run_id, run_id_seconds

__all__ = ["MANIFESTS", "OBJECTS", "TAG_NAME", "ManifestName", "object_digest", "object_name"]

OBJECTS: Final = "objects"
MANIFESTS: Final = "manifests"
TAG_NAME: Final = "CACHEDIR.TAG"
_OBJECT: Final = re.compile(rf"{OBJECTS}/([0-9a-f]{{2}})/([0-9a-f]{{64}})", re.ASCII)
_MANIFEST: Final = re.compile(
    rf"{MANIFESTS}/({RUN_ID_PATTERN})\.(\d{{6}})-([0-9a-f]{{8}})\.jsonl", re.ASCII
)


def object_name(sha256: str) -> str:
    """Where the bytes of that digest lie.

    >>> object_name("ab" * 32)[:13]
    'objects/ab/ab'
    """
    return f"{OBJECTS}/{sha256[:2]}/{sha256}"


def object_digest(name: str) -> str | None:
    """The digest of the bytes that lie under `name`; None where no entry has such a name."""
    found = _OBJECT.fullmatch(name)
    return found[2] if found and found[2].startswith(found[1]) else None


@dataclass(frozen=True, slots=True, order=True)
class ManifestName:
    """What the name of a manifest says."""

    run: str
    """The push that made it. Sorts after those of earlier pushes."""
    generation: int = 0
    """How often a prune has made it anew; the highest one counts."""
    token: str = ""
    """Random: two that make one anew at once do not meet."""

    @classmethod
    def new(cls) -> ManifestName:
        """Of a push that begins now."""
        return cls(new_run_id(time.time()), 0, secrets.token_hex(4))

    def next(self) -> ManifestName:
        """Of what replaces it."""
        return ManifestName(self.run, self.generation + 1, secrets.token_hex(4))

    @property
    def name(self) -> str:
        """Of the object, below the store's place."""
        return f"{MANIFESTS}/{self.run}.{self.generation:06d}-{self.token}.jsonl"

    @property
    def pushed_seconds(self) -> float:
        """When the push began, since 1970."""
        return run_id_seconds(self.run)

    @classmethod
    def parse(cls, name: str) -> ManifestName | None:
        """From the name of an object; None where that is no manifest's."""
        found = _MANIFEST.fullmatch(name)
        if found is None or not is_run_id(found[1]):
            return None
        return cls(found[1], int(found[2]), found[3])
