"""Download what is needed of a model of the Hugging Face Hub. Only where the user asked for it.

The extra ``hub`` brings the library; it is imported at the first download.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

__all__ = ["SETTINGS_FILES", "download"]

SETTINGS_FILES: Final = ("*.json",)
"""Everything but weights: the index of the weight files is among it."""


def download(name: str, files: Sequence[str]) -> None:
    """Bring `files` of the model `name` into the local Hugging Face cache; what is there stays.

    Args:
        name: on the Hub.
        files: names or patterns, in the model's folder.

    Raises:
        ModelError: the library is not installed, or the download failed.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HTTPError
    except ImportError as error:
        raise ModelError(
            f"`{name}`: cannot be downloaded: {error}",
            hint="install the extra `vcache-cli[hub]`, or download it first: `hf download`",
        ) from error
    try:
        snapshot_download(name, allow_patterns=list(files))
    except (OSError, ValueError, HTTPError) as error:
        raise ModelError(
            f"`{name}`: cannot be downloaded: {error}",
            hint="see that the name is right, that there is a network, and for a gated model "
            "log in: `hf auth login`",
        ) from error
