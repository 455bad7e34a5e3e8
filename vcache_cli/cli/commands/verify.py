"""`vcache verify`: look for damage, and on request put it away."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from vcache_cli.cli import options as opt
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.output import Output
from vcache_cli.cli.progress import calm_counter
from vcache_cli.cli.text import count
from vcache_cli.cli.views import verify_view
from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from vcache_cli.assemble import Recompute
    from vcache_cli.config import Settings
    from vcache_cli.store import StoreRoot
    from vcache_cli.store.verify import VerifyOptions, VerifyReport

__all__ = ["verify"]

_LEVELS: Final = "`stat`, `header`, `data` or `recompute`"


def verify(
    where: opt.StoreArgument = None,
    *,
    store: opt.StoreOption = None,
    target: opt.StoreTargetOption = None,
    level: Annotated[
        str,
        opt.option(
            "--level",
            metavar="stat|header|data|recompute",
            about="How deep: sizes, headers, every byte against its checksum, or computed anew.",
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
            "--max-duration",
            metavar="DURATION",
            about="Stop after this long; the next run goes on from there.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        opt.option(
            "--model",
            "-m",
            metavar="MODEL",
            about="Level recompute: the model that the entries were warmed with; else VCACHE_MODEL"
            " or a settings file.",
        ),
    ] = None,
    backend: opt.BackendOption = None,
    repair: Annotated[
        bool,
        opt.option("--repair", about="Move damaged entries aside, into the store's quarantine."),
    ] = False,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> int:
    """Check every entry for damage.

    Damage that is still there at the end is exit code 4. Warming again fills the gaps of a repair.
    Level recompute reads the pictures again, computes with --model, and tells what differs.
    """
    from vcache_cli.assemble import open_root
    from vcache_cli.store.verify import verify_store

    settings = opt.settings_for(store=opt.the_store(where, store), model=model, backend=backend)
    path, output = settings.store, Output(as_json, quiet)
    wanted = _options(level, subset, max_duration, repair=repair)
    open_again = _recomputing(settings) if wanted.level == "recompute" else None
    root = open_root(path, target=target)
    again = open_again(root) if open_again else None
    wanted = replace(wanted, recompute=again)
    report = verify_store(root, wanted, on_progress=calm_counter(output, "checked"))
    fields = report.as_json() | (again.as_json() if again else {})
    document = envelope("verify", fields, store=path)
    bare = [f"{each.kind}: {each.path}" for each in report.damage]
    return output.finish(document, verify_view, bare=bare, problem=_problem(report, repair=repair))


def _recomputing(settings: Settings) -> Callable[[StoreRoot], Recompute]:
    """What computes the entries of a store anew.

    Raises:
        UsageError: no model was named.
    """
    from vcache_cli.assemble import open_recompute

    if settings.model is None:
        raise UsageError(
            "level `recompute` computes entries anew, and no model was named",
            hint="add `--model DIR`, the one that they were warmed with",
        )
    return partial(open_recompute, model=settings.model, backend=settings.backend)


def _options(
    level: str, subset: str | None, max_duration: str | None, *, repair: bool
) -> VerifyOptions:
    from vcache_cli.config import one_of, parse_fraction
    from vcache_cli.quantity import parse_age
    from vcache_cli.store.verify import VerifyOptions

    levels: Any = one_of("stat", "header", "data", "recompute")
    share = opt.parsed("--subset", subset, expected="`10%` or `10`", parse=parse_fraction)
    return VerifyOptions(
        level=opt.parsed("--level", level, expected=_LEVELS, parse=levels),
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
    drifted = Counter(each.reason for each in left if each.reason is not None)
    if len(left) == drifted.total():
        return _drift(drifted)
    first = left[0]
    told = f" ({first.actual})" if first.kind == "io_error" and first.actual else ""
    message = f"{count(len(left), 'damaged file')}; {first.path}: {first.kind}{told}"
    if repair:  # it could not be moved aside: say why
        message = f"{message}, {first.action}"
        return Problem(4, "damage", message, "correct that, or remove the file yourself")
    return Problem(
        4, "damage", message, "run it with --repair; then warm again, or let the server refill it"
    )


def _drift(reasons: Counter[str]) -> Problem:
    told = ", ".join(f"{number:,} {reason}" for reason, number in sorted(reasons.items()))
    number = count(reasons.total(), "entry is", "entries are")
    hint = "run it with --repair to put aside what was changed, `vcache prune` the rest; warm again"
    return Problem(4, "drift", f"{number} not what is computed now: {told}", hint)
