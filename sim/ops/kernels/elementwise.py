"""Elementwise operators: every byte comes once, is used once, and goes once, so that HBM is the only limit.

Nothing is stationary but what is broadcast. The elements are dealt out so that each partition has one long run of
bytes in HBM (a descriptor of 8 KiB, not a row of whatever length the tensor happens to have), and a tile is a
megabyte: while one is computed, the next is loaded and the one before stored.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, itemsize, length, share

RUN = 8192  # bytes of a partition's run in HBM
LEAST_RUN = 1024  # below that a descriptor costs more than its bytes
TILES = 8  # that even a small tensor is cut into, so that load, computation and store overlap

UNARY = {
    "gelu": nl.gelu,
    "gelu_tanh": nl.gelu_apprx_tanh,
    "silu": nl.silu,
    "relu": nl.relu,
    "sigmoid": nl.sigmoid,
    "tanh": nl.tanh,
    "exp": nl.exp,
    "log": nl.log,
    "sqrt": nl.sqrt,
    "rsqrt": nl.rsqrt,
    "reciprocal": nl.reciprocal,
    "square": nl.square,
    "abs": nl.abs,
    "sign": nl.sign,
    "softplus": nl.softplus,
    "erf": nl.erf,
    "sin": nl.sin,
    "copy": nl.copy,
}
BINARY = {
    "add": nl.add,
    "sub": nl.subtract,
    "mul": nl.multiply,
    "max": nl.maximum,
    "min": nl.minimum,
    "pow": nl.power,
    "equal": nl.equal,
    "not_equal": nl.not_equal,
    "less": nl.less,
    "less_equal": nl.less_equal,
    "greater": nl.greater,
    "greater_equal": nl.greater_equal,
}
BEFORE = {
    "silu_multiply": (nl.silu, 0),
    "gelu_multiply": (nl.gelu, 0),
    "gelu_tanh_multiply": (nl.gelu_apprx_tanh, 0),
    "relu_multiply": (nl.relu, 0),
    "div": (nl.reciprocal, 1),
}
"""Products of which one operand goes through a function of ScalarE first: the function, and which operand."""


@nki.jit
def elementwise(x, y=None, kind="add", scalar=None, dtype=None):
    """kind(x) or kind(x, y), of tensors whose shapes broadcast as NumPy's do, or kind(x, scalar)."""
    shape = broadcast_shape(x.shape, y.shape if y != None else (1,))
    out = nl.ndarray(shape, dtype=dtype or x.dtype, buffer=nl.shared_hbm)
    operands = [x] if y == None else [x, y]
    sizes, forms = groups(shape, [operand.shape for operand in operands])
    views = [tensor.reshape(form) for tensor, form in zip(operands, forms)]
    over_groups(out.reshape(sizes), views, Function(kind, scalar))
    return out


@nki.jit
def cast(x, dtype=nl.float32):
    """The values of x in another format; the DMA engines would convert too, but in pieces of 512 bytes or less."""
    out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
    flat = (1, size_of(x.shape))
    over_groups(out.reshape(flat), [x.reshape(flat)], Function("copy", None))
    return out


def size_of(shape):
    size = 1
    for extent in shape:
        size *= extent
    return size


def broadcast_shape(one, other):
    """The shape that NumPy gives two shapes together."""
    rank = max(len(one), len(other))
    one, other = (1,) * (rank - len(one)) + tuple(one), (1,) * (rank - len(other)) + tuple(other)
    return tuple([max(a, b) for a, b in zip(one, other)])


def groups(shape, shapes):
    """Neighbouring dimensions that every operand has, or lacks, together are one: sizes, and each operand's."""
    rank = len(shape)
    padded = [(1,) * (rank - len(each)) + tuple(each) for each in shapes]
    sizes, had = [], []
    for at, extent in enumerate(shape):
        here = [each[at] == extent for each in padded]
        if sizes and (extent == 1 or here == had[-1]):
            sizes[-1] *= extent
        elif sizes and sizes[-1] == 1:
            sizes[-1], had[-1] = extent, here
        else:
            sizes.append(extent)
            had.append(here)
    while len(sizes) < 2:
        sizes.insert(0, 1)
        had.insert(0, [True] * len(shapes))
    forms = [[size if has[i] else 1 for size, has in zip(sizes, had)] for i in range(len(shapes))]
    return sizes, forms


def over_groups(out, operands, function, run=RUN):
    """Two groups are rows and columns; of more, the first is a loop."""
    if len(out.shape) > 2:
        for at in range(out.shape[0]):
            over_groups(out[at], [each[at if each.shape[0] > 1 else 0] for each in operands], function, run)
        return
    rows, columns = out.shape
    if rows == 1 and all([each.shape == out.shape for each in operands]):
        rows, columns = columns, 1
        out, operands = out.reshape((rows, 1)), [each.reshape((rows, 1)) for each in operands]
    mine = share(rows, 1)
    wide = max([itemsize(each.dtype) for each in [out, *operands]])
    width = min(columns, run // wide)
    for first in range(0, columns, width):
        part = slice(first, min(columns, first + width))
        sources = [Source(each, part) for each in operands]
        for first_row, height, deep in pieces(mine, length(part) * wide, run):
            sized = (height, deep, length(part))
            compute(out, sources, function, first_row, sized, part)


def pieces(rows, bytes_a_row, run=RUN):
    """(first row, partitions, rows a partition) of tiles that cover some rows, each partition one run of them."""
    left, first, found = length(rows), rows.start, []
    even = -(-left // (ROWS * TILES))
    deep = max(1, min(run // bytes_a_row, max(even, LEAST_RUN // bytes_a_row)))
    while left > 0:
        deep = min(deep, -(-left // ROWS))
        height = min(ROWS, left // deep)
        found.append((first, height, deep))
        first, left = first + height * deep, left - height * deep
    return found


class Source(nl.NKIObject):
    """Some columns of an operand [rows or 1, columns or 1]; what does not change with the rows is loaded once."""

    def __init__(self, tensor, part):
        rows, columns = tensor.shape
        self.tensor = tensor[:, part] if columns > 1 else tensor
        self.narrow = columns == 1 and length(part) > 1
        self.kept = None
        if rows == 1:
            self.kept = self.load_tile(self.tensor.broadcast(0, ROWS), 0, (ROWS, 1))

    def load_tile(self, tensor, first_row, sized):
        height, deep = sized
        columns = tensor.shape[1]
        source = tensor[first_row : first_row + height * deep].reshape_dim(0, (height, deep))
        loaded = nl.ndarray((height, deep, columns), dtype=tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=loaded, src=source)
        return loaded

    def tile(self, first_row, sized):
        """[partitions, rows a partition, columns], repeated where the operand is broadcast."""
        height, deep, columns = sized
        if self.kept != None:
            found = self.kept[0:height].broadcast(1, deep) if deep > 1 else self.kept[0:height]
        else:
            found = self.load_tile(self.tensor, first_row, (height, deep))
        return found.broadcast(2, columns) if self.narrow else found


class Function(nl.NKIObject):
    """What is computed, by its name."""

    def __init__(self, kind, scalar):
        assert kind in UNARY or kind in BINARY or kind in BEFORE or kind == "neg", "unknown kind"
        self.kind, self.scalar = kind, scalar

    def apply(self, dst, tiles):
        if self.kind == "neg":
            nisa.tensor_scalar(dst=dst, data=tiles[0], op0=nl.multiply, operand0=-1.0)
        elif self.kind in UNARY:
            nisa.activation(dst=dst, op=UNARY[self.kind], data=tiles[0])
        elif len(tiles) == 1:
            self.with_number(dst, tiles[0])
        elif self.kind in BINARY:
            nisa.tensor_tensor(dst=dst, data1=tiles[0], data2=tiles[1], op=BINARY[self.kind])
        else:
            op, which = BEFORE[self.kind]
            changed = nl.ndarray(dst.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=changed, op=op, data=tiles[which])
            nisa.tensor_tensor(dst=dst, data1=changed, data2=tiles[1 - which], op=nl.multiply)

    def with_number(self, dst, data):
        if self.kind == "div":
            nisa.tensor_scalar(dst=dst, data=data, op0=nl.multiply, operand0=1.0 / self.scalar)
        else:
            nisa.tensor_scalar(dst=dst, data=data, op0=BINARY[self.kind], operand0=self.scalar)


def compute(out, sources, function, first_row, sized, part):
    """One tile of the result."""
    height, deep, _ = sized
    result = nl.ndarray(sized, dtype=out.dtype, buffer=nl.sbuf)
    function.apply(result, [source.tile(first_row, sized) for source in sources])
    place = out[first_row : first_row + height * deep, part].reshape_dim(0, (height, deep))
    nisa.dma_copy(dst=place, src=result, engine=nisa.engine.gpsimd)
