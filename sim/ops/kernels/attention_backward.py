"""Gradients of flash attention: the scores are computed again, block by block, and never written to HBM.

For 128 queries and 512 keys TensorE makes five products (and turns one operand), 512 columns each: q k^T and dout v^T
have the queries on the partitions, and what comes of them, p and ds, is stationary as it is for the sums over queries,
dv += p^T dout and dk += ds^T q, which gather in PSUM while all queries pass. Only dq += ds k sums over keys and needs
ds turned. ScalarE makes p = exp(scale * score - lse) with the sums of the forward pass; VectorE makes
ds = p * (dp - delta) in one pass, with delta the sum of dout * out along a row.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .contraction import Cut, load_straight, load_turned
from .masks import Masks
from .tiles import BANK_BYTES, ROWS, blocks, in_bank, itemsize, leave_psum, length, share, tile

KEYS = 512  # of a block: a bank of PSUM for the scores, and two for the gradients of 128 columns
NARROW_KEYS = 256  # with heads of more than 128 values
SEGMENT = 2048  # queries on chip at a time
SCORES, PRODUCTS, TURNED, QUERIES, SUMS = 0, 2, 4, 5, 6  # first banks of PSUM; two rounds take turns in each


@nki.jit
def attention_backward(q, k, v, out, dout, lse, causal=False, window=None, scale=None):
    """dq, dk, dv of out = attention(q [B, Hq, S, D], k, v [B, Hkv, T, D]), with lse fp32 [B, Hq, S] from it."""
    B, heads, _, D = q.shape
    kv_heads, T = k.shape[1], k.shape[2]
    fit = nl.tile_size.total_available_sbuf_size * 2 // 3 // (7 * itemsize(k.dtype) * -(-D // ROWS))
    assert T <= fit, f"{T} keys of a head and their gradients do not fit on chip, {fit} would"
    gradients = [nl.ndarray(one.shape, dtype=one.dtype, buffer=nl.shared_hbm) for one in (q, k, v)]
    dq, dk, dv = gradients
    masks = Masks(q.dtype, T - q.shape[2], causal, window)
    mine = share(B * kv_heads, 1)
    for number in nl.affine_range(mine.start, mine.stop):
        b, kv = number // kv_heads, number % kv_heads
        keys = Keys(k[b, kv], v[b, kv], masks, scale if scale else D**-0.5)
        for h in range(kv * heads // kv_heads, (kv + 1) * heads // kv_heads):
            for rows in blocks(q.shape[2], SEGMENT):
                queries = Queries(q[b, h], out[b, h], dout[b, h], lse[b, h], rows)
                over_blocks(keys, queries)
                queries.store(dq[b, h], keys.scale)
        keys.store(dk[b, kv], dv[b, kv])
    return dq, dk, dv


def columns(D):
    """fp32 columns that a sum takes in its bank, which it must not leave: a power of two."""
    return 1 << (D - 1).bit_length()


class Keys(nl.NKIObject):
    """A head of keys and values, as they are and turned, and the gradients so far."""

    def __init__(self, k, v, masks, scale):
        self.masks, self.scale, self.dtype = masks, scale, k.dtype
        self.count, D = k.shape
        self.steps = Cut(self.count, False)
        self.depth = Cut(D, False)
        self.width = KEYS if D <= ROWS else NARROW_KEYS
        whole, depth = slice(0, self.count), slice(0, self.depth.steps)
        self.turned_k = load_turned(k, whole, self.depth, depth)
        self.turned_v = load_turned(v, whole, self.depth, depth)
        self.k = load_straight(k, slice(0, D), self.steps, slice(0, self.steps.steps))
        self.dk, self.dv = [Total(ROWS, self.steps.steps, D) for _ in range(2)]

    def store(self, dk, dv):
        self.dk.store(dk, self.scale)
        self.dv.store(dv, 1.0)


class Total(nl.NKIObject):
    """Sums in SBUF, fp32 [rows, step, D], of what comes from PSUM."""

    def __init__(self, height, steps, D):
        self.values = nl.ndarray((height, steps, D), dtype=nl.float32, buffer=nl.sbuf)
        self.begun = [False] * steps

    def add(self, step, value):
        place = self.values[0 : value.shape[0], step]
        if self.begun[step]:
            nisa.tensor_tensor(dst=place, data1=place, data2=value, op=nl.add)
        else:
            nisa.tensor_copy(dst=place, src=value)
        self.begun[step] = True

    def store(self, out, factor):
        """Times a factor, to HBM [rows, D]; what nobody has seen has no gradient."""
        for step, rows in enumerate(blocks(out.shape[0], ROWS)):
            result = tile(length(rows), out.shape[1], out.dtype)
            if self.begun[step]:
                source = self.values[0 : length(rows), step]
                nisa.tensor_scalar(dst=result, data=source, op0=nl.multiply, operand0=factor)
            else:
                nisa.memset(dst=result, value=0.0)
            nisa.dma_copy(dst=out[rows], src=result, engine=nisa.engine.gpsimd)


class Queries(nl.NKIObject):
    """Some queries of a head with what the backward pass needs of them, in tiles of 128."""

    def __init__(self, q, out, dout, lse, rows):
        D, count = q.shape[1], length(rows)
        self.rows, self.tiles = rows, blocks(count, ROWS)
        steps, depth = Cut(count, False), Cut(D, False)
        self.turned_q = load_turned(q, rows, depth, slice(0, depth.steps))
        self.turned_dout = load_turned(dout, rows, depth, slice(0, depth.steps))
        every = slice(0, steps.steps)
        self.q = load_straight(q[rows], slice(0, D), steps, every)
        self.dout = load_straight(dout[rows], slice(0, D), steps, every)
        sums = load_straight(lse[rows].reshape((count, 1)), slice(0, 1), steps, every)
        results = load_straight(out[rows], slice(0, D), steps, every)
        self.bias, self.delta = [], []
        for step, part in enumerate(self.tiles):
            height = length(part)
            negative, delta = tile(height, 1), tile(height, 1)
            nisa.tensor_scalar(dst=negative, data=sums[0:height, step], op0=nl.multiply, operand0=-1.0)
            crossed = tile(height, D)
            data1, data2 = results[0:height, step], self.dout[0:height, step]
            nisa.tensor_tensor(dst=crossed, data1=data1, data2=data2, op=nl.multiply, engine=nisa.engine.gpsimd)
            nisa.tensor_reduce(dst=delta, op=nl.add, data=crossed, axis=1)
            self.bias.append(negative)
            self.delta.append(delta)
        self.dq = Total(ROWS, steps.steps, D)

    def place(self, step):
        """A tile's rows in the whole sequence."""
        part = self.tiles[step]
        return slice(self.rows.start + part.start, self.rows.start + part.stop)

    def store(self, dq, scale):
        self.dq.store(dq[self.rows], scale)


def over_blocks(keys, queries):
    """All queries of a segment meet a block of keys, then the next block."""
    for block in blocks(keys.count, keys.width):
        seen = []
        for step in range(len(queries.tiles)):
            visible = keys.masks.visible(queries.place(step), keys.count)
            if visible.start < block.stop and block.start < visible.stop:
                seen.append(Round(keys, queries, step, block))
        if not seen:
            continue
        D = keys.k.shape[2]
        gradients = [
            [in_bank((length(part), D), SUMS + kind, at * 4 * columns(D)) for kind in range(2)]
            for at, part in enumerate(blocks(length(block), ROWS))
        ]
        # The products of a round wait for other engines: those of the next are issued before.
        for at in range(len(seen) + 1):
            if at < len(seen):
                seen[at].differentiate(at % 2)
            if at > 0:
                seen[at - 1].gather(gradients, (at - 1) % 2)
        for at, (dk, dv) in enumerate(gradients):
            keys.dk.add(block.start // ROWS + at, dk)
            keys.dv.add(block.start // ROWS + at, dv)


class Round(nl.NKIObject):
    """A tile of queries and a block of keys."""

    def __init__(self, keys, queries, step, block):
        self.keys, self.queries, self.step, self.block = keys, queries, step, block
        self.height = length(queries.tiles[step])

    def product(self, stationary, moving, bank):
        """[queries, keys] in PSUM of two operands with D on the partitions."""
        total = in_bank((self.height, length(self.block)), bank)
        for step in range(self.keys.depth.steps):
            height = self.keys.depth.height(step)
            one, other = stationary[0:height, step, self.queries.tiles[self.step]], moving[0:height, step, self.block]
            nisa.nc_matmul(dst=total, stationary=one, moving=other)
        return total

    def differentiate(self, turn):
        """p and ds, in SBUF."""
        keys, queries, shape = self.keys, self.queries, (self.height, length(self.block))
        scores = self.product(queries.turned_q, keys.turned_k, SCORES + turn)
        keys.masks.hide(scores, queries.place(self.step), self.block)
        self.p = tile(*shape, keys.dtype)
        nisa.activation(dst=self.p, op=nl.exp, data=scores, bias=queries.bias[self.step], scale=keys.scale)
        dp = self.product(queries.turned_dout, keys.turned_v, PRODUCTS + turn)
        self.ds = tile(*shape, keys.dtype)
        delta = queries.delta[self.step]
        nisa.scalar_tensor_tensor(
            dst=self.ds, data=dp, op0=nl.subtract, operand0=delta, op1=nl.multiply, operand1=self.p
        )

    def gather(self, gradients, turn):
        """The round's part of all three gradients."""
        queries, step, height = self.queries, self.step, self.height
        for (dk, dv), part in zip(gradients, blocks(length(self.block), ROWS)):
            nisa.nc_matmul(dst=dv, stationary=self.p[:, part], moving=queries.dout[0:height, step])
            nisa.nc_matmul(dst=dk, stationary=self.ds[:, part], moving=queries.q[0:height, step])
        turned = self.turn(turn)
        D = self.keys.k.shape[2]
        dq = in_bank((height, D), QUERIES, turn * 4 * columns(D))
        first = self.block.start // ROWS
        for at, part in enumerate(blocks(length(self.block), ROWS)):
            moving = self.keys.k[0 : length(part), first + at]
            nisa.nc_matmul(dst=dq, stationary=turned[0 : length(part), at], moving=moving)
        queries.dq.add(step, dq)

    def turn(self, turn):
        """ds with the keys on the partitions, [128, steps, queries]."""
        width = length(self.block)
        shape = (ROWS, -(-width // ROWS), self.height)
        turned = nl.ndarray(shape, dtype=self.keys.dtype, buffer=nl.sbuf)
        single = itemsize(self.keys.dtype) == 4
        in_psum = in_bank(shape, TURNED, 0 if single else turn * BANK_BYTES // 2, self.keys.dtype)
        for at, part in enumerate(blocks(width, ROWS)):
            place = in_psum[0 : length(part), at]
            nisa.nc_transpose(dst=place, data=self.ds[:, part], engine=nisa.engine.tensor)
        full = width // ROWS
        if full:
            leave_psum(turned[:, 0:full], in_psum[:, 0:full], 1)
        if width % ROWS:
            leave_psum(turned[0 : width % ROWS, full], in_psum[0 : width % ROWS, full], 1)
        return turned
