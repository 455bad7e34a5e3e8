from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.care import NOW as NOW_SECONDS
from tests.store.care import make_store
from vcache_cli.digest import digest_bytes
from vcache_cli.store.index import Index
from vcache_cli.store.index_schema import Database, new_in_memory
from vcache_cli.store.index_tables import PERIOD_BITS
from vcache_cli.store.meta import StoreRoot
from vcache_cli.store.rows import EntryRow
from vcache_cli.store.stats_sums import AGES_SECONDS, sum_by_age, sum_by_model, sum_groups

NOW = int(NOW_SECONDS)
PERIOD = 1 << PERIOD_BITS
EDGES = [0, *(-age for age in AGES_SECONDS[1:]), *(-age // PERIOD * PERIOD for age in AGES_SECONDS)]
NEAR = st.builds(
    lambda edge, off: NOW + edge + off, st.sampled_from(EDGES), st.integers(-PERIOD, PERIOD)
)
FAR = st.sampled_from([-(2**33), -1, 0, NOW - 10**9, NOW + 10**9, 2**33])
CREATED = st.lists(NEAR | FAR, max_size=12)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> StoreRoot:
    return make_store(tmp_path_factory.mktemp("sums") / "store")


def filled(root: StoreRoot, created: list[int]) -> Index:
    index = Index(root, Database(new_in_memory(), "memory"))
    for number, seconds in enumerate(created):
        key = digest_bytes(str(number).encode())
        index.add(
            EntryRow(
                key=key,
                path=root.layout.path_of(key),
                size_bytes=100 + number,
                allocated_bytes=200 + number,
                used_ns=number * 10**9,
                inode=number,
                created_seconds=seconds,
                model=f"model-{number % 2}",
            )
        )
    return index


@given(created=CREATED, gone=st.integers(0, 12))
def test_groups_are_what_the_rows_say(root: StoreRoot, created: list[int], gone: int) -> None:
    with filled(root, created) as index:
        index.remove(digest_bytes(str(gone).encode()))
        rows = list(index.rows())
        groups = sum_groups(index, NOW)
    ages = {age: [row for row in rows if row.age_from_seconds <= NOW - age] for age in AGES_SECONDS}
    ages[0] = rows  # a time in the future is no age
    assert sum_by_age(groups) == tuple(
        (age, len(old), sum(row.size_bytes for row in old)) for age, old in ages.items()
    )
    told = [
        (each.model, each.entries, each.bytes, each.oldest_seconds, each.newest_use_seconds)
        for each in sum_by_model(groups)
    ]
    models = {row.model: [same for same in rows if same.model == row.model] for row in rows}
    assert told == [
        (
            model,
            len(same),
            sum(row.size_bytes for row in same),
            min(row.age_from_seconds for row in same),
            max(row.used_ns for row in same) / 1e9,
        )
        for model, same in sorted(models.items(), key=lambda pair: str(pair[0]))
    ]
    assert sum(group.allocated for group in groups) == sum(row.allocated_bytes for row in rows)


def test_whole_periods_are_not_summed_up_again(root: StoreRoot) -> None:
    with filled(root, [NOW - 2 * PERIOD] * 8) as index:
        index.commit()
        index.query(
            "UPDATE sums SET entries = 10 * entries", types=()
        )  # what is kept is what is told
        assert sum(group.entries for group in sum_groups(index, NOW)) == 80
