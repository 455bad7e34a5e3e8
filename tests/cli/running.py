"""Runs the command in this process, and holds every `--json` document against its schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from vcache_cli.cli.app import run
from vcache_cli.cli.documents import schema

if TYPE_CHECKING:
    import pytest

__all__ = ["Result", "Vcache", "conforming", "running"]


@dataclass(frozen=True)
class Result:
    """What one command line left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout, as its schema says."""
        return conforming(self.out)


Vcache = Callable[..., Result]


def conforming(text: str) -> dict[str, Any]:
    """The one JSON object in `text`; it names a schema and follows it."""
    _check(text)
    document: dict[str, Any] = json.loads(text)
    return document


@lru_cache(maxsize=64)  # a test asks for one document many times
def _check(text: str) -> None:
    document = json.loads(text)
    _validator(document["schema"]).validate(document)


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


def running(capsys: pytest.CaptureFixture[str]) -> Vcache:
    """A `vcache` that returns what it did instead of leaving the process."""

    def vcache(*args: object) -> Result:
        capsys.readouterr()
        words = [str(arg) for arg in args]
        code = run(words)
        captured = capsys.readouterr()
        result = Result(code, captured.out, captured.err)
        if "--json" in words:
            assert result.document["vcache_version"]
        return result

    return vcache
