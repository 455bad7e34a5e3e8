"""How an option is declared: its help, its default, and what a shell may complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from vcache_cli.cli import completion

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["option"]


def option(
    name: str,
    *more: str,
    about: str,
    metavar: str | None = None,
    default: str = "",
    complete: Callable[..., list[str]] | None = None,
) -> Any:  # noqa: ANN401  what typer takes for an option
    """An option with its help.

    Args:
        name, more: its spellings.
        about: one sentence or two.
        metavar: its value; choices such as ``a|b`` are offered by a shell that completes.
        default: what holds where it is not given.
        complete: what such a shell offers instead.
    """
    return typer.Option(
        name,
        *more,
        help=f"{about} Default: {default}." if default else about,
        metavar=metavar,
        show_default=False,
        autocompletion=complete or completion.choices(metavar),
    )
