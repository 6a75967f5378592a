"""Plain slices of Chrome's JSON, found with a regular expression an event."""

import json
import re
from decimal import Decimal

TEXT = r'"[ !#-\[\]-~]*"'
WHOLE = r"(?:0|[1-9]\d{0,11})"
DECIMAL = rf"-?{WHOLE}(?:\.\d{{1,6}})?"
GAP = re.compile(rb"[ \n\r\t]*(?:,[ \n\r\t]*)*")
FIELDS = {"name": 2, "cat": 4, "pid": 6, "tid": 8, "args": 10}
SHORT = r"(?=[\d.]{3,16}(?![\d.]))(?!0\.000)(?:0|[1-9]\d*)\.(?:0|\d*[1-9])"
EXACT = re.compile(rf"{TEXT}|-?{WHOLE}|-?{SHORT}|true|false|null")


def plain_slices(data, at, out):
    text = data.tobytes()
    filled = 0
    while filled < len(out):
        p = GAP.match(text, at).end()
        last = event_end(text.decode("latin-1"), p, out[filled])
        if last < 0:
            break
        filled += 1
        at = last
    return filled, at


def event_end(text, p, row):
    """Where a plain event that begins at p ends, -1 for another; its fields go into the row."""
    try:
        event, last = json.JSONDecoder(object_pairs_hook=list, parse_constant=refuse).raw_decode(text, p)
    except ValueError:
        return -1
    if text[p : p + 1] != "{" or re.search(r"[^ -~\n\r\t]|\\", text[p:last]) or too_deep(event):
        return -1
    keys = [key for key, _ in event]
    known = [key for key in keys if key in (*FIELDS, "ph", "ts", "dur")]
    needed = {"ph", "ts", "dur", "pid", "tid"} <= set(keys)
    if {"id", "id2", "bp", "e"} & set(keys) or len(set(known)) < len(known) or not needed:
        return -1
    row[:] = 0
    return last if all(take(text, key, low, high, row) for key, low, high in places(text, p, last)) else -1


def refuse(word):
    raise ValueError(word)


def too_deep(event):
    return any(depth(value) > 6 for _, value in event)


def depth(value):
    if not isinstance(value, list):
        return 0
    inner = [item[1] if isinstance(item, tuple) else item for item in value]
    return 1 + max(map(depth, inner), default=0)


def places(text, p, last):
    """Each key of an object with where its value begins and ends."""
    scan = json.JSONDecoder(object_pairs_hook=list)
    p += 1
    while p < last:
        p = re.compile(r"[\s,]*").match(text, p).end()
        if text[p] == "}":
            return
        key, p = scan.raw_decode(text, p)
        p = re.compile(r"\s*:\s*").match(text, p).end()
        low = p
        _, p = scan.raw_decode(text, p)
        yield key, low, p


def take(text, key, low, high, row):
    """Put a field into the row; False where its value is not plain."""
    value = text[low:high]
    if key == "ph":
        return value == '"X"'
    if key in ("ts", "dur"):
        if not re.fullmatch(DECIMAL, value):
            return False
        row[0 if key == "ts" else 1] = int(Decimal(value) * 10**6)
        return key == "ts" or Decimal(value) >= 0
    if key == "args":
        tidy = (
            not twice(json.loads(value, object_pairs_hook=list))
            and not re.search(r"\s", re.sub(TEXT, "", value))
            and all(map(exact, re.findall(rf"{TEXT}|[^\s{{}}\[\]:,]+", value)))
        )
        row[10], row[11] = (low if tidy else -low), high
        return value[0] == "{" and no_exponent(value)
    if key in FIELDS:
        if re.fullmatch(TEXT, value):
            row[FIELDS[key]], row[FIELDS[key] + 1] = low + 1, high - 1
            return True
        row[FIELDS[key]], row[FIELDS[key] + 1] = low, high
        return key in ("pid", "tid") and re.fullmatch(rf"-?{WHOLE}", value) and value != "-0"
    return no_exponent(value)


def exact(word):
    """Whether a scalar is written as it is read."""
    return EXACT.fullmatch(word) and not word.startswith("-0")


def twice(value):
    """Whether an object has a key twice."""
    pairs = [item for item in value if isinstance(item, tuple)] if isinstance(value, list) else []
    inner = [item[1] if isinstance(item, tuple) else item for item in value] if isinstance(value, list) else []
    return len({key for key, _ in pairs}) < len(pairs) or any(map(twice, inner))


def no_exponent(value):
    return not any(re.search(r"[eE]", word) for word in re.findall(r"-?\d[\d.eE+-]*", re.sub(TEXT, "", value)))
