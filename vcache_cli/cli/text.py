"""Values as people read them; what reports say in the same words lies further down."""

from __future__ import annotations

from vcache_cli.printable import clean
from vcache_cli.wording import age, count, duration, percent

__all__ = ["age", "clean", "count", "duration", "percent"]
