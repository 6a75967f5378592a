"""Which keys a query sees, and the tiles that hide the others.

A tile of a mask depends only on how far its first query is past its first key, so a kernel needs a few of them,
however long the sequences are. GpSimd makes each once; tiles that are wholly visible need none, and those wholly
hidden are not computed.
"""

import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, blocks, length, tile

HIDDEN = -1e30  # far below any score, and finite, so that 0 * HIDDEN is 0


class Masks(nl.NKIObject):
    """Masks of one attention.

    ahead : position of the first query among the keys
    """

    def __init__(self, dtype, ahead, causal, window):
        assert causal or not window, "a window is counted back from a causal query"
        self.dtype, self.ahead, self.causal, self.window = dtype, ahead, causal, window
        self.made = {}
        self.identity = diagonal(dtype) if causal else None

    def visible(self, rows, keys):
        """The slice of keys, from a multiple of 128 on, that some of these queries see."""
        if not self.causal:
            return slice(0, keys)
        first = 0
        if self.window:
            first = max(0, rows.start + self.ahead - self.window + 1) // ROWS * ROWS
        return slice(first, min(keys, rows.stop + self.ahead))

    def of(self, rows, keys):
        """0 where a query sees a key, else HIDDEN, as a tile [128, 128]; None where all see all."""
        past = rows.start + self.ahead - keys.start
        before = past >= length(keys) - 1
        within = not self.window or past + length(rows) - 1 < self.window
        if not self.causal or (before and within):
            return None
        name = str(past)
        if name not in self.made:
            self.made[name] = self.make(past)
        return self.made[name]

    def hide(self, scores, rows, keys):
        """Add HIDDEN to scores in PSUM where a query must not look: the mask is a product with the identity."""
        for part in blocks(length(keys), ROWS):
            mask = self.of(rows, slice(keys.start + part.start, keys.start + part.stop))
            if mask != None:
                identity = self.identity[0 : length(rows), 0 : length(rows)]
                moving = mask[0 : length(rows), 0 : length(part)]
                nisa.nc_matmul(dst=scores[:, part], stationary=identity, moving=moving, accumulate=True)

    def make(self, past):
        """Query p is past + p - i positions behind key i: it sees it from 0 on, to below the window."""
        mask = tile(ROWS, ROWS, self.dtype)
        nisa.memset(dst=mask, value=0.0)
        nisa.affine_select(
            dst=mask,
            pattern=[[-1, ROWS]],
            offset=past,
            channel_multiplier=1,
            on_true_tile=mask,
            on_false_value=HIDDEN,
            cmp_op=nl.greater_equal,
        )
        if self.window:
            nisa.affine_select(
                dst=mask,
                pattern=[[1, ROWS]],
                offset=self.window - 1 - past,
                channel_multiplier=-1,
                on_true_tile=mask,
                on_false_value=HIDDEN,
                cmp_op=nl.greater_equal,
            )
        return mask


def diagonal(dtype):
    """The identity, 128 x 128."""
    ones = tile(ROWS, ROWS, dtype)
    nisa.memset(dst=ones, value=1.0)
    nisa.affine_select(
        dst=ones,
        pattern=[[-1, ROWS]],
        offset=0,
        channel_multiplier=1,
        on_true_tile=ones,
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    return ones
