"""`vcache report`: what a run did, for people and for CI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vcache_cli.cli import completion
from vcache_cli.cli import options as opt
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.limits import limits_of
from vcache_cli.cli.output import Output
from vcache_cli.cli.progress import calm_counter
from vcache_cli.cli.text import count
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from vcache_cli.report import Gate, Report, Written
    from vcache_cli.store import StoreRoot
    from vcache_cli.store.stats import Limit

__all__ = ["report"]


@dataclass(frozen=True, slots=True)
class Opened:
    """The store that a report is about; all None where it is about a run file alone."""

    place: Path | None = None
    root: StoreRoot | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)


def report(
    where: opt.StoreArgument = None,
    *,
    store: opt.StoreOption = None,
    target: opt.StoreTargetOption = None,
    run: Annotated[
        str,
        opt.option(
            "--run",
            metavar="last|ID|FILE",
            about="The run, or a run file.",
            default="the last one",
            complete=completion.runs,
        ),
    ] = "last",
    compare: Annotated[
        str | None,
        opt.option(
            "--compare",
            metavar="previous|ID|FILE",
            about="An earlier run: what changed since then.",
        ),
    ] = None,
    out: Annotated[
        list[str] | None,
        opt.option(
            "--out",
            "-o",
            metavar="FILE",
            about="Write a document: .html, .md, .json, .xml (JUnit), or .txt (the failed sources,"
            " for `vcache warm @FILE`). May be given again.",
        ),
    ] = None,
    gate: Annotated[
        list[str] | None,
        opt.option(
            "--gate",
            metavar="CONDITION",
            about="Exit with 5 where it does not hold, such as 'hit>=95%', 'failed<1%',"
            " 'size<=20GiB', 'time<10m', or 'corrupt=0', which reads the whole store. May be"
            " given again.",
        ),
    ] = None,
    null: opt.NullOption = False,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> int:
    """Say what a run did: as a page, for a job summary, or as a gate.

    Without --out it is told here. Gates that are not met are exit code 5.
    """
    from vcache_cli.cli.report_view import report_view
    from vcache_cli.report import format_of, judge, parse_gate

    gates = [parse_gate(text) for text in gate or ()]
    names = [name for name in out or () if format_of(name)]
    output = Output(as_json, quiet)
    opened = _opened(run, opt.the_store(where, store), target)
    made = _made(opened, run, compare, gates=gates, output=output)
    results = judge(gates, made.fields)
    made = replace(made, gates=tuple(result.as_json() for result in results))
    document = envelope("report", made.as_json(), store=opened.place)
    written = _write(names, made, document, output, null=null)
    shown = document | {"outputs": [_told(each) for each in written]}
    missed = [f"`{each.gate.text}` is {each.shown}" for each in results if not each.met]
    return output.finish(shown, report_view, bare=missed, problem=_problem(missed, len(results)))


def _made(
    opened: Opened, run: str, compare: str | None, *, gates: Sequence[Gate], output: Output
) -> Report:
    from vcache_cli.report import find_run, make_report
    from vcache_cli.store.stats import store_stats

    root = opened.root
    found = find_run(root, run)
    return make_report(
        found,
        root=root,
        stats=store_stats(root, limits=opened.limits) if root else None,
        before=find_run(root, compare, before=found) if compare else None,
        verified=_verified(root, gates, output) if root else None,
    )


def _opened(run: str, named: str | None, target: str | None) -> Opened:
    """The store; none where only a run file was named, which lies in none."""
    from vcache_cli.assemble import open_root
    from vcache_cli.report import run_path, store_of

    file = run_path(run)
    around = store_of(file) if file else None
    if file is not None and named is None and around is None:
        return Opened()
    settings = opt.settings_for(store=named or (str(around) if around else None))
    root = open_root(settings.store, target=target)
    return Opened(settings.store, root, limits_of(settings))


def _verified(root: StoreRoot, gates: Sequence[Gate], output: Output) -> Mapping[str, Any] | None:
    """A check of every byte, where a gate is about damage."""
    if all(gate.name != "corrupt" for gate in gates):
        return None
    from vcache_cli.store.verify import VerifyOptions, verify_store

    options = VerifyOptions(level="data")
    found = verify_store(root, options, on_progress=calm_counter(output, "checked"))
    return {"level": "data", "checked": found.checked, "damaged": len(found.damage)}


def _write(
    names: Sequence[str],
    made: Report,
    document: Mapping[str, Any],
    output: Output,
    *,
    null: bool,
) -> list[Written]:
    from vcache_cli.report import write_report

    written = []
    isolation = opt.settings_for().isolation
    for name in names:
        written.append(write_report(name, made, document, null=null, isolation=isolation))
        output.say(f"wrote {name} ({format_size(written[-1].size_bytes)})")
        if missing := written[-1].unlisted:
            output.complain(
                f"warning: {name}: {count(missing, 'name')} with a line break left out;"
                " --null lists them"
            )
    return written


def _told(written: Written) -> dict[str, Any]:
    return {"path": written.path, "format": written.format, "bytes": written.size_bytes}


def _problem(missed: Sequence[str], total: int) -> Problem | None:
    if not missed:
        return None
    message = f"{len(missed)} of {count(total, 'gate')} not met: {', '.join(missed)}"
    return Problem(5, "gate", message)
