"""Flash attention: softmax(q k^T) v without ever writing the scores to HBM.

Keys (transposed) and values of a head are on chip; 128 queries at a time are stationary for 1024 keys, their scores
stay in PSUM. VectorE takes the maximum of a row, ScalarE the exponentials and their sum, TensorE turns the
probabilities so that the keys lie on the partitions, and multiplies them with the values. Rows that need several
blocks of keys are rescaled when a later block has a larger score ("online softmax").

HBM sees q, k, v and the output once: 2 T operations a byte and head. What limits is the round of a block: 512 columns
of scores cost TensorE 3 x 512 columns, ScalarE 512 exponentials, VectorE 512 maxima and half of the copies out of PSUM,
each some 0.6 µs. So the scores of the next block are issued before the probabilities of this one are used.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .contraction import Cut, load_straight, load_turned
from .masks import Masks
from .tiles import BANK, BANK_BYTES, ROWS, blocks, in_bank, itemsize, leave_psum, length, share, tile

WIDTH = 1024  # keys of a block: two banks of PSUM
SEGMENT = 8192  # keys that are on chip at a time
SUM_BANK, SUMS, TURNED_BANK, TURNED_BANKS = 7, 2, 6, 1  # of PSUM; the scores have the first
AHEAD = 2  # rounds whose scores are issued before the first one's probabilities are used
TURNED_BYTES = 1024  # of a partition of PSUM, for transposed probabilities
GROUP = 16  # tiles of queries that pass over a segment


@nki.jit
def attention(q, k, v, causal=False, window=None, scale=None, lse=False):
    """softmax(scale * q [B, Hq, S, D] @ k [B, Hkv, T, D]^T) @ v [B, Hkv, T, D] -> [B, Hq, S, D]

    causal : query i sees keys up to T - S + i, of these with `window` the last so many
    lse    : whether to return the logarithm of each row's sum too, fp32 [B, Hq, S], which the backward pass needs
    """
    B, heads, S, _ = q.shape
    out = nl.ndarray((B, heads, S, v.shape[3]), dtype=q.dtype, buffer=nl.shared_hbm)
    sums = nl.ndarray((B, heads, S), dtype=nl.float32, buffer=nl.shared_hbm) if lse else None
    task = Task(q, k, v, causal, window, scale)
    mine = share(B * heads, 1)
    for number in nl.affine_range(mine.start, mine.stop):
        b, h = number // heads, number % heads
        task.keys.choose(b, h * k.shape[1] // heads)
        for rows in blocks(S, GROUP * ROWS):
            over_queries(task, q[b, h], rows, out[b, h], sums[b, h] if lse else None)
    return (out, sums) if lse else out


class Task(nl.NKIObject):
    """What is the same for all heads."""

    def __init__(self, q, k, v, causal, window, scale):
        self.cut = Cut(q.shape[3], False)
        self.scale = scale if scale else q.shape[3] ** -0.5
        self.masks = Masks(q.dtype, k.shape[2] - q.shape[2], causal, window)
        self.keys = Keys(k, v, self.cut)

    def blocks(self, rows):
        """Blocks of keys that some queries see, within segments."""
        seen = self.masks.visible(rows, self.keys.count)
        found = []
        for segment in blocks(self.keys.count, SEGMENT):
            first, last = max(seen.start, segment.start), min(seen.stop, segment.stop)
            if first < last:
                found.extend(blocks(last - first, WIDTH, first))
        return found


class Keys(nl.NKIObject):
    """Keys and values of the present head, one segment of them on chip."""

    def __init__(self, k, v, cut):
        self.k, self.v, self.cut = k, v, cut
        self.count = k.shape[2]
        self.place, self.loaded = (0, 0), {}

    def choose(self, b, h):
        if (b, h) != self.place:
            self.place, self.loaded = (b, h), {}

    def segment(self, at):
        """k as [D on partitions, steps, keys], v as [128 keys, steps, D], of the segment with key `at`."""
        first = at // SEGMENT * SEGMENT
        name = str(first)
        if name not in self.loaded:
            b, h = self.place
            part = slice(first, min(self.count, first + SEGMENT))
            turned = load_turned(self.k[b, h], part, self.cut, slice(0, self.cut.steps))
            self.loaded = {name: (turned, self.load_values(self.v[b, h][part]))}
        return self.loaded[name]

    def load_values(self, v):
        """[128 keys, steps, D + 1]: a column of ones makes the product with the probabilities sum them too."""
        keys, D = v.shape
        cut = Cut(keys, False)
        values = nl.ndarray((ROWS, cut.steps, D + 1), dtype=v.dtype, buffer=nl.sbuf)
        nisa.memset(dst=values[:, :, D : D + 1], value=1.0, engine=nisa.engine.gpsimd)
        load_straight(v, slice(0, D), cut, slice(0, cut.steps), values[:, :, 0:D])
        return values


class Rows(nl.NKIObject):
    """A tile of queries: what is known of its softmax so far.

    bias  : -scale times the largest score
    value : the product of the exponentials with v, in its last column their sum
    """

    def __init__(self, queries, inside, rows):
        self.queries, self.inside, self.rows = queries, inside, rows
        self.bias = self.value = None

    def height(self):
        return length(self.inside)


class Round(nl.NKIObject):
    """A tile of queries and a block of keys, and the stages that they go through."""

    def __init__(self, task, one, block, last):
        self.task, self.one, self.block, self.last = task, one, block, last
        self.probabilities = self.correction = self.turned = None

    def score(self, turn):
        """exp(scale * (q k^T - maximum)), in SBUF."""
        one, height = self.one, self.one.height()
        scores = in_bank((height, length(self.block)), turn % (AHEAD + 1) * WIDTH // BANK)
        multiply_keys(self.task, one, self.block, scores)
        largest, bias, before = tile(height, 1), tile(height, 1), one.bias
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1, negate=True)
        scale = self.task.scale
        if before == None:
            nisa.tensor_scalar(dst=bias, data=largest, op0=nl.multiply, operand0=scale)
        else:
            nisa.tensor_scalar(dst=bias, data=largest, op0=nl.multiply, operand0=scale, op1=nl.minimum, operand1=before)
        self.probabilities = tile(height, length(self.block), one.queries.dtype)
        nisa.activation(dst=self.probabilities, op=nl.exp, data=scores, bias=bias, scale=scale)
        if before != None:
            self.correction = tile(height, 1)
            nisa.activation(dst=self.correction, op=nl.exp, data=before, scale=-1.0, bias=bias)
        one.bias = bias

    def turn(self, turn):
        """The keys on the partitions, half a bank of PSUM at a time."""
        together = TURNED_BYTES // (ROWS * itemsize(self.probabilities.dtype)) * ROWS
        groups = blocks(length(self.block), together)
        self.turned = []
        for at, group in enumerate(groups):
            place = (turn * len(groups) + at) * TURNED_BYTES % (TURNED_BANKS * BANK_BYTES)
            self.turned.append(turn_probabilities(self.probabilities[:, group], place, at))

    def weigh(self, turn):
        """Add the values, weighted with their probabilities."""
        _, values = self.task.keys.segment(self.block.start)
        one, first = self.one, self.block.start % SEGMENT // ROWS
        added = in_bank((one.height(), values.shape[2]), SUM_BANK, turn % SUMS * BANK_BYTES // SUMS)
        for group in self.turned:
            for at in range(group.shape[1]):
                height = min(ROWS, self.block.stop - self.block.start // SEGMENT * SEGMENT - first * ROWS)
                nisa.nc_matmul(dst=added, stationary=group[0:height, at], moving=values[0:height, first])
                first += 1
        if one.value == None and self.last:
            one.value = added
            return
        value = tile(one.height(), added.shape[1])
        if one.value == None:
            nisa.tensor_copy(dst=value, src=added)
        else:
            nisa.scalar_tensor_tensor(
                dst=value, data=one.value, op0=nl.multiply, operand0=self.correction, op1=nl.add, operand1=added
            )
        one.value = value


def over_queries(task, q, rows, out, sums):
    """A group of tiles of queries over all keys that they see, segment by segment."""
    queries = load_turned(q, rows, task.cut, slice(0, task.cut.steps))
    tiles = [
        Rows(queries, part, slice(rows.start + part.start, rows.start + part.stop))
        for part in blocks(length(rows), ROWS)
    ]
    rounds = []
    for segment in blocks(task.keys.count, SEGMENT):
        for one in tiles:
            seen = task.blocks(one.rows)
            for block in seen:
                if segment.start <= block.start < segment.stop:
                    rounds.append(Round(task, one, block, block.stop == seen[-1].stop))
    in_stages(rounds, out, sums)


def in_stages(rounds, out, sums):
    """Each stage of a round is issued before the later stages of the rounds before it, which wait for other engines."""
    for at in range(len(rounds) + AHEAD + 1):
        if at < len(rounds):
            rounds[at].score(at)
        if 0 <= at - AHEAD < len(rounds):
            rounds[at - AHEAD].turn(at - AHEAD)
        if 0 <= at - AHEAD - 1 < len(rounds):
            done = rounds[at - AHEAD - 1]
            done.weigh(at - AHEAD - 1)
            if done.last:
                finish(done.one, out, sums)


def multiply_keys(task, one, block, scores):
    """q k^T into PSUM, hidden where a query must not look."""
    keys, _ = task.keys.segment(block.start)
    first = block.start % SEGMENT
    for bank in blocks(length(block), BANK):
        columns = slice(first + bank.start, first + bank.stop)
        for step in range(task.cut.steps):
            height = task.cut.height(step)
            stationary = one.queries[0:height, step, one.inside]
            nisa.nc_matmul(dst=scores[:, bank], stationary=stationary, moving=keys[0:height, step, columns])
    task.masks.hide(scores, one.rows, block)


def turn_probabilities(probabilities, place, turn):
    """[queries, keys] -> [128 keys, steps, queries], through some bytes of PSUM."""
    height, width = probabilities.shape
    parts = blocks(width, ROWS)
    first, inside = TURNED_BANK + place // BANK_BYTES, place % BANK_BYTES
    in_psum = in_bank((ROWS, len(parts), height), first, inside, probabilities.dtype)
    turned = nl.ndarray((ROWS, len(parts), height), dtype=probabilities.dtype, buffer=nl.sbuf)
    for at, part in enumerate(parts):
        target = in_psum[0 : length(part), at]
        nisa.nc_transpose(dst=target, data=probabilities[:, part], engine=nisa.engine.tensor)
    full = width // ROWS
    if full:
        leave_psum(turned[:, 0:full], in_psum[:, 0:full], turn)
    if width % ROWS:
        leave_psum(turned[0 : width % ROWS, full], in_psum[0 : width % ROWS, full], turn)
    return turned


def finish(one, out, sums):
    """Divide by the sums; store."""
    D = out.shape[1]
    share_of = tile(one.height(), 1)
    nisa.reciprocal(dst=share_of, data=one.value[:, D : D + 1])
    result = tile(one.height(), D, out.dtype)
    # VectorE has most to do: GpSimd, which has no way to PSUM, or ScalarE takes the last multiplication.
    idle = nisa.engine.gpsimd if nl.is_sbuf(one.value.buffer) else nisa.engine.scalar
    if nisa.get_nc_version() < nisa.nc_version.gen3:
        idle = nisa.engine.vector
    nisa.tensor_scalar(dst=result, data=one.value[:, 0:D], op0=nl.multiply, operand0=share_of, engine=idle)
    nisa.dma_copy(dst=out[one.rows], src=result, engine=nisa.engine.gpsimd)
    if sums != None:
        logarithm = tile(one.height(), 1)
        nisa.activation(dst=logarithm, op=nl.log, data=one.value[:, D : D + 1])
        nisa.tensor_tensor(dst=logarithm, data1=logarithm, data2=one.bias, op=nl.subtract)
        nisa.dma_copy(dst=sums[one.rows].reshape((one.height(), 1)), src=logarithm)
