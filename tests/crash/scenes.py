"""The commands that change a store, each with a small store to change and what it has to become."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.store.care import NOW, add, entry, make_store
from vcache_cli.cli.app import run
from vcache_cli.digest import digest_bytes

if TYPE_CHECKING:
    from typing import Final

__all__ = ["SCENES", "Ran", "Scene", "contents", "fresh", "run_here", "scene"]

SAMPLES: Final = Path(__file__).resolve().parents[2] / "samples"
PICTURES: Final = ("hills.jpg", "press.jpg", "thumbnail.bmp")
TOKENS: Final = 700
"""11 KB of tensors: some pages."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run in this process left."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Scene:
    """A command, the store that it is run on, and what has to be true afterwards."""

    name: str
    store: Path
    """Before the run, to be copied; need not exist."""
    args: tuple[str, ...]
    """Of the command; ``{store}`` is the place of the copy."""
    kept: dict[str, str]
    """Entries that are there before and after, and at any time: path and SHA-256."""
    final: dict[str, str]
    """Entries that are there after the run."""
    damaged: dict[str, str]
    """Before the run: in their place, replaced, or in quarantine, but nowhere else."""
    doomed: dict[str, str]
    """Entries that are there before the run and may go."""

    @property
    def allowed(self) -> set[tuple[str, str]]:
        """What may lie in the place of an entry, whenever the run was killed."""
        return {*self.kept.items(), *self.final.items(), *self.doomed.items()}

    def words(self, store: Path) -> list[str]:
        """The command line for the copy at `store`."""
        return [word.format(store=store) for word in self.args]


def contents(store: Path) -> dict[str, str]:
    """SHA-256 of what lies in the place of each entry."""
    found = sorted(store.glob("??/*"))
    return {path.relative_to(store).as_posix(): digest_bytes(path.read_bytes()) for path in found}


def fresh(scene: Scene, place: Path) -> Path:
    """A copy of the scene's store at `place`, for one run."""
    shutil.rmtree(place, ignore_errors=True)
    if scene.store.exists():
        shutil.copytree(scene.store, place)
        place.chmod(0o700)
    return place


def run_here(words: list[str]) -> Ran:
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    return Ran(code, out.getvalue(), err.getvalue())


def _warm(folder: Path) -> Scene:
    """Into a folder that is not there yet, nor the one above it."""
    corpus, store = folder / "corpus", folder / "above/it/none"
    corpus.mkdir()
    for name in PICTURES:
        shutil.copyfile(SAMPLES / "media" / name, corpus / name)
    model = SAMPLES / "tiny-siglip"
    corpus_of_model = ("warm", str(corpus), "-m", str(model), "-s", "{store}", "-q")
    words = (*corpus_of_model, "--backend", "numpy", "--isolation", "thread", "--workers", "1")
    done = _tried(words, folder / "done")
    return Scene("warm", store, words, {}, done, {}, {})


def _prune(folder: Path) -> Scene:
    """Six entries of which three go, with all that a prune clears away beside them."""
    root = make_store(folder / "store")
    paths = [add(root, entry(n, tokens=TOKENS), used=NOW + n) for n in range(6)]
    every = contents(root.path)
    final = {path: every[path] for path in _names(root.path, paths[3:])}
    old = root.path / ".vcache/quarantine/20200101T000000Z-checksum-00000000-x"
    for leftover in (old, root.path / ".vcache/tmp/left"):
        leftover.write_bytes(b"left")
        os.utime(leftover, (NOW, NOW))
    size_bytes = sum(path.stat().st_size for path in paths[3:]) + 1
    words = ("prune", "-s", "{store}", "--max-size", str(size_bytes), "--grace", "0s", "--yes")
    _indexed(root.path)
    doomed = {path: each for path, each in every.items() if path not in final}
    return Scene("prune", root.path, (*words, "-q"), final, final, {}, doomed)


def _import(folder: Path) -> Scene:
    """Four entries, of which the store has one whole and one damaged."""
    root = make_store(folder / "other")
    paths = [add(root, entry(n, tokens=TOKENS)) for n in range(4)]
    archive, final = folder / "archive.tar", contents(root.path)
    code = run_here(["export", str(archive), "-s", str(root.path), "-q"]).code
    if code:
        raise AssertionError(code)
    store = folder / "store"
    mine = make_store(store)
    for path in paths[:2]:
        add(mine, entry(paths.index(path), tokens=TOKENS))
    kept, damaged = _names(root.path, paths[:2])
    _flip(store / damaged)
    _indexed(store)
    bad = {damaged: contents(store)[damaged]}
    words = ("import", str(archive), "-s", "{store}", "-q")
    return Scene("import", store, words, {kept: final[kept]}, final, bad, {})


def _repair(folder: Path) -> Scene:
    """Four entries, of which two are damaged."""
    root = make_store(folder / "store")
    paths = [add(root, entry(n, tokens=TOKENS)) for n in range(4)]
    for path in paths[:2]:
        _flip(path)
    every = contents(root.path)
    kept = {path: every[path] for path in _names(root.path, paths[2:])}
    bad = {path: every[path] for path in _names(root.path, paths[:2])}
    _indexed(root.path)
    return Scene("repair", root.path, ("verify", "{store}", "--repair", "-q"), kept, kept, bad, {})


def _rebuild(folder: Path) -> Scene:
    """Four entries, and an index that is none."""
    root = make_store(folder / "store")
    for number in range(4):
        add(root, entry(number, tokens=TOKENS))
    (root.path / ".vcache/index.sqlite").write_bytes(b"no database" * 1000)
    final = contents(root.path)
    words = ("stats", "-s", "{store}", "--scan", "-q")
    return Scene("rebuild", root.path, words, final, final, {}, {})


SCENES: Final[dict[str, Callable[[Path], Scene]]] = {
    "warm": _warm,
    "prune": _prune,
    "import": _import,
    "repair": _repair,
    "rebuild": _rebuild,
}
"""By name."""


def scene(name: str, folder: Path) -> Scene:
    """Make the scene of that name in an empty folder; the same bytes each time."""
    os.environ["SOURCE_DATE_EPOCH"] = str(int(NOW))
    folder.mkdir(parents=True, exist_ok=True)
    return SCENES[name](folder)


def _names(root: Path, paths: list[Path]) -> list[str]:
    return [path.relative_to(root).as_posix() for path in paths]


def _flip(path: Path) -> None:
    """One bit of the data, and the times as before."""
    then, data = path.stat(), bytearray(path.read_bytes())
    data[-100] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(0o444)
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))


def _indexed(store: Path) -> None:
    """With an index, as most stores have."""
    code = run_here(["ls", "-s", str(store), "-q"]).code
    if code:
        raise AssertionError(code)
    now = time.time()
    for folder in store.glob("??"):
        os.utime(folder, (now - 100, now - 100))


def _tried(words: tuple[str, ...], place: Path) -> dict[str, str]:
    """What a run that nothing disturbs makes of it."""
    ran = run_here([word.format(store=place) for word in words])
    if ran.code:
        raise AssertionError(ran.err)
    return contents(place)
