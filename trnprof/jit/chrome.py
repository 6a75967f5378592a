"""Plain slices of Chrome's JSON trace format, as a scalar loop over bytes.

Plain is a complete event (`"ph": "X"`) in ASCII without escapes, whose numbers are decimals of at most six places and
whose only keys that a reader must think about are those below. At anything else the loop stops.
"""

import numpy as np

from sim.jit import njit

START = 0
"""ps; the next is the length, ps."""
LENGTH = 1
NAME = 2
"""Where the text begins in the file; the next is where it ends. Both are 0 for what is absent."""
CATEGORY = 4
PROCESS = 6
THREAD = 8
ARGS = 10
"""Of the object; the begin is negative where it is not as `msgspec` would write it."""
FIELDS = 12

NESTING = 6
MOST_KEYS = 32

# What is known of a value while it is read, int64: whether it is as `msgspec` would write it, then its keys.
KEYS = 1
OBJECTS = 2
OBJECT_AT = 3
"""The object that is open at each depth; then object, begin and end of each key."""
FIRST_KEY = OBJECT_AT + NESTING + 1
PARTS = FIRST_KEY + 3 * MOST_KEYS
"""How many values of the event have been noted; then begin, end and field of each."""
MOST_PARTS = 48
STATE = PARTS + 1 + 3 * MOST_PARTS

SCALAR = FIELDS + 1
"""In place of a field: a value that is only passed over; the next is where the arguments end."""
CLOSED = FIELDS + 2

PLACES = 6
DIGITS = 12
EXACT_DIGITS = 15
"""Decimals of no more digits come back from 64 bits as they were."""

QUOTE, COMMA, COLON, BACKSLASH, MINUS, DOT = 34, 44, 58, 92, 45, 46
ZERO, NINE = 48, 57
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = 123, 125, 91, 93


@njit(cache=True)
def peek(data, p):
    return data[p] if p < data.size else 0


@njit(cache=True)
def skip(data, p):
    """The first place from p on that is no white space."""
    while p < data.size and (data[p] == 32 or data[p] == 10 or data[p] == 13 or data[p] == 9):
        p += 1
    return p


@njit(cache=True)
def text_end(data, p):
    """Where the closing quote of a string that opens at p is; -1 where it is not plain."""
    if peek(data, p) != QUOTE:
        return -1
    p += 1
    while p < data.size and data[p] != QUOTE:
        if data[p] < 32 or data[p] > 126 or data[p] == BACKSLASH:
            return -1
        p += 1
    return p if p < data.size else -1


@njit(cache=True)
def digits_end(data, p):
    """Where a whole number ends, -1 where there is none or it has a leading zero."""
    first = p
    while p < data.size and ZERO <= data[p] <= NINE:
        p += 1
    if p == first or (data[first] == ZERO and p > first + 1):
        return -1
    return p


@njit(cache=True)
def ends(data, p):
    """Whether what stands at p ends a number or a word."""
    c = peek(data, p)
    return c in (COMMA, CLOSE, CLOSE_LIST) or c == 32 or c == 10 or c == 13 or c == 9


@njit(cache=True)
def decimal(data, p, row, field):
    """Read a number of µs as ps; returns where it ends, -1 where it is not plain."""
    negative = peek(data, p) == MINUS
    first = p + 1 if negative else p
    last = digits_end(data, first)
    if last < 0 or last - first > DIGITS:
        return -1
    value = 0
    for q in range(first, last):
        value = value * 10 + (int(data[q]) - ZERO)
    places = 0
    if peek(data, last) == DOT:
        last += 1
        while last < data.size and ZERO <= data[last] <= NINE and places < PLACES:
            value = value * 10 + (int(data[last]) - ZERO)
            places += 1
            last += 1
        if places == 0:
            return -1
    if not ends(data, last):
        return -1
    for _ in range(PLACES - places):
        value *= 10
    row[field] = -value if negative else value
    return last


@njit(cache=True)
def word_end(data, p):
    """Where true, false or null ends, -1 for anything else."""
    c = peek(data, p)
    length = 5 if c == 102 else 4
    if p + length > data.size:
        return -1
    if c == 116:
        right = data[p + 1] == 114 and data[p + 2] == 117 and data[p + 3] == 101
    elif c == 110:
        right = data[p + 1] == 117 and data[p + 2] == 108 and data[p + 3] == 108
    elif c == 102:
        right = data[p + 1] == 97 and data[p + 2] == 108 and data[p + 3] == 115 and data[p + 4] == 101
    else:
        return -1
    return p + length if right and ends(data, p + length) else -1


@njit(cache=True)
def shortest(data, first, dot, last):
    """Whether a decimal is what is written of the number that it is read as: 0.5 and 2.0, not 0.50 or 0.00001."""
    if last == dot + 2 and data[dot + 1] == ZERO:
        return dot - first < EXACT_DIGITS
    if last - first - 1 > EXACT_DIGITS or data[last - 1] == ZERO:
        return False
    small = data[first] == ZERO and data[dot + 1] == ZERO
    return not small or data[dot + 2] != ZERO or data[dot + 3] != ZERO


@njit(cache=True)
def scalar_end(data, p, tidy):
    """Where a string, number or word ends, -1 where it is not plain.

    tidy : its first item becomes 0 for what `msgspec` would write otherwise
    """
    c = peek(data, p)
    if c == QUOTE:
        q = text_end(data, p)
        return q + 1 if q >= 0 else -1
    if c != MINUS and not ZERO <= c <= NINE:
        return word_end(data, p)
    first = p + 1 if c == MINUS else p
    q = digits_end(data, first)
    if q < 0:
        return -1
    if q - first > DIGITS or (c == MINUS and data[first] == ZERO):
        tidy[0] = 0
    if peek(data, q) == DOT:
        dot = q
        q += 1
        while q < data.size and ZERO <= data[q] <= NINE:
            q += 1
        if q == dot + 1:
            return -1
        if not shortest(data, first, dot, q):
            tidy[0] = 0
    return q if ends(data, q) else -1


@njit(cache=True)
def note_key(data, low, high, depth, tidy):
    """Remember a key of the object at a depth; of one that comes twice only the last counts, so it is not tidy."""
    count = tidy[KEYS]
    for k in range(count):
        at = FIRST_KEY + 3 * k
        if tidy[at] != tidy[OBJECT_AT + depth] or tidy[at + 2] - tidy[at + 1] != high - low:
            continue
        p = low
        while p < high and data[p] == data[tidy[at + 1] + p - low]:
            p += 1
        if p == high:
            tidy[0] = 0
    if count == MOST_KEYS:
        tidy[0] = 0
        return
    at = FIRST_KEY + 3 * count
    tidy[at], tidy[at + 1], tidy[at + 2] = tidy[OBJECT_AT + depth], low, high
    tidy[KEYS] = count + 1


@njit(cache=True)
def note_part(low, high, field, tidy):
    """Remember where a value stands; one too many makes the event no pattern for the next."""
    if tidy[PARTS] < MOST_PARTS:
        at = PARTS + 1 + 3 * tidy[PARTS]
        tidy[at], tidy[at + 1], tidy[at + 2] = low, high, field
    tidy[PARTS] += 1


@njit(cache=True)
def key_end(data, p, depth, tidy):
    """Where the value after a key begins."""
    q = text_end(data, p)
    if q < 0:
        return -1
    if depth:
        note_key(data, p + 1, q, depth, tidy)
    colon = skip(data, q + 1)
    if peek(data, colon) != COLON:
        return -1
    value = skip(data, colon + 1)
    if value != q + 2:
        tidy[0] = 0
    return value


@njit(cache=True)
def value_end(data, p, tidy):
    """Where a value ends that may nest, -1 where it is not plain; tidy as of `scalar_end`."""
    depth = 0
    objects = 0
    while True:
        c = peek(data, p)
        done = False
        if c in (OPEN, OPEN_LIST):
            if depth == NESTING:
                return -1
            depth += 1
            tidy[OBJECTS] += 1
            tidy[OBJECT_AT + depth] = tidy[OBJECTS]
            objects = 2 * objects + (1 if c == OPEN else 0)
            inside = skip(data, p + 1)
            if inside != p + 1:
                tidy[0] = 0
            p = inside
            if peek(data, p) == (CLOSE if c == OPEN else CLOSE_LIST):
                p += 1
                depth -= 1
                objects //= 2
                done = True
            elif c == OPEN:
                p = key_end(data, p, depth, tidy)
                if p < 0:
                    return -1
        else:
            first = p
            p = scalar_end(data, p, tidy)
            if p < 0:
                return -1
            note_part(first, p, SCALAR, tidy)
            done = True
        while done:
            if depth == 0:
                return p
            after = skip(data, p)
            if after != p:
                tidy[0] = 0
            p = after
            c = peek(data, p)
            if c == COMMA:
                after = skip(data, p + 1)
                if after != p + 1:
                    tidy[0] = 0
                p = after
                if objects % 2:
                    p = key_end(data, p, depth, tidy)
                    if p < 0:
                        return -1
                done = False
            elif c == (CLOSE if objects % 2 else CLOSE_LIST):
                p += 1
                depth -= 1
                objects //= 2
            else:
                return -1


@njit(cache=True)
def field_of(data, low, high):
    """Which field a key names: -1 for one that is of no matter, -2 for one that must be thought about, 12 for ph."""
    size = high - low
    a = data[low] if size > 0 else 0
    b = data[low + 1] if size > 1 else 0
    c = data[low + 2] if size > 2 else 0
    if size == 1:
        return -2 if a == 101 else -1  # e
    if size == 2:
        if a == 112 and b == 104:
            return FIELDS  # ph
        if a == 116 and b == 115:
            return START  # ts
        if (a == 105 and b == 100) or (a == 98 and b == 112):
            return -2  # id, bp
        return -1
    if size == 3:
        if a == 100 and b == 117 and c == 114:
            return LENGTH  # dur
        if a == 112 and b == 105 and c == 100:
            return PROCESS  # pid
        if a == 116 and b == 105 and c == 100:
            return THREAD  # tid
        if a == 99 and b == 97 and c == 116:
            return CATEGORY  # cat
        return -2 if a == 105 and b == 100 and c == 50 else -1  # id2
    if size == 4:
        d = data[low + 3]
        if a == 110 and b == 97 and c == 109 and d == 101:
            return NAME  # name
        if a == 97 and b == 114 and c == 103 and d == 115:
            return ARGS  # args
    return -1


@njit(cache=True)
def field_end(data, p, field, row, tidy):
    """Read the value of a field; returns where it ends, -1 where it is not plain."""
    if field in (START, LENGTH):
        return decimal(data, p, row, field)
    if field == FIELDS:  # "X"
        return p + 3 if peek(data, p) == QUOTE and peek(data, p + 1) == 88 and peek(data, p + 2) == QUOTE else -1
    if field == ARGS:
        if peek(data, p) != OPEN:
            return -1
        tidy[0] = 1
        tidy[KEYS] = 0
        note_part(p, p, ARGS, tidy)
        last = value_end(data, p, tidy)
        note_part(last, last, CLOSED, tidy)
        row[ARGS], row[ARGS + 1] = (p if tidy[0] else -p), last
        return last
    if peek(data, p) == QUOTE:
        last = text_end(data, p)
        row[field], row[field + 1] = p + 1, last
        return last + 1 if last >= 0 else -1
    if field in (NAME, CATEGORY):
        return -1
    first = p + 1 if peek(data, p) == MINUS else p
    last = digits_end(data, first)
    if last < 0 or last - first > DIGITS or (first > p and data[first] == ZERO) or not ends(data, last):
        return -1
    row[field], row[field + 1] = p, last
    return last


@njit(cache=True)
def event_end(data, p, row, tidy):
    """Read one event; returns where it ends, -1 where it is not plain."""
    row[:] = 0
    seen = 0
    p = skip(data, p + 1)
    while True:
        last = text_end(data, p)
        if last < 0:
            return -1
        field = field_of(data, p + 1, last)
        p = key_end(data, p, 0, tidy)
        if p < 0 or field == -2 or (field >= 0 and seen >> field & 1):
            return -1
        if field >= 0:
            seen |= 1 << field
            first = p
            p = field_end(data, p, field, row, tidy)
            if field < ARGS:
                note_part(first, p, field, tidy)
        else:
            p = value_end(data, p, tidy)
        if p < 0:
            return -1
        p = skip(data, p)
        c = peek(data, p)
        if c == CLOSE:
            break
        if c != COMMA:
            return -1
        p = skip(data, p + 1)
    needed = 1 << START | 1 << LENGTH | 1 << PROCESS | 1 << THREAD | 1 << FIELDS
    return p + 1 if seen & needed == needed and row[LENGTH] >= 0 else -1


@njit(cache=True)
def alike(data, p, q, size):
    """Whether so many bytes from p on are those from q on."""
    if p + size > data.size:
        return False
    for k in range(size):
        if data[p + k] != data[q + k]:
            return False
    return True


@njit(cache=True)
def alike_end(data, p, begin, end, row, tidy):
    """Read one event that is like another but for its values; returns where it ends, -1 where it is not.

    begin, end : of the other, whose values are noted and whose arguments are tidy
    """
    row[:] = 0
    q = begin
    for k in range(tidy[PARTS]):
        at = PARTS + 1 + 3 * k
        low, high, field = tidy[at], tidy[at + 1], tidy[at + 2]
        if not alike(data, p, q, low - q):
            return -1
        p += low - q
        q = high
        if field == ARGS:
            row[ARGS] = p
            tidy[0] = 1
        elif field == CLOSED:
            row[ARGS] = row[ARGS] if tidy[0] else -row[ARGS]
            row[ARGS + 1] = p
        else:
            p = scalar_end(data, p, tidy) if field == SCALAR else field_end(data, p, field, row, tidy)
            if p < 0:
                return -1
    return p + end - q if alike(data, p, q, end - q) and row[LENGTH] >= 0 else -1


@njit(cache=True)
def plain_slices(data, at, out):
    """Read events from a place on until one is not plain or `out` is full: how many, and where the next begins.

    data : uint8 [bytes];  out : int64 [rows, FIELDS]
    """
    tidy = np.zeros(STATE, np.int64)
    begin = end = -1
    filled = 0
    while filled < out.shape[0]:
        p = skip(data, at)
        while peek(data, p) == COMMA:
            p = skip(data, p + 1)
        if peek(data, p) != OPEN:
            break
        # Most events of a file differ from the one before in their values only.
        last = alike_end(data, p, begin, end, out[filled], tidy) if begin >= 0 else -1
        if last < 0:
            tidy[PARTS] = 0
            last = event_end(data, p, out[filled], tidy)
            if last < 0:
                break
            begin, end = p if tidy[PARTS] <= MOST_PARTS and out[filled, ARGS] >= 0 else -1, last
        filled += 1
        at = last
    return filled, at
