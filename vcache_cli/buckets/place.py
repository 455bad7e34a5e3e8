"""The URL of an object or a folder of objects, as a value. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from vcache_cli.errors import UsageError

__all__ = ["Place", "is_cut_url", "is_url", "parse_place", "redacted"]

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCHEMES: Final = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "hf": "hf",
    "az": "az",
    "abfs": "az",
    "memory": "memory",
    "file": "file",
}
"""Named outright, so that no URL chains into another filesystem, or runs a command."""
_TOKEN: Final = re.compile(r"\?[A-Za-z][\w.-]*=")
_SECRETS: Final = (
    (re.compile(r"(://)[^/\s@]*@"), r"\1***@"),
    (
        re.compile(
            r"(?i)\b(x-amz-\w[\w-]*|sig|signature|awsaccesskeyid|(?:access_?)?token|"
            r"secret\w*|password|credential)=[^&\s\"']+"
        ),
        r"\1=***",
    ),
)


@dataclass(frozen=True, slots=True)
class Place:
    """An object, or what begins with a path of objects."""

    scheme: str
    """Of the filesystem: ``s3``, ``gs``, ``hf``, ``az``, ``memory`` or ``file``."""
    path: str
    """Bucket and key; no slash at the end. Of ``file``, an absolute path."""
    is_folder: bool = False
    """True where the URL ended with a slash."""

    @property
    def url(self) -> str:
        """The URL, in one spelling."""
        return f"{self.scheme}://{self.path}"

    @property
    def root(self) -> str:
        """The bucket."""
        return self.path.partition("/")[0]

    def at(self, path: str) -> Place:
        """Another path of the same filesystem."""
        return Place(self.scheme, path)

    def below(self, name: str) -> Place:
        """What lies under `name` in this folder."""
        return Place(self.scheme, f"{self.path}/{name}" if self.path else name)


def parse_place(url: str) -> Place:
    """The place at `url`.

    Raises:
        UsageError: no URL of a bucket that can be used, or one with credentials in it.

    >>> parse_place("s3://bucket/photos/")
    Place(scheme='s3', path='bucket/photos', is_folder=True)
    """
    found = _URL.fullmatch(url)
    scheme = _SCHEMES.get(found[1].lower()) if found else None
    if found is None or scheme is None:
        raise UsageError(
            f"`{redacted(url)}` is no URL of a bucket",
            hint="write s3://BUCKET/PATH; also gs://, az://, hf:// and file:///",
        )
    path = found[2]
    if "@" in path.partition("/")[0] or _TOKEN.search(path):
        raise UsageError(
            f"`{redacted(url)}` has credentials or a query in it",
            hint="leave them out: credentials come from the environment of the provider's SDK",
        )
    return Place(scheme, _stripped(scheme, path, url), path.endswith("/"))


def is_url(path: str) -> bool:
    """True for the URL of an object in a bucket; a file of such a name is ``./s3://...``.

    >>> is_url("S3://bucket/a.jpg"), is_url("./s3://a.jpg")
    (True, False)
    """
    return "://" in path and _URL.match(path) is not None


def is_cut_url(path: str) -> bool:
    """True for what a URL becomes where a `Path` is made of it.

    >>> is_cut_url("s3:/bucket/a"), is_cut_url("s3://bucket/a"), is_cut_url("x:/a")
    (True, False, False)
    """
    scheme, colon, rest = path.partition(":/")
    return bool(colon) and not rest.startswith("/") and scheme.lower() in _SCHEMES


def redacted(text: str) -> str:
    """`text` without what may be a secret.

    >>> redacted("s3://key:secret@bucket/a?X-Amz-Signature=abc&x=1")
    's3://***@bucket/a?X-Amz-Signature=***&x=1'
    """
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _stripped(scheme: str, path: str, url: str) -> str:
    if scheme == "file":
        if not path.startswith("/"):
            raise UsageError(f"`{url}` is no absolute path", hint="write file:///PATH")
        return path.rstrip("/") or "/"
    path = path.strip("/") if scheme == "memory" else path.rstrip("/")
    if "\0" in path or path.startswith("/") or (not path and scheme != "memory"):
        raise UsageError(f"`{url}` names no bucket", hint=f"write {scheme}://BUCKET/PATH")
    return path
