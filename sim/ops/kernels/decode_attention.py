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
from .tiles import BANK, BANK_BYTES, ROWS, blocks, itemsize, leave_psum, length, share, tile

RUN = 16  # tokens of a page that one descriptor moves
LEAST_RUN = 4  # where the context has too few runs for all partitions
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
    each = -(-B * kv_heads // nl.num_programs(0))
    if each > PAIRS:
        # Of few pairs, smaller groups: the end of the last one has nothing to overlap with.
        most = max(1, min(most, max(PAIRS // 2, each // 4)))
    scale = scale if scale else D**-0.5
    mine = groups(B, kv_heads, min(most, each))
    if not mine:
        return out
    cache = Pages(k_cache, v_cache, block_table, slice(mine[0][0].start, mine[-1][0].stop))
    steps = [Step(cache, q, lengths, out, scale, sequences, kv) for sequences, kv in mine]
    # Each stage is issued before the later stages of the groups before it, which wait for other engines.
    for at in range(len(steps) + 2):
        if at < len(steps):
            steps[at].prepare()
        if 0 <= at - 1 < len(steps):
            steps[at - 1].score_all()
        if at - 2 >= 0:
            steps[at - 2].weigh_all()
    return out


def groups(B, kv_heads, most):
    """This core's pairs that go together: heads of one sequence, or all heads of several."""
    if kv_heads >= most:
        found = [(slice(b, b + 1), kv) for b in range(B) for kv in blocks(kv_heads, most)]
    else:
        found = [(part, slice(0, kv_heads)) for part in blocks(B, most // kv_heads)]
    return found[share(len(found), 1)]


class Pages(nl.NKIObject):
    """Where tokens lie: runs of the caches, seen as tables with a row a run.

    runs : of a page; tiles : slices of at most 128 runs of a sequence
    """

    def __init__(self, k_cache, v_cache, block_table, sequences):
        P, heads, page, D = k_cache.shape
        assert page & (page - 1) == 0, "a page has a power of two of tokens"
        self.size = min(RUN, page)
        while block_table.shape[1] * (page // self.size) < ROWS and self.size > LEAST_RUN:
            self.size //= 2
        self.runs = page // self.size
        self.heads, self.D = heads, D
        self.tiles = blocks(block_table.shape[1] * self.runs, ROWS)
        table = (P * heads * self.runs, self.size, D)
        self.keys, self.values = k_cache.reshape(table), v_cache.reshape(table)
        self.identity = diagonal(nl.float32)
        # Where each token of a tile lies in it, the same for every row.
        self.places = nl.ndarray((ROWS, self.size, padded(self.tiles[0])), dtype=nl.float32, buffer=nl.sbuf)
        pattern = [[1, self.size], [self.size, self.places.shape[2]]]
        nisa.iota(dst=self.places, pattern=pattern, offset=0, channel_multiplier=0)
        self.mine = sequences
        self.numbers = [self.find(block_table, part) for part in self.tiles]

    def find(self, block_table, part):
        """Rows of the tables for a tile of each sequence, int32 [runs, sequence, head]; 0 where no run is left."""
        height, count = padded(part), length(self.mine)
        page = nl.ndarray((height, count, 1), dtype=nl.int32, buffer=nl.sbuf)
        if height > length(part):
            nisa.memset(dst=page, value=0)
        pages = block_table[self.mine, part.start // self.runs : -(-part.stop // self.runs)].permute((1, 0))
        repeated = pages.expand_dim(1).broadcast(1, self.runs)
        nisa.dma_copy(dst=page[0 : length(part)], src=repeated)
        # (page * heads + head) * runs + run of the page
        shape = (height, count, self.heads)
        numbers, scale, run = [nl.ndarray(shape, dtype=nl.int32, buffer=nl.sbuf) for _ in range(3)]
        nisa.iota(dst=scale, pattern=[[0, count], [0, self.heads]], offset=self.heads * self.runs)
        nisa.tensor_tensor(dst=numbers, data1=scale, data2=page.broadcast(2, self.heads), op=nl.multiply)
        nisa.iota(dst=run, pattern=[[0, count], [0, self.heads]], offset=0, channel_multiplier=1)
        nisa.tensor_scalar(dst=run, data=run, op0=nl.bitwise_and, operand0=self.runs - 1)
        nisa.tensor_tensor(dst=numbers, data1=numbers, data2=run, op=nl.add)
        nisa.iota(dst=scale, pattern=[[0, count], [self.runs, self.heads]], offset=0)
        nisa.tensor_tensor(dst=numbers, data1=numbers, data2=scale, op=nl.add)
        return numbers

    def of(self, b, h, at):
        """The numbers of one tile of a sequence and head, a run a partition."""
        return self.numbers[at][:, b - self.mine.start, h : h + 1].view(nl.uint32)

    def rows(self, table, b, h, at):
        """The runs of one tile, [runs, tokens, D] of HBM, by their numbers."""
        numbers = self.of(b, h, at)
        pattern = [[self.size * self.D, numbers.shape[0]], [self.D, self.size], [1, self.D]]
        return table.ap(pattern=pattern, vector_offset=numbers, indirect_dim=0)

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
                vector_offset=self.of(b, h, at),
                indirect_dim=0,
            )
            nisa.dma_transpose(dst=turned, src=source, axes=(3, 1, 2, 0))
            return loaded
        straight = nl.ndarray(source.shape, dtype=self.keys.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=straight, src=source)
        for token in range(self.size):
            turn_tile(loaded[:, :, token], straight[:, token], 0, cut, slice(0, cut.steps))
        return loaded


def padded(part):
    """Runs of a tile, and what lacks to the multiple of 16 that a DMA transpose takes."""
    return -(-length(part) // 16) * 16


class Step(nl.NKIObject):
    """One group of pairs through the softmax; row r of a tile is query r of the group."""

    def __init__(self, cache, q, lengths, out, scale, sequences, kv):
        self.cache, self.scale = cache, scale
        self.q, self.lengths, self.out = q, lengths, out
        self.sequences, self.kv = sequences, kv
        self.pairs = [(b, h) for b in range(sequences.start, sequences.stop) for h in range(kv.start, kv.stop)]
        self.shared = q.shape[1] // cache.heads
        self.cut = Cut(cache.D, False)
        self.count = len(self.pairs) * self.shared

    def chosen(self, tensor):
        """The group's rows of a tensor [B, Hq, D]: [pair, query, D]."""
        first = self.kv.start * self.shared
        rows = tensor[self.sequences, first : first + length(self.kv) * self.shared]
        return rows.reshape((len(self.pairs), self.shared, self.cache.D))

    def prepare(self):
        """What the other stages need beside the caches."""
        straight = tile(self.count, self.cache.D, self.q.dtype)
        rows = self.chosen(self.q).reshape((self.count, self.cache.D))
        nisa.dma_copy(dst=straight, src=rows)
        self.queries = self.apart(straight)
        whole = tile(self.count, 1, nl.int32)
        mine = self.lengths[self.sequences]
        each = self.count // mine.shape[0]
        nisa.dma_copy(dst=whole, src=mine.reshape((mine.shape[0], 1)).broadcast(1, each))
        self.row_lengths = tile(self.count, 1)
        nisa.tensor_copy(dst=self.row_lengths, src=whole)

    def apart(self, straight):
        """[D on partitions, steps, pair, row]: the queries of each pair, and zeros in the rows of the others."""
        turned = nl.ndarray((ROWS, self.cut.steps, self.count), dtype=straight.dtype, buffer=nl.sbuf)
        turn_tile(turned, straight, 0, self.cut, slice(0, self.cut.steps))
        pairs, count = len(self.pairs), self.count
        spread = nl.ndarray((ROWS, self.cut.steps, pairs, count), dtype=straight.dtype, buffer=nl.sbuf)
        nisa.memset(dst=spread, value=0.0)
        pitch = self.cut.steps * pairs * count
        for step in range(self.cut.steps):
            height = self.cut.height(step)
            pattern = [[pitch, height], [count + self.shared, pairs], [1, self.shared]]
            nisa.tensor_copy(
                dst=spread.ap(pattern=pattern, offset=step * pairs * count),
                src=turned[0:height, step].reshape((height, pairs, self.shared)),
            )
        return spread

    def rows(self, pair):
        return slice(pair * self.shared, (pair + 1) * self.shared)

    def score_all(self):
        self.scores = [self.score(at) for at in range(len(self.cache.tiles))]
        self.bias = self.largest([largest for _, largest in self.scores])

    def weigh_all(self):
        """Exponentials and values of all tiles, and the end of the group."""
        totals = tile(self.count, len(self.scores))
        # No sum may lie in two banks of PSUM: each takes a power of two of columns.
        shape = (self.shared, len(self.pairs), 1 << (self.cache.D - 1).bit_length())
        added = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)[:, :, 0 : self.cache.D]
        for at, (score, _) in enumerate(self.scores):
            powers = nl.ndarray(score.shape, dtype=self.cache.values.dtype, buffer=nl.sbuf)
            nisa.activation_reduce(
                dst=powers,
                op=nl.exp,
                data=score,
                reduce_op=nl.add,
                reduce_res=totals[:, at : at + 1],
                bias=self.bias,
                scale=self.scale,
            )
            self.weigh(at, powers, added)
        self.finish(added, totals)

    def score(self, at):
        """q k^T of one tile, [row, token of a run, run], where the sequence is not that long HIDDEN; row maxima."""
        runs, size = padded(self.cache.tiles[at]), self.cache.size
        score = nl.ndarray((self.count, size, runs), dtype=nl.float32, buffer=nl.sbuf)
        parts = blocks(size, max(1, BANK // runs))
        totals = [nl.ndarray((self.count, length(part), runs), dtype=nl.float32, buffer=nl.psum) for part in parts]
        # A pair's keys are done with before the next pair's are needed.
        for pair, (b, h) in enumerate(self.pairs):
            keys = self.cache.load_keys(b, h, at, self.cut)
            for part, total in zip(parts, totals):
                for step in range(self.cut.steps):
                    height = self.cut.height(step)
                    stationary, moving = self.queries[0:height, step, pair], keys[0:height, step, part]
                    nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
        hidden = self.hidden(at, runs)
        for part, total in zip(parts, totals):
            nisa.tensor_tensor(dst=score[:, part], data1=total, data2=hidden[:, part], op=nl.add)
        largest = tile(self.count, 1)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=score, axis=(1, 2))
        return score, largest

    def hidden(self, at, runs):
        """HIDDEN for tokens past the end of a sequence, else 0."""
        size = self.cache.size
        left = tile(self.count, 1)
        first = self.cache.tiles[at].start * size
        nisa.tensor_scalar(dst=left, data=self.row_lengths, op0=nl.subtract, operand0=float(first))
        hidden = nl.ndarray((self.count, size, runs), dtype=nl.float32, buffer=nl.sbuf)
        places = self.cache.places[0 : self.count, :, 0:runs]
        nisa.tensor_scalar(
            dst=hidden, data=places, op0=nl.greater_equal, operand0=left, op1=nl.multiply, operand1=HIDDEN
        )
        return hidden

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
        for turn, group in enumerate(blocks(size, max(1, BANK_BYTES // (self.count * itemsize(powers.dtype))))):
            in_psum = nl.ndarray((runs, length(group), self.count), dtype=powers.dtype, buffer=nl.psum)
            for token in range(group.start, group.stop):
                place = in_psum[:, token - group.start]
                nisa.nc_transpose(dst=place, data=powers[:, token], engine=nisa.engine.tensor)
            leave_psum(turned[:, group], in_psum, turn)
        for pair, (b, h) in enumerate(self.pairs):
            values = self.cache.load_values(b, h, at)
            for token in range(size):
                stationary = turned[:, token, self.rows(pair)]
                nisa.nc_matmul(dst=added[:, pair], stationary=stationary, moving=values[:, token])

    def finish(self, added, totals):
        """Divide by the sums, which lie a row a partition: a product with the identity brings a pair's to its own."""
        total = tile(self.count, 1)
        nisa.tensor_reduce(dst=total, op=nl.add, data=totals, axis=1)
        identity = self.cache.identity[0 : self.count]
        own = nl.ndarray((self.shared, len(self.pairs)), dtype=nl.float32, buffer=nl.psum)
        for pair in range(len(self.pairs)):
            nisa.nc_matmul(dst=own[:, pair : pair + 1], stationary=identity[:, self.rows(pair)], moving=total)
        factor = nl.ndarray((self.shared, len(self.pairs), 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=factor.reshape(own.shape), data=own)
        result = nl.ndarray(added.shape, dtype=self.out.dtype, buffer=nl.sbuf)
        repeated = factor.broadcast(2, self.cache.D)
        nisa.tensor_tensor(dst=result, data1=added, data2=repeated, op=nl.multiply)
        target = self.chosen(self.out).permute((1, 0, 2))
        nisa.dma_copy(dst=target, src=result, engine=nisa.engine.scalar)
