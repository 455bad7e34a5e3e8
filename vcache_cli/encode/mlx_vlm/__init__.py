"""mlx-vlm's own processors and vision models, as preprocessor and encoder. Extra `mlx-vlm`."""

from __future__ import annotations

from vcache_cli.encode.mlx_vlm.encoder import ServerEncoder, join_features, load_server_encoder
from vcache_cli.encode.mlx_vlm.family import ServerFamily
from vcache_cli.encode.mlx_vlm.loading import check_version, fingerprint, refuse_code
from vcache_cli.encode.mlx_vlm.owner import ModelOwner
from vcache_cli.encode.mlx_vlm.pictures import RequestPixels, ServerPreprocessor
from vcache_cli.encode.mlx_vlm.splitting import IMAGE_KEY, consults_cache, features_of, how_split

__all__ = [
    "IMAGE_KEY",
    "ModelOwner",
    "RequestPixels",
    "ServerEncoder",
    "ServerFamily",
    "ServerPreprocessor",
    "check_version",
    "consults_cache",
    "features_of",
    "fingerprint",
    "how_split",
    "join_features",
    "load_server_encoder",
    "refuse_code",
]
