"""The report as JUnit XML: a test case for each item, and one for each gate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from vcache_cli.outcome import Status
from vcache_cli.printable import clean
from vcache_cli.report.lines import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

__all__ = ["junit"]

_MOST: Final = 10_000
"""Test cases: beyond them, what shows such files gives up. Failed items come first."""
_INVALID: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML cannot hold."""


def junit(report: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> bytes:
    """The document ``vcache.report/1`` as JUnit XML.

    Args:
        report: the document.
        lines: those of the run file.
    """
    run = report["run"]
    suites = Element("testsuites", name="vcache")
    name = " ".join(run[part] for part in ("model", "stage") if part in run) or "items"
    items = SubElement(suites, "testsuite", name=_valid(name), timestamp=run["started"][:19])
    _describe(items, report)
    room = _Room(report["items"])
    for value in lines:
        line = Line.of(value)
        if line is not None and room.takes(line.status):
            _add_item(items, line)
    if report["gates"]:
        _add_gates(SubElement(suites, "testsuite", name="gates"), report)
    for suite in suites:
        _count(suite)
    _count(suites, "testsuite/")
    items.set("time", f"{report['seconds'].get('total', 0.0):.3f}")
    suites.set("time", items.get("time", "0"))
    indent(suites)
    document: bytes = tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


class _Room:
    """Which items have a test case: all that did not go well, and of the others what fits."""

    def __init__(self, items: Mapping[str, int]) -> None:
        wanted = items[Status.FAILED] + items[Status.SKIPPED]
        self._bad, self._good = _MOST, max(0, _MOST - wanted)

    def takes(self, status: str) -> bool:
        """True as long as there is room for such an item."""
        if status in {Status.FAILED, Status.SKIPPED}:
            self._bad -= 1
            return self._bad >= 0
        self._good -= 1
        return self._good >= 0


def _describe(suite: Element, report: Mapping[str, Any]) -> None:
    run = report["run"]
    pairs = {name: value for name, value in run.items() if isinstance(value, str)}
    pairs |= {f"items.{name}": str(number) for name, number in report["items"].items()}
    pairs |= {name: f"{report[name]:.6f}" for name in ("hit_rate", "coverage") if name in report}
    properties = SubElement(suite, "properties")
    for name, value in pairs.items():
        SubElement(properties, "property", name=_valid(name), value=_valid(value))


def _add_item(suite: Element, line: Line) -> None:
    folder = line.source.rpartition("/")[0]
    case = SubElement(
        suite,
        "testcase",
        classname=_valid(folder or "."),
        name=_valid(line.source),
        time=f"{sum(line.seconds.values()):.6f}",
    )
    told = line.failure
    if line.status == Status.FAILED:
        failure = SubElement(case, "failure", type=_valid(told.get("kind", "unknown")))
        failure.set("message", _valid(told.get("message", "")))
        words = [f"{told.get('stage', '')}: {told.get('message', '')}", told.get("hint", "")]
        failure.text = _valid("\n".join(filter(None, words)))
    elif line.status == Status.SKIPPED:
        SubElement(case, "skipped", message=_valid(told.get("message", "")))


def _add_gates(suite: Element, report: Mapping[str, Any]) -> None:
    for each in report["gates"]:
        name = _valid(each["gate"])
        case = SubElement(suite, "testcase", classname="gates", name=name, time="0")
        if not each["met"]:
            SubElement(case, "failure", type="gate", message=f"found {_valid(each['shown'])}")


def _count(suite: Element, below: str = "") -> None:
    names = {"tests": "testcase", "failures": "testcase/failure", "skipped": "testcase/skipped"}
    for name, path in names.items():
        suite.set(name, str(len(suite.findall(below + path))))
    suite.set("errors", "0")


def _valid(text: str) -> str:
    """`text` as XML can hold it; what would move a cursor is spelled out."""
    return _INVALID.sub("", "\n".join(clean(line) for line in text.split("\n")))
