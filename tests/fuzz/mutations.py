"""Files that are nearly right: trees with a lie in them, bytes that changed, lengths that lie."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Final

from tests.fuzz.spelling import Node, Pair, Table, Token, parsed, spelled, tables, tokens
from vcache_cli.header import LENGTH_BYTES, build_header, canonical_order
from vcache_cli.tensor import ITEMSIZE_BYTES

__all__ = ["Seed", "generated", "mutated", "seed_of"]

Seed = tuple[Node, bytes]
"""The tree of a header, and the data after it."""

NUMBERS: Final = (
    *("0", "-0", "1", "-1", "00", "01", "+1", "0x10", "1_0", "4.0", "4.5", "0.0", "4e0", "4E0"),
    *("64e0", "6.4e1", "0.64E+2", "-0.0", "1e400", "-1e400", "1e-400", "NaN", "Infinity"),
    *("-Infinity", "2147483647", "2147483648", "4294967296", "4294967300", "9007199254740993"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551615"),
    *("18446744073709551616", "1" + "0" * 30, "9" * 5000, "\u0664", "\uff14", "1.", ".5", "1e"),
)
WORDS: Final = ("null", "true", "false", "[]", "{}", '""', "[[]]", '{"a":1}', "nul", "True", "")
TEXTS: Final = (
    *('"F32"', '"BF16"', '"bf16"', '"F64"', '"I8"', '"U16"', '"U64"', '"BOOL"', '"C64"', '"F4"'),
    *('"F8_E4M3"', '"F8_E5M2"', '"F8_E8M0"', '"F6_E2M3"', '"F32 "', '"\\u0046\\u0033\\u0032"'),
    *('"dtype"', '"shape"', '"data_offsets"', '"__metadata__"', '"features"', '"feature"'),
    *('"\\u0064type"', '"sha\\u0070e"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\udc00\\ud800"'),
    *('"\\u0000"', '"\u0000"', '"\n"', '"\x7f"', '"\u00e9"', '"\\x41"', '"\\/"', '"\\"', "'a'"),
    *('"\U0001f600"', '"../../x"', '"a/b"', '"' + "x" * 300 + '"', '"\\u004"', '"\u2028"', '"'),
)
BYTES: Final = b'0123456789-+.eE{}[]",:\\u \t\n\x00\xff\xc0\xaf\xed\xa0\x80\xef\xbb\xbf'
LENGTHS: Final = (0, 1, 2, 8, 64, 100_000_000, 100_000_001, 2**31, 2**32, 2**63, 2**64 - 1)


def seed_of(data: bytes) -> Seed:
    """The seed in a file that is right."""
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    return parsed(data[LENGTH_BYTES:end].decode()), data[end:]


def generated(rng: random.Random) -> Seed:
    """A right file of a few tensors, some of them empty or without a side."""
    names = rng.sample(["feature", "features", "pooled", "deepstack_0", "a", "b.c", "_"], 3)
    dtypes = {name: rng.choice(sorted(ITEMSIZE_BYTES)) for name in names[: rng.randint(0, 3)]}
    shapes = {name: tuple(rng.choices(range(5), k=rng.randint(0, 4))) for name in dtypes}
    metadata = {
        f"m{number}": rng.choice(["", "1", "\u00e9", '"']) for number in range(rng.randint(0, 3))
    }
    order = canonical_order(dtypes) if rng.random() < 0.7 else list(dtypes)
    raw = build_header(metadata, {name: (dtypes[name], shapes[name]) for name in order})
    size = 0
    for name in order:
        part = ITEMSIZE_BYTES[dtypes[name]]
        for side in shapes[name]:
            part *= side
        size += part
    return seed_of(raw + rng.randbytes(size))


def mutated(seed: Seed, rng: random.Random) -> bytes:
    """A file that differs from `seed` in one to four ways."""
    tree, data = copy.deepcopy(seed[0]), seed[1]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))):
        if isinstance(tree, Table):
            tree, data = rng.choices(*_WEIGHTED)[0](tree, data, rng)
    body = spelled(tree, rng if rng.random() < 0.1 else None).encode("utf-8", "surrogatepass")
    raw = bytearray(_assembled(body, data, rng))
    for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2))):
        _damage(raw, len(body) + LENGTH_BYTES, rng)
    return bytes(raw)


def _assembled(body: bytes, data: bytes, rng: random.Random) -> bytes:
    filler = b" " if rng.random() < 0.97 else rng.choice([b"\0", b"\n", b"\t", b"}"])
    step = rng.choice((64, 64, 64, 8, 1))
    body += filler * (-(LENGTH_BYTES + len(body)) % step)
    length = len(body)
    if rng.random() < 0.03:
        length = rng.choice((*LENGTHS, length - 1, length + 1, length + len(data), length + 64))
    return max(0, min(length, 2**64 - 1)).to_bytes(LENGTH_BYTES, "little") + body + data


def _damage(raw: bytearray, header_bytes: int, rng: random.Random) -> None:
    if not raw:
        return
    at = rng.randrange(min(len(raw), header_bytes) if rng.random() < 0.8 else len(raw))
    kind = rng.randrange(6)
    if kind == 0:
        raw[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        raw[at] = rng.choice(BYTES)
    elif kind == 2:
        raw.insert(at, rng.choice(BYTES))
    elif kind == 3:
        del raw[at]
    elif kind == 4:
        del raw[at:]
    else:
        raw.extend(rng.randbytes(rng.choice((1, 8, 64))))


# --- changes of a tree ------------------------------------------------------------------------

Change = Callable[[Table, bytes, random.Random], tuple[Table, bytes]]


def _token(tree: Table, data: bytes, rng: random.Random) -> tuple[Table, bytes]:
    """Another number, text or word in the place of one."""
    if found := list(tokens(tree)):
        token = rng.choice(found)
        pools: Sequence[Sequence[str]] = (NUMBERS, NUMBERS, TEXTS, WORDS)
        token.text = rng.choice(rng.choice(pools))
    return tree, data


def _respelled(tree: Table, data: bytes, rng: random.Random) -> tuple[Table, bytes]:
    """The same value, spelled in a way that some parsers take for it and others do not."""
    numbers = [token for token in tokens(tree) if token.text.isascii() and token.text.isdigit()]
    if numbers:
        token = rng.choice(numbers)
        text = token.text[:40]
        forms = (f"{text}.0", f"{text}e0", f"0{text}", f"-{text}", f"+{text}", f'"{text}"')
        token.text = rng.choice((*forms, str(int(text) + 2**32), str(int(text) - 2**32)))
    return tree, data


def _key(tree: Table, data: bytes, rng: random.Random) -> tuple[Table, bytes]:
    """Another key, or the same one with an escape in it."""
    pairs = [pair for table in tables(tree) for pair in table.pairs]
    if pairs:
        pair = rng.choice(pairs)
        if rng.random() < 0.5 and len(pair.key) > 2:
            pair.key = f'"\\u{ord(pair.key[1]) % 65536:04x}{pair.key[2:]}'
        else:
            pair.key = rng.choice(TEXTS)
    return tree, data


def _pairs(tree: Table, data: bytes, rng: random.Random) -> tuple[Table, bytes]:
    """A pair twice, gone, elsewhere, or in another order."""
    table = rng.choice(list(tables(tree)))
    if not table.pairs:
        return tree, data
    pair = rng.choice(table.pairs)
    kind = rng.randrange(4)
    if kind == 0:
        table.pairs.insert(rng.randint(0, len(table.pairs)), copy.deepcopy(pair))
    elif kind == 1:
        table.pairs.remove(pair)
    elif kind == 2:
        rng.choice(list(tables(tree))).pairs.append(copy.deepcopy(pair))
    else:
        rng.shuffle(table.pairs)
    return tree, data


def _lists(tree: Table, data: bytes, rng: random.Random) -> tuple[Table, bytes]:
    """A side or an offset more, one less, or in another order."""
    lists = [pair.value for table in tables(tree) for pair in table.pairs]
    found = [value for value in lists if isinstance(value, list)]
    if found:
        chosen = rng.choice(found)
        kind = rng.randrange(3)
        if kind == 0:
            chosen.insert(rng.randint(0, len(chosen)), Token(rng.choice(("0", "1", "1", "2"))))
        elif kind == 1 and chosen:
            del chosen[rng.randrange(len(chosen))]
        else:
            rng.shuffle(chosen)
    return tree, data


def _deep(tree: Table, data: bytes, rng: random.Random) -> tuple[Table, bytes]:
    """A value inside lists or objects."""
    depth = rng.choice((1, 2, 5, 130, 2000))
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    found = list(tokens(tree))
    if found:
        token = rng.choice(found)
        token.text = opening * depth + token.text + closing * depth
    return tree, data


def _another(tree: Table, data: bytes, rng: random.Random) -> tuple[Table, bytes]:
    """One more tensor: after the others, over them, with a hole before it, or empty."""
    size = rng.choice((0, 1, 2, 4, 8, 16))
    end = len(data)
    begin = max(0, end + rng.choice((0, 0, 0, 1, 8, -1, -size, -end)))
    dtype = rng.choice(sorted(ITEMSIZE_BYTES))
    sides = size // ITEMSIZE_BYTES[dtype]
    offsets: list[Node] = [Token(str(begin)), Token(str(begin + sides * ITEMSIZE_BYTES[dtype]))]
    spec = Table(
        [
            Pair('"dtype"', Token(f'"{dtype}"')),
            Pair('"shape"', [Token(str(sides))]),
            Pair('"data_offsets"', offsets),
        ]
    )
    tree.pairs.append(Pair(rng.choice(('"z"', '"feature_1"', '"features"', '"pooled"')), spec))
    return tree, data + rng.randbytes(sides * ITEMSIZE_BYTES[dtype] if rng.random() < 0.8 else size)


def _metadata(tree: Table, data: bytes, rng: random.Random) -> tuple[Table, bytes]:
    """Other values of metadata."""
    for pair in tree.pairs:
        if pair.key == '"__metadata__"':
            if isinstance(pair.value, Table) and rng.random() < 0.8:
                pair.value.pairs.append(Pair(rng.choice(TEXTS), Token(rng.choice(TEXTS))))
            else:
                pair.value = Token(rng.choice(WORDS))
    return tree, data


def _resized(tree: Table, data: bytes, rng: random.Random) -> tuple[Table, bytes]:
    """More or less data than the header says."""
    return tree, rng.choice((data[:-1], data + b"\0", b"", data + data, data[: len(data) // 2]))


_WEIGHTED: Final[tuple[tuple[Change, ...], tuple[int, ...]]] = (
    (_token, _respelled, _key, _pairs, _lists, _deep, _another, _metadata, _resized),
    (6, 3, 2, 4, 4, 1, 4, 2, 1),
)
