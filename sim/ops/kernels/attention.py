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
from .tiles import BANK, ROWS, blocks, itemsize, leave_psum, length, share, tile

WIDTH = 1024  # keys of a block: two banks of PSUM
SEGMENT = 8192  # keys that are on chip at a time
GROUP = 16  # tiles of queries that pass over a segment


@nki.jit
def attention(q, k, v, causal=False, window=None, scale=None, lse=False):
    """softmax(scale * q [B, Hq, S, D] @ k [B, Hkv, T, D]^T) @ v [B, Hkv, T, D] -> [B, Hq, S, D]

    causal : query i sees keys up to T - S + i, of these with `window` the last so many
    lse    : whether to return the logarithm of each row's sum too, fp32 [B, Hq, S], which the backward pass needs
    """
    B, heads, S, D = q.shape
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
        self.turn = 0

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
            cut = Cut(length(part), False)
            straight = load_straight(self.v[b, h][part], slice(0, self.v.shape[3]), cut, slice(0, cut.steps))
            self.loaded = {name: (turned, straight)}
        return self.loaded[name]


class Rows(nl.NKIObject):
    """A tile of queries: what is known of its softmax so far.

    bias  : -scale times the largest score; total: sum of exponentials; value: their product with v
    """

    def __init__(self, queries, inside, rows):
        self.queries, self.inside, self.rows = queries, inside, rows
        self.bias = self.total = self.value = self.correction = None

    def height(self):
        return length(self.inside)


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
            seen = [block for block in task.blocks(one.rows) if segment.start <= block.start < segment.stop]
            rounds.extend([(one, block) for block in seen])
    waiting = None
    for one, block in rounds:
        probabilities = score(task, one, block)
        if waiting != None:
            weigh(task, *waiting)
        waiting = (one, block, probabilities, one.correction)
    weigh(task, *waiting)
    for one in tiles:
        finish(task, one, out, sums)


def score(task, one, block):
    """exp(scale * (q k^T - maximum)) of one block, in SBUF; the row's maximum and sum go on."""
    scores = nl.ndarray((one.height(), length(block)), dtype=nl.float32, buffer=nl.psum)
    multiply_keys(task, one, block, scores)
    largest = tile(one.height(), 1)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1, negate=True)
    before, bias = one.bias, tile(one.height(), 1)
    if before == None:
        nisa.tensor_scalar(dst=bias, data=largest, op0=nl.multiply, operand0=task.scale)
    else:
        nisa.tensor_scalar(
            dst=bias, data=largest, op0=nl.multiply, operand0=task.scale, op1=nl.minimum, operand1=before
        )
    probabilities = tile(one.height(), length(block), one.queries.dtype)
    total = tile(one.height(), 1)
    nisa.activation_reduce(
        dst=probabilities, op=nl.exp, data=scores, reduce_op=nl.add, reduce_res=total, bias=bias, scale=task.scale
    )
    add_total(one, before, bias, total)
    return probabilities


def multiply_keys(task, one, block, scores):
    """q k^T into PSUM, with -1e30 where a query must not look: the mask is a product with the identity."""
    keys, _ = task.keys.segment(block.start)
    first = block.start % SEGMENT
    for bank in blocks(length(block), BANK):
        columns = slice(first + bank.start, first + bank.stop)
        for step in range(task.cut.steps):
            height = task.cut.height(step)
            stationary = one.queries[0:height, step, one.inside]
            nisa.nc_matmul(dst=scores[:, bank], stationary=stationary, moving=keys[0:height, step, columns])
    for part in blocks(length(block), ROWS):
        mask = task.masks.of(one.rows, slice(block.start + part.start, block.start + part.stop))
        if mask != None:
            identity = task.masks.identity[0 : one.height(), 0 : one.height()]
            moving = mask[0 : one.height(), 0 : length(part)]
            nisa.nc_matmul(dst=scores[:, part], stationary=identity, moving=moving, accumulate=True)


def add_total(one, before, bias, total):
    """The sum of a row, rescaled where its maximum grew."""
    one.bias, one.correction = bias, None
    if before == None:
        one.total = total
        return
    one.correction = tile(one.height(), 1)
    nisa.activation(dst=one.correction, op=nl.exp, data=before, scale=-1.0, bias=bias)
    summed = tile(one.height(), 1)
    nisa.scalar_tensor_tensor(
        dst=summed, data=one.total, op0=nl.multiply, operand0=one.correction, op1=nl.add, operand1=total
    )
    one.total = summed


def weigh(task, one, block, probabilities, correction):
    """Add the values of one block, weighted with its probabilities."""
    _, values = task.keys.segment(block.start)
    added = nl.ndarray((one.height(), values.shape[2]), dtype=nl.float32, buffer=nl.psum)
    first = block.start % SEGMENT // ROWS
    together = 2048 // (ROWS * itemsize(probabilities.dtype))
    for group in blocks(length(block), together * ROWS):
        turned = turn_probabilities(task, probabilities[:, group])
        for at, part in enumerate(blocks(length(group), ROWS)):
            step = first + group.start // ROWS + at
            moving = values[0 : length(part), step]
            nisa.nc_matmul(dst=added, stationary=turned[0 : length(part), at], moving=moving)
    if one.value == None:
        one.value = added
    else:
        value = tile(one.height(), added.shape[1])
        nisa.scalar_tensor_tensor(
            dst=value, data=one.value, op0=nl.multiply, operand0=correction, op1=nl.add, operand1=added
        )
        one.value = value
    if one.value == added and len(task.blocks(one.rows)) > 1:
        one.value = tile(one.height(), added.shape[1])
        nisa.tensor_copy(dst=one.value, src=added)


def turn_probabilities(task, probabilities):
    """[queries, keys] -> [128 keys, steps, queries]"""
    height, width = probabilities.shape
    parts = blocks(width, ROWS)
    in_psum = nl.ndarray((ROWS, len(parts), height), dtype=probabilities.dtype, buffer=nl.psum)
    turned = nl.ndarray((ROWS, len(parts), height), dtype=probabilities.dtype, buffer=nl.sbuf)
    for at, part in enumerate(parts):
        place = in_psum[0 : length(part), at]
        nisa.nc_transpose(dst=place, data=probabilities[:, part], engine=nisa.engine.tensor)
    task.turn += 1
    full = width // ROWS
    if full:
        leave_psum(turned[:, 0:full], in_psum[:, 0:full], task.turn)
    if width % ROWS:
        leave_psum(turned[0 : width % ROWS, full], in_psum[0 : width % ROWS, full], task.turn)
    return turned


def finish(task, one, out, sums):
    """Divide by the sums; store."""
    share_of = tile(one.height(), 1)
    nisa.reciprocal(dst=share_of, data=one.total)
    result = tile(one.height(), one.value.shape[1], out.dtype)
    nisa.tensor_scalar(dst=result, data=one.value, op0=nl.multiply, operand0=share_of)
    nisa.dma_copy(dst=out[one.rows], src=result, engine=nisa.engine.gpsimd)
    if sums != None:
        logarithm = tile(one.height(), 1)
        nisa.activation(dst=logarithm, op=nl.log, data=one.total)
        nisa.tensor_tensor(dst=logarithm, data1=logarithm, data2=one.bias, op=nl.subtract)
        nisa.dma_copy(dst=sums[one.rows].reshape((one.height(), 1)), src=logarithm)
