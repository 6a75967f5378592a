"""Mamba's selective scan: every channel carries a few states along the sequence, each with a decay of its own.

Channels lie on the partitions and time along them, so that VectorE's scan does h = a h + u in one instruction: for all
states of 128 channels at once, one after the other, where a is 0 at the start of each and what is carried over from
earlier times has been added to u. The scan takes two cycles an element and is the limit; everything else runs beside
it: ScalarE makes a = exp(step * decay), GpSimd multiplies with b before and with c behind, and TensorE adds up the
states and turns the result by multiplying with the identity, products stationary. b and c, which all channels share,
are brought to all partitions by TensorE: one column is stationary, 128 times, and the identity moves.
A step of a decoder has no time to scan along: all states of all channels are one tile.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .contraction import Cut, load_turned
from .masks import diagonal
from .tiles import BANK, ROWS, blocks, itemsize, length, load, product, share, tile

SCANNED = 4096  # elements of a partition in one scan
LONGEST = 256  # times in one scan
FEW = 4  # times that are done one by one
TOGETHER = 2  # times 128 channels: their results share a bank of PSUM


@nki.jit
def ssm_scan(x, step, decay, b, c, skip=None, state=None, softplus=True):
    """h = exp(step decay) h + step b x and y = c h + skip x, over time: (y like x, the last h fp32 [B, I, S]).

    x, step  : [B, T, I]; with `softplus`, step goes through it first
    decay    : [I, S], below 0
    b, c     : [B, T, S]
    skip     : [I]
    state    : fp32 [B, I, S], h before the first time; 0 if there is none
    """
    B, T, channels = x.shape
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    last = nl.ndarray((B, channels, decay.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    mine = share(channels, ROWS)
    if not length(mine):
        return y, last
    own = Channels(decay[mine], skip[mine] if skip != None else None, softplus)
    before = state[:, mine] if state != None else None
    inputs = (x[:, :, mine], step[:, :, mine], b, c)
    if T <= FEW:
        one_by_one(y[:, :, mine], last[:, mine], before, inputs, own)
        return y, last
    for n in range(B):
        carried = before[n] if before != None else None
        along_time(y[n, :, mine], last[n, mine], carried, [each[n] for each in inputs], own)
    return y, last


class Channels(nl.NKIObject):
    """What belongs to the channels of this core at all times."""

    def __init__(self, decay, skip, softplus):
        self.count, self.states = decay.shape
        self.decay, self.skip, self.softplus = decay, skip, softplus
        self.kept = {}

    def tiles(self, number, part):
        """(decay [128, S], skip [128, 1] or None) of one tile of channels, in fp32."""
        if str(number) not in self.kept:
            skip = None
            if self.skip != None:
                skip = widened(load(self.skip[part].reshape((length(part), 1))))
            self.kept[str(number)] = (widened(load(self.decay[part])), skip)
        return self.kept[str(number)]


def widened(data):
    """The tile in fp32."""
    if itemsize(data.dtype) == 4:
        return data
    wide = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=wide, src=data)
    return wide


def along_time(y, last, before, inputs, own):
    """One sequence, [T, I], in blocks of time."""
    x, step, b, c = inputs
    parts = blocks(own.count, ROWS)
    identity, wide_identity = diagonal(x.dtype), diagonal(b.dtype)
    carried = [None] * len(parts)
    if before != None:
        carried = [load(before[part]) for part in parts]
    waiting = None
    for times in blocks(x.shape[0], max(1, min(LONGEST, SCANNED // own.states))):
        spread = [on_all_partitions(one[times], wide_identity) for one in (b, c)]
        for group in blocks(len(parts), TOGETHER):
            steps = Steps(x, step, times, group, own)
            totals = [product(length(piece), steps.width) for piece in blocks(length(times), ROWS)]
            columns = slice(group.start * ROWS, group.start * ROWS + steps.width)
            for number in range(group.start, group.stop):
                weights = own.tiles(number, parts[number])
                scan = Scan(steps.at(number), weights, spread, carried[number])
                carried[number] = scan.latest()
                # Engines work in order: what waits for this scan is issued behind the beginning of the next.
                if waiting != None:
                    waiting.finish(identity)
                place = y[times, columns] if number == group.stop - 1 else None
                waiting = scan.ending(totals, steps.columns(number), place)
    waiting.finish(identity)
    for part, h in zip(parts, carried):
        nisa.dma_copy(dst=last[part], src=h)


def on_all_partitions(values, identity):
    """[times, S] -> [128, S, times], the same on each partition."""
    times, states = values.shape
    spread = nl.ndarray((ROWS, states, times), dtype=values.dtype, buffer=nl.sbuf)
    together = max(1, BANK // times)
    pieces = [(piece, load(values[piece])) for piece in blocks(times, ROWS)]
    for group in blocks(states, together):
        total = nl.ndarray((ROWS, length(group), times), dtype=nl.float32, buffer=nl.psum)
        for s in range(group.start, group.stop):
            for piece, loaded in pieces:
                repeated = loaded[:, s : s + 1].broadcast(1, ROWS)
                moving = identity[0 : length(piece), 0 : length(piece)]
                nisa.nc_matmul(dst=total[:, s - group.start, piece], stationary=repeated, moving=moving)
        nisa.activation(dst=spread[:, group], op=nl.copy, data=total)
    return spread


class Steps(nl.NKIObject):
    """x, the steps and their product for some tiles of channels, [128, tiles, times]."""

    def __init__(self, x, step, times, group, own):
        cut = Cut(own.count, False)
        self.group, self.cut = group, cut
        self.width = min(own.count, group.stop * ROWS) - group.start * ROWS
        self.x = load_turned(x, times, cut, group)
        given = load_turned(step, times, cut, group)
        self.step = nl.ndarray(given.shape, dtype=nl.float32, buffer=nl.sbuf)
        self.moved = nl.ndarray(given.shape, dtype=nl.float32, buffer=nl.sbuf)
        for rows, tiles in self.full_and_rest():
            function = nl.softplus if own.softplus else nl.copy
            nisa.activation(dst=self.step[rows, tiles], op=function, data=given[rows, tiles])
            here = {"dst": self.moved[rows, tiles], "data1": self.step[rows, tiles], "data2": self.x[rows, tiles]}
            nisa.tensor_tensor(op=nl.multiply, engine=nisa.engine.gpsimd, **here)

    def full_and_rest(self):
        """The tiles with 128 channels, and the one with what is left."""
        full = min(self.group.stop, self.cut.full) - self.group.start
        found = [(slice(0, ROWS), slice(0, full))] if full > 0 else []
        if self.group.stop > self.cut.full:
            found.append((slice(0, self.cut.rest), slice(full, full + 1)))
        return found

    def at(self, number):
        return Tile(self, slice(0, self.cut.height(number)), number - self.group.start)

    def columns(self, number):
        first = (number - self.group.start) * ROWS
        return slice(first, first + self.cut.height(number))


class Tile(nl.NKIObject):
    """One tile of channels, [channels, times]."""

    def __init__(self, steps, rows, at):
        self.x, self.step, self.moved = steps.x[rows, at], steps.step[rows, at], steps.moved[rows, at]


class Scan(nl.NKIObject):
    """One scan: h [channels, S, times] fp32 of a tile of channels, and its way into the sums over states."""

    def __init__(self, seen, weights, spread, carried):
        height, times = seen.step.shape
        (decay, self.skip), (b, self.c) = weights, spread
        states = decay.shape[1]
        self.x = seen.x
        factor, self.h = [nl.ndarray((height, states, times), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
        for s in range(states):
            nisa.activation(dst=factor[:, s], op=nl.exp, data=seen.step, scale=decay[:, s : s + 1])
        moved = seen.moved.expand_dim(1).broadcast(1, states)
        nisa.tensor_tensor(dst=self.h, data1=moved, data2=b[0:height], op=nl.multiply, engine=nisa.engine.gpsimd)
        first, entry = factor[:, :, 0], self.h[:, :, 0]
        if carried != None:
            kept = tile(height, states)
            nisa.tensor_tensor(dst=kept, data1=first, data2=carried, op=nl.multiply)
            nisa.tensor_tensor(dst=entry, data1=entry, data2=kept, op=nl.add)
        nisa.memset(dst=first, value=0.0)
        nisa.tensor_tensor_scan(dst=self.h, data0=factor, data1=self.h, initial=0.0, op0=nl.multiply, op1=nl.add)

    def latest(self):
        """The states after the last time, [channels, S]."""
        kept = tile(self.h.shape[0], self.h.shape[1])
        nisa.tensor_copy(dst=kept, src=self.h[:, :, self.h.shape[2] - 1])
        return kept

    def ending(self, totals, columns, place):
        """Where the result goes: columns of banks with 128 times each, and, if they are full then, a place in HBM."""
        self.totals, self.columns, self.place = totals, columns, place
        return self

    def finish(self, identity):
        """totals[times, columns] += sum over states of h * c, + skip * x"""
        height, states, times = self.h.shape
        own = identity[0:height, 0:height]
        weighed = nl.ndarray(self.h.shape, dtype=identity.dtype, buffer=nl.sbuf)
        idle = nisa.engine.gpsimd
        nisa.tensor_tensor(dst=weighed, data1=self.h, data2=self.c[0:height], op=nl.multiply, engine=idle)
        past = None
        if self.skip != None:
            past = tile(height, times, identity.dtype)
            nisa.activation(dst=past, op=nl.copy, data=self.x, scale=self.skip)
        for total, piece in zip(self.totals, blocks(times, ROWS)):
            terms = [weighed[:, s, piece] for s in range(states)] + ([past[:, piece]] if past != None else [])
            for term in terms:
                nisa.nc_matmul(dst=total[:, self.columns], stationary=term, moving=own)
        if self.place != None:
            leave(self.place, self.totals)


def leave(y, totals):
    """Store a bank for each 128 times."""
    for total, piece in zip(totals, blocks(y.shape[0], ROWS)):
        result = tile(length(piece), y.shape[1], y.dtype)
        nisa.activation(dst=result, op=nl.copy, data=total)
        nisa.dma_copy(dst=y[piece], src=result)


def one_by_one(y, last, before, inputs, own):
    """Few times, [B, T, I]: a partition has neighbouring channels of some sequences, and all their states."""
    full = own.count // ROWS
    parts = [(slice(0, ROWS * full), ROWS, full)] if full else []
    if own.count > ROWS * full:
        parts.append((slice(ROWS * full, own.count), own.count - ROWS * full, 1))
    x, step, b, c = inputs
    for part, height, deep in parts:
        decay = load(own.decay[part].reshape((height, 1, deep, own.states)), nl.float32)
        skip = None
        if own.skip != None:
            skip = load(own.skip[part].reshape((height, 1, deep)))
        for some in blocks(x.shape[0], max(1, SCANNED // (deep * own.states))):
            h = begin(before, some, part, (height, length(some), deep, own.states))
            for t in range(x.shape[1]):
                now = [dealt(one[some, t, part], height, deep) for one in (x, step)]
                shared = [repeated(one[some, t], height) for one in (b, c)]
                seen = advance(h, now, shared, decay, own.softplus)
                store_time(y[some, t, part], seen, now[0], skip)
            for at in range(length(some)):
                place = last[some.start + at, part].reshape((height, deep, own.states))
                nisa.dma_copy(dst=place, src=h[:, at], engine=nisa.engine.gpsimd)


def begin(before, some, part, shape):
    """The states of some sequences, [channels, sequences, deep, S]."""
    h = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    if before == None:
        nisa.memset(dst=h, value=0.0)
        return h
    for at in range(length(some)):
        source = before[some.start + at, part].reshape((shape[0], shape[2], shape[3]))
        nisa.dma_copy(dst=h[:, at], src=source, engine=nisa.engine.scalar)
    return h


def dealt(values, height, deep):
    """[sequences, channels] of HBM, neighbouring channels on one partition: [height, sequences, deep]."""
    return load(values.reshape_dim(1, (height, deep)).permute((1, 0, 2)))


def repeated(values, height):
    """[sequences, S] of HBM on all partitions."""
    return load(values.expand_dim(0).broadcast(0, height))


def advance(h, now, shared, decay, softplus):
    """Every state one time on, and what is seen of it, [channels, sequences, deep] fp32."""
    height, count, deep, states = h.shape
    x, step = now
    b, c = [one.expand_dim(2).broadcast(2, deep) for one in shared]
    wide, moved, seen = [nl.ndarray((height, count, deep), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3)]
    nisa.activation(dst=wide, op=nl.softplus if softplus else nl.copy, data=step)
    nisa.tensor_tensor(dst=moved, data1=wide, data2=x, op=nl.multiply)
    factor, added, weighed = [nl.ndarray(h.shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(3)]
    wide, moved = [one.expand_dim(3).broadcast(3, states) for one in (wide, moved)]
    idle = nisa.engine.gpsimd
    nisa.tensor_tensor(dst=factor, data1=decay.broadcast(1, count), data2=wide, op=nl.multiply, engine=idle)
    nisa.activation(dst=factor, op=nl.exp, data=factor)
    nisa.tensor_tensor(dst=added, data1=moved, data2=b, op=nl.multiply, engine=idle)
    nisa.tensor_tensor(dst=h, data1=h, data2=factor, op=nl.multiply)
    nisa.tensor_tensor(dst=h, data1=h, data2=added, op=nl.add)
    nisa.tensor_tensor(dst=weighed, data1=h, data2=c, op=nl.multiply, engine=idle)
    nisa.tensor_reduce(dst=seen, op=nl.add, data=weighed, axis=3)
    return seen


def store_time(y, seen, x, skip):
    """y = seen + skip * x"""
    height, count, deep = seen.shape
    result, past = [nl.ndarray(seen.shape, dtype=kind, buffer=nl.sbuf) for kind in (y.dtype, nl.float32)]
    if skip != None:
        nisa.tensor_tensor(dst=past, data1=x, data2=skip.broadcast(1, count), op=nl.multiply)
        nisa.tensor_tensor(dst=result, data1=seen, data2=past, op=nl.add)
    else:
        nisa.tensor_copy(dst=result, src=seen)
    place = y.reshape_dim(1, (height, deep)).permute((1, 0, 2))
    nisa.dma_copy(dst=place, src=result, engine=nisa.engine.gpsimd)
