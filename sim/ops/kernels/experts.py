"""Experts: feed-forward blocks of which each token goes through a few, with the weights that routing gave them.

Weights are what is read, so the number of tokens decides. With fewer choices than experts (a step of one sequence) each
choice reads its expert, found by its number. Up to 128 tokens go through every expert in turn, and those that did not
choose it count 0 there: most experts have some token, and their weights are read in any case. More tokens are sorted:
each (token, choice) has a slot in the run of its expert, whose length is rounded up to whole blocks of 256, and a block
goes through one expert. Ranks come from products with a triangle of ones, runs from a scan over the experts, rows go to
their slots and come back by DMA. How many blocks each expert has is known on the device only, so as many are done as
there may be: T k / 256 and one for each expert.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .contraction import Held, Strip, turn_tile
from .gathers import by_number
from .matmul import FUNCTIONS, Plan, in_open_banks, result_type
from .mlp import Partial, hidden_values, with_many_rows
from .tiles import BANK, ROWS, blocks, column, length, load, product, share, tile

BLOCK = 256  # tokens of a block: above 220 operations a byte, TensorE is the limit and not HBM


@nki.jit
def expert_mlp(x, gate, up, down, experts, weights, activation="silu"):
    """Sum over the choices of a token: weights [T, k] * ((activation(x @ gate[e]) * (x @ up[e])) @ down[e]).

    x        : [T, H]
    gate, up : [E, H, F]; down : [E, F, H]
    experts  : whole numbers [T, k], different ones for each token
    """
    T, E = x.shape[0], gate.shape[0]
    out = nl.ndarray(x.shape, dtype=result_type(x), buffer=nl.shared_hbm)
    function = FUNCTIONS[activation]
    if T * experts.shape[1] < E:
        choice_by_choice(out, x, (gate, up, down), experts, weights, function)
    elif T <= ROWS:
        expert_by_expert(out, x, (gate, up, down), experts, weights, function)
    else:
        sorted_by_expert(out, x, (gate, up, down), experts, weights, function)
    return out


class Total(nl.NKIObject):
    """Sums of several experts' results, [T, H] in fp32."""

    def __init__(self, out):
        self.out, self.columns, self.started = out, None, False
        self.values = tile(out.shape[0], out.shape[1])
        nisa.memset(dst=self.values, value=0.0)

    def ending(self, columns):
        self.columns = columns
        return self

    def finish(self, products, first_row):
        for total, bank in zip(products, blocks(length(self.columns), BANK, self.columns.start)):
            here = self.values[:, bank]
            nisa.tensor_tensor(dst=here, data1=here, data2=total, op=nl.add)

    def store(self):
        """The result; of two cores each has a part of the hidden values."""
        if nl.num_programs(0) > 1:
            partial = Partial(self.out)
            partial.values = self.values
            partial.exchange()
            return
        result = tile(self.out.shape[0], self.out.shape[1], self.out.dtype)
        nisa.tensor_copy(dst=result, src=self.values)
        nisa.dma_copy(dst=self.out, src=result)


def add_expert(total, x, matrices, factor, function):
    """total += factor [T, 1] * the result of one expert, for at most 128 tokens."""
    gate, up, down = matrices
    mine = share(down.shape[0], 1)
    if not length(mine):
        return
    hidden = hidden_values(x, [gate[:, mine], up[:, mine]], total.out.dtype, function)
    nisa.tensor_scalar(dst=hidden, data=hidden, op0=nl.multiply, operand0=factor)
    plan = Plan(x.shape[0], length(mine), down.shape[1], hidden, True, False)
    turned = nl.ndarray((ROWS, plan.cut.steps, x.shape[0]), dtype=hidden.dtype, buffer=nl.sbuf)
    turn_tile(turned, hidden, 0, plan.cut, slice(0, plan.cut.steps))
    for part in blocks(down.shape[1], plan.columns):
        strip = Strip(down[mine], part, plan.cut, plan.each, False)
        in_open_banks(total.ending(part), [Held(turned, plan.cut)], slice(0, x.shape[0]), strip, plan)


def choice_by_choice(out, x, matrices, experts, weights, function):
    """Each choice of each token reads its expert."""
    T, k = experts.shape
    numbers = load(experts.reshape((1, T * k)))
    factors = widened(load(weights.reshape((1, T * k))))
    for t in range(T):
        total = Total(out[t : t + 1])
        for at in range(t * k, (t + 1) * k):
            own = [matrix.select(0, numbers[:, at : at + 1]) for matrix in matrices]
            add_expert(total, x[t : t + 1], own, factors[:, at : at + 1], function)
        total.store()


def expert_by_expert(out, x, matrices, experts, weights, function):
    """All tokens go through every expert."""
    T, k = experts.shape
    numbers, given = widened(load(experts)), widened(load(weights))
    total = Total(out)
    for e in range(matrices[0].shape[0]):
        chosen, factor = tile(T, k), tile(T, 1)
        nisa.tensor_scalar(dst=chosen, data=numbers, op0=nl.equal, operand0=float(e))
        nisa.tensor_tensor(dst=chosen, data1=chosen, data2=given, op=nl.multiply)
        nisa.tensor_reduce(dst=factor, op=nl.add, data=chosen, axis=1)
        add_expert(total, x, [matrix[e] for matrix in matrices], factor, function)
    total.store()


def widened(data):
    """The tile in fp32."""
    wide = tile(data.shape[0], data.shape[1])
    nisa.tensor_copy(dst=wide, src=data)
    return wide


def sorted_by_expert(out, x, matrices, experts, weights, function):
    """Tokens in the order of their experts, block by block."""
    (T, k), H, E = experts.shape, x.shape[1], matrices[0].shape[0]
    count = T * k // BLOCK + E
    cores, core = nl.num_programs(0), nl.program_id(0)
    # Each core sorts for itself; the feed-forward blocks are shared.
    rows = [nl.ndarray((count * BLOCK, H), dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(cores)][core]
    results = nl.ndarray((count * BLOCK, H), dtype=out.dtype, buffer=nl.shared_hbm)
    found = [nl.ndarray((count,), dtype=nl.int32, buffer=nl.shared_hbm) for _ in range(cores)][core]
    order = Order(experts, E)
    clear(rows)
    order.scatter(rows, x)
    order.find_experts(found)
    numbers = load(found.reshape((1, count)))
    for number, block in enumerate(blocks(count * BLOCK, BLOCK)):
        own = [matrix.select(0, numbers[:, number : number + 1]) for matrix in matrices]
        with_many_rows(results[block], rows[block], own[:2], own[2], function)
    if cores > 1:
        nisa.core_barrier(data=results, cores=(0, 1))
    order.gather(out, results, weights)


def clear(rows):
    """Slots that no token takes."""
    zeros = tile(ROWS, rows.shape[1], rows.dtype)
    nisa.memset(dst=zeros, value=0.0)
    for block in blocks(rows.shape[0], ROWS):
        nisa.dma_copy(dst=rows[block], src=zeros, engine=nisa.engine.scalar)


class Order(nl.NKIObject):
    """The slot of each (token, choice), tokens on the partitions.

    ends : where the run of each expert ends, the same on all partitions
    """

    def __init__(self, experts, E):
        self.E, self.tokens = E, blocks(experts.shape[0], ROWS)
        self.names = tile(ROWS, E)
        whole = tile(ROWS, E, nl.int32)
        nisa.iota(dst=whole, pattern=[[1, E]], offset=0)
        nisa.tensor_copy(dst=self.names, src=whole)
        self.numbers = [widened(load(experts[part])) for part in self.tokens]
        ranks, totals = self.count()
        firsts, self.ends = self.runs(totals)
        self.slots = [self.place(numbers, rank, firsts) for numbers, rank in zip(self.numbers, ranks)]

    def chosen(self, numbers, j):
        """[tokens, E]: 1 for the expert of one choice."""
        ones = tile(numbers.shape[0], self.E)
        nisa.tensor_scalar(
            dst=ones, data=self.names[0 : numbers.shape[0]], op0=nl.equal, operand0=numbers[:, j : j + 1]
        )
        return ones

    def at_expert(self, values, numbers):
        """values [tokens, E] at each choice's expert, [tokens, k]."""
        height, k = numbers.shape
        result = tile(height, k)
        for j in range(k):
            ones = self.chosen(numbers, j)
            nisa.tensor_tensor(dst=ones, data1=ones, data2=values[0:height], op=nl.multiply)
            nisa.tensor_reduce(dst=result[:, j : j + 1], op=nl.add, data=ones, axis=1)
        return result

    def count(self):
        """How many tokens before it chose the same expert, for each choice, and how many did in all, [1, E]."""
        before, ones, totals = triangle(), column(1.0, ROWS), tile(1, self.E)
        nisa.memset(dst=totals, value=0.0)
        ranks = []
        for numbers in self.numbers:
            height, k = numbers.shape
            taken = self.chosen(numbers, 0)
            for j in range(1, k):
                nisa.tensor_tensor(dst=taken, data1=taken, data2=self.chosen(numbers, j), op=nl.add)
            rank, wide, added = product(height, self.E), tile(height, self.E), product(1, self.E)
            nisa.nc_matmul(dst=rank, stationary=before[0:height, 0:height], moving=taken)
            nisa.nc_matmul(dst=rank, stationary=ones[0:1, 0:height], moving=totals)
            nisa.tensor_copy(dst=wide, src=rank)
            ranks.append(self.at_expert(wide, numbers))
            nisa.nc_matmul(dst=added, stationary=ones[0:height, 0:1], moving=taken)
            more = tile(1, self.E)
            nisa.tensor_tensor(dst=more, data1=totals, data2=added, op=nl.add)
            totals = more
        return ranks, totals

    def runs(self, totals):
        """Where each expert's run begins and ends, in whole blocks, [128, E]."""
        whole, padded, ends, firsts = tile(1, self.E, nl.int32), tile(1, self.E), tile(1, self.E), tile(1, self.E)
        nisa.tensor_scalar(dst=whole, data=totals, op0=nl.add, operand0=float(BLOCK - 1))
        nisa.tensor_scalar(dst=whole, data=whole, op0=nl.bitwise_and, operand0=-BLOCK)
        nisa.tensor_copy(dst=padded, src=whole)
        steady = column(1.0, self.E, 1)
        nisa.tensor_tensor_scan(dst=ends, data0=steady, data1=padded, initial=0.0, op0=nl.multiply, op1=nl.add)
        nisa.tensor_tensor(dst=firsts, data1=ends, data2=padded, op=nl.subtract)
        return on_all_partitions(firsts), on_all_partitions(ends)

    def place(self, numbers, rank, firsts):
        """Slots uint32 [tokens, k]."""
        slots = self.at_expert(firsts, numbers)
        nisa.tensor_tensor(dst=slots, data1=slots, data2=rank, op=nl.add)
        whole = tile(slots.shape[0], slots.shape[1], nl.uint32)
        nisa.tensor_copy(dst=whole, src=slots)
        return whole

    def scatter(self, rows, x):
        """Each token to its slots."""
        for part, slots in zip(self.tokens, self.slots):
            data = load(x[part])
            for j in range(slots.shape[1]):
                nisa.dma_copy(dst=by_number(rows, slots[:, j : j + 1], slice(0, x.shape[1])), src=data)

    def find_experts(self, found):
        """The expert of each block: how many runs end before it."""
        for part in blocks(found.shape[0], ROWS):
            height = length(part)
            starts, wide = tile(height, 1, nl.int32), tile(height, 1)
            nisa.iota(dst=starts, pattern=[[0, 1]], offset=part.start * BLOCK, channel_multiplier=BLOCK)
            nisa.tensor_copy(dst=wide, src=starts)
            ended, number, whole = tile(height, self.E), tile(height, 1), tile(height, 1, nl.int32)
            nisa.tensor_scalar(dst=ended, data=self.ends[0:height], op0=nl.less_equal, operand0=wide)
            nisa.tensor_reduce(dst=number, op=nl.add, data=ended, axis=1)
            nisa.tensor_scalar(dst=whole, data=number, op0=nl.minimum, operand0=float(self.E - 1))
            nisa.dma_copy(dst=found[part].reshape((height, 1)), src=whole)

    def gather(self, out, results, weights):
        """The weighted sum of each token's results; two cores take half of the tokens each."""
        mine = share(len(self.tokens), 1)
        for part, slots in zip(self.tokens[mine], self.slots[mine]):
            factors, total = widened(load(weights[part])), None
            for j in range(slots.shape[1]):
                row = tile(length(part), out.shape[1], results.dtype)
                nisa.dma_copy(dst=row, src=by_number(results, slots[:, j : j + 1], slice(0, out.shape[1])))
                last = j == slots.shape[1] - 1
                added = tile(length(part), out.shape[1], out.dtype if last else nl.float32)
                if total == None:
                    nisa.tensor_scalar(dst=added, data=row, op0=nl.multiply, operand0=factors[:, j : j + 1])
                else:
                    nisa.scalar_tensor_tensor(
                        dst=added,
                        data=row,
                        op0=nl.multiply,
                        operand0=factors[:, j : j + 1],
                        op1=nl.add,
                        operand1=total,
                    )
                total = added
            nisa.dma_copy(dst=out[part], src=total)


def triangle():
    """[128, 128]: 1 where the row is before the column."""
    ones = column(1.0, ROWS)
    nisa.affine_select(
        dst=ones,
        pattern=[[1, ROWS]],
        offset=-1,
        channel_multiplier=-1,
        on_true_tile=ones,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    return ones


def on_all_partitions(row):
    """[1, E] on 128 partitions."""
    total, repeated = product(ROWS, row.shape[1]), tile(ROWS, row.shape[1])
    nisa.nc_matmul(dst=total, stationary=column(1.0, ROWS, 1), moving=row)
    nisa.tensor_copy(dst=repeated, src=total)
    return repeated
