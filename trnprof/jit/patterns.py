"""Running a pattern over millions of texts, as a scalar loop."""

from sim.jit import njit

YES = 1
"""Of a state: it has matched."""
AT_END = 2
"""It has matched where the text ends."""
NEVER = 4
"""It cannot match any more."""
SETTLED = YES | NEVER

STRANGE = 255
"""Class of a byte of which a table does not know what it means."""
UNDECIDED = 2


@njit(cache=True)
def match(data, offsets, classes, table, verdict, out):
    """Whether each text matches: out[k] is 1, 0, or UNDECIDED for an empty text and one with a strange byte.

    data : uint8 [bytes];  offsets : int64 [texts + 1];  classes : uint8 [256], columns of the table
    table : int32 [states, columns], the next state, 0 first;  verdict : uint8 [states];  out : uint8 [texts]
    """
    for k in range(offsets.size - 1):
        state = 0
        found = verdict[0]
        strange = offsets[k] == offsets[k + 1]
        for place in range(offsets[k], offsets[k + 1]):
            if found & SETTLED:
                break
            kind = classes[data[place]]
            if kind == STRANGE:
                strange = True
                break
            state = table[state, kind]
            found = verdict[state]
        if strange:
            out[k] = UNDECIDED
        else:
            out[k] = 1 if found & (YES | AT_END) else 0
