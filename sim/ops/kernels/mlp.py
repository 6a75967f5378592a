"""The feed-forward block of a transformer: two or three products with the hidden values kept where they fall.

With few rows (decode) everything but the weights stays on chip: x is stationary, the weights stream past it at the
rate of HBM, and the hidden values, 128 of them on the partitions after a transpose, are stationary for the last one.
Two cores take half of the hidden values each, and send each other what they have of half of the result's columns.
With many rows (prefill) the hidden values do not fit. The weights are stationary then and x streams past them, so that
the hidden values come out as [F, T]: this is what the last product wants, and they go to HBM and back as they are.
That is 4 T F bytes beside 2 T H F operations a matrix, nothing to TensorE. Two cores share the hidden values in HBM.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .contraction import Cut, Held, Strip, turn_tile
from .matmul import (
    BANKS,
    FUNCTIONS,
    PANEL_ROWS,
    PIECE,
    Ending,
    Plan,
    add_products,
    in_open_banks,
    load_panel,
    multiply,
    pairs,
    result_type,
)
from .tiles import BANK, ROWS, blocks, even, itemsize, leave_psum, length, product, share, tile

COLUMNS = 256  # of each weight matrix, in one block of a prefill


@nki.jit
def mlp(x, up, down, activation="gelu"):
    """activation(x [T, H] @ up [H, F]) @ down [F, H]"""
    return feed_forward(x, [up], down, activation)


@nki.jit
def gated_mlp(x, gate, up, down, activation="silu"):
    """(activation(x [T, H] @ gate [H, F]) * (x @ up [H, F])) @ down [F, H]"""
    return feed_forward(x, [gate, up], down, activation)


def feed_forward(x, weights, down, activation):
    """The weights of the hidden values are [up] or [gate, up]."""
    T = x.shape[0]
    out = nl.ndarray((T, down.shape[1]), dtype=result_type(x), buffer=nl.shared_hbm)
    if T <= ROWS:
        with_few_rows(out, x, weights, down, FUNCTIONS[activation])
    else:
        with_many_rows(out, x, weights, down, FUNCTIONS[activation])
    return out


def combine(dst, totals, function):
    """The hidden values of one or two products in PSUM."""
    if len(totals) == 1:
        nisa.activation(dst=dst, op=function, data=totals[0])
        return
    gated = tile(dst.shape[0], dst.shape[1])
    nisa.activation(dst=gated, op=function, data=totals[0])
    nisa.tensor_tensor(dst=dst, data1=gated, data2=totals[1], op=nl.multiply)


def with_few_rows(out, x, weights, down, function):
    """At most 128 rows."""
    mine = share(down.shape[0], 1)
    partial = Partial(out)
    if length(mine):
        hidden = hidden_values(x, [weight[:, mine] for weight in weights], out.dtype, function)
        plan = Plan(x.shape[0], length(mine), down.shape[1], hidden, True, False)
        turned = nl.ndarray((ROWS, plan.cut.steps, x.shape[0]), dtype=hidden.dtype, buffer=nl.sbuf)
        turn_tile(turned, hidden, 0, plan.cut, slice(0, plan.cut.steps))
        for part in blocks(down.shape[1], plan.columns):
            strip = Strip(down[mine], part, plan.cut, plan.each, False)
            ending = Ending(out, part, None, None) if nl.num_programs(0) == 1 else partial.ending(part)
            in_open_banks(ending, [Held(turned, plan.cut)], slice(0, x.shape[0]), strip, plan)
    if nl.num_programs(0) > 1:
        partial.exchange()


def hidden_values(x, weights, dtype, function):
    """[T, F] of few rows, in SBUF."""
    T, F = x.shape[0], weights[0].shape[1]
    hidden = tile(T, F, dtype)
    plan = Plan(T, x.shape[1], F, x, False, False)
    (strip,) = load_panel(x, slice(0, T), plan, False)
    width = even(F, BANK * (BANKS // len(weights)), BANK)
    each = pairs(PIECE // (width * itemsize(x.dtype)))
    for part in blocks(F, width):
        strips = [Strip(weight, part, plan.cut, each, False) for weight in weights]
        hidden_block(hidden[:, part], strip, strips, blocks(plan.cut.steps, each), function)
    return hidden


class Partial(nl.NKIObject):
    """One core's part of the result, [T, H] in fp32, and the exchange with the other core."""

    def __init__(self, out):
        self.out, self.values, self.turn = out, None, 0

    def ending(self, columns):
        if self.values == None:
            self.values = tile(self.out.shape[0], self.out.shape[1])
        self.columns = columns
        return self

    def finish(self, products, first_row):
        for total, bank in zip(products, blocks(length(self.columns), BANK, self.columns.start)):
            self.turn += 1
            leave_psum(self.values[:, bank], total, self.turn)

    def exchange(self):
        """Send what the other core finishes, add what it sends."""
        if self.values == None:
            self.ending(None)
            nisa.memset(dst=self.values, value=0.0)
        core, height, columns = nl.program_id(0), self.out.shape[0], self.out.shape[1]
        halves = [slice(0, -(-columns // 2)), slice(-(-columns // 2), columns)]
        own, other = halves[core], halves[1 - core]
        wide = length(halves[0])
        sent, received = tile(height, wide), tile(height, wide)
        if length(other) < wide:
            nisa.memset(dst=sent, value=0.0)
        if length(other) > 0:
            nisa.tensor_copy(dst=sent[:, 0 : length(other)], src=self.values[:, other])
        nisa.sendrecv(src=sent, dst=received, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        if length(own) > 0:
            result = tile(height, length(own), self.out.dtype)
            nisa.tensor_tensor(dst=result, data1=self.values[:, own], data2=received[:, 0 : length(own)], op=nl.add)
            nisa.dma_copy(dst=self.out[:, own], src=result)


def hidden_block(hidden, strip, strips, chunks, function):
    """Some columns of the hidden values, their products all open in PSUM."""
    banks = blocks(hidden.shape[1], BANK)
    totals = [[product(hidden.shape[0], length(bank)) for _ in strips] for bank in banks]
    for steps in chunks:
        for bank, pair in zip(banks, totals):
            for weights, total in zip(strips, pair):
                add_products(total, strip, slice(0, hidden.shape[0]), weights, bank, steps)
    for bank, pair in zip(banks, totals):
        combine(hidden[:, bank], pair, function)


def with_many_rows(out, x, weights, down, function):
    """The hidden values in HBM, as [F, T]."""
    T, H = x.shape
    hidden = nl.ndarray((down.shape[0], T), dtype=out.dtype, buffer=nl.shared_hbm)
    cut = Cut(H, False)
    room = nl.tile_size.total_available_sbuf_size // (cut.steps * itemsize(x.dtype))
    width = even(T, max(PANEL_ROWS, (room - 3 * COLUMNS * len(weights)) // BANK * BANK), BANK)
    mine = share(down.shape[0], ROWS)
    if length(mine):
        for rows in blocks(T, width):
            hidden_rows(hidden[mine, rows], x[rows], [weight[:, mine] for weight in weights], cut, function)
    if nl.num_programs(0) > 1:
        nisa.core_barrier(data=hidden, cores=(0, 1))
    multiply(out, hidden, down, None, True, False, None)


def hidden_rows(hidden, x, weights, cut, function):
    """The hidden values of the rows that fit on chip."""
    F, T = hidden.shape
    size = itemsize(x.dtype)
    pieces = blocks(T, BANK)
    strips = [Strip(x, piece, cut, pairs(PIECE // (BANK * size)), True) for piece in pieces]
    for part in blocks(F, COLUMNS):
        held = [Strip(weight, part, cut, pairs(PIECE // (COLUMNS * size)), False) for weight in weights]
        for rows in blocks(length(part), ROWS):
            result = tile(length(rows), T, hidden.dtype)
            for piece, strip in zip(pieces, strips):
                totals = [product(length(rows), length(piece)) for _ in weights]
                for weight, total in zip(held, totals):
                    add_products(total, weight, rows, strip, slice(0, length(piece)), slice(0, cut.steps))
                combine(result[:, piece], totals, function)
            first = part.start + rows.start
            nisa.dma_copy(dst=hidden[first : first + length(rows)], src=result, engine=nisa.engine.gpsimd)
