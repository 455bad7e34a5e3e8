"""A process that uses one directory together with others: `python -m ... ROOT SECONDS SEED`.

Each image has one right value, so that whatever any process reads can be told right or wrong.
Prints each image that a flush has confirmed, and at the end one line of JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import numpy as np

from tests.serving.feature_case import MODEL, features, image
from tests.serving.omlx_files import file_of
from vcache_cli.serving import VisionFeatureSSDCache

IMAGES = 60
LIMIT_ENTRIES = 40


def main(root: Path, seconds: float, seed: int, limit_bytes: int) -> None:
    """Put, get and remove at random; every value is compared."""
    chance = random.Random(seed)
    cache = VisionFeatureSSDCache(root, limit_bytes, max_memory_entries=3)
    wrong = found = puts = 0
    say("ready")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or not (found and puts):  # however slow the machine is
        number = chance.randrange(IMAGES)
        step = chance.random()
        if step < 0.45:
            value = cache.get(image(number), MODEL)
            found += value is not None
            wrong += value is not None and not np.array_equal(value, features(number))
        elif step < 0.95:
            cache.put(image(number), MODEL, features(number))
            puts += 1
        elif step < 0.98:
            file_of(root, image(number), MODEL).unlink(missing_ok=True)
        else:
            cache.flush()
            say(number)
    cache.close()
    facts = {"wrong": wrong, "found": found, "puts": puts, "evictions": cache.evictions}
    say(json.dumps({**facts, **cache.stats}))


def say(words: object) -> None:
    """One line for whoever started us, at once."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
