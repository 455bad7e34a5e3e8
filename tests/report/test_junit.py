"""JUnit XML: well-formed whatever the names hold, and its counts are true."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.making import document, line, report_of
from vcache_cli.report import junit as junit_module
from vcache_cli.report.junit import junit

if TYPE_CHECKING:
    import pytest

ALLOWED = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "property": set(),
    "testcase": {"failure", "skipped"},
    "failure": set(),
    "skipped": set(),
}
REQUIRED = {
    "testsuites": {"name", "tests", "failures", "errors", "time"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped"},
    "property": {"name", "value"},
    "testcase": {"classname", "name", "time"},
    "failure": {"type", "message"},
}


def conforming(content: bytes) -> ET.Element:
    """The root of a document that has only what readers of JUnit XML know."""
    root = ET.fromstring(content)  # noqa: S314  our own
    for element in root.iter():
        assert {child.tag for child in element} <= ALLOWED[element.tag]
        assert set(element.attrib) >= REQUIRED.get(element.tag, set())
    for suite in [root, *root]:
        cases = suite.findall("testcase") or suite.findall("testsuite/testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        assert int(suite.attrib["failures"]) == sum(c.find("failure") is not None for c in cases)
    return root


def test_each_item_and_each_gate_is_a_test_case(tmp_path: Path) -> None:
    lines = [line("a/b.png"), line("c.png", "failed"), line("d.mp4", "skipped")]
    report = report_of(tmp_path, lines)
    gate = {"gate": "hit>=95%", "name": "hit", "met": False, "shown": "0%"}
    root = conforming(junit(document(report) | {"gates": [gate]}, lines))
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert list(cases) == ["a/b.png", "c.png", "d.mp4", "hit>=95%"]
    assert cases["a/b.png"].attrib["classname"] == "a"
    failure = cases["c.png"].find("failure")
    assert failure is not None
    assert (failure.attrib["type"], failure.attrib["message"]) == ("truncated", "cut short")
    assert cases["hit>=95%"].find("failure") is not None
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["skipped"]) == (
        "4",
        "2",
        "1",
    )


@settings(max_examples=25)
@given(st.text(st.characters(codec=None), min_size=1), st.text(st.characters(codec=None)))
def test_any_text_gives_xml_that_can_be_read(source: str, message: str) -> None:
    error = {"stage": message, "kind": message, "message": message, "hint": message}
    lines = [line(source, "failed", error=error)]
    fields = document_of(lines)
    (case,) = conforming(junit(fields, lines)).iter("testcase")
    assert "\x1b" not in case.attrib["name"]


def document_of(lines: list[dict[str, object]]) -> dict[str, object]:
    """As much of a report as JUnit XML says."""
    items = dict.fromkeys(("stored", "present", "copy", "skipped"), 0)
    return {
        "run": {"id": "x", "started": "2026-01-02T03:04:05Z"},
        "items": {"total": len(lines), "failed": len(lines), **items},
        "seconds": {},
        "gates": [],
    }


def test_what_does_not_fit_is_what_went_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(junit_module, "_MOST", 50)
    lines = [line(f"{n}.png") for n in range(50)]
    lines.append(line("last.png", "failed"))
    report = report_of(tmp_path, lines)
    root = conforming(junit(document(report), lines))
    names = [case.attrib["name"] for case in root.iter("testcase")]
    assert len(names) == 50
    assert names[-1] == "last.png"
