"""Objects in buckets, by the URL of a filesystem that fsspec knows: listed, read, written, removed.

Needs the extra `remote`, loaded at first use. Credentials come from the environment and the files
of the provider's own library, never from a URL.
"""

from __future__ import annotations

from vcache_cli.buckets.bucket import Bucket, Found, Moved, open_bucket
from vcache_cli.buckets.failures import as_run_error
from vcache_cli.buckets.place import Place, is_cut_url, is_url, parse_place, redacted

__all__ = [
    "Bucket",
    "Found",
    "Moved",
    "Place",
    "as_run_error",
    "is_cut_url",
    "is_url",
    "open_bucket",
    "parse_place",
    "redacted",
]
