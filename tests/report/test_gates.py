"""A gate that cannot be read, or whose value is not known, is never met."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.errors import UsageError
from vcache_cli.report import GATE_NAMES, judge, parse_gate

REPORT: dict[str, Any] = {
    "items": {"total": 200, "stored": 5, "present": 190, "copy": 0, "skipped": 0, "failed": 5},
    "hit_rate": 0.95,
    "coverage": 0.975,
    "warned": 0,
    "bytes": {"read": 1, "written": 2048},
    "seconds": {"total": 59.5},
    "items_per_second": 3.36,
    "tokens": {"total": 1000},
    "holds": {"entries": 195, "bytes": {"logical": 20 * 1024**3}},
    "verified": {"damaged": 0},
}


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("hit>=95%", True),
        ("hit > 95%", False),
        ("coverage>=97.5%", True),
        ("failed<=2.5%", True),
        ("failed<2.5%", False),
        ("failed=5", True),
        ("failed==0", False),
        ("size<=20GiB", True),
        ("size<20GiB", False),
        ("written<=2KiB", True),
        ("entries>=195", True),
        ("corrupt=0", True),
        ("tokens<1,001", True),
        ("time<1m", True),
        ("rate>3.3", True),
    ],
)
def test_a_gate_holds_exactly_at_its_limit(text: str, met: bool) -> None:  # noqa: FBT001  a table
    (result,) = judge([parse_gate(text)], REPORT)
    assert result.met is met


@pytest.mark.parametrize("name", GATE_NAMES)
def test_what_is_not_known_meets_no_gate(name: str) -> None:
    limits = {"size": "1TiB", "written": "1TiB", "time": "1w", "hit": "0%", "coverage": "0%"}
    sign = ">=" if name in {"hit", "coverage"} else "<="
    gate = parse_gate(f"{name}{sign}{limits.get(name, '1000000')}")
    (result,) = judge([gate], {"items": {}})
    assert not result.met
    assert result.as_json() == {"gate": gate.text, "name": name, "met": False, "shown": "unknown"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hits>=95%", "no gate `hits`"),
        ("hit", "expected a name, an operator and a limit"),
        ("hit>=many", "expected a percentage"),
        ("size<=20parsecs", "expected a size"),
        ("time<10", "expected a time"),
        ("failed=-1", "expected a number"),
        ("rate>nan", "expected a number"),
        ("hit>=1/0", "expected a percentage"),
        ("hit>=1e999999999", "expected a percentage"),  # which would take hours to work out
    ],
)
def test_a_gate_that_makes_no_sense_says_why(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_gate(text)


def test_an_unknown_gate_names_those_that_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        parse_gate("hits>=95%")
    assert all(name in caught.value.hint for name in ("hit", "size", "corrupt", "failed"))


@given(st.integers(1, 10**6), st.data())
def test_a_share_is_compared_without_a_rounding_error(total: int, data: st.DataObject) -> None:
    """96 of 1,000 are 9.6%, whatever binary fractions make of it."""
    part = data.draw(st.integers(0, total))
    thousandths = data.draw(st.integers(0, 100_000))
    report = {"items": {"total": total, "failed": part}}
    (result,) = judge([parse_gate(f"failed<={thousandths / 1000}%")], report)
    assert result.met == (part * 100_000 <= thousandths * total)
