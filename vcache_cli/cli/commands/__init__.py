"""One module per command, one command per module; nothing heavy is loaded before one runs."""

from __future__ import annotations

from collections.abc import Callable

from vcache_cli.cli.commands import (
    check,
    config,
    doctor,
    export,
    import_,
    inspect,
    key,
    ls,
    merge,
    plugins,
    prune,
    pull,
    push,
    replay,
    report,
    schema,
    serve_mlx_vlm,
    stats,
    verify,
    warm,
)

__all__ = ["COMMANDS"]

COMMANDS: dict[str, Callable[..., int]] = {
    "warm": warm.warm,
    "check": check.check,
    "stats": stats.stats,
    "ls": ls.ls,
    "inspect": inspect.inspect,
    "verify": verify.verify,
    "prune": prune.prune,
    "report": report.report,
    "export": export.export,
    "import": import_.import_,
    "merge": merge.merge,
    "push": push.push,
    "pull": pull.pull,
    "key": key.key,
    "replay": replay.replay,
    "serve-mlx-vlm": serve_mlx_vlm.serve_mlx_vlm,
    "doctor": doctor.doctor,
    "config": config.config,
    "schema": schema.schema,
    "plugins": plugins.plugins,
}
"""Every command by name, in the order of the help."""
