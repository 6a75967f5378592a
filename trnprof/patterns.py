"""Regular expressions over string tables of millions of texts.

A pattern becomes a table of states (Thompson's construction, then the subset construction), which compiled code runs
over the bytes of all texts at once. What a table cannot say (look-around, back references, flags, letters that are not
ASCII) and texts that are not plain ASCII are left to Python's own `re`; the answer is that of `re` with IGNORECASE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from re import _constants as op
from re import _parser as parser

import numpy as np

from sim.texts import PackedStrings
from sim.trace import Strings
from trnprof.jit.patterns import AT_END, NEVER, STRANGE, UNDECIDED, YES

LETTERS = 128
OTHER = 128
"""Stands for every letter that is not ASCII: any part of a pattern may take it, by its set or by folding."""
MOST_STATES = 2000
MOST_NODES = 4000
SHORT = 20_000
"""Texts of a table that Python looks at faster than a pattern is translated."""

_NEWLINE = ord("\n")
_ALL = (1 << (LETTERS + 1)) - 1
_IGNORED = re.IGNORECASE | re.UNICODE


class _NotRegularError(Exception):
    """A pattern that no table can say."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A pattern as `trnprof.jit.patterns.match` runs it."""

    classes: np.ndarray
    table: np.ndarray
    verdict: np.ndarray


@dataclass(slots=True)
class _Graph:
    """A nondeterministic automaton: per node, where letters of a set lead, and where nothing but a condition does."""

    letters: list[list[tuple[int, int]]] = field(default_factory=list)
    free: list[list[tuple[int | None, int]]] = field(default_factory=list)

    def node(self) -> int:
        if len(self.letters) >= MOST_NODES:
            raise _NotRegularError
        self.letters.append([])
        self.free.append([])
        return len(self.letters) - 1

    def join(self, source: int, target: int, condition: int | None = None) -> None:
        self.free[source].append((condition, target))


def matching(strings: Strings, pattern: str) -> np.ndarray:
    """Which texts a pattern finds anything in, whatever the case; bool [texts + 1], the last for code -1.

    raises : re.error for what is no pattern
    """
    search = re.compile(pattern, re.IGNORECASE).search
    if not isinstance(strings, PackedStrings) or len(strings) < SHORT:
        return _looked_at(strings, search)
    table = translate(pattern)
    return _looked_at(strings, search) if table is None else _run(strings, table, search)


def _looked_at(strings: Strings, search: Callable[[str], object]) -> np.ndarray:
    return np.array([search(text) is not None for text in strings] + [False], np.bool_)


def _run(strings: PackedStrings, table: Table, search: Callable[[str], object]) -> np.ndarray:
    from trnprof.jit.patterns import match

    known = strings.offsets.size - 1
    out = np.zeros(len(strings) + 1, np.uint8)
    match(strings.data, strings.offsets, table.classes, table.table, table.verdict, out[:known])
    open_ = (*np.flatnonzero(out == UNDECIDED).tolist(), *range(known, len(strings)))
    for code in open_:
        out[code] = search(strings[code] or "") is not None
    return out.astype(np.bool_)


def translate(pattern: str) -> Table | None:
    """The table of a pattern, None where it has none or a very large one."""
    try:
        parsed = parser.parse(pattern, re.IGNORECASE)
        if parsed.state.flags & ~_IGNORED:
            return None
        graph = _Graph()
        first = graph.node()
        last = _chain(graph, first, parsed)
        return _determined(graph, first, last)
    except _NotRegularError:
        return None


# --- a pattern as a graph ---------------------------------------------------------------------------------------------


def _chain(graph: _Graph, node: int, parts) -> int:
    """Append a sequence after a node; returns where it ends."""
    for code, argument in parts:
        node = _append(graph, node, code, argument)
    return node


def _append(graph: _Graph, node: int, code, argument) -> int:
    if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
        after = graph.node()
        graph.letters[node].append((_letters(code, argument), after))
        return after
    if code is op.AT:
        after = graph.node()
        graph.join(node, after, _condition(argument))
        return after
    if code is op.SUBPATTERN:
        _, added, removed, inner = argument
        if added or removed:
            raise _NotRegularError
        return _chain(graph, node, inner)
    if code is op.BRANCH:
        after = graph.node()
        for inner in argument[1]:
            begin = graph.node()
            graph.join(node, begin)
            graph.join(_chain(graph, begin, inner), after)
        return after
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        return _repeat(graph, node, *argument)
    raise _NotRegularError


def _repeat(graph: _Graph, node: int, least: int, most: int, inner) -> int:
    for _ in range(least):
        node = _chain(graph, node, inner)
    if most is op.MAXREPEAT:
        loop = graph.node()
        graph.join(node, loop)
        graph.join(_chain(graph, loop, inner), loop)
        return loop
    after = graph.node()
    graph.join(node, after)
    for _ in range(most - least):
        node = _chain(graph, node, inner)
        graph.join(node, after)
    return after


def _letters(code, argument) -> int:
    """The ASCII letters that a part of a pattern takes, as bits."""
    if code is op.ANY:
        return _ALL & ~(1 << _NEWLINE)
    if code is op.IN:
        items = list(argument)
        negated = bool(items) and items[0][0] is op.NEGATE
        found = 0
        for kind, value in items[negated:]:
            found |= _set(kind, value)
    else:
        negated, found = code is op.NOT_LITERAL, _set(op.LITERAL, argument)
    return (_ALL & ~_folded(found) if negated else _folded(found)) | (1 << OTHER)


def _set(kind, value) -> int:
    if kind is op.LITERAL and value < LETTERS:
        return 1 << value
    if kind is op.RANGE and value[1] < LETTERS:
        return sum(1 << letter for letter in range(value[0], value[1] + 1))
    if kind is op.CATEGORY and value in _CATEGORIES:
        found = re.compile(_CATEGORIES[value])
        return sum(1 << letter for letter in range(LETTERS) if found.match(chr(letter)))
    raise _NotRegularError


_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


def _folded(letters: int) -> int:
    """With the other case of each letter."""
    for letter in range(ord("a"), ord("z") + 1):
        pair = (1 << letter) | (1 << (letter - 32))
        if letters & pair:
            letters |= pair
    return letters


_WORD = _set(op.CATEGORY, op.CATEGORY_WORD)

# What surrounds a place: whether it is the first, whether it is the last, whether its neighbours are of a word.
_FIRST, _LAST, _BOUNDARY, _NO_BOUNDARY = 1, 2, 4, 8
_CONDITIONS = {
    op.AT_BEGINNING: _FIRST,
    op.AT_BEGINNING_STRING: _FIRST,
    op.AT_END: _LAST,
    op.AT_END_STRING: _LAST,
    op.AT_BOUNDARY: _BOUNDARY,
    op.AT_NON_BOUNDARY: _NO_BOUNDARY,
}


def _condition(argument) -> int:
    if argument not in _CONDITIONS:
        raise _NotRegularError
    return _CONDITIONS[argument]


# --- a graph as a table -----------------------------------------------------------------------------------------------

_NO_WORD, _OF_WORD, _NOTHING, _UNKNOWN = range(4)
_State = tuple[frozenset[int], int]
"""Nodes that were reached, and what came before."""


def _determined(graph: _Graph, first: int, last: int) -> Table:
    sets = {letters for node in graph.letters for letters, _ in node} | {_WORD}
    classes, samples = _classes(sets)
    begin: _State = (frozenset([first]), _NOTHING)
    numbers: dict[_State | None, int] = {begin: 0, None: 1}
    rows: list[list[int]] = [[], [1] * len(samples)]
    verdict = [AT_END if last in _reached(graph, begin, None) else 0, YES]
    waiting = [begin]
    while waiting:
        state = waiting.pop()
        row = rows[numbers[state]]
        for letter in samples:
            after = _step(graph, state, letter, first, last)
            if after not in numbers:
                if len(numbers) >= MOST_STATES:
                    raise _NotRegularError
                numbers[after] = len(rows)
                rows.append([])
                verdict.append(AT_END if last in _reached(graph, after, None) else 0)
                waiting.append(after)
            row.append(numbers[after])
    return Table(classes, np.array(rows, np.int32), np.array(_hopeless(rows, verdict), np.uint8))


def _classes(sets: set[int]) -> tuple[np.ndarray, list[int]]:
    """Letters that no part of the pattern tells apart share a column; one of each.

    Newlines and letters that are not ASCII have columns too, which tell what could still match, but no class: Python
    looks at texts that hold them.
    """
    columns: dict[tuple[int, ...], int] = {}
    classes, samples = np.full(256, STRANGE, np.uint8), []
    ordered = sorted(sets)
    for letter in (letter for letter in range(LETTERS) if letter != _NEWLINE):
        kind = tuple(letters >> letter & 1 for letters in ordered)
        if kind not in columns:
            columns[kind] = len(columns)
            samples.append(letter)
        classes[letter] = columns[kind]
    return classes, [*samples, _NEWLINE, OTHER]


def _step(graph: _Graph, state: _State, letter: int, first: int, last: int) -> _State | None:
    """The state after a letter, None once the pattern has matched; a match may begin anywhere."""
    reached = _reached(graph, state, letter)
    if last in reached:
        return None
    onward = {after for node in reached for letters, after in graph.letters[node] if letters >> letter & 1}
    return frozenset(onward | {first}), _UNKNOWN if letter == OTHER else _WORD >> letter & 1


def _reached(graph: _Graph, state: _State, letter: int | None) -> set[int]:
    """All nodes that stand at a place before a letter, None for the end."""
    nodes, before = state
    edge = (before == _OF_WORD) != (letter is not None and bool(_WORD >> letter & 1))
    holds = _BOUNDARY if edge else _NO_BOUNDARY
    if before == _UNKNOWN or letter == OTHER:
        holds = _BOUNDARY | _NO_BOUNDARY
    holds |= (_FIRST if before == _NOTHING else 0) | (_LAST if letter in (None, _NEWLINE) else 0)
    seen, waiting = set(nodes), list(nodes)
    while waiting:
        for condition, after in graph.free[waiting.pop()]:
            if after not in seen and (condition is None or condition & holds):
                seen.add(after)
                waiting.append(after)
    return seen


def _hopeless(rows: list[list[int]], verdict: list[int]) -> Iterator[int]:
    """The verdicts, with those states marked from which no match can be reached."""
    into: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for after in row:
            into[after].append(state)
    alive = {state for state, found in enumerate(verdict) if found}
    waiting = list(alive)
    while waiting:
        fresh = [state for state in into[waiting.pop()] if state not in alive]
        alive.update(fresh)
        waiting += fresh
    return [found if state in alive else NEVER for state, found in enumerate(verdict)]
