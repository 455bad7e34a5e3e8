"""`vcache inspect --picture`: a PNG of what the model sees."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vcache_cli.cli.blocks import Block, Facts, Lines
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.next_steps import repair_command
from vcache_cli.cli.options import settings_for
from vcache_cli.cli.requests import request
from vcache_cli.errors import NotAStoreError, RefusedError, UsageError
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    from vcache_cli.assemble import Drawing
    from vcache_cli.cli.output import Output

__all__ = ["run_picture"]

_HEAD_BYTES: Final = 256
_WITH_MODEL: Final = "add `--model DIR` to draw what that model sees of it"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def run_picture(entry: str, given: Mapping[str, Any], output: Output) -> int:
    """Draw `entry`: an entry of a store, or with a model a picture; the exit code.

    A picture that has no entry is drawn as the model of the settings sees it.

    Raises:
        VcacheError: nothing can be drawn, or the file is another's.
        OSError: it cannot be written.
    """
    place: str = given["picture"]
    _refuse_strangers(place)
    fields, drawing, store = (_seen if given["model"] else _stored)(entry, given)
    _write(place, drawing.png)
    picture = {"path": display_path(os.path.abspath(place)), **drawing.as_json()}
    document = envelope("inspect", {**fields, "picture": picture}, store=store)
    return output.finish(document, _view, bare=[display_path(place)])


def _seen(entry: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], Drawing, Any]:
    from vcache_cli.assemble import draw_source

    wanted = request({**given, "sources": [entry]})
    drawing = draw_source(entry, model=wanted.model, options=wanted.options)
    return {"source": display_path(entry)}, drawing, None


def _stored(entry: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], Drawing, Any]:
    from vcache_cli.assemble import draw_entry, open_root
    from vcache_cli.errors import DamageError, InvalidEntryError
    from vcache_cli.store.inspection import inspect_target

    settings = settings_for(store=given["store"], preset=given.get("preset"))
    path = settings.store
    try:
        root = open_root(path, target=given["target"])
        found = inspect_target(root, entry)
    except (UsageError, NotAStoreError) as error:
        if not os.path.isfile(entry.partition("::")[0]):
            raise
        if settings.model:  # of a picture that was not warmed, what the model would see
            return _seen(entry, given)
        raise type(error)(error.message, hint=_WITH_MODEL) from error
    if len(found) > 1:
        keys = ", ".join(each.row.key[:16] for each in found[:5])
        raise UsageError(
            f"`{display_path(entry)}` has {len(found)} entries: {keys}",
            hint="name one of them, or add `--model` to draw what that model sees",
        )
    try:
        source = entry if os.path.isfile(entry) else None
        return found[0].as_json(), draw_entry(root, found[0].row, source=source), path
    except InvalidEntryError as error:
        raise DamageError(
            f"{found[0].row.path}: damaged: {error.message}", hint=f"run `{repair_command(path)}`"
        ) from error


def _refuse_strangers(place: str) -> None:
    """Only a drawing of ours is replaced: whatever else lies there is somebody's.

    Raises:
        RefusedError: something else does.
        UsageError: there is no such folder.
    """
    from vcache_cli.drawing import is_drawing

    folder = os.path.dirname(place) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"`--picture`: no folder `{display_path(folder)}`")
    try:
        fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError:
        head = b""
    else:
        try:
            is_file = stat.S_ISREG(os.fstat(fd).st_mode)
            head = os.read(fd, _HEAD_BYTES) if is_file else b""
        finally:
            os.close(fd)
    if not is_drawing(head):
        raise RefusedError(
            f"{display_path(place)} is there, and is no picture that `--picture` drew",
            hint="name another file",
        )


def _write(place: str, data: bytes) -> None:
    """Whole or not at all."""
    temp = f"{place}.{secrets.token_hex(8)}.part"
    fd = os.open(temp, _NEW, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, place)
    finally:
        with suppress(OSError):  # renamed away
            os.unlink(temp)


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    picture = document["picture"]
    notes = (f"not on it: {picture['note']}",) if "note" in picture else ()
    return (Facts(tuple(_facts(document, picture))), Lines(notes))


def _facts(document: Mapping[str, Any], picture: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "picture", f"{picture['path']}, {picture['width']} x {picture['height']}"
    for name in ("source", "key", "stage", "model"):
        if name in document:
            yield name, str(document[name])
    for number, title in enumerate(picture["panels"]):
        yield "" if number else "shows", title
