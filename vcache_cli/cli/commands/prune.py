"""`vcache prune`: remove entries; what is shown is what is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from vcache_cli.cli import options as opt
from vcache_cli.cli.blocks import Block, plain_lines
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.entry_options import (
    EntryKeyOption,
    EntryModelOption,
    EntryStageOption,
)
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.output import Output
from vcache_cli.cli.remote_options import url_of
from vcache_cli.cli.remote_stores import plan_remote
from vcache_cli.cli.scopes import prune_scope
from vcache_cli.cli.text import count
from vcache_cli.cli.views import prune_view
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from vcache_cli.cli.output import View
    from vcache_cli.remote import RemotePlan, RemotePruned
    from vcache_cli.store.prune import PrunePlan, PruneResult

    Plan = PrunePlan | RemotePlan
    Result = PruneResult | RemotePruned

__all__ = ["prune"]


def prune(
    where: opt.StoreArgument = None,
    *,
    store: opt.StoreOption = None,
    target: opt.StoreTargetOption = None,
    max_size: Annotated[
        str | None,
        opt.option(
            "--max-size", metavar="SIZE", about="Least recently used go until the rest fits."
        ),
    ] = None,
    older_than: Annotated[
        str | None, opt.option("--older-than", metavar="AGE", about="Made longer ago than this.")
    ] = None,
    unused_for: Annotated[
        str | None, opt.option("--unused-for", metavar="AGE", about="Not used for this long.")
    ] = None,
    model: EntryModelOption = None,
    stage: EntryStageOption = None,
    key: EntryKeyOption = None,
    source: Annotated[
        list[str] | None,
        opt.option(
            "--source",
            metavar="FILE",
            about="Entries of this picture's content; may be given again.",
        ),
    ] = None,
    not_in: Annotated[
        list[str] | None,
        opt.option(
            "--not-in",
            metavar="SOURCE",
            about="Entries of pictures that are not among these files and folders; may be given"
            " again.",
        ),
    ] = None,
    incompatible: Annotated[
        bool, opt.option("--incompatible", about="Files that this version cannot read as entries.")
    ] = False,
    grace: Annotated[
        str | None,
        opt.option(
            "--grace",
            metavar="AGE",
            about="While a run writes, spare what is younger than this.",
            default="10m",
        ),
    ] = None,
    dry_run: opt.DryRunOption = False,
    yes: opt.YesOption = False,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> int:
    """Remove entries by size, age, last use, model or source.

    Says what it would remove and asks first; --dry-run only says it, --yes does not ask.
    """
    asked: Mapping[str, Any] = locals()
    from vcache_cli.assemble import open_root
    from vcache_cli.store.prune import plan_prune

    output = Output(as_json, quiet)
    if url := url_of(where, store):
        settings = opt.settings_for(yes=yes)
        return _carried_out(output, plan_remote(url, asked), yes=settings.yes, dry_run=dry_run)
    settings = opt.settings_for(store=opt.the_store(where, store), grace=grace, yes=yes)
    root = open_root(settings.store, target=target)
    plan = plan_prune(root, prune_scope(root, asked), grace_seconds=settings.grace)
    return _carried_out(output, plan, yes=settings.yes, dry_run=dry_run)


def _carried_out(output: Output, plan: Plan, *, yes: bool, dry_run: bool) -> int:
    if dry_run:
        return _shown(output, plan)
    if plan.doomed and not _agreed(output, plan, yes=yes):
        output.say("nothing was removed")
        return 0
    seen = bool(plan.doomed) and not yes and output.can_ask
    view = _without_plan if seen else prune_view
    return _done(output, plan.execute(), view=view)


def _agreed(output: Output, plan: Plan, *, yes: bool) -> bool:
    if not yes and output.can_ask:
        for line in plain_lines(prune_view(_with_heads(plan.as_json()))):
            output.say(line)
    return output.confirm(_question(plan), yes=yes)


def _with_heads(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the beginnings of keys, as a terminal's table has them."""
    return {**document, "plan": [{**each, "key": each["key"][:16]} for each in document["plan"]]}


def _question(plan: Plan) -> str:
    freed = sum(each.bytes for each in plan.doomed)
    return f"remove {count(len(plan.doomed), 'file')} ({format_size(freed)}) from {plan.place}?"


def _shown(output: Output, plan: Plan) -> int:
    bare = [each.key for each in plan.doomed]
    document = envelope("prune", plan.as_json(), store=plan.place)
    return output.finish(document, prune_view, bare=bare, problem=_unseen(document))


def _without_plan(document: Mapping[str, Any]) -> Sequence[Block]:
    """What was done, to someone who has seen the plan."""
    return prune_view({**document, "plan": [], "plan_omitted": 0})


def _done(output: Output, result: Result, *, view: View) -> int:
    bare = [each.key for each in result.removed]
    document = envelope("prune", result.as_json(), store=result.plan.place)
    problem = _problem(result) or _unseen(document)
    return output.finish(document, view, bare=bare, problem=problem)


def _unseen(document: Mapping[str, Any]) -> Problem | None:
    """That the plan leaves out what could not be looked at."""
    found = document.get("unseen", ())
    if not found:
        return None
    number = len(found) + document.get("unseen_omitted", 0)
    where, reason = found[0]["path"], found[0]["message"]
    message = f"{count(number, 'file or folder', 'files and folders')} could not be looked at, and"
    message += f" {'was' if number == 1 else 'were'} left; {where}: {reason}"
    hint = "run it again once that is mended; `vcache doctor` shows owner and permissions"
    return Problem(3, "not_looked_at", message, hint)


def _problem(result: Result) -> Problem | None:
    if not result.failed:
        return None
    first, reason = result.failed[0]
    message = f"{count(len(result.failed), 'file')} could not be removed; {first.key}: {reason}"
    return Problem(3, "removals_failed", message, "`vcache doctor` shows owner and permissions")
