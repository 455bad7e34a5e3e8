"""A run beside an earlier one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcache_cli.report.fold import MAX_LISTED, STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from vcache_cli.report.fold import RunFold

__all__ = ["compare_runs"]

_PLACES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("items", "count", ("items", "total")),
    *(
        (name, "count", ("items", name))
        for name in ("stored", "present", "copy", "skipped", "failed")
    ),
    ("hit rate", "share", ("hit_rate",)),
    ("coverage", "share", ("coverage",)),
    ("warnings", "count", ("warned",)),
    ("read", "bytes", ("bytes", "read")),
    ("written", "bytes", ("bytes", "written")),
    ("tokens", "count", ("tokens", "total")),
    ("time", "seconds", ("seconds", "total")),
    ("items per second", "number", ("items_per_second",)),
    *((stage, "seconds", ("seconds", stage)) for stage in STAGES),
)
"""Name, unit, and where a report has the value."""


def compare_runs(
    then: Mapping[str, Any], now: Mapping[str, Any], *, earlier: RunFold, fold: RunFold
) -> dict[str, Any]:
    """``comparison`` of ``vcache.report/1``: numbers side by side, and whose fate changed."""
    new = sorted(fold.failed - earlier.failed)
    value: dict[str, Any] = {
        "run": then["run"]["id"],
        "started": then["run"]["started"],
        "changes": [
            {"name": name, "unit": unit, **_pair(then, now, path)} for name, unit, path in _PLACES
        ],
        "newly_failed": new[:MAX_LISTED],
        "mended": sorted(fold.mended),
    }
    if len(new) > MAX_LISTED:
        value["newly_failed_omitted"] = len(new) - MAX_LISTED
    model = then["run"].get("model"), now["run"].get("model")
    recipe = then["run"].get("recipe"), now["run"].get("recipe")
    if all(recipe) and recipe[0] != recipe[1]:
        value["recipe_differs"] = True
        if all(model) and model[0] != model[1]:
            value["model"] = model[0]
    return value


def _pair(
    then: Mapping[str, Any], now: Mapping[str, Any], path: tuple[str, ...]
) -> dict[str, float]:
    """Both values; one that is not known is left out."""
    found = {"before": _at(then, path), "after": _at(now, path)}
    return {name: value for name, value in found.items() if value is not None}


def _at(report: Mapping[str, Any], path: tuple[str, ...]) -> Any:  # noqa: ANN401  a JSON value
    found: Any = report
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found
