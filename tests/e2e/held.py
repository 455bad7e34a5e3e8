"""A command that stands still once it has decoded some pictures, until its test lets it go on.

So a test can kill it, interrupt it or work beside it in the middle of a run, however fast the one
and however slow the other is. It is done by a startup hook, as in `killers`.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

__all__ = ["Hold", "install"]

_ROOT = Path(__file__).resolve().parents[2]
_HOOK = "import tests.e2e.held as held; held.install()\n"


@dataclass(frozen=True)
class Hold:
    """A hold of a command, by `environment`.

    Args:
        folder: made by it; of this hold alone.
        after: pictures that are decoded, in each process that decodes.
    """

    folder: Path
    after: int

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the command."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "sitecustomize.py").write_text(_HOOK)
        path = os.pathsep.join((str(self.folder), str(_ROOT)))
        return {
            "PYTHONPATH": path,
            "HELD_AFTER": str(self.after),
            "HELD_UNTIL": str(self.folder / "gone"),
        }

    def let_go(self) -> None:
        """Let it go on."""
        (self.folder / "gone").touch()


def install() -> None:
    """Decode as before, but for the wait."""
    from vcache_cli.items import Frames
    from vcache_cli.media import PillowDecoder

    decode, numbers = PillowDecoder.decode, count()
    after, gone = int(os.environ["HELD_AFTER"]), os.environ["HELD_UNTIL"]

    def held(self: PillowDecoder, data: bytes) -> Frames:
        if next(numbers) >= after:
            gives_up_at = time.monotonic() + PATIENCE_SECONDS
            while not os.path.exists(gone) and time.monotonic() < gives_up_at:
                time.sleep(0.005)
        return decode(self, data)

    PillowDecoder.decode = held  # type: ignore[method-assign]
