"""Gates: conditions that a run or a store has to meet. Pure."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import UsageError
from vcache_cli.quantity import format_size, parse_age, parse_size
from vcache_cli.wording import duration, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final

__all__ = ["GATE_NAMES", "Gate", "GateResult", "judge", "parse_gate"]

_GATE: Final = re.compile(r"\s*([a-z_]+)\s*(<=|>=|==|=|<|>)\s*(\S.*?)\s*", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,18}(\.\d{1,18})?", re.ASCII)
"""What a fraction is made of: an exponent of nine digits would take hours."""
_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_PLACES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "hit": ("share", ("hit_rate",)),
    "coverage": ("share", ("coverage",)),
    "items": ("count", ("items", "total")),
    **{
        name: ("count", ("items", name))
        for name in ("stored", "present", "copy", "skipped", "failed")
    },
    "warnings": ("count", ("warned",)),
    "tokens": ("count", ("tokens", "total")),
    "time": ("seconds", ("seconds", "total")),
    "rate": ("number", ("items_per_second",)),
    "written": ("bytes", ("bytes", "written")),
    "size": ("bytes", ("holds", "bytes", "logical")),
    "entries": ("count", ("holds", "entries")),
    "corrupt": ("count", ("verified", "damaged")),
}
"""Unit of each gate, and where a report has its value."""
_SHOWN: Final[Mapping[str, Callable[[float], str]]] = {
    "share": percent,
    "seconds": duration,
    "bytes": format_size,
    "count": "{:,.0f}".format,
    "number": "{:,.2f}".format,
}
GATE_NAMES: Final = tuple(sorted(_PLACES))
"""What a gate can be about."""
_EXPECTED: Final = {
    "share": "a percentage, such as `95%`",
    "count": "a number, or a percentage of the items",
    "seconds": "a time, such as `10m`",
    "bytes": "a size, such as `20GiB`",
    "number": "a number",
}


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition."""

    text: str
    """As the user wrote it."""
    name: str
    operator: str
    limit: float
    """In the unit of the name; a share where `of_items`."""
    of_items: bool = False
    """A count that is judged as a share of the items."""

    @property
    def unit(self) -> str:
        """``share``, ``count``, ``seconds``, ``bytes`` or ``number``."""
        return "share" if self.of_items else _PLACES[self.name][0]


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate, and what was found."""

    gate: Gate
    value: float | None
    """None where it is not known: then the gate is not met."""

    @property
    def met(self) -> bool:
        """True where the condition holds."""
        if self.value is None:
            return False
        return _OPERATORS[self.gate.operator](self.value, self.gate.limit)

    @property
    def shown(self) -> str:
        """The value for people."""
        if self.value is None:
            return "unknown"
        return _SHOWN[self.gate.unit](self.value)

    def as_json(self) -> dict[str, Any]:
        """An element of ``gates`` of ``vcache.report/1``."""
        known = {} if self.value is None else {"value": self.value}
        return {"gate": self.gate.text, "name": self.gate.name, "met": self.met, **known} | {
            "shown": self.shown
        }


def parse_gate(text: str) -> Gate:
    """The gate that `text` says.

    Raises:
        UsageError: no such gate, or a limit that makes no sense.

    >>> parse_gate("hit>=95%").limit, parse_gate("size <= 2KiB").limit
    (0.95, 2048)
    """
    found = _GATE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"`--gate`: expected a name, an operator and a limit, got `{text}`",
            hint="such as `hit>=95%`, `size<=20GiB` or `corrupt=0`",
        )
    name, sign, limit = found[1], found[2], found[3]
    if name not in _PLACES:
        raise UsageError(f"`--gate`: no gate `{name}`", hint=f"there are: {', '.join(GATE_NAMES)}")
    unit = _PLACES[name][0]
    of_items = unit == "count" and limit.endswith("%")
    try:
        wanted = _limit("share" if of_items else unit, limit)
    except (ValueError, UsageError, ZeroDivisionError):
        expected = _EXPECTED[unit]
        raise UsageError(f"`--gate {text}`: expected {expected}, got `{limit}`") from None
    return Gate(text.strip(), name, sign, wanted, of_items)


def _limit(unit: str, text: str) -> float:
    limit = _parsed(unit, text)
    if not 0 <= limit < 2**63:  # NaN is neither
        raise ValueError(text)
    return limit


def _parsed(unit: str, text: str) -> float:
    if unit == "share":  # rounded once, as the quotient that it is compared with
        number = text.removesuffix("%").strip()
        return float(Fraction(number) / 100) if _NUMBER.fullmatch(number) else -1.0
    if unit == "bytes":
        return parse_size(text)
    if unit == "seconds":
        return parse_age(text)
    return int(text.replace(",", "")) if unit == "count" else float(text)


def judge(gates: Sequence[Gate], report: Mapping[str, Any]) -> tuple[GateResult, ...]:
    """What became of each gate.

    Args:
        gates: the conditions.
        report: the fields of ``vcache.report/1``.
    """
    return tuple(GateResult(gate, _value(gate, report)) for gate in gates)


def _value(gate: Gate, report: Mapping[str, Any]) -> float | None:
    found: Any = report
    for part in _PLACES[gate.name][1]:
        found = found.get(part) if found else None
    if found is None:
        return None
    total: int = report["items"]["total"] if gate.of_items else 1
    return float(found) / total if total else None
