"""Kills each command at each of its calls, and looks at what it left: `make crash`.

``python -m tests.crash.matrix shim|strace|errno|power [COMMAND...]`` prints a line for each
command, and exits with 1 where anything was torn, lost or left.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash.judge import Verdict, judge, judge_rerun, reported
from tests.crash.scenes import SCENES, Scene, fresh, run_here, scene
from tests.crash.shim import KILLED, Die, Shim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

__all__ = ["Row", "by_shim", "forked", "main", "scene_in"]

_MOST_POINTS: Final = 1_000


@dataclass(slots=True)
class Row:
    """What a matrix found for one command."""

    command: str
    points: int = 0
    wrong: Verdict = field(default_factory=Verdict)
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often an error ended in an exit code; errors are those of ``errno``."""

    def add(self, point: str, found: Verdict) -> None:
        """Count one more point."""
        self.points += 1
        for name in ("torn", "lost", "left"):
            getattr(self.wrong, name).extend(f"{point}: {each}" for each in getattr(found, name))

    def __str__(self) -> str:
        """A line of the table."""
        wrong = self.wrong
        return (
            f"{self.command:10} {self.points:5} points  {len(wrong.torn)} torn or wrong  "
            f"{len(wrong.lost)} lost  {len(wrong.left)} left"
            + "".join(f"\n  {name:8} exit {code:3} {n:5}" for (name, code), n in self._codes())
        )

    def _codes(self) -> list[tuple[tuple[str, int], int]]:
        return sorted(self.codes.items())


def forked(scene: Scene, store: Path, shim: Shim) -> int:
    """Run the command below `shim` in a fork of this process, which has one thread; its code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with shim.installed():
                code = run_here(scene.words(store)).code
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def by_shim(scene: Scene, folder: Path, *, step: int = 1) -> Row:
    """Kill it before each `step`-th changing call, in a process that is a fork of this one."""
    row = Row(scene.name)
    for at in range(0, _MOST_POINTS, step):
        store = fresh(scene, folder / f"{scene.name}-{at}" / "new" / "store")
        code = forked(scene, store, Shim(folder, Die(at)))
        if code != KILLED:
            break
        found = judge(scene, store, reported(store))
        found.add(judge_rerun(scene, store))
        row.add(f"{scene.name} call {at}", found)
    return row


def scene_in(name: str, folder: Path) -> Scene:
    """The scene of that name, and an environment in which it is the same everywhere."""
    for each in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        os.environ[each] = str(folder / "home")
    for each in [each for each in os.environ if each.startswith("VCACHE_")]:
        del os.environ[each]
    return scene(name, folder / name)


def _rows(args: argparse.Namespace, folder: Path) -> Iterator[Row]:
    for name in args.commands or SCENES:
        made = scene_in(name, folder)
        if args.means == "shim":
            yield by_shim(made, folder / "runs", step=args.step)
        elif args.means == "strace":
            from tests.crash.straced import by_strace

            yield by_strace(made, folder / "runs", step=args.step)
        elif args.means == "power":
            yield _by_power(made, folder / "runs", step=args.step)
        else:
            from tests.crash.failing import by_errno

            yield by_errno(made, folder / "runs", step=args.step)


def _by_power(scene: Scene, folder: Path, *, step: int) -> Row:
    """States after the power failed at any moment of a run; violations are what is lost."""
    from tests.crash.outage import recorded_command, tried

    place = folder / f"power-{scene.name}"
    found = tried(recorded_command(scene, place), place / "states", most=24 // step, rerun_each=10)
    return Row(scene.name, found.states, Verdict(lost=found.violations))


def main(words: Sequence[str]) -> int:
    """Print the table; 1 where anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.matrix")
    parser.add_argument("means", choices=("shim", "strace", "errno", "power"))
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=", ".join(SCENES))
    parser.add_argument("--step", type=int, default=1, help="only every so manieth point")
    args, bad = parser.parse_args(words), False
    with tempfile.TemporaryDirectory(prefix="vcache-crash-") as folder:
        for row in _rows(args, Path(folder)):
            print(row, flush=True)  # noqa: T201  the result
            for kind in ("torn", "lost", "left"):
                for line in getattr(row.wrong, kind)[:20]:
                    print(f"  {kind}: {line}")  # noqa: T201
            bad = bad or not row.wrong.is_good
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
