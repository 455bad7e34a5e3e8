"""`vcache plugins`: what is installed, and what of it can be used here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from vcache_cli.cli.blocks import Block, Table
from vcache_cli.cli.documents import envelope
from vcache_cli.cli.options import JsonOption, QuietOption, option
from vcache_cli.cli.output import Output
from vcache_cli.errors import VcacheError

__all__ = ["plugins"]


EncodersOption = Annotated[
    bool, option("--encoders", about="Say which encoders can serve each family, and which does.")
]


def plugins(
    encoders: EncodersOption = False, as_json: JsonOption = False, quiet: QuietOption = False
) -> int:
    """List what is installed, and whether it can be used here.

    Targets, families of pictures and of videos (clips), towers, backends and profiles, each with
    the package that brings it.
    """
    if encoders:
        return _encoders(Output(as_json, quiet))
    found = list(_found())
    bare = [f"{plugin['group']} {plugin['name']}" for plugin in found]
    document = envelope("plugins", {"plugins": found})
    return Output(as_json, quiet).finish(document, _view, bare=bare)


def _encoders(output: Output) -> int:
    from vcache_cli.assemble import encoder_choices

    choices = [choice.as_json() for choice in encoder_choices()]
    bare = [f"{each['family']} {each['backend']}" for each in choices if each["chosen"]]
    document = envelope("plugins", {"plugins": [], "encoders": choices})
    return output.finish(document, _encoders_view, bare=bare)


def _encoders_view(document: Mapping[str, Any]) -> Sequence[Block]:
    rows = tuple(
        (
            each["family"],
            each["backend"] or "-",
            each["compute_dtype"] or "-",
            ", ".join(each["outputs"]) or "-",
            "chosen" if each["chosen"] else "usable" if each["available"] else "not usable",
            each["reason"],
        )
        for each in document["encoders"]
    )
    columns = ("family", "backend", "computes in", "gives", "here", "because")
    return (Table(columns, rows, spare=("computes in", "gives"), last_width=32),)


def _found() -> Iterator[dict[str, Any]]:
    from vcache_cli import registry

    for group in sorted(registry.GROUPS):
        for name in registry.names(group):
            about = _about(group, name)
            yield {
                "group": group,
                "name": name,
                "origin": registry.origin(group, name),
                "available": about.get("reason") is None,
                **about,
            }


def _about(group: str, name: str) -> dict[str, Any]:
    """`reason`: why the plug-in cannot be used here; `uses`: what a target is good for."""
    from vcache_cli import registry
    from vcache_cli.assemble.targets import load_target, uses

    try:
        if group == "targets":
            return {"uses": list(uses(load_target(name)))}
        loaded = registry.load(group, name)
    except VcacheError as error:
        return {"reason": error.message}
    return {"reason": loaded.unavailable() if group == "backends" else None}


def _view(document: Mapping[str, Any]) -> Sequence[Block]:
    rows = tuple(
        (plugin["group"], plugin["name"], plugin["origin"], _state(plugin))
        for plugin in document["plugins"]
    )
    return (Table(("group", "name", "from", "state"), rows, spare=("from",), last_width=24),)


def _state(plugin: Mapping[str, Any]) -> str:
    uses = ", ".join(use.replace("_", " ") for use in plugin.get("uses", ()))
    return str(plugin.get("reason") or uses or "usable")
