"""Every error that vcache raises, with the exit code that the command line gives it.

::

    VcacheError                      1   internal
    ├── UsageError                   2   usage or configuration
    │   └── NothingToDoError         2   an empty corpus, no matching file
    ├── PartialFailureError          3   the run stopped because too many items failed
    ├── DamageError                  4   damage found and still there
    ├── GateError                    5   a gate was not met
    ├── NotAStoreError              10   no store there, or not a store
    ├── LockBusyError               11   another process holds the lock
    ├── FormatTooNewError           12   written by a newer vcache
    ├── StoreFullError              13   out of space or budget
    ├── AccessError                 14   permission denied or read-only
    ├── ModelError                  15   model, processor or backend not available
    │   └── MissingWeightsError     15   weight files that are named but not there
    ├── RefusedError                16   refused for safety
    ├── ItemError                    -   one item failed: becomes an Outcome, never ends a run
    │   ├── ReadError                    the source could not be read
    │   ├── MediaError                   the source is not a picture or clip that we can decode
    │   └── EncodeError                  the encoder could not take the pixels
    ├── MultiModalCacheMissError     -   serving: the receiver lacks a payload; send again
    ├── MultiModalItemMissingError   -   serving: the sender lacks an item that must be sent
    └── InvalidEntryError            -   a file is not a valid entry: a miss and a finding

Absence is ``None``; the failure of one item is a value (`ItemError` is turned into an
`Outcome` at the item's boundary); the failure of a run is one of the others.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AccessError",
    "DamageError",
    "EncodeError",
    "FormatTooNewError",
    "GateError",
    "InvalidEntryError",
    "ItemError",
    "LockBusyError",
    "MediaError",
    "MissingWeightsError",
    "ModelError",
    "NotAStoreError",
    "NothingToDoError",
    "PartialFailureError",
    "ReadError",
    "RefusedError",
    "StoreFullError",
    "UsageError",
    "VcacheError",
]


class VcacheError(Exception):
    """Base of every error of vcache.

    Args:
        message: what happened, to what, with what was expected and found.
        hint: what the user can do about it; empty where there is nothing to do.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "internal"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(VcacheError):
    """The command line, a setting or a file that the user named makes no sense."""

    exit_code = 2
    kind = "usage"


class NothingToDoError(UsageError):
    """No item was found where the user said to look."""

    kind = "nothing_to_do"


class PartialFailureError(VcacheError):
    """The run stopped early because too many items failed."""

    exit_code = 3
    kind = "too_many_failures"


class DamageError(VcacheError):
    """Damage was found in a store and is still there."""

    exit_code = 4
    kind = "damage"


class GateError(VcacheError):
    """A condition that the caller set was not met."""

    exit_code = 5
    kind = "gate"


class NotAStoreError(VcacheError):
    """There is no store at that path, or what is there is not one."""

    exit_code = 10
    kind = "not_a_store"


class LockBusyError(VcacheError):
    """Another process holds a lock that this operation needs."""

    exit_code = 11
    kind = "lock_busy"


class FormatTooNewError(VcacheError):
    """The store was written by a newer vcache than this one."""

    exit_code = 12
    kind = "format_too_new"


class StoreFullError(VcacheError):
    """The disk is full, or a budget (`--max-size`, `--min-free`) is used up."""

    exit_code = 13
    kind = "store_full"


class AccessError(VcacheError):
    """The store cannot be written or read: permissions, ownership or a read-only mount."""

    exit_code = 14
    kind = "access"


class ModelError(VcacheError):
    """A model folder, processor or backend is missing or not usable."""

    exit_code = 15
    kind = "model"


class MissingWeightsError(ModelError):
    """Weight files that the model names are not in its folder: half a download.

    Args:
        files: their names in the folder.
    """

    def __init__(self, message: str, *, files: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.files = files


class RefusedError(VcacheError):
    """Refused because it would be unsafe."""

    exit_code = 16
    kind = "refused"


class ItemError(VcacheError):
    """One item failed; the run goes on.

    Args:
        message: what is wrong with the item, without the item's name.
        kind: the machine-readable kind, such as ``truncated``.
        hint: what to do about it.
    """

    exit_code = 3
    stage: ClassVar[str] = "item"
    transient: ClassVar[bool] = False
    """True where trying the same bytes again may succeed: never remembered as a failure."""

    def __init__(self, message: str, *, kind: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.item_kind = kind


class ReadError(ItemError):
    """The source could not be opened or read."""

    stage = "digest"
    transient = True


class MediaError(ItemError):
    """The source was read but is no picture or clip that we can decode."""

    stage = "decode"


class EncodeError(ItemError):
    """Preprocessing or encoding refused the item."""

    stage = "encode"


class InvalidEntryError(VcacheError):
    """A file is not a valid entry. A get turns it into a miss, verify into a finding.

    Args:
        message: what was expected and what was found.
        finding: the kind of finding as `verify` reports it, such as ``checksum``.
    """

    def __init__(self, message: str, *, finding: str = "header") -> None:
        super().__init__(message)
        self.finding = finding
