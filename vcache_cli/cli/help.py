"""Help as plain text: options and commands in groups, examples at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from vcache_cli.cli.examples import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

__all__ = ["COMMAND_GROUPS", "OPTION_GROUPS", "HelpfulCommand", "HelpfulGroup"]

_FEW: Final = 16
"""Options that need no groups."""

OPTION_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Which model and server": (
        *("model", "preset", "download", "target", "profile", "force_profile"),
        *("trust_remote_code", "model_name", "max_side", "omlx_version", "allow_lossy"),
        *("server", "api_key_env", "proxy"),
    ),
    "Which pictures": ("exclude", "groups", "limit", "null", "shard", "media_root", "allow_http"),
    "How it is sent": (
        *("concurrency", "rate", "retries", "timeout", "prompt", "measure", "again", "state"),
    ),
    "Videos": ("videos", "fps", "num_frames", "max_frames"),
    "What is stored, and where": (
        *("store", "stage", "dtype", "max_size", "min_free", "on_full", "manifest"),
    ),
    "How it is computed": (
        *("backend", "compute_dtype", "workers", "batch_size"),
        *("engine", "ray_address", "encoder_resources"),
    ),
    "What one picture may cost": (
        *("max_pixels", "max_file_size", "isolation", "item_timeout", "item_memory"),
    ),
    "When something fails": ("on_error", "max_errors", "retry_errors", "fail_under"),
    "What is shown": ("dry_run", "nodes", "events", "json", "quiet", "verbose", "help"),
}
"""Of commands with many options; an option that no group names stands before them."""

COMMAND_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Fill a store": ("warm", "check", "key", "replay"),
    "Look into one": ("stats", "ls", "inspect", "report"),
    "Look after one": ("verify", "prune"),
    "Move entries": ("export", "import", "merge", "push", "pull"),
    "Serve from one": ("serve-mlx-vlm",),
    "This machine": ("doctor", "config", "plugins", "schema"),
}
"""A command that no group names stands before them."""

_FIRST: Final = "Options"

_Rows = list[tuple[str, str]]


class HelpfulCommand(TyperCommand):
    """A command whose help groups many options, and ends with examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  typer's own classes
        """Arguments, then the options, in groups where there are many."""
        arguments: _Rows = []
        options: list[tuple[str, tuple[str, str]]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and parameter.param_type_name == "argument":
                arguments.append(record)
            elif record:
                options.append((_option_name(parameter), record))
        _write(formatter, "Arguments", arguments)
        groups = OPTION_GROUPS if len(options) > _FEW else {}
        _write_groups(formatter, _FIRST, options, groups)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """The examples, each on lines of its own, to be copied."""
        examples = EXAMPLES.get(self.name or "", ())
        if not examples:
            return
        with formatter.section("Examples"):
            for line, purpose in examples:
                formatter.write(f"  # {purpose}\n  {line}\n")


class HelpfulGroup(TyperGroup):
    """The command itself: its commands stand in groups, and what each does is told whole."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Every command with the first sentence of its help."""
        rows = [
            (name, (name, (command.help or "").partition("\n")[0]))
            for name, command in self.commands.items()
        ]
        _write_groups(formatter, "Commands", rows, COMMAND_GROUPS)


def _option_name(parameter: Any) -> str:  # noqa: ANN401
    """As in the groups: the longest spelling, without dashes."""
    longest: str = max(parameter.opts, key=len)
    return longest.lstrip("-").replace("-", "_")


def _write_groups(
    formatter: Any,  # noqa: ANN401
    first: str,
    rows: Sequence[tuple[str, tuple[str, str]]],
    groups: Mapping[str, tuple[str, ...]],
) -> None:
    grouped = {name for names in groups.values() for name in names}
    _write(formatter, first, [record for name, record in rows if name not in grouped])
    for title, names in groups.items():
        _write(formatter, title, [record for name, record in rows if name in names])


def _write(formatter: Any, title: str, rows: _Rows) -> None:  # noqa: ANN401
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)
