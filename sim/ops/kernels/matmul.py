"""Matrix products: what is kept on chip, what streams past it, and how many bytes that takes.

TensorE multiplies a stationary tile [128 of k, 128 of m] with a moving tile [128 of k, 512 of n] and adds up in PSUM.
Here x is stationary: rows of x stay in SBUF, transposed once so that k lies on the partitions, and w streams past them
in blocks of megabytes, the next one loaded while this one is multiplied. Every byte of w is read once for each block of
rows of x. In a prefill a block has so many rows that TensorE is the limit (above 78.6 TFLOP/s / 358 GB/s = 220
FLOP a byte on trn2); with the few rows of a decode step the limit is HBM, and the rows that DMA engines read must be
long: a partition then takes neighbouring rows of w, which are one run of bytes in HBM.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .contraction import Cut, Strip, turns_in_flight
from .tiles import BANK, ROWS, blocks, even, itemsize, leave_psum, length, load_repeated, product, share

BANKS = 8  # of PSUM
PIECE = 16384  # bytes a partition of one load of w: 2 MiB in all
BLOCK = 32768  # bytes a partition of a block of w that is on chip with all of k
PIECES = 8  # of w at least
PANEL_ROWS = 512  # of x in one load
FUNCTIONS = {"gelu": nl.gelu, "gelu_tanh": nl.gelu_apprx_tanh, "silu": nl.silu, "relu": nl.relu, "sigmoid": nl.sigmoid}


@nki.jit
def matmul(x, w, bias=None, transpose_x=False, transpose_w=False, activation=None):
    """x [M, K] @ w [K, N] -> [M, N], plus bias [N], through an activation.

    transpose_x, transpose_w : x is given as [K, M], w as [N, K]
    """
    M, _ = turned(x.shape, transpose_x)
    _, N = turned(w.shape, transpose_w)
    out = nl.ndarray((M, N), dtype=result_type(x), buffer=nl.shared_hbm)
    multiply(out, x, w, bias, transpose_x, transpose_w, activation)
    return out


@nki.jit
def batched_matmul(x, w, transpose_x=False, transpose_w=False):
    """x [B, M, K] @ w [B, K, N] -> [B, M, N], each product by itself."""
    B = x.shape[0]
    M, _ = turned(x.shape[1:], transpose_x)
    _, N = turned(w.shape[1:], transpose_w)
    out = nl.ndarray((B, M, N), dtype=result_type(x), buffer=nl.shared_hbm)
    mine = share(B, 1)
    for b in nl.affine_range(mine.start, mine.stop):
        multiply(out[b], x[b], w[b], None, transpose_x, transpose_w, None, slice(0, N))
    return out


def turned(shape, transposed):
    return (shape[1], shape[0]) if transposed else tuple(shape)


def result_type(x):
    """fp8 would lose most of a sum: its products are bf16."""
    return nl.bfloat16 if itemsize(x.dtype) == 1 else x.dtype


def multiply(out, x, w, bias, transpose_x, transpose_w, activation, columns=None):
    """One product, in blocks of rows of x; of a launch on two cores each takes half of the columns."""
    M, K = turned(x.shape, transpose_x)
    columns = share(out.shape[1], ROWS) if columns == None else columns
    if not length(columns):
        return
    plan = Plan(M, K, length(columns), x, transpose_x, transpose_w)
    for rows in blocks(M, plan.rows):
        panel = load_panel(x, rows, plan, transpose_x)
        for part in blocks(length(columns), plan.columns, columns.start):
            ending = Ending(out, part, bias, activation)
            weights = Strip(w, part, plan.cut, plan.each, transpose_w)
            multiply_block = in_open_banks if plan.open else one_after_another
            multiply_block(ending, panel, rows, weights, plan)


class Plan(nl.NKIObject):
    """Sizes of the blocks.

    rows    : of x that are on chip at a time
    open    : whether the products of all these rows stay in PSUM while w streams past, so that no block of w need be
              on chip as a whole
    columns : of w in one block
    each    : steps of the contraction in one load of w; `panel_each` of x
    ahead   : whether x is loaded before it is asked for, as its transposes take room in PSUM
    """

    def __init__(self, M, K, N, x, transpose_x, transpose_w):
        size = itemsize(x.dtype)
        self.cut = Cut(K, M <= ROWS and not transpose_w)
        room = nl.tile_size.total_available_sbuf_size // (self.cut.steps * size)
        self.open = M <= PANEL_ROWS or room < 2 * PANEL_ROWS + 3 * BANK
        most = PANEL_ROWS if self.open else room - 3 * BANK
        fits = max(ROWS, min(most, room * 2 // 3) // ROWS * ROWS)
        self.rows = even(M, fits, ROWS)
        tiles = -(-min(M, self.rows) // ROWS)
        # Few steps are soon over: what is stored then must be long runs.
        whole = max(1, min(BANKS // 2, BLOCK // (self.cut.steps * BANK * size)))
        banks = BANKS // tiles if self.open else whole
        # A transposed w is read along k, so that few of its rows make long runs.
        self.columns = BANK if transpose_w else even(N, BANK * banks, BANK if banks > 1 else ROWS)
        # The last piece of a small w is multiplied when all others are: it is not to be large.
        self.each = pairs(min(PIECE // (self.columns * size), self.cut.steps * -(-N // self.columns) // PIECES))
        self.panel_each = self.cut.steps if M <= ROWS else pairs(PIECE // (PANEL_ROWS * size))
        self.ahead = not transpose_x and not turns_in_flight(x, self.cut)


def pairs(steps):
    """At least one step, and an even number where there are more, as fp8 takes two at once."""
    return max(1, steps // 2 * 2)


def load_panel(x, rows, plan, transposed):
    """A block of rows of x, in strips of at most 512."""
    pieces = blocks(length(rows), PANEL_ROWS, rows.start)
    panel = [Strip(x, piece, plan.cut, plan.panel_each, not transposed) for piece in pieces]
    if plan.ahead:
        for strip in panel:
            for steps in blocks(plan.cut.steps, plan.panel_each):
                strip.load(steps)
    return panel


def inside(rows):
    """Where rows of a block lie in their strip of the panel."""
    first = rows.start % PANEL_ROWS
    return slice(first, first + length(rows))


def in_open_banks(ending, panel, rows, weights, plan):
    """All rows of the block meet a piece of w before the next piece comes."""
    tiles = blocks(length(rows), ROWS)
    banks = blocks(length(ending.columns), BANK)
    products = [[product(length(tile), length(bank)) for bank in banks] for tile in tiles]
    for steps in blocks(plan.cut.steps, plan.each):
        for i, tile in enumerate(tiles):
            for j, bank in enumerate(banks):
                add_products(products[i][j], panel[tile.start // PANEL_ROWS], inside(tile), weights, bank, steps)
    for i, tile in enumerate(tiles):
        ending.finish(products[i], rows.start + tile.start)


def one_after_another(ending, panel, rows, weights, plan):
    """A block of w is on chip with all of k; each tile of rows finishes before the next."""
    banks = blocks(length(ending.columns), BANK)
    for tile in blocks(length(rows), ROWS):
        totals = [product(length(tile), length(bank)) for bank in banks]
        for bank, total in zip(banks, totals):
            strip, steps = panel[tile.start // PANEL_ROWS], slice(0, plan.cut.steps)
            add_products(total, strip, inside(tile), weights, bank, steps)
        ending.finish(totals, rows.start + tile.start)


def add_products(total, stationary, rows, moving, columns, steps):
    """total += stationary.T @ moving, of two strips, for some steps of the contraction; fp8 takes two at once."""
    double = takes_pairs(stationary.tensor, moving.tensor)
    step = steps.start
    while step < steps.stop:
        if double and stationary.has(step, 2) and moving.has(step, 2):
            pair, other = stationary.at(step, rows, 2), moving.at(step, columns, 2)
            nisa.nc_matmul(dst=total, stationary=pair, moving=other, perf_mode=nisa.matmul_perf_mode.double_row)
            step += 2
        else:
            nisa.nc_matmul(dst=total, stationary=stationary.at(step, rows), moving=moving.at(step, columns))
            step += 1


def takes_pairs(stationary, moving):
    """Whether TensorE contracts 256 values at once: both in fp8, from NeuronCore-v3 on."""
    narrow = itemsize(stationary.dtype) == 1 and itemsize(moving.dtype) == 1
    return narrow and nisa.get_nc_version() >= nisa.nc_version.gen3


class Ending(nl.NKIObject):
    """What is done with finished products: bias, activation, one store of all columns of the block."""

    def __init__(self, out, columns, bias, activation):
        self.out, self.columns = out, columns
        self.activation = FUNCTIONS[activation] if activation else None
        self.bias = load_repeated(bias[columns]) if bias != None else None
        self.turn = 0

    def finish(self, products, first_row):
        height = products[0].shape[0]
        result = nl.ndarray((height, length(self.columns)), dtype=self.out.dtype, buffer=nl.sbuf)
        for total, bank in zip(products, blocks(length(self.columns), BANK)):
            self.turn += 1
            self.leave(result[:, bank], total, bank)
        nisa.dma_copy(dst=self.out[first_row : first_row + height, self.columns], src=result, engine=nisa.engine.gpsimd)

    def leave(self, dst, total, bank):
        if self.bias != None:
            added = dst if self.activation == None else nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=added, data1=total, data2=self.bias[0 : total.shape[0], bank], op=nl.add)
            total = added
        if self.activation != None:
            nisa.activation(dst=dst, op=self.activation, data=total)
        elif self.bias == None:
            leave_psum(dst, total, self.turn)
