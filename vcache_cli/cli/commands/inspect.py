"""`vcache inspect`: one entry, or the entries of one picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vcache_cli.cli import completion
from vcache_cli.cli import media_options as media_opt
from vcache_cli.cli import options as opt
from vcache_cli.cli import target_options as target_opt
from vcache_cli.cli.blocks import Block, Facts, Table
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.next_steps import repair_command
from vcache_cli.cli.options import settings_for, the_store
from vcache_cli.cli.output import Output
from vcache_cli.cli.picture import run_picture
from vcache_cli.cli.text import count
from vcache_cli.cli.why import FLAGS, run_why
from vcache_cli.errors import NotAStoreError, UsageError
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from vcache_cli.store.inspection import Inspection

__all__ = ["inspect"]


def inspect(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENTRY",
            show_default=False,
            autocompletion=completion.keys,
            help="A key or its beginning, an entry's file, a picture, or a server's image hash;"
            " a store may stand first.",
        ),
    ] = None,
    *,
    store: opt.StoreOption = None,
    target: opt.StoreTargetOption = None,
    why_miss: Annotated[
        bool,
        opt.option(
            "--why-miss",
            about="Say whether the server would find the picture ENTRY with --model, which part"
            " of its key differs from what is stored, and what to run. Exit code 0: it hits; 5: it"
            " misses; 4: the entry is damaged; 3: the picture cannot be used.",
        ),
    ] = False,
    picture: Annotated[
        str | None,
        opt.option(
            "--picture",
            metavar="FILE",
            about="Draw ENTRY into a PNG file: what an entry holds, beside its source where that is"
            " still found; or with --model what the model sees of a picture or video.",
        ),
    ] = None,
    model: opt.ModelOption = None,
    preset: opt.PresetOption = None,
    download: opt.DownloadOption = False,
    model_name: target_opt.ModelNameOption = None,
    max_side: target_opt.MaxSideOption = None,
    omlx_version: target_opt.OmlxVersionOption = None,
    allow_lossy: target_opt.AllowLossyOption = False,
    stage: opt.StageOption = None,
    profile: opt.ProfileOption = None,
    force_profile: media_opt.ForceProfileOption = None,
    backend: opt.BackendOption = None,
    trust_remote_code: opt.TrustRemoteCodeOption = False,
    dtype: opt.DtypeOption = None,
    compute_dtype: opt.ComputeDtypeOption = None,
    fps: media_opt.FpsOption = None,
    num_frames: media_opt.NumFramesOption = None,
    max_frames: media_opt.MaxFramesOption = None,
    max_pixels: media_opt.MaxPixelsOption = None,
    max_file_size: media_opt.MaxFileSizeOption = None,
    isolation: media_opt.IsolationOption = None,
    item_timeout: media_opt.ItemTimeoutOption = None,
    item_memory: media_opt.ItemMemoryOption = None,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> int:
    """Show an entry: its key, its tensors, and how it was made.

    With --why-miss, say why the server would not find a picture; with --picture, draw what the
    model sees. --model and the options of `warm` that decide the key belong to these.
    """
    asked: Mapping[str, Any] = locals()
    from vcache_cli.assemble import open_root
    from vcache_cli.store.inspection import inspect_target

    where, entry = _split(names)
    named = the_store(where, store) or _store_above(entry)
    if why_miss and picture is not None:
        raise UsageError("`--why-miss` and `--picture` are two questions", hint="ask one at a time")
    if why_miss:
        return run_why(entry, {**asked, "store": named}, Output(as_json, quiet))
    if picture is not None:
        return run_picture(entry, {**asked, "store": named}, Output(as_json, quiet))
    _refuse_unused(asked)
    path = settings_for(store=named, preset=preset).store
    found = inspect_target(open_root(path, target=target), entry)
    parts = [each.as_json() for each in found]
    fields = parts[0] if len(parts) == 1 else {"entries": parts}
    return Output(as_json, quiet).finish(
        envelope("inspect", fields, store=path),
        _view,
        bare=[each.row.key for each in found],
        problem=_problem(found, path),
    )


def _refuse_unused(asked: Mapping[str, Any]) -> None:
    """What decides a key has no say in what is shown of an entry that is there.

    Raises:
        UsageError: some such option was given.
    """
    unused = [flag for name, flag in FLAGS.items() if name != "target" and asked[name]]
    if asked["model"]:
        unused.insert(0, "--model")
    if unused:
        raise UsageError(
            f"`{unused[0]}` belongs to `--why-miss` and `--picture`", hint="add one of them"
        )


def _split(names: Sequence[str] | None) -> tuple[str | None, str]:
    if not names:
        raise UsageError("no entry was named", hint="name a key, an entry's file, or a picture")
    if len(names) > 2:
        raise UsageError(f"one entry at a time, got {len(names) - 1}")
    return (names[0], names[1]) if len(names) == 2 else (None, names[0])


def _store_above(entry: str) -> str | None:
    """The store that an entry's file lies in: then it need not be named."""
    file = Path(entry).absolute()
    above = next((path for path in file.parents if (path / ".vcache/store.json").is_file()), None)
    if above is None and file.is_file() and _is_store(file.parent.parent):
        above = file.parent.parent  # a server's own: its entries lie one directory deep
    return None if above is None else str(above)


def _is_store(path: Path) -> bool:
    from vcache_cli.assemble import open_root

    try:
        open_root(path)
    except NotAStoreError:
        return False
    return True


def _problem(found: Sequence[Inspection], store: Path) -> Problem | None:
    damaged = [each for each in found if each.problem]
    if not damaged:
        return None
    first = damaged[0]
    message = f"{first.row.path}: damaged: {first.problem}"
    return Problem(
        4,
        "damage",
        message,
        f"run `{repair_command(store)}`; then warm again, or let the server refill it",
    )


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    entries = document.get("entries", [document])
    return tuple(block for entry in entries for block in _entry_blocks(entry))


def _entry_blocks(entry: Mapping[str, Any]) -> Iterator[Block]:
    yield Facts(tuple(_facts(entry)))
    rows = tuple(
        (tensor["name"], tensor["dtype"], " x ".join(map(str, tensor["shape"])))
        for tensor in entry.get("tensors", ())
    )
    yield Table(("tensor", "dtype", "shape"), rows)


def _facts(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("key", "path", "stage", "kind", "model", "num_tokens", "created", "used"):
        if name in entry:
            yield name.replace("_", " "), str(entry[name])
    yield "size", f"{format_size(entry['bytes'])} ({count(entry['bytes'], 'byte')})"
    for name in ("source", "source_sha256", "problem"):
        if name in entry:
            yield name.replace("_", " "), str(entry[name])
    if checksum := entry.get("checksum"):
        state = "ok" if checksum["ok"] else "DOES NOT MATCH"
        yield "checksum", f"{checksum['algorithm']} {checksum['value']} ({state})"
    yield from _origin(entry)
    for name, value in entry.get("server", {}).items():
        yield name.replace("_", " "), str(value)
    if "matched" in entry:
        yield "found by", entry["matched"]


def _origin(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    recipe = entry.get("recipe", {})
    for name in ("target", "profile", "family", "settings", "encoder"):
        if name in recipe:
            yield from _one_a_line(name, recipe[name])
    yield from _one_a_line("made with", entry.get("provenance", {}))


def _one_a_line(label: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401  any JSON value
    parts = value.items() if isinstance(value, dict) else ((None, value),)
    for number, (name, part) in enumerate(parts):
        text = _compact(part)
        yield "" if number else label, text if name is None else f"{name} {text}"


def _compact(value: Any) -> str:  # noqa: ANN401  any JSON value
    if isinstance(value, dict):
        return ", ".join(f"{name} {_compact(part)}" for name, part in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)
