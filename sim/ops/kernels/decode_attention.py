"""Attention of a decode step over a paged cache: one query a sequence, all keys and values read once from HBM.

The pages of a sequence lie anywhere; GpSimd writes descriptors from the block table, and 128 runs of 16 tokens come at
a time. Keys are transposed on the way in. The four or so heads that share keys would leave 124 lanes idle in the
softmax, so eight pairs of sequence and key head go together: each multiplies its keys with its own queries and with
zeros in the others' columns, and PSUM adds them up to one tile with a row for each query. Scores of a whole context
stay in SBUF, so that the maximum is known before the first exponential and nothing is rescaled.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .contraction import Cut, turn_tile
from .masks import HIDDEN, diagonal
from .tiles import BANK, ROWS, blocks, itemsize, leave_psum, length, share, tile

RUN = 16  # tokens of a page that one descriptor moves
PAIRS = 8  # of a sequence and a key head, in one softmax


@nki.jit
def decode_attention(q, k_cache, v_cache, block_table, lengths, scale=None):
    """softmax(scale * q [B, Hq, D] @ keys^T) @ values -> [B, Hq, D], over the first lengths [B] tokens of each sequence

    k_cache, v_cache : [P, Hkv, page, D], the page a power of two
    block_table      : int32 [B, n], the pages of each sequence
    """
    B, heads, D = q.shape
    out = nl.ndarray((B, heads, D), dtype=q.dtype, buffer=nl.shared_hbm)
    kv_heads = k_cache.shape[1]
    most = max(1, min(PAIRS, ROWS // (heads // kv_heads)))
    scale = scale if scale else D**-0.5
    for sequences, kv in groups(B, kv_heads, most):
        cache = Pages(k_cache, v_cache, block_table, sequences, kv)
        Step(cache, q, lengths, scale).run(out)
    return out


def groups(B, kv_heads, most):
    """Pairs of sequence and key head that go together: heads of one sequence, or all heads of several."""
    if kv_heads >= most:
        mine = share(B, 1)
        return [(slice(b, b + 1), kv) for b in range(mine.start, mine.stop) for kv in blocks(kv_heads, most)]
    mine = share(B, 1)
    return [(part, slice(0, kv_heads)) for part in blocks(length(mine), most // kv_heads, mine.start)]


class Pages(nl.NKIObject):
    """Where the tokens of some sequences lie: runs of the caches, seen as tables with a row a run.

    runs : of a page; count : of a sequence; tiles : slices of at most 128 runs
    """

    def __init__(self, k_cache, v_cache, block_table, sequences, kv):
        P, heads, page, D = k_cache.shape
        assert page & (page - 1) == 0, "a page has a power of two of tokens"
        self.size = min(RUN, page)
        self.runs = page // self.size
        self.count = block_table.shape[1] * self.runs
        self.tiles = blocks(self.count, ROWS)
        self.heads, self.D = heads, D
        table = (P * heads * self.runs, self.size, D)
        self.keys, self.values = k_cache.reshape(table), v_cache.reshape(table)
        self.pairs = [(b, h) for b in range(sequences.start, sequences.stop) for h in range(kv.start, kv.stop)]
        self.sequences, self.kv = sequences, kv
        self.table, self.found = block_table, {}

    def numbers(self, b, at):
        """Rows of the tables for one tile of a sequence, a run a partition, a head a column; 0 where no run is left."""
        name = f"{b}.{at}"
        if name not in self.found:
            self.found[name] = self.find(b, self.tiles[at])
        return self.found[name]

    def find(self, b, part):
        height = -(-length(part) // 16) * 16
        page, numbers = tile(height, 1, nl.int32), tile(height, self.heads, nl.int32)
        if height > length(part):
            nisa.memset(dst=page, value=0)
        pages = self.table[b][part.start // self.runs : -(-part.stop // self.runs)]
        repeated = pages.reshape((pages.shape[0], 1)).broadcast(1, self.runs)
        nisa.dma_copy(dst=page[0 : length(part)], src=repeated)
        # (page * heads + head) * runs + run of the page
        run, steps = tile(height, self.heads, nl.int32), tile(height, self.heads, nl.int32)
        nisa.iota(dst=run, pattern=[[0, self.heads]], offset=0, channel_multiplier=1)
        nisa.tensor_scalar(dst=run, data=run, op0=nl.bitwise_and, operand0=self.runs - 1)
        nisa.iota(dst=steps, pattern=[[self.runs, self.heads]], offset=0, channel_multiplier=0)
        nisa.tensor_tensor(dst=run, data1=run, data2=steps, op=nl.add)
        nisa.iota(dst=steps, pattern=[[0, self.heads]], offset=self.heads * self.runs, channel_multiplier=0)
        nisa.tensor_tensor(dst=numbers, data1=steps, data2=page.broadcast(1, self.heads), op=nl.multiply)
        nisa.tensor_tensor(dst=numbers, data1=numbers, data2=run, op=nl.add)
        return numbers

    def rows(self, table, b, h, at):
        """The runs of one tile, [runs, tokens, D] of HBM, by their numbers."""
        numbers = self.numbers(b, at)[:, h : h + 1]
        width = self.size * self.D
        pattern = [[width, numbers.shape[0]], [self.D, self.size], [1, self.D]]
        return table.ap(pattern=pattern, vector_offset=numbers.view(nl.uint32), indirect_dim=0)

    def load_values(self, b, h, at):
        """[runs, tokens of a run, D]"""
        source = self.rows(self.values, b, h, at)
        loaded = nl.ndarray(source.shape, dtype=self.values.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=loaded, src=source)
        return loaded

    def load_keys(self, b, h, at, cut):
        """[D on partitions, steps, tokens of a run, runs]"""
        source = self.rows(self.keys, b, h, at)
        runs = source.shape[0]
        loaded = nl.ndarray((ROWS, cut.steps, self.size, runs), dtype=self.keys.dtype, buffer=nl.sbuf)
        in_flight = itemsize(self.keys.dtype) == 2 and nisa.get_nc_version() >= nisa.nc_version.gen3
        if in_flight and self.D <= ROWS:
            turned = loaded[0 : self.D, 0].reshape((self.D, self.size, 1, runs))
            source = self.keys.ap(
                pattern=[[self.size * self.D, runs], [self.D, self.size], [0, 1], [1, self.D]],
                vector_offset=self.numbers(b, at)[:, h : h + 1].view(nl.uint32),
                indirect_dim=0,
            )
            nisa.dma_transpose(dst=turned, src=source, axes=(3, 1, 2, 0))
            return loaded
        straight = nl.ndarray(source.shape, dtype=self.keys.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=straight, src=source)
        for token in range(self.size):
            turn_tile(loaded[:, :, token], straight[:, token], 0, cut, slice(0, cut.steps))
        return loaded


class Step(nl.NKIObject):
    """One group of pairs through the softmax; row r of a tile is query r of the group."""

    def __init__(self, cache, q, lengths, scale):
        self.cache, self.scale = cache, scale
        self.shared = q.shape[1] // cache.heads
        self.cut = Cut(cache.D, False)
        self.count = len(cache.pairs) * self.shared
        first = cache.kv.start * self.shared
        chosen = q[cache.sequences, first : first + length(cache.kv) * self.shared]
        self.queries = self.apart(chosen.reshape((self.count, cache.D)))
        self.lengths = self.row_lengths(lengths)

    def apart(self, q):
        """[D on partitions, steps, pair, row]: the queries of each pair, and zeros in the rows of the others."""
        straight = tile(self.count, self.cache.D, q.dtype)
        nisa.dma_copy(dst=straight, src=q)
        turned = nl.ndarray((ROWS, self.cut.steps, self.count), dtype=q.dtype, buffer=nl.sbuf)
        turn_tile(turned, straight, 0, self.cut, slice(0, self.cut.steps))
        pairs = len(self.cache.pairs)
        spread = nl.ndarray((ROWS, self.cut.steps, pairs, self.count), dtype=q.dtype, buffer=nl.sbuf)
        nisa.memset(dst=spread, value=0.0)
        for step in range(self.cut.steps):
            height = self.cut.height(step)
            for pair in range(pairs):
                rows = self.rows(pair)
                nisa.tensor_copy(dst=spread[0:height, step, pair, rows], src=turned[0:height, step, rows])
        return spread

    def rows(self, pair):
        return slice(pair * self.shared, (pair + 1) * self.shared)

    def row_lengths(self, lengths):
        """Tokens of each row's sequence, fp32, one a partition."""
        whole, result = tile(self.count, 1, nl.int32), tile(self.count, 1)
        mine = lengths[self.cache.sequences]
        each = self.count // mine.shape[0]
        nisa.dma_copy(dst=whole, src=mine.reshape((mine.shape[0], 1)).broadcast(1, each))
        nisa.tensor_copy(dst=result, src=whole)
        return result

    def run(self, out):
        scores = [self.score(at) for at in range(len(self.cache.tiles))]
        bias = self.largest([largest for _, largest in scores])
        totals = tile(self.count, len(scores))
        added = [
            nl.ndarray((self.shared, self.cache.D), dtype=nl.float32, buffer=nl.psum) for _ in self.cache.pairs
        ]
        for at, (score, _) in enumerate(scores):
            powers = nl.ndarray(score.shape, dtype=self.cache.values.dtype, buffer=nl.sbuf)
            nisa.activation_reduce(
                dst=powers,
                op=nl.exp,
                data=score,
                reduce_op=nl.add,
                reduce_res=totals[:, at : at + 1],
                bias=bias,
                scale=self.scale,
            )
            self.weigh(at, powers, added)
        self.finish(out, added, totals)

    def score(self, at):
        """q k^T of one tile, [row, token of a run, run], where the sequence is not that long HIDDEN; row maxima."""
        runs = -(-length(self.cache.tiles[at]) // 16) * 16
        size = self.cache.size
        score = nl.ndarray((self.count, size, runs), dtype=nl.float32, buffer=nl.sbuf)
        keys = [self.cache.load_keys(b, h, at, self.cut) for b, h in self.cache.pairs]
        hidden = self.hidden(at, runs)
        for part in blocks(size, max(1, BANK // runs)):
            total = nl.ndarray((self.count, length(part), runs), dtype=nl.float32, buffer=nl.psum)
            for pair, loaded in enumerate(keys):
                for step in range(self.cut.steps):
                    height = self.cut.height(step)
                    stationary, moving = self.queries[0:height, step, pair], loaded[0:height, step, part]
                    nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
            nisa.tensor_tensor(dst=score[:, part], data1=total, data2=hidden[:, part], op=nl.add)
        largest = tile(self.count, 1)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=score, axis=(1, 2))
        return score, largest

    def hidden(self, at, runs):
        """HIDDEN for tokens past the end of a sequence, else 0."""
        size = self.cache.size
        token = nl.ndarray((self.count, size, runs), dtype=nl.float32, buffer=nl.sbuf)
        first = self.cache.tiles[at].start * size
        nisa.iota(dst=token, pattern=[[1, size], [size, runs]], offset=first, channel_multiplier=0)
        nisa.tensor_scalar(
            dst=token,
            data=token,
            op0=nl.greater_equal,
            operand0=self.lengths,
            op1=nl.multiply,
            operand1=HIDDEN,
        )
        return token

    def largest(self, parts):
        """-scale times the largest score of each row."""
        both = parts[0]
        for part in parts[1:]:
            nisa.tensor_tensor(dst=both, data1=both, data2=part, op=nl.maximum)
        bias = tile(self.count, 1)
        nisa.tensor_scalar(dst=bias, data=both, op0=nl.multiply, operand0=-self.scale)
        return bias

    def weigh(self, at, powers, added):
        """Add the values of one tile, weighted, to the sum of each pair."""
        size, runs = powers.shape[1], powers.shape[2]
        turned = nl.ndarray((runs, size, self.count), dtype=powers.dtype, buffer=nl.sbuf)
        for turn, group in enumerate(blocks(size, max(1, 2048 // (self.count * itemsize(powers.dtype))))):
            in_psum = nl.ndarray((runs, length(group), self.count), dtype=powers.dtype, buffer=nl.psum)
            for token in range(group.start, group.stop):
                place = in_psum[:, token - group.start]
                nisa.nc_transpose(dst=place, data=powers[:, token], engine=nisa.engine.tensor)
            leave_psum(turned[:, group], in_psum, turn)
        for pair, (b, h) in enumerate(self.cache.pairs):
            values = self.cache.load_values(b, h, at)
            for token in range(size):
                stationary = turned[:, token, self.rows(pair)]
                nisa.nc_matmul(dst=added[pair], stationary=stationary, moving=values[:, token])

    def finish(self, out, added, totals):
        """Divide by the sums, which lie a row a partition: a product with the identity brings a pair's to its own."""
        total = tile(self.count, 1)
        nisa.tensor_reduce(dst=total, op=nl.add, data=totals, axis=1)
        identity = diagonal(nl.float32)
        for pair, (b, h) in enumerate(self.cache.pairs):
            rows = self.rows(pair)
            own = nl.ndarray((self.shared, 1), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=own, stationary=identity[0 : self.count, rows], moving=total)
            factor, result = tile(self.shared, 1), tile(self.shared, self.cache.D, out.dtype)
            nisa.reciprocal(dst=factor, data=own)
            nisa.tensor_scalar(dst=result, data=added[pair], op0=nl.multiply, operand0=factor)
            nisa.dma_copy(dst=out[b, h * self.shared : (h + 1) * self.shared], src=result)
