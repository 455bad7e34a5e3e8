"""What people see of the documents about a corpus. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from vcache_cli.cli.blocks import Block, Facts, Lines, Table
from vcache_cli.cli.text import age, count, duration, percent
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

__all__ = ["check_view", "plan_view", "prune_view", "verify_view", "warm_view"]

_SHOWN_FAILURES: Final = 5

_SHOWN_OF_A_KIND: Final = 20
"""Problems of one kind that people see."""


def warm_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A warm: what became of the items, how fast, where they are; then what failed."""
    return (Facts(tuple(_warm_facts(document))), Lines(tuple(_warm_failures(document))))


def _warm_failures(document: Mapping[str, Any]) -> Iterator[str]:
    """The kinds, then the first items: of a long run, their own lines are far up."""
    failures = document.get("failures", ())
    if not failures:
        return
    kinds = Counter(each["kind"] for each in failures).most_common()
    yield "failed: " + ", ".join(f"{number:,} {kind}" for kind, number in kinds)
    for each in failures[:_SHOWN_FAILURES]:
        yield f"  {each['source']}: {each['stage']}: {each['message']}"
    more = document["items"]["failed"] - min(len(failures), _SHOWN_FAILURES)
    if more > 0:
        yield f"  and {more:,} more in {_run_file(document)}"


def _warm_facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    items, moved, seconds = document["items"], document["bytes"], document["seconds"]
    names = ("stored", "present", "copy", "skipped", "failed")
    parts = [f"{items[name]:,} {name}" for name in names if items[name]]
    yield "items", f"{items['total']:,}" + (f" ({', '.join(parts)})" if parts else "")
    if skips := document.get("skips"):
        yield "skipped", ", ".join(_skipped(kind, number) for kind, number in skips.items())
    rate = f"{document['items_per_second']:,.1f} items/s"
    yield "time", f"{duration(seconds['total'])}, {rate}"
    yield "bytes", f"{format_size(moved['read'])} read, {format_size(moved['written'])} written"
    encoder = document.get("encoder", {}) if items["stored"] else {}  # else it was not asked
    made = " on ".join(encoder[name] for name in ("backend", "device") if name in encoder)
    yield "model", f"{document['model']}, stage {document['stage']}" + (f", {made}" if made else "")
    yield from _target_facts(document)
    yield "store", document.get("store", "")
    if document.get("warnings"):
        total = len(document["warnings"]) + document.get("warnings_omitted", 0)
        yield "warnings", f"{total:,}"
    if "run" in document:
        yield "run", _run_file(document) if items["failed"] else document["run"]


def _target_facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a server has to be set to, so that it looks these keys up."""
    for name, value in document.get("target_options", {}).items():
        yield name.replace("_", " "), str(value)


def _run_file(document: Mapping[str, Any]) -> str:
    """Of a store in a bucket it lies on this machine, and the document says where."""
    inside = f"{document['store']}/.vcache/runs/{document['run']}.jsonl"
    return str(document.get("run_file", inside))


_NOUNS: Final = {"log_line": "unreadable log line", "video": "video"}


def _skipped(kind: str, number: int) -> str:
    if kind in _NOUNS:
        return count(number, _NOUNS[kind])
    return f"{number:,} {kind.replace('_', ' ')}"


_SHOWN_SKIPS: Final = 5


def plan_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A dry run: what would be done."""
    told = []
    if document["items"]["to_do"]:
        told.append("copies count as work to do: only a run tells them apart")
    if not document["fits"]:
        told.append("this does not fit: free some space, raise the limit, or warm a part of it")
    return (Facts(tuple(_plan_facts(document))), Lines(tuple(told)))


def _plan_facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    items, moved = document["items"], document["bytes"]
    yield "items", f"{items['total']:,}"
    yield "already there", f"{items['present']:,}"
    yield "to do", f"{items['to_do']:,}"
    if items["unsupported"]:
        yield "skipped or failing", f"{items['unsupported']:,}"
        yield from _skip_facts(document["skips"])
    yield "to read", format_size(moved["to_read"])
    yield "to write, about", f"{format_size(moved['to_write_estimate'])}{_room(moved)}"
    yield "tokens", f"{document['tokens']:,}"
    if "sample" in document:
        yield "time, about", _foretold(document["seconds_estimate"], document["sample"])
    if "scale" in document:
        yield from _scale_facts(document["scale"])


_WAITS: Final = {
    "work": "all of them work to the end",
    "listing": "they wait for names of files",
    "recording": "they wait for their outcomes to be recorded",
}


def _scale_facts(scale: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The same on several machines."""
    told = f"{duration(scale['seconds'])}, {scale['busy']:.0%} busy"
    yield f"on {count(scale['nodes'], 'machine')}", f"{told}: {_WAITS[scale['limited_by']]}"
    yield "machine time", duration(scale["node_seconds"])
    yield "useful up to", count(scale["most_nodes"], "machine")
    beside = f"{format_size(scale['index_bytes'])} of index"
    yield "to store", f"{format_size(scale['store_bytes'])}, {beside}"
    requests = (f"{scale[f'{each}_requests']:,} {each}" for each in ("list", "read", "write"))
    yield (
        "of buckets",
        f"{', '.join(requests)} requests; {count(scale['manifests'], 'push', 'pushes')}",
    )


def _skip_facts(skips: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The reasons for most of what would be skipped, each with one of its files."""
    for skip in skips[:_SHOWN_SKIPS]:
        kind = skip["kind"].replace("_", " ")
        yield "", f"{skip['items']:,} {kind}: {skip['message']} ({skip['source']})"
    if len(skips) > _SHOWN_SKIPS:
        yield "", f"and {count(len(skips) - _SHOWN_SKIPS, 'other reason')}"


def _room(moved: Mapping[str, int]) -> str:
    """Beside what is to be written; nothing of a bucket, which has no end."""
    if "free" not in moved:
        return ""
    free = f", {format_size(moved['free'])} free"
    if moved["room"] >= moved["free"]:
        return free
    return f"{free}, room for {format_size(moved['room'])}"


def _foretold(seconds: float, sample: Mapping[str, Any]) -> str:
    told = f"{count(sample['items'], 'item')} tried in {duration(sample['seconds'])}"
    if sample["left_out"]:
        told += f"; without {count(sample['left_out'], 'large file')}"
    return f"{duration(seconds)} ({told})"


def check_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A check: coverage, and what would miss."""
    facts = [(name, f"{document[name]:,}") for name in ("items", "warm", "cold", "unreadable")]
    if document["skipped"]:
        facts.append(("skipped", f"{document['skipped']:,}"))
    facts.append(("coverage", percent(document["coverage"])))
    cold = [f"{item['source']}: {item['reason']}" for item in document["cold_items"][:20]]
    more = document["cold"] + document["unreadable"] - len(cold)
    if more > 0:
        cold.append(f"and {more:,} more")
    return (Facts(tuple(facts)), Lines(tuple(cold)))


def prune_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A prune: what goes and why, and what is left."""
    dry_run, shown = document["dry_run"], document["plan"][:20]
    rows = tuple(
        (
            each["key"],
            format_size(each["bytes"]),
            each["reason"],
            age(each["used"]) if "used" in each else "-",
        )
        for each in shown
    )
    total = len(document["plan"]) + document.get("plan_omitted", 0)
    freed = format_size(document["before"]["bytes"] - document["after"]["bytes"])
    verb = "would remove" if dry_run else "removed"
    number = total if dry_run else document["removed"]
    after = document["after"]
    left = f"{count(after['entries'], 'entry', 'entries')}, {format_size(after['bytes'])}"
    facts = [(verb, f"{count(number, 'file')}, {freed} of entries"), ("left", left)]
    recency = document.get("recency", "used")
    if recency == "written":
        facts.append(("unused", "since written: this server marks no use"))
    skipped = document["skipped"]
    facts += [(f"spared ({name})", f"{skipped[name]:,}") for name in skipped if skipped[name]]
    more = (f"and {total - len(shown):,} more",) if total > len(shown) else ()
    failed = tuple(f"not removed: {each['key']}: {each['message']}" for each in document["failed"])
    failed += tuple(
        f"not looked at, and left: {each['path']}: {each['message']}"
        for each in document.get("unseen", ())
    )
    return (
        Table(("key", ">size", "reason", recency), rows, heads=(("key", 16),)),
        Lines(more),
        Facts(tuple(facts)),
        Lines(failed[:20]),
    )


def verify_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A verification: what was looked at, and each problem."""
    rows, more = _problem_rows(document)
    total = len(document["problems"]) + document.get("problems_omitted", 0)
    kinds = document.get("kinds", {})
    told = f" ({', '.join(f'{number:,} {kind}' for kind, number in kinds.items())})"
    facts = [
        ("level", document["level"]),
        ("checked", f"{count(document['checked'], 'entry', 'entries')}, {document['ok']:,} ok"),
        ("read", format_size(document["bytes_read"])),
        ("problems", f"{total:,}" + (told if kinds else "")),
    ]
    if bare := document.get("without_checksum", 0):
        which = "the files carry" if document.get("structure_only") else f"{bare:,} of them carry"
        facts.insert(2, ("checksums", f"structure only: {which} none"))
    if empty := document.get("empty_directories"):
        facts.append(("empty directories", f"{empty:,}"))
    if anew := document.get("recomputed"):
        facts.append(("recomputed", _recomputed(anew)))
    if not document["complete"]:
        facts.append(("complete", "no; run it again to go on from here"))
    table = Table(("kind", "path", "action", "found"), tuple(rows))
    return (table, Lines(tuple(more)), Facts(tuple(facts)))


def _recomputed(anew: Mapping[str, Any]) -> str:
    """How many entries were computed anew, and what became of them."""
    told = [
        f"{anew['compared']:,}",
        f"{anew['within_tolerance']:,} within tolerance",
        *(f"{number:,} {reason}" for reason, number in anew["drifted"].items()),
        *(f"{number:,} not: {why}" for why, number in anew["not_recomputable"].items()),
    ]
    return ", ".join(told)


def _problem_rows(document: Mapping[str, Any]) -> tuple[list[tuple[str, ...]], list[str]]:
    """The first problems of each kind, and how many more there are of it."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for each in document["problems"]:
        by_kind.setdefault(each["kind"], []).append(each)
    rows: list[tuple[str, ...]] = []
    more: list[str] = []
    for kind, same in by_kind.items():
        rows += [
            (kind, each["path"], each.get("action", "-"), _difference(each))
            for each in same[:_SHOWN_OF_A_KIND]
        ]
        rest = document.get("kinds", {}).get(kind, len(same)) - _SHOWN_OF_A_KIND
        if rest > 0:
            more.append(f"and {rest:,} more of kind {kind}; --json lists them")
    return rows, more


def _difference(problem: Mapping[str, Any]) -> str:
    if "reason" in problem:
        return f"{problem['reason']}: {problem['actual']}"
    if "expected" in problem and "actual" in problem:
        return f"expected {problem['expected']}, found {problem['actual']}"
    return str(problem.get("actual", problem.get("expected", "")))
