"""A store: a directory of entries, each file describing itself. FORMAT.md states the bytes."""

from vcache_cli.store.budget import Budget
from vcache_cli.store.create import adopt_meta, create_meta
from vcache_cli.store.disk import DiskStore, Finding
from vcache_cli.store.files import FileOps, OsFiles
from vcache_cli.store.flight import SingleFlight
from vcache_cli.store.locks import LockHolder, gc_lock, lock_holders, write_lock, writers_active
from vcache_cli.store.lru import ByteLru, LruStats
from vcache_cli.store.memory import MemoryTier
from vcache_cli.store.meta import StoreMeta, StoreRoot, read_meta, vcache_dir
from vcache_cli.store.pool import EntryWriter
from vcache_cli.store.reader import HeaderFacts, read_file, read_header
from vcache_cli.store.tiered import TieredCache
from vcache_cli.store.trust import check_trust

__all__ = [
    "Budget",
    "ByteLru",
    "DiskStore",
    "EntryWriter",
    "FileOps",
    "Finding",
    "HeaderFacts",
    "LockHolder",
    "LruStats",
    "MemoryTier",
    "OsFiles",
    "SingleFlight",
    "StoreMeta",
    "StoreRoot",
    "TieredCache",
    "adopt_meta",
    "check_trust",
    "create_meta",
    "gc_lock",
    "lock_holders",
    "read_file",
    "read_header",
    "read_meta",
    "vcache_dir",
    "write_lock",
    "writers_active",
]
