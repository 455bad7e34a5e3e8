"""A `vision_features` as oMLX leaves it after months: written by its published rules alone.

Nothing of vcache is used here: json, struct and hashlib write the files, and a simulation of the
server starts on them, evicts from them and reads them.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "CAP",
    "NOW",
    "Server",
    "Written",
    "image",
    "path_of",
    "snapshot",
    "wrapped",
    "write",
    "write_store",
]

CAP = 10 * 1024**3
NOW = time.time() - 7200.0
"""When the last file was written, seconds since 1970: too long ago to be spared as young."""
DAY = 86_400.0
SIZES = {"BF16": 2, "F16": 2, "F32": 4, "U8": 1}
ROWS, WIDTH = 12, 16
GRID = "[1, 6, 8]"
"""Of `ROWS` tokens of 2 by 2 patches."""
OTHER_GRIDS = {"[1, 6, 10]": "15 tokens", "[1, 12, 16]": "48 tokens", "[2, 6, 7]": "21 tokens"}
IGNORED_GRIDS = ("[6, 8]", "[1, 6, 8.0]", "no grid")


def image(number: int) -> str:
    """An image hash."""
    return hashlib.sha256(b"image %d" % number).hexdigest()


def wrapped(image_hash: str, mode: str) -> str:
    """What Unlimited-OCR has in its keys."""
    sizes = {"gundam": "1024:640", "base": "1024:1024"}[mode]
    return hashlib.sha256(f"imgmode:{mode}:{sizes}:{image_hash}".encode("ascii")).hexdigest()


def path_of(model: str, image_hash: str) -> str:
    """Where the server writes, below its directory."""
    name = hashlib.sha256(f"{model}:{image_hash}".encode()).hexdigest()
    return f"{name[0]}/{name}.safetensors"


def file_bytes(
    metadata: Mapping[str, str], tensors: Mapping[str, tuple[str, tuple[int, ...]]]
) -> bytes:
    """A file with zeros for features."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + SIZES[dtype] * _product(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    body = json.dumps(header, separators=(",", ":")).encode()
    body += b" " * (-len(body) % 8)
    return struct.pack("<Q", len(body)) + body + bytes(end)


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for side in shape:
        product *= side
    return product


@dataclass
class Written:
    """What the writer knows of its store."""

    root: Path
    models: dict[str, str]
    """Model name by a short one: ``qwen``, ``gemma``, ``gone``, ``ocr``."""
    entries: dict[str, int] = field(default_factory=dict)
    """Bytes of every file under a name that the server gives, by its path."""
    of_model: dict[str, list[str]] = field(default_factory=dict)
    """Paths of those with a readable description, by model name."""
    mtimes: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    """Paths by the kind of what is wrong with them."""

    def put(self, relative: str, data: bytes, *kinds: str, age_days: float = 1.0) -> str:
        """One file, with what should be found of it."""
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (NOW - age_days * DAY, NOW - age_days * DAY))
        for kind in kinds:
            self.kinds.setdefault(kind, set()).add(relative)
        return relative

    def add(
        self,
        model: str,
        image_hash: str,
        shape: tuple[int, ...],
        *kinds: str,
        age_days: float = 1.0,
        **more: str,
    ) -> str:
        """An entry under its own name."""
        name, relative = self.models[model], path_of(self.models[model], image_hash)
        self.put(relative, entry_bytes(name, image_hash, shape, **more), *kinds, age_days=age_days)
        self.entries[relative] = (self.root / relative).stat().st_size
        self.mtimes[relative] = NOW - age_days * DAY
        self.of_model.setdefault(name, []).append(relative)
        return relative

    def spoil(self, relative: str, data: bytes, *kinds: str) -> None:
        """Put `data` in an entry's place: nothing is known of it any more."""
        self.put(relative, data, *kinds)
        self.entries[relative] = len(data)
        self.mtimes[relative] = NOW - DAY
        for paths in self.of_model.values():
            if relative in paths:
                paths.remove(relative)


def entry_bytes(model: str, image_hash: str, shape: tuple[int, ...], **more: str) -> bytes:
    """An entry of one array of bfloat16."""
    known = {
        "image_hash": image_hash,
        "model_name": model,
        "num_tensors": "1",
        "created_at": str(NOW - 40 * DAY),
    }
    return file_bytes({**known, **more}, {"feature": ("BF16", shape)})


def write(root: Path, model: str, image_hash: str, size_bytes: int) -> Path:
    """An entry of a size that takes no room: the features are a hole."""
    path = root / path_of(model, image_hash)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {"image_hash": image_hash, "model_name": model, "num_tensors": "1"}
    tensor = {"dtype": "U8", "shape": [1, size_bytes], "data_offsets": [0, size_bytes]}
    body = json.dumps({"__metadata__": known, "feature": tensor}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(body)) + body)
        file.truncate(8 + len(body) + size_bytes)
    return path


def write_store(root: Path, folders: Path, count: int = 1600) -> Written:
    """About `count` files of three models, a few of a fourth, and everything that goes wrong."""
    models = {name: str(folders / name) for name in ("qwen", "gemma", "ocr", "gone")}
    for name in ("qwen", "gemma", "ocr"):
        (folders / name).mkdir(parents=True)
    store = Written(root, models)
    for number in range(count):
        age = 0.1 + number * 100 / count
        if number % 10 < 6:
            store.add("qwen", image(number), (ROWS, WIDTH), age_days=age, grid_thw=GRID)
        elif number % 10 < 9:
            shape = (1, 5 + number % 7, 2 * WIDTH)
            store.add("gemma", image(number), shape, age_days=age)
        else:
            kinds = ("model_gone", "no_grid")
            store.add("gone", image(number), (ROWS, WIDTH), *kinds, age_days=age)
    for number, mode in enumerate(["gundam", "base", "base"]):
        store.add("ocr", wrapped(image(number), mode), (ROWS, WIDTH), grid_thw=GRID)
    _add_odd_shapes(store)
    _add_damaged(store)
    _add_misplaced(store)
    _add_strangers(store)
    return store


def _add_odd_shapes(store: Written) -> None:
    for number, grid in enumerate(OTHER_GRIDS, 10_000):
        store.add("qwen", image(number), (ROWS, WIDTH), "grid_mismatch", grid_thw=grid)
    for number, grid in enumerate(IGNORED_GRIDS, 10_100):
        store.add("qwen", image(number), (ROWS, WIDTH), "no_grid", grid_thw=grid)
    for number in (10_200, 10_201):
        shape = (ROWS, WIDTH + 2)
        store.add("qwen", image(number), shape, "width_mismatch", grid_thw=GRID)
    found = ("num_tensors", "header")  # a reader cannot build the list from that
    store.add("qwen", image(10_300), (ROWS, WIDTH), *found, num_tensors="3", grid_thw=GRID)
    listed = path_of(store.models["gemma"], image(10_400))
    known = {"image_hash": image(10_400), "model_name": store.models["gemma"], "num_tensors": "2"}
    arrays = {f"feature_{number}": ("F16", (1, 4 + number, 2 * WIDTH)) for number in range(2)}
    store.put(listed, file_bytes(known, arrays))
    store.entries[listed] = (store.root / listed).stat().st_size
    store.mtimes[listed] = NOW - DAY
    store.of_model[store.models["gemma"]].append(listed)


def _add_damaged(store: Written) -> None:
    good = entry_bytes(store.models["qwen"], image(20_000), (ROWS, WIDTH))
    damaged = [good[:-1], good[:40], b"", b"<html>", struct.pack("<Q", 2**63) + good[8:]]
    anonymous = [
        {"image_hash": image(1), "num_tensors": "1"},
        {"model_name": store.models["qwen"], "num_tensors": "1"},
        {"model_name": store.models["qwen"], "image_hash": ""},
        {},
    ]
    damaged += [file_bytes(known, {"feature": ("BF16", (ROWS, WIDTH))}) for known in anonymous]
    for number, data in enumerate(damaged, 20_000):
        relative = store.add("qwen", image(number), (ROWS, WIDTH))
        store.spoil(relative, data, "header", "never_indexed")


def _add_misplaced(store: Written) -> None:
    qwen = store.models["qwen"]
    for number, folder in enumerate(["", "zz/", "4/deeper/", "g/"], 30_000):
        data = entry_bytes(qwen, image(number), (ROWS, WIDTH), grid_thw=GRID)
        name = path_of(qwen, image(number)).rpartition("/")[2]
        store.put(f"{folder}{name}", data, "never_indexed")
    data = entry_bytes(qwen, image(30_100), (ROWS, WIDTH), grid_thw=GRID)
    store.put("5/backup of a picture.safetensors", data, "wrong_name")
    # An unwrapped hash in a file that is named by the wrapped one.
    raw, ocr = image(30_200), store.models["ocr"]
    data = entry_bytes(ocr, raw, (ROWS, WIDTH), grid_thw=GRID)
    relative = store.put(path_of(ocr, wrapped(raw, "gundam")), data, "wrong_name", "key_mismatch")
    store.entries[relative], store.mtimes[relative] = len(data), NOW - DAY


def _add_strangers(store: Written) -> None:
    name = path_of("anything", image(1))[2:]
    for relative in (f"a/.{name}.tmp", f"b/tmpx3kf_9aq{name}", "c/x.part", f"d/{name}.4711"):
        store.put(relative, b"half", "leftover")
    store.put(f"a/.{name}.young.tmp", b"half", "foreign_file", age_days=-7100 / DAY)
    for relative in (".DS_Store", "3/notes.txt", "readme"):
        store.put(relative, b"x", "foreign_file")
    os.mkfifo(store.root / "6/waiting.safetensors")
    (store.root / f"7/{name}").symlink_to(store.root / next(iter(store.entries)))
    store.kinds["foreign_file"] |= {"6/waiting.safetensors", f"7/{name}"}


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below `root` that a reading command must leave as it is."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [root, *sorted(root.rglob("*"))]:
        facts = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        listed = tuple(os.listdir(path)) if path.is_dir() and not path.is_symlink() else ()
        digest = hashlib.sha256(data).hexdigest()
        kept = (facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ino, facts.st_uid)
        found[str(path.relative_to(root))] = (*kept, digest, listed)
    return found


class Server:
    """What oMLX does with its directory: start, evict before a write, get."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.index: dict[tuple[str, str], tuple[Path, int]] = {}
        for bucket in "0123456789abcdef":
            for path in (root / bucket).glob("*.safetensors"):
                if path.is_file() and not path.is_symlink():
                    self._index(path)

    def _index(self, path: Path) -> None:
        try:
            known = _read(path)
        except (OSError, ValueError, KeyError, struct.error):
            return
        if known.get("image_hash") and known.get("model_name"):
            self.index[known["model_name"], known["image_hash"]] = path, path.stat().st_size

    @property
    def total(self) -> int:
        """Bytes of what it has indexed."""
        return sum(size for _, size in self.index.values())

    def evict(self) -> Iterator[Path]:
        """What the next write removes, in that order."""
        if self.total <= CAP:
            return
        while self.index and self.total >= CAP:
            path, _ = self.index.pop(next(iter(self.index)))
            path.unlink()
            yield path

    def get(self, model: str, image_hash: str) -> bytes | None:
        """The features of an image; None where there are none."""
        found = self.index.get((model, image_hash))
        if found is None:
            return None
        try:
            return found[0].read_bytes()
        except FileNotFoundError:
            del self.index[model, image_hash]
            return None


def _read(path: Path) -> dict[str, str]:
    """Metadata of a file whose tensors are all there."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > 2**20:
            raise ValueError(length)
        header = json.loads(file.read(length))
        metadata: dict[str, str] = header.pop("__metadata__", {})
        end = 8 + length + max(spec["data_offsets"][1] for spec in header.values())
        if end > os.fstat(file.fileno()).st_size:
            raise ValueError(end)
    return metadata
