"""`vcache verify`: look for damage, and on request put it away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from vcache_cli.cli import options as opt
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.output import Output
from vcache_cli.cli.progress import calm_counter
from vcache_cli.cli.text import count
from vcache_cli.cli.views import verify_view

if TYPE_CHECKING:
    from vcache_cli.store.verify import VerifyOptions, VerifyReport

__all__ = ["verify"]


def verify(
    where: opt.StoreArgument = None,
    *,
    store: opt.StoreOption = None,
    target: opt.StoreTargetOption = None,
    level: Annotated[
        str,
        opt.option(
            "--level",
            metavar="stat|header|data",
            about="How deep: sizes, headers, or every byte against its checksum.",
            default="data",
        ),
    ] = "data",
    subset: Annotated[
        str | None,
        opt.option(
            "--subset",
            metavar="P%",
            about="Only this share of the entries, at least one.",
            default="100%",
        ),
    ] = None,
    max_duration: Annotated[
        str | None,
        opt.option(
            "--max-duration", metavar="AGE", about="Stop after this long; the next one goes on."
        ),
    ] = None,
    repair: Annotated[
        bool, opt.option("--repair", about="Move damaged entries to quarantine.")
    ] = False,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> int:
    """Check every entry for damage.

    Damage that is still there at the end is exit code 4. Warming again fills the gaps of a repair.
    """
    from vcache_cli.assemble import open_root
    from vcache_cli.store.verify import verify_store

    path = opt.settings_for(store=opt.the_store(where, store)).store
    wanted = _options(level, subset, max_duration, repair=repair)
    output = Output(as_json, quiet)
    root = open_root(path, target=target)
    report = verify_store(root, wanted, on_progress=calm_counter(output, "checked"))
    document = envelope("verify", report.as_json(), store=path)
    bare = [f"{each.kind}: {each.path}" for each in report.damage]
    return output.finish(document, verify_view, bare=bare, problem=_problem(report, repair=repair))


def _options(
    level: str, subset: str | None, max_duration: str | None, *, repair: bool
) -> VerifyOptions:
    from vcache_cli.config import one_of, parse_fraction
    from vcache_cli.quantity import parse_age
    from vcache_cli.store.verify import VerifyOptions

    levels: Any = one_of("stat", "header", "data")
    share = opt.parsed("--subset", subset, expected="`10%` or `10`", parse=parse_fraction)
    return VerifyOptions(
        level=opt.parsed("--level", level, expected="`stat`, `header` or `data`", parse=levels),
        repair=repair,
        subset=1.0 if share is None else share,
        max_duration_seconds=opt.parsed(
            "--max-duration", max_duration, expected="such as `10m`", parse=parse_age
        ),
    )


def _problem(report: VerifyReport, *, repair: bool) -> Problem | None:
    left = report.damage_left
    if not left:
        return None
    message = f"{count(len(left), 'damaged file')}; {left[0].path}: {left[0].kind}"
    if repair:  # it could not be moved aside: say why
        message = f"{message}, {left[0].action}"
        return Problem(4, "damage", message, "correct that, or remove the file yourself")
    return Problem(
        4, "damage", message, "run it with --repair; then warm again, or let the server refill it"
    )
