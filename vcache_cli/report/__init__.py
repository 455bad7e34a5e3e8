"""What a run did, as a value, and the documents made of it.

`make_report` gathers, `judge` holds it against gates, `write_report` makes a document of it.
"""

from __future__ import annotations

from vcache_cli.report.choose import find_run, run_path, store_of
from vcache_cli.report.gates import GATE_NAMES, Gate, GateResult, judge, parse_gate
from vcache_cli.report.gather import Report, make_report
from vcache_cli.report.write import Written, format_of, write_report

__all__ = [
    "GATE_NAMES",
    "Gate",
    "GateResult",
    "Report",
    "Written",
    "find_run",
    "format_of",
    "judge",
    "make_report",
    "parse_gate",
    "run_path",
    "store_of",
    "write_report",
]
