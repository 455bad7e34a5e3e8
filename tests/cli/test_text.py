"""Names are printed, never obeyed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vcache_cli.cli.text import clean, percent


@given(st.text())
def test_cleaned_text_moves_no_cursor_and_stays_on_its_line(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned.splitlines()) <= 1
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in cleaned)
    cleaned.encode()


@given(st.text(alphabet=st.characters(categories=["L", "N", "P"])))
def test_ordinary_names_stay_as_they_are(text: str) -> None:
    assert clean(text) == text


def test_escape_sequences_and_reordering_are_shown() -> None:
    assert clean("a\x1b]0;x\x07b\u202ejpg.exe\r\n") == "a\\x1b]0;x\\x07b\\u202ejpg.exe\\r\\n"


@given(st.floats(0, 1))
def test_only_all_of_it_reads_as_all(share: float) -> None:
    if share < 0.9999:
        assert percent(share) != "100%"
