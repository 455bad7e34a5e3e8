"""What people see of `vcache inspect --why-miss`, and the command that makes the server hit."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from vcache_cli.cli.blocks import Block, Facts, Lines
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem
from vcache_cli.cli.options import settings_for
from vcache_cli.cli.requests import request
from vcache_cli.items import display_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

    from vcache_cli.assemble import WhyMiss
    from vcache_cli.cli.output import Output

__all__ = ["FLAGS", "problem_of", "remedies", "run_why", "why_view"]

FLAGS: Final = {
    "download": "--download",
    "target": "--target",
    "model_name": "--model-name",
    "max_side": "--max-side",
    "omlx_version": "--omlx-version",
    "allow_lossy": "--allow-lossy",
    "stage": "--stage",
    "profile": "--profile",
    "force_profile": "--force-profile",
    "backend": "--backend",
    "trust_remote_code": "--trust-remote-code",
    "dtype": "--dtype",
    "compute_dtype": "--compute-dtype",
    "fps": "--fps",
    "num_frames": "--num-frames",
    "max_frames": "--max-frames",
    "max_pixels": "--max-pixels",
    "max_file_size": "--max-file-size",
    "isolation": "--isolation",
    "item_timeout": "--item-timeout",
    "item_memory": "--item-memory",
}
"""Choices that a warm has to share, so that it makes the entry that was asked about."""
_VERDICTS: Final = {
    "hit": "would hit",
    "cold": "would miss",
    "damaged": "would miss",
    "stale": "would hit what it should not",
    "other_model": "would miss",
    "unreadable": "cannot be looked up",
}


def run_why(picture: str, given: Mapping[str, Any], output: Output) -> int:
    """Answer for `picture`; the exit code.

    Args:
        picture: a file, or a member of an archive.
        given: the parameters of the command by name.
        output: where to.

    Raises:
        VcacheError: see `why_miss`; or no model was named.
    """
    from vcache_cli.assemble import open_root, why_miss

    settings = settings_for(store=given["store"], preset=given.get("preset"))
    target = given["target"] or open_root(settings.store).meta.target
    asked = {**given, "target": target, "sources": [picture]}
    wanted = request(asked)
    found = why_miss(picture, store=wanted.store, model=wanted.model, options=wanted.options)
    told = {**asked, "picture": picture, "store": wanted.store, "model": wanted.model}
    if target == settings.target:
        told["target"] = given["target"]  # what holds here need not be said
    todo = remedies(found, told)
    document = envelope("inspect", {**found.as_json(), **todo}, store=wanted.store)
    key = found.wanted.key
    return output.finish(
        document,
        why_view,
        bare=[key] if key else [],
        problem=problem_of(found, todo.get("commands", []), told=not (output.json or output.quiet)),
    )


def remedies(found: WhyMiss, given: Mapping[str, Any]) -> dict[str, list[str]]:
    """Commands, ready for a shell; none where it hits, or nothing of ours helps.

    `commands` make it hit, one after the other; `instead_commands` ask for the nearest entry.

    Args:
        found: what is wrong.
        given: the parameters of the command by name: ``picture``, ``store``, ``model`` and the
            choices of a run as the user spelled them.
    """
    if found.would_hit or found.state == "unreadable":
        return {}
    store = str(given["store"])
    if found.state == "other_model":
        store = f"{store.rstrip('/')}-{found.wanted.model.rpartition('/')[2]}"
    item = found.wanted.item
    source = item.path if item.part else given["picture"]  # of an archive all members are warmed
    warm = _command("warm", [source], {**given, "store": store})
    mended = [_command("verify", [], {"store": store, "repair": True})]
    commands = [*(mended if found.state == "damaged" else []), warm]
    value = {"commands": commands}
    if found.ask_instead:
        asked = _command(
            "inspect", ["--why-miss", given["picture"]], {**given, **found.ask_instead}
        )
        value["instead_commands"] = [asked]
    return value


def _command(name: str, words: Sequence[str], choices: Mapping[str, Any]) -> str:
    """A command line; what was not chosen is left to the settings that hold here."""
    flags = {name: f"--{name}" for name in ("store", "model", "preset", "repair")} | FLAGS
    line = ["vcache", name, *map(_word, words)]
    for choice, flag in flags.items():
        value = choices.get(choice)
        if value is None or value is False:
            continue
        line.append(flag)
        if value is not True:
            line.append(str(value))
    return " ".join(map(shlex.quote, line))


def _word(text: str) -> str:
    """A name that begins like an option is spelled as a path."""
    is_name = text.startswith("-") and text != "--why-miss"
    return display_path(f"./{text}" if is_name else text)


def problem_of(found: WhyMiss, commands: Sequence[str], *, told: bool = False) -> Problem | None:
    """Why the command does not exit with 0: a miss is a gate that was not met.

    Args:
        found: what is wrong.
        commands: what makes it hit.
        told: `why_view` is shown, too: then reasons and commands are not said twice.
    """
    if found.would_hit:
        return None
    name, reason = found.wanted.item.source, found.reasons[0]
    if found.state == "unreadable":
        failure = found.wanted.failure
        hint = failure.hint if failure else ""
        return Problem(3, "items_failed", f"{name}: {reason}", hint)
    code, kind = (4, "damage") if found.state == "damaged" else (5, "gate")
    if told:
        return Problem(code, kind, f"{name} {_VERDICTS[found.state]}")
    hint = f"run `{' && '.join(commands)}`"
    return Problem(code, kind, f"{name} {_VERDICTS[found.state]}: {reason}", hint)


def why_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """The wanted key with its parts, why it is not there, what is near, and what to do."""
    todo = [
        *(f"to make it hit: {each}" for each in document.get("commands", ())),
        *(f"to look up what is there: {each}" for each in document.get("instead_commands", ())),
    ]
    return (
        Facts(tuple(_facts(document["wanted"]))),
        Lines(tuple(_verdict(document))),
        Lines(tuple(todo)),
    )


def _verdict(document: Mapping[str, Any]) -> Iterator[str]:
    reasons, nearest = document["reasons"], document["nearest"]
    verdict = _VERDICTS[document["state"]]
    if document["would_hit"]:
        yield f"{verdict}: {document['wanted']['key']}"
        yield from reasons
        return
    yield f"{verdict}:"
    told = {each["message"] for each in nearest}
    yield from (f"  {reason}" for reason in reasons if reason not in told)
    yield from (f"  {each['message']} ({_entry(each)})" for each in nearest)


def _entry(near: Mapping[str, Any]) -> str:
    of = f" of {near['model']}" if "model" in near else ""
    return f"entry {near['key'][:16]}, {near.get('stage', 'features')}{of}"


def _facts(wanted: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("source", "source_sha256", "key", "model"):
        if name in wanted:
            yield name.replace("_", " "), str(wanted[name])
    recipe = wanted["recipe"]
    yield "target", f"{recipe['target']}, stage {recipe['stage']}"
    yield "profile", f"{recipe['profile']} (revision {recipe['profile_revision']})"
    yield "family", f"{recipe['family']} (revision {recipe['family_revision']})"
    if encoder := recipe.get("encoder"):
        yield "weights", encoder["fingerprint"]
        names = ("output", "compute_dtype", "stored_dtype")
        yield "features", ", ".join(f"{n.replace('_', ' ')} {encoder[n]}" for n in names)
    for name, value in {**recipe["target_options"], **wanted.get("server", {})}.items():
        yield name.replace("_", " "), str(value)
    yield "settings", ", ".join(_settings(recipe["settings"]))


def _settings(settings: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{above}{name}.")
        else:
            yield f"{above}{name} {json.dumps(value)}"
