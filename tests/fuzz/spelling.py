"""JSON as a tree whose numbers and texts keep their spelling, so that any of it can be misspelt."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Node", "Pair", "Table", "Token", "parsed", "spelled", "tables", "tokens"]


@dataclass
class Token:
    """A number, text or word, as it is written."""

    text: str


@dataclass
class Pair:
    """A key, as it is written, and its value."""

    key: str
    value: Node


@dataclass
class Table:
    """An object; its keys need not differ."""

    pairs: list[Pair] = field(default_factory=list)


Node = Token | Table | list["Node"]


def parsed(text: str) -> Node:
    """The tree of JSON that is right."""
    return _node(json.loads(text, object_pairs_hook=tuple, parse_int=Token))


def _node(value: object) -> Node:
    if isinstance(value, Token):
        return value
    if isinstance(value, tuple):
        return Table([Pair(json.dumps(key), _node(inner)) for key, inner in value])
    if isinstance(value, list):
        return [_node(inner) for inner in value]
    return Token(json.dumps(value))


def spelled(node: Node, rng: random.Random | None = None) -> str:
    """The text of a tree; with white space in odd places where `rng` says so."""
    if isinstance(node, Token):
        return node.text
    gap = _gap(rng)
    if isinstance(node, list):
        return f"[{gap}{f',{gap}'.join(spelled(inner, rng) for inner in node)}]"
    pairs = (f"{pair.key}{gap}:{gap}{spelled(pair.value, rng)}" for pair in node.pairs)
    return f"{{{gap}{f',{gap}'.join(pairs)}}}"


def _gap(rng: random.Random | None) -> str:
    if rng is None or rng.random() < 0.7:
        return ""
    return rng.choice([" ", "\n", "\t", "\r\n", "  ", "\f", "\v", "\u00a0", "\ufeff", "/**/"])


def tables(node: Node) -> Iterator[Table]:
    """Every object of a tree, outermost first."""
    if isinstance(node, Table):
        yield node
        for pair in node.pairs:
            yield from tables(pair.value)
    elif isinstance(node, list):
        for inner in node:
            yield from tables(inner)


def tokens(node: Node) -> Iterator[Token]:
    """Every token of a tree."""
    if isinstance(node, Token):
        yield node
    elif isinstance(node, list):
        for inner in node:
            yield from tokens(inner)
    else:
        for pair in node.pairs:
            yield from tokens(pair.value)
