"""Patterns over string tables answer as Python's `re` does, text by text."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.texts import PackedStrings, packed
from sim.trace import Strings
from tests.naive.patterns import match as plain_match
from trnprof import patterns

PARTS = (
    "a", "b", "B", "1", ".", r"\d", r"\w", r"\W", r"\s", r"\S", "[ab]", "[^a]", "(a|b1)", "a*", "b+?", "1?", "a{2}",
    "b{1,3}", "^", "$", r"\b", r"\B", "(?:ab)+", r"\A", r"\Z", "-", "_", ".*", "[a-b1]", "(|a)", r"\.", r"[^\w]",
    "(?:^a|b$)", r"[^\x00-\x7f]", r"\n", "k", "s",
)  # fmt: skip


def texts(count: int) -> list[str]:
    letters = random.Random(count)
    made = ["".join(letters.choices("abAB_1 .\n-éksKſ", k=letters.randrange(8))) for _ in range(count)]
    return [*made, "", "a", "K", "ſ", "\n", "a\n"]


TEXTS = texts(1500)
STRINGS = PackedStrings(*packed(TEXTS))


@pytest.fixture(autouse=True)
def every_table_is_long(monkeypatch):
    monkeypatch.setattr(patterns, "SHORT", 0)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))
def test_a_pattern_finds_what_re_finds(parts):
    pattern = "".join(parts)
    try:
        search = re.compile(pattern, re.IGNORECASE).search
    except re.error:
        return
    table = patterns.translate(pattern)
    assert table is not None
    out = np.zeros(len(TEXTS), np.uint8)
    plain_match(STRINGS.data, STRINGS.offsets, table.classes, table.table, table.verdict, out)
    decided = out != 2
    found = np.array([search(text) is not None for text in TEXTS])
    assert np.array_equal(out[decided] == 1, found[decided]), pattern


@pytest.mark.parametrize("pattern", ["ab", r"(a)\1", "(?=a)b", "é", "(?s:a.b)", "(?i:A)", r"a(?#word)b", "[ſ]"])
def test_what_no_table_says_is_found_all_the_same(pattern):
    strings = PackedStrings(*packed(TEXTS))
    strings.code("aab late")
    found = patterns.matching(strings, pattern)
    search = re.compile(pattern, re.IGNORECASE).search
    assert found.tolist() == [*(search(text) is not None for text in strings), False]
    assert np.array_equal(found, patterns.matching(Strings(strings), pattern))


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?!a)", "é", "(?s)a.", "[a-é]", "a{500}b{500}c{4000}"])
def test_what_is_not_regular_or_too_large_has_no_table(pattern):
    assert patterns.translate(pattern) is None


def test_a_pattern_that_is_none_says_so():
    with pytest.raises(re.error):
        patterns.matching(STRINGS, "(")


@pytest.mark.jit
@pytest.mark.parametrize("pattern", ["a", "^a.*b$", r"\d\b", "(ab|1_)+", "[^a]"])
def test_compiled_and_plain_agree(pattern):
    from trnprof.jit.patterns import match

    table = patterns.translate(pattern)
    compiled, plain = np.zeros((2, len(TEXTS)), np.uint8)
    match(STRINGS.data, STRINGS.offsets, table.classes, table.table, table.verdict, compiled)
    plain_match(STRINGS.data, STRINGS.offsets, table.classes, table.table, table.verdict, plain)
    assert np.array_equal(compiled, plain)
