"""What goes wrong with a bucket, in few kinds, each with what to do; nothing secret in it."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING, Final

from vcache_cli.buckets.place import redacted
from vcache_cli.errors import AccessError, NotAStoreError, ReadError, StoreFullError, VcacheError

if TYPE_CHECKING:
    from vcache_cli.buckets.place import Place

__all__ = ["TRIES", "as_run_error", "failures", "read_error"]

TRIES: Final = {"throttled": 6, "unavailable": 4, "timeout": 2, "connection": 2}
"""How often is asked where another try may not meet the failure; libraries try some themselves."""

_HINTS: Final = {
    "not_found": "correct the name, or leave it out",
    "permission": "give these credentials the right to it (S3: s3:ListBucket, s3:GetObject; to"
    " push and prune, s3:PutObject and s3:DeleteObject), or set others in the environment",
    "no_credentials": "set them in the environment (S3: AWS_ACCESS_KEY_ID and"
    " AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; FSSPEC_S3_ANON=true for a public bucket)",
    "throttled": "run it again later, or with fewer --workers or --jobs",
    "unavailable": "run it again later: the service failed, not what it was asked for",
    "timeout": "run it again; check the network",
    "connection": "check the network, and the endpoint (S3: AWS_ENDPOINT_URL)",
    "store_full": "free some space there, or run `vcache prune URL`",
    "io_error": "run it again; if that does not help, look at it with the provider's own tool",
}
_ERRNO: Final = {
    errno.EBUSY: ("throttled", "the service asks for fewer requests"),
    errno.EACCES: ("permission", "permission denied"),
    errno.EPERM: ("permission", "permission denied"),
    errno.ENOENT: ("not_found", "no such object"),
    errno.EROFS: ("permission", "the file system there is read-only"),
    errno.ENOSPC: ("store_full", "no space is left there"),
    errno.EDQUOT: ("store_full", "no space is left there"),
}
_NAMES: Final = {
    "NoCredentialsError": ("no_credentials", "no credentials were found"),
    "PartialCredentialsError": ("no_credentials", "a part of the credentials is missing"),
    "CredentialRetrievalError": ("no_credentials", "the credentials could not be had"),
    "ProfileNotFound": ("no_credentials", "there is no such profile of credentials"),
    "EndpointConnectionError": ("connection", "the service cannot be reached"),
    "ClientPayloadError": ("connection", "the connection was lost"),
    "ConnectionClosedError": ("connection", "the connection was lost"),
    "IncompleteReadError": ("connection", "the connection was lost"),
    "ResponseStreamingError": ("connection", "the connection was lost"),
    "ServerDisconnectedError": ("connection", "the connection was lost"),
    "ConnectTimeoutError": ("timeout", "the service did not answer in time"),
    "ReadTimeoutError": ("timeout", "the service did not answer in time"),
    "FSTimeoutError": ("timeout", "the service did not answer in time"),
}
"""Exceptions of the providers' libraries, which are not imported for that."""
_TYPES: Final[dict[type[BaseException], tuple[str, str]]] = {
    FileNotFoundError: ("not_found", "no such object"),
    PermissionError: ("permission", "permission denied"),
    TimeoutError: ("timeout", "the service did not answer in time"),
    ConnectionError: ("connection", "the connection was lost"),
}
_BASES: Final = (
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("aiohttp.client_exceptions", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
)


_SERVER_FAILED: Final = 500
"""Of HTTP: from this status on it is the service that failed."""


def failures() -> tuple[type[BaseException], ...]:
    """What the filesystems raise, as far as their libraries are loaded."""
    found = [getattr(sys.modules.get(module), name, None) for module, name in _BASES]
    return (OSError, ValueError, *(each for each in found if each is not None))


def read_error(error: BaseException) -> ReadError:
    """`error` by its kind."""
    kind, message = _kind(error)
    return ReadError(message, kind=kind, hint=_HINTS[kind])


def as_run_error(
    error: ReadError, place: Place, *, missing: type[VcacheError] = NotAStoreError
) -> VcacheError:
    """The error that ends a run, with the place in it."""
    message = f"{place.url}: {error.message}"
    kinds: dict[str, type[VcacheError]] = {"permission": AccessError, "no_credentials": AccessError}
    kinds |= {"not_found": missing, "store_full": StoreFullError}
    return kinds.get(error.item_kind, AccessError)(message, hint=error.hint)


def _kind(error: BaseException) -> tuple[str, str]:
    if found := _NAMES.get(type(error).__name__):
        return found
    for kind, told in _TYPES.items():
        if isinstance(error, kind):
            return told
    if isinstance(error, OSError) and error.errno in _ERRNO:
        return _ERRNO[error.errno]
    if (status := _status(error)) >= _SERVER_FAILED:
        return "unavailable", f"the service failed (status {status})"
    text = redacted(str(error)).splitlines()
    return "io_error", f"{type(error).__name__}: {text[0][:200] if text else 'no more is known'}"


def _status(error: BaseException) -> int:
    """Of the answer that an S3 library makes `error` of; 0 where it has none."""
    answer = getattr(error.__cause__ or error, "response", None)
    facts = answer.get("ResponseMetadata", {}) if isinstance(answer, dict) else {}
    return int(facts.get("HTTPStatusCode") or 0)
