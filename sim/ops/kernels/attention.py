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
from .tiles import BANK, BANK_BYTES, ROWS, blocks, column, in_bank, itemsize, leave_psum, length, share, tile

WIDTH = 1024  # keys of a block: two banks of PSUM
SEGMENT = 4096  # keys that are on chip at a time
SUM_BANKS, TURNED_BANK, TURNED_BANKS = (7, 5), 6, 1  # of PSUM; the scores have the first
AHEAD = 2  # rounds whose scores are issued before the first one's probabilities are used; 1 for wide heads
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
    masks = Masks(q.dtype, k.shape[2] - q.shape[2], causal, window)
    mine = share(B * heads, 1)
    scale, rounds, segment = scale if scale else q.shape[3] ** -0.5, [], None
    for number in range(mine.start, mine.stop):
        b, h = number // heads, number % heads
        kv = h * k.shape[1] // heads
        for rows in blocks(S, GROUP * ROWS):
            group = Group(q[b, h], rows, out[b, h], sums[b, h] if lse else None)
            for part in blocks(k.shape[2], SEGMENT):
                name = f"{b}.{kv}.{part.start}"
                if segment == None or segment.name != name:
                    segment = Segment(name, k[b, kv], v[b, kv], part)
                rounds.extend(rounds_of(group, segment, masks, scale))
    in_stages(rounds, AHEAD if v.shape[3] < BANK else 1)
    return (out, sums) if lse else out


def rounds_of(group, segment, masks, scale):
    """Tiles of queries with the blocks of keys in a segment that they see."""
    found = []
    for one in group.tiles:
        seen = masks.visible(one.rows, segment.k.shape[0])
        first, last = max(seen.start, segment.part.start), min(seen.stop, segment.part.stop)
        for block in blocks(last - first, WIDTH, first) if first < last else []:
            found.append(Round(one, block, segment, masks, scale, block.stop == seen.stop))
    return found


class Segment(nl.NKIObject):
    """Some keys and values of a head; they are loaded when first used."""

    def __init__(self, name, k, v, part):
        self.name, self.k, self.v, self.part = name, k, v, part
        self.cut, self.loaded = Cut(k.shape[1], False), None

    def load(self):
        """k as [D on partitions, steps, keys], v as [128 keys, steps, D + 1]."""
        if self.loaded == None:
            turned = load_turned(self.k, self.part, self.cut, slice(0, self.cut.steps))
            self.loaded = (turned, self.load_values(self.v[self.part]))
        return self.loaded

    def load_values(self, v):
        """[128 keys, steps, D + 1]: a column of ones makes the product with the probabilities sum them too."""
        keys, D = v.shape
        cut = Cut(keys, False)
        values = nl.ndarray((ROWS, cut.steps, D + 1), dtype=v.dtype, buffer=nl.sbuf)
        nisa.memset(dst=values[:, :, D : D + 1], value=1.0, engine=nisa.engine.gpsimd)
        load_straight(v, slice(0, D), cut, slice(0, cut.steps), values[:, :, 0:D])
        return values


class Group(nl.NKIObject):
    """Tiles of queries of a head that are loaded together, and whose sums are stored together."""

    def __init__(self, q, rows, out, sums):
        self.q, self.rows, self.out, self.sums = q, rows, out, sums
        self.cut, self.loaded = Cut(q.shape[1], False), None
        self.tiles = [Rows(self, at, part) for at, part in enumerate(blocks(length(rows), ROWS))]
        self.left = len(self.tiles)

    def load(self):
        """[D on partitions, steps, queries]"""
        if self.loaded == None:
            self.loaded = load_turned(self.q, self.rows, self.cut, slice(0, self.cut.steps))
            if self.sums != None:
                self.totals, self.biases = column(1.0, len(self.tiles)), column(0.0, len(self.tiles))
        return self.loaded

    def finish(self, one):
        """Divide a tile by its sums and store it; after the last tile store the logarithms, which take a table."""
        D = self.out.shape[1]
        total, height = one.value[:, D : D + 1], one.height()
        factor, result = tile(height, 1), tile(height, D, self.out.dtype)
        nisa.reciprocal(dst=factor, data=total)
        # VectorE has most to do: GpSimd, which has no way to PSUM, or ScalarE takes the last multiplication.
        idle = nisa.engine.gpsimd if nl.is_sbuf(one.value.buffer) else nisa.engine.scalar
        if nisa.get_nc_version() < nisa.nc_version.gen3:
            idle = nisa.engine.vector
        nisa.tensor_scalar(dst=result, data=one.value[:, 0:D], op0=nl.multiply, operand0=factor, engine=idle)
        nisa.dma_copy(dst=self.out[one.rows], src=result, engine=nisa.engine.gpsimd)
        if self.sums == None:
            return
        nisa.tensor_copy(dst=self.totals[0:height, one.at : one.at + 1], src=total)
        nisa.tensor_copy(dst=self.biases[0:height, one.at : one.at + 1], src=one.bias, engine=nisa.engine.gpsimd)
        self.left -= 1
        if self.left == 0:
            self.store_sums()

    def store_sums(self):
        """scale * maximum + log(sum of exponentials) of each row."""
        result = tile(ROWS, len(self.tiles))
        nisa.activation(dst=result, op=nl.log, data=self.totals)
        nisa.tensor_tensor(dst=result, data1=result, data2=self.biases, op=nl.subtract)
        target, full = self.sums[self.rows], length(self.rows) // ROWS
        if full:
            whole = target[0 : full * ROWS].reshape_dim(0, (full, ROWS)).permute((1, 0))
            nisa.dma_copy(dst=whole, src=result[:, 0:full])
        if length(self.rows) % ROWS:
            rest = target[full * ROWS :]
            nisa.dma_copy(dst=rest.reshape((rest.shape[0], 1)), src=result[0 : rest.shape[0], full : full + 1])


class Rows(nl.NKIObject):
    """A tile of queries: what is known of its softmax so far.

    bias  : -scale times the largest score
    value : the product of the exponentials with v, in its last column their sum
    """

    def __init__(self, group, at, inside):
        self.group, self.at, self.inside = group, at, inside
        self.rows = slice(group.rows.start + inside.start, group.rows.start + inside.stop)
        self.bias = self.value = None

    def height(self):
        return length(self.inside)


class Round(nl.NKIObject):
    """A tile of queries and a block of keys, and the stages that they go through."""

    def __init__(self, one, block, segment, masks, scale, last):
        self.one, self.block, self.segment, self.last = one, block, segment, last
        self.masks, self.scale = masks, scale
        self.probabilities = self.correction = self.turned = None

    def score(self, turn, ahead):
        """exp(scale * (q k^T - maximum)), in SBUF."""
        one, height = self.one, self.one.height()
        scores = in_bank((height, length(self.block)), turn % (ahead + 1) * WIDTH // BANK)
        self.multiply_keys(scores)
        largest, bias, before = tile(height, 1), tile(height, 1), one.bias
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1, negate=True)
        scale = self.scale
        if before == None:
            nisa.tensor_scalar(dst=bias, data=largest, op0=nl.multiply, operand0=scale)
        else:
            nisa.tensor_scalar(dst=bias, data=largest, op0=nl.multiply, operand0=scale, op1=nl.minimum, operand1=before)
        self.probabilities = tile(height, length(self.block), self.segment.k.dtype)
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
        _, values = self.segment.load()
        one, first = self.one, (self.block.start - self.segment.part.start) // ROWS
        width = values.shape[2]
        value, parts = None, blocks(width, BANK)
        if one.value != None or not self.last or len(parts) > 1:
            value = tile(one.height(), width)
        for bank, part in zip(SUM_BANKS, parts):
            # Two sums take turns in a bank, if both fit.
            place = turn % 2 * BANK_BYTES // 2 if 8 * width <= BANK_BYTES else 0
            added = in_bank((one.height(), length(part)), bank, place)
            step = first
            for group in self.turned:
                for at in range(group.shape[1]):
                    height = min(ROWS, self.block.stop - self.segment.part.start - step * ROWS)
                    nisa.nc_matmul(dst=added, stationary=group[0:height, at], moving=values[0:height, step, part])
                    step += 1
            if value != None:
                self.rescale(value[:, part], added, part)
        one.value = added if value == None else value

    def rescale(self, value, added, part):
        """Some columns of the sum so far, with what a block of keys adds."""
        before = self.one.value
        if before == None:
            nisa.tensor_copy(dst=value, src=added)
        else:
            nisa.scalar_tensor_tensor(
                dst=value, data=before[:, part], op0=nl.multiply, operand0=self.correction, op1=nl.add, operand1=added
            )

    def multiply_keys(self, scores):
        """q k^T into PSUM, hidden where a query must not look."""
        queries, (keys, _), cut = self.one.group.load(), self.segment.load(), self.segment.cut
        first = self.block.start - self.segment.part.start
        for bank in blocks(length(self.block), BANK):
            columns = slice(first + bank.start, first + bank.stop)
            for step in range(cut.steps):
                stationary = queries[0 : cut.height(step), step, self.one.inside]
                moving = keys[0 : cut.height(step), step, columns]
                nisa.nc_matmul(dst=scores[:, bank], stationary=stationary, moving=moving)
        self.masks.hide(scores, self.one.rows, self.block)


def in_stages(rounds, ahead):
    """Each stage of a round is issued before the later stages of the rounds before it, which wait for other engines."""
    for at in range(len(rounds) + ahead + 1):
        if at < len(rounds):
            rounds[at].score(at, ahead)
        if 0 <= at - ahead < len(rounds):
            rounds[at - ahead].turn(at - ahead)
        if 0 <= at - ahead - 1 < len(rounds):
            done = rounds[at - ahead - 1]
            done.weigh(at - ahead - 1)
            if done.last:
                done.one.group.finish(done.one)


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
