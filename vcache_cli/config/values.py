"""Text to values: sizes, ages, shares. A parser raises ValueError; its caller names the place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vcache_cli.buckets import is_url
from vcache_cli.quantity import parse_age, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "one_of",
    "parse_bool",
    "parse_bytes",
    "parse_count",
    "parse_folder",
    "parse_fraction",
    "parse_max_errors",
    "parse_optional_bytes",
    "parse_optional_seconds",
    "parse_seconds",
    "parse_shard",
    "parse_side",
    "parse_text",
]


def parse_text(value: object) -> str:
    """A text that is not empty.

    Raises:
        ValueError: anything else.
    """
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value


def parse_folder(value: object) -> str:
    """The path of a folder on this machine.

    Raises:
        ValueError: no text, or the URL of a bucket.
    """
    text = parse_text(value)
    if is_url(text):
        raise ValueError(value)
    return text


def parse_bytes(value: object) -> int:
    """Bytes of a size; a bare number is bytes.

    Raises:
        ValueError: not a size, negative, or a number with a fraction.
        UsageError: a text that is not a size.

    >>> parse_bytes("10GiB"), parse_bytes(12)
    (10737418240, 12)
    """
    if isinstance(value, str):
        return parse_size(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value


def parse_optional_bytes(value: object) -> int | None:
    """Bytes of a size, or None for ``none``.

    Raises:
        ValueError: neither.
        UsageError: a text that is neither.
    """
    return None if value == "none" else parse_bytes(value)


def parse_seconds(value: object) -> float:
    """Seconds of an age such as ``12h``.

    Raises:
        ValueError: no text.
        UsageError: a text that is not an age.

    >>> parse_seconds("10m")
    600.0
    """
    return parse_age(parse_text(value))


def parse_optional_seconds(value: object) -> float | None:
    """Seconds of an age, more than none of them; or None for ``none``.

    Raises:
        ValueError: neither.
        UsageError: a text that is neither.

    >>> parse_optional_seconds("5m"), parse_optional_seconds("none")
    (300.0, None)
    """
    if value == "none":
        return None
    seconds = parse_seconds(value)
    if seconds <= 0:
        raise ValueError(value)
    return seconds


def parse_fraction(value: object) -> float:
    """0..1 from a percentage such as ``95%``, ``99.5%`` or ``95``.

    Raises:
        ValueError: no percentage, beyond 100 %, or ``0.95``, which may be meant as a share.

    >>> parse_fraction("95%"), parse_fraction("95")
    (0.95, 0.95)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", str(value), re.ASCII)
    if not isinstance(value, str) or found is None or float(found[1]) > 100:
        raise ValueError(value)
    if not found[2] and 0 < float(found[1]) < 1:
        raise ValueError(value)
    return float(found[1]) / 100


def parse_count(value: object) -> int:
    """A whole number of at least 1.

    Raises:
        ValueError: anything else.
    """
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value, re.ASCII):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(value)
    return value


def parse_side(value: object) -> int:
    """A picture's side in pixels, 0 to 65536.

    Raises:
        ValueError: anything else.
    """
    if value in {0, "0"} and not isinstance(value, bool):
        return 0
    side = parse_count(value)
    if side > 65536:
        raise ValueError(value)
    return side


def parse_max_errors(value: object) -> str:
    """A number of items, or a percentage of them, as it is written.

    Raises:
        ValueError: neither.

    >>> parse_max_errors("5%"), parse_max_errors(10)
    ('5%', '10')
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = parse_text(str(value) if is_number else value).strip()
    if "%" in text:
        parse_fraction(text)
        return text.replace(" ", "")
    return "0" if text == "0" else str(parse_count(text))


def parse_shard(value: object) -> tuple[int, int]:
    """``i/n``: the i-th of n parts, counted from 1.

    Raises:
        ValueError: anything else.

    >>> parse_shard("2/8")
    (2, 8)
    """
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", str(value), re.ASCII)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(value)
    return int(found[1]), int(found[2])


def parse_bool(value: object) -> bool:
    """True or false, as TOML has it or as an environment variable spells it.

    Raises:
        ValueError: anything else.
    """
    spelled = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    text = str(value).lower()
    if not isinstance(value, bool | str) or text not in spelled:
        raise ValueError(value)
    return spelled[text]


def one_of(*choices: str) -> Callable[[object], str]:
    """A parser that takes one of `choices`."""

    def parse(value: object) -> str:
        if value not in choices:
            raise ValueError(value)
        return str(value)

    return parse
