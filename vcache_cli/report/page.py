"""The report as one HTML file: nothing is loaded from anywhere, and nothing else can run in it."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from vcache_cli.report.markup import escape
from vcache_cli.report.page_change import comparison
from vcache_cli.report.page_run import (
    copies,
    failures,
    gates,
    outcome,
    slowest,
    stages,
    warned,
)
from vcache_cli.report.page_store import details, holds
from vcache_cli.report.words import headline, moment, state
from vcache_cli.wording import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vcache_cli.report.thumbnails import Thumbnails

__all__ = ["html_page"]


def html_page(report: Mapping[str, Any], thumbnails: Thumbnails) -> str:
    """The document ``vcache.report/1`` as a page.

    Args:
        report: the document.
        thumbnails: what pictures of files come from.
    """
    style, script = _asset("page.css"), _asset("page.js")
    sections = [each for each in _sections(report, thumbnails) if each[-1]]
    body = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{title}</h2>'
        f"{inner}</section>"
        for name, _, title, inner in sections
    )
    links = "".join(f'<li><a href="#{name}">{short}</a></li>' for name, short, _, _ in sections)
    title = escape(f"{headline(report)} - vcache report")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
<div class="page">
<header>{_head(report)}
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main id="main">
{body}
</main>
<footer>{_foot(report)}</footer>
<div id="said" class="hidden" role="status"></div>
</div>
<script>{script}</script>
</body>
</html>
"""


def _sections(
    report: Mapping[str, Any], thumbnails: Thumbnails
) -> Iterator[tuple[str, str, str, str]]:
    """Id, short and whole title, and HTML of each; empty HTML where there is nothing to show."""
    yield "outcome", "Outcome", "What the run did", outcome(report)
    yield "gates", "Gates", "Gates", gates(report)
    yield "failures", "Failures", "What failed", failures(report, thumbnails)
    yield "time", "Time", "Where the time went", stages(report)
    yield "comparison", "Changes", "Since the earlier run", comparison(report)
    yield "warnings", "Warnings", "What was lost on the way", warned(report, thumbnails)
    yield "copies", "Copies", "The same picture more than once", copies(report, thumbnails)
    yield "slowest", "Slowest", "What took longest", slowest(report)
    yield "store", "Store", "What the store holds", holds(report)
    yield "details", "Details", "Details", details(report)


def _head(report: Mapping[str, Any]) -> str:
    run = report["run"]
    parts = [f"<b>{escape(run['model'])}</b>"] if "model" in run else []
    parts += [escape(run[name]) for name in ("stage", "target") if name in run]
    parts.append(
        f'<time datetime="{escape(run["started"])}">{escape(moment(run["started"]))}</time>'
    )
    if (total := report["seconds"].get("total")) is not None:
        parts.append(escape(duration(total)))
    note = state(report)
    told = f'<p class="notice">{escape(note)}</p>' if note else ""
    return (
        f'<p class="brand">vcache report</p><h1>{escape(headline(report))}</h1>'
        f'<p class="lead">{" &middot; ".join(parts)}</p>{told}'
    )


def _foot(report: Mapping[str, Any]) -> str:
    made = escape(moment(report["generated_at"]))
    return (
        f"Made by vcache {escape(report['vcache_version'])} on {made}."
        " This page is whole: it loads nothing from anywhere."
    )


def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Only this style and this script, and pictures that the page holds itself."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
