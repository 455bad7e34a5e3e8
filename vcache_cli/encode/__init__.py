"""Pixels to features: vision towers, written once over operations that each backend brings.

Importing this package loads neither numpy nor MLX.
"""

from __future__ import annotations

from vcache_cli.encode.backends import choose_backend
from vcache_cli.encode.encoder import TowerEncoder, load_encoder
from vcache_cli.encode.fingerprints import FingerprintMemo
from vcache_cli.encode.ops import Ops
from vcache_cli.encode.weights import fingerprint

__all__ = [
    "FingerprintMemo",
    "Ops",
    "TowerEncoder",
    "choose_backend",
    "fingerprint",
    "load_encoder",
]
