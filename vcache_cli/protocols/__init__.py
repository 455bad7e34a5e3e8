"""Every socket of vcache.

A socket is a Protocol of one to three methods; a capability is a Protocol of its own. What can
be plugged in names its entry-point group in its docstring; `registry` finds it there.
"""

from __future__ import annotations

from vcache_cli.protocols.capabilities import (
    Annotator,
    Bounded,
    Exclusive,
    FeatureTarget,
    GroupTarget,
    LevelTarget,
    LooseKeys,
    ManyKeys,
    ManyPaths,
    Numerics,
    Optioned,
    Trickling,
)
from vcache_cli.protocols.care import Examiner, ServerFinding, ServerView, StoredFile
from vcache_cli.protocols.clips import ClipDecoder, ClipFamily, ClipPreprocessor
from vcache_cli.protocols.compute import Backend, Encoder, Engine, Session, Tower, TowerPlan
from vcache_cli.protocols.corpus import (
    Batched,
    Decoder,
    Family,
    Preprocessor,
    RequestPreprocessor,
    Source,
    batches_of,
)
from vcache_cli.protocols.isolation import Isolable, Loss, Resident
from vcache_cli.protocols.storage import (
    Evidence,
    FolderMemo,
    KeyFrom,
    Layout,
    Memo,
    OwnDirectory,
    Recall,
    Seen,
    Target,
    Tier,
    Unit,
    WarmTarget,
)

__all__ = [
    "Annotator",
    "Backend",
    "Batched",
    "Bounded",
    "ClipDecoder",
    "ClipFamily",
    "ClipPreprocessor",
    "Decoder",
    "Encoder",
    "Engine",
    "Evidence",
    "Examiner",
    "Exclusive",
    "Family",
    "FeatureTarget",
    "FolderMemo",
    "GroupTarget",
    "Isolable",
    "KeyFrom",
    "Layout",
    "LevelTarget",
    "LooseKeys",
    "Loss",
    "ManyKeys",
    "ManyPaths",
    "Memo",
    "Numerics",
    "Optioned",
    "OwnDirectory",
    "Preprocessor",
    "Recall",
    "RequestPreprocessor",
    "Resident",
    "Seen",
    "ServerFinding",
    "ServerView",
    "Session",
    "Source",
    "StoredFile",
    "Target",
    "Tier",
    "Tower",
    "TowerPlan",
    "Trickling",
    "Unit",
    "WarmTarget",
    "batches_of",
]
