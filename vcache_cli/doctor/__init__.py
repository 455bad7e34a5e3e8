"""What is wrong on this machine and with this store, and the exact fix."""

from __future__ import annotations

from vcache_cli.doctor.checks import Check, State
from vcache_cli.doctor.examine import Diagnosis, examine

__all__ = ["Check", "Diagnosis", "State", "examine"]
