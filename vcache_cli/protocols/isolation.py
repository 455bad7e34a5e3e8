"""Sockets of work that runs in processes of its own, and may be lost there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Isolable", "Loss", "Resident"]

In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Loss:
    """How the process ended that worked on an input."""

    kind: Literal["crashed", "timeout", "memory"]
    reason: str
    """For people, such as ``killed by SIGSEGV``."""
    seconds: float
    """From the hand-over to the end."""
    outside: bool = False
    """True where something else may have ended it: the same input may then pass."""


@runtime_checkable
class Isolable(Protocol[In_contra, Out_co]):
    """Work that survives the process in which it is done. Picklable."""

    def __call__(self, value: In_contra) -> Out_co:
        """Do it, in whatever process this is."""
        ...

    def noting(self, note: Callable[[object], None]) -> Callable[[In_contra], Out_co]:
        """The same work, as it is done in a process that may die.

        It hands to `note` what has to be known if it does: a small picklable value, as early as
        it is known; the last one counts. It raises MemoryError where memory does not suffice.
        """
        ...

    def lost(self, value: In_contra, loss: Loss, noted: Any) -> Out_co:  # noqa: ANN401  its own
        """What has become of `value`; `noted` is None where nothing was."""
        ...


@runtime_checkable
class Resident(Protocol):
    """A target or preprocessor that cannot leave this process, such as a server's own code.

    A capability: the work that it is a part of then runs in threads, whatever was asked for.
    """

    @property
    def residence(self) -> str:
        """Why, in a few words."""
        ...
