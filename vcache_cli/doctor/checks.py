"""One finding of the doctor, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Check", "State"]


class State(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, and what to do where it is not well."""

    name: str
    state: State
    message: str
    fix: str = ""
    """A command or an act; empty where the state is ``ok``."""

    def as_json(self) -> dict[str, str]:
        """A member of `checks` of ``vcache.doctor/1``."""
        value = {"name": self.name, "state": self.state.value, "message": self.message}
        return {**value, "fix": self.fix} if self.fix else value
