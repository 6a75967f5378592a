"""Start times that obey lower bounds on the distances between them."""

from sim.jit import njit


@njit(cache=True, small=20000)
def push_apart(first, then, least, time):
    """Let no `then` start less than `least` after its `first`; whether anything changed.

    first, then : int64[c], places in `time`; the earliest first
    """
    changed = False
    for c in range(len(first)):
        earliest = time[first[c]] + least[c]
        if earliest > time[then[c]]:
            time[then[c]] = earliest
            changed = True
    return changed
