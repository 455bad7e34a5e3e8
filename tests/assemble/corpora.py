"""Small corpora by name, and what is asked about them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from vcache_cli.media import Sources, sources

__all__ = ["copied", "corpus_of"]


def corpus_of(*paths: Path) -> Sources:
    """The corpus that these files and folders are."""
    return sources([str(path) for path in paths])


def copied(folder: Path, pictures: Sequence[Path], *, prefix: str = "") -> Path:
    """`folder` with copies of `pictures`, each name after `prefix`."""
    folder.mkdir()
    for picture in pictures:
        shutil.copyfile(picture, folder / f"{prefix}{picture.name}")
    return folder
