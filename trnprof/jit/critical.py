"""Slack, from the last instruction to the first."""

from sim.jit import njit


@njit(cache=True, small=20000)
def tighten(signaler, waiter, gap, slack):
    """Let no signaler have more slack than its waiters leave it; whether anything changed.

    signaler, waiter : int64[c], rows; the latest waiters first
    gap              : int64[c], time between the signaler's release and the waiter's start
    """
    changed = False
    for c in range(len(signaler)):
        left = slack[waiter[c]] + gap[c]
        if left < slack[signaler[c]]:
            slack[signaler[c]] = left
            changed = True
    return changed
