"""Conformance kits for plug-ins: subclass one, give its fixtures, and run pytest.

Needs pytest and hypothesis, which the extra ``test`` brings. A shipped kit is the contract: what
vcache's own targets pass is what a plug-in of another package has to pass.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    f"{__name__}.capabilities", f"{__name__}.layouts", f"{__name__}.targets"
)

from vcache_cli.testing.capabilities import (  # noqa: E402  rewriting comes first
    ExaminerTests,
    OwnDirectoryTests,
)
from vcache_cli.testing.layouts import LayoutTests  # noqa: E402
from vcache_cli.testing.targets import (  # noqa: E402
    ExclusiveTests,
    GroupTargetTests,
    TargetTests,
    WarmTargetTests,
)

__all__ = [
    "ExaminerTests",
    "ExclusiveTests",
    "GroupTargetTests",
    "LayoutTests",
    "OwnDirectoryTests",
    "TargetTests",
    "WarmTargetTests",
]
