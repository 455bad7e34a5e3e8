"""Finding, reading and decoding pictures: everything before preprocessing.

`sources` finds items, `read_item` reads one, `PillowDecoder` decodes it by a profile's rules.
"""

from __future__ import annotations

from vcache_cli.media.containers import is_container, reopened
from vcache_cli.media.decode import PillowDecoder
from vcache_cli.media.discover import Sources, shard_of, sources
from vcache_cli.media.groups import GroupFile, Joined
from vcache_cli.media.logs import LogRules
from vcache_cli.media.notices import notice_text
from vcache_cli.media.read import read_if, read_item
from vcache_cli.media.sniff import claims_media, describe, sniff
from vcache_cli.media.versions import av_version, versions

__all__ = [
    "GroupFile",
    "Joined",
    "LogRules",
    "PillowDecoder",
    "Sources",
    "av_version",
    "claims_media",
    "describe",
    "is_container",
    "notice_text",
    "read_if",
    "read_item",
    "reopened",
    "shard_of",
    "sniff",
    "sources",
    "versions",
]
