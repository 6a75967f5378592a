"""Several functions of each element: what a compiler makes of a chain of elementwise operators.

Every tensor is read once and the result is written once; what lies between stays on chip. Tiles are dealt out as for
one function (`elementwise`), and are smaller the more steps there are, so that all of a step's tiles fit.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .elementwise import BEFORE, BINARY, RUN, UNARY, broadcast_shape, groups, over_groups

FORMATS = {
    "fp32": nl.float32,
    "int32": nl.int32,
    "uint32": nl.uint32,
    "int16": nl.int16,
    "uint16": nl.uint16,
    "int8": nl.int8,
    "uint8": nl.uint8,
}
MORE_UNARY = {"arctan": nl.arctan}
MORE_BINARY = {
    "mod": nl.mod,
    "fmod": nl.fmod,
    "and": nl.logical_and,
    "or": nl.logical_or,
    "xor": nl.logical_xor,
    "bitwise_and": nl.bitwise_and,
    "bitwise_or": nl.bitwise_or,
    "bitwise_xor": nl.bitwise_xor,
    "left_shift": nl.left_shift,
    "right_shift": nl.right_shift,
}
LEAST_TILE = 512  # bytes of a partition


@nki.jit
def expression(a, b=None, c=None, d=None, e=None, f=None, g=None, h=None, steps=(), dtype=None):
    """The last of some steps: (function, format, operands …), an operand being the number of a tensor or step."""
    tensors = [one for one in (a, b, c, d, e, f, g, h) if one != None]
    shape = (1,)
    for tensor in tensors:
        shape = broadcast_shape(shape, tensor.shape)
    out = nl.ndarray(shape, dtype=dtype or a.dtype, buffer=nl.shared_hbm)
    sizes, forms = groups(shape, [tensor.shape for tensor in tensors])
    views = [tensor.reshape(form) for tensor, form in zip(tensors, forms)]
    run = max(LEAST_TILE, 4 * RUN // max(4, len(tensors) + 2 * len(steps)))
    over_groups(out.reshape(sizes), views, Expression(steps), run)
    return out


class Expression(nl.NKIObject):
    """Steps over tiles; each but the last has a tile of its own."""

    def __init__(self, steps):
        self.steps = steps

    def apply(self, dst, tiles):
        made = list(tiles)
        for number, step in enumerate(self.steps):
            kind, form = step[0], FORMATS[step[1]]
            target = dst
            if number < len(self.steps) - 1:
                target = nl.ndarray(dst.shape, dtype=form, buffer=nl.sbuf)
            compute(target, kind, [one if isinstance(one, float) else made[one] for one in step[2:]])
            made.append(target)


def compute(dst, kind, given):
    """One step."""
    if kind == "select":
        choose(dst, given)
    elif kind in ("floor", "trunc", "ceil", "round", "not", "invert", "neg", "copy"):
        simple(dst, kind, given[0])
    elif kind in UNARY or kind in MORE_UNARY:
        nisa.activation(dst=dst, op=UNARY[kind] if kind in UNARY else MORE_UNARY[kind], data=given[0])
    elif kind in BEFORE:
        op, which = BEFORE[kind]
        if isinstance(given[which], float):
            nisa.tensor_scalar(dst=dst, data=given[1 - which], op0=nl.multiply, operand0=1.0 / given[which])
            return
        changed = nl.ndarray(dst.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=changed, op=op, data=given[which])
        pair(dst, nl.multiply, given[1 - which], changed)
    else:
        pair(dst, BINARY[kind] if kind in BINARY else MORE_BINARY[kind], given[0], given[1])


def pair(dst, op, x, y):
    """A function of two tiles, or of a tile and a number on either side."""
    if isinstance(x, float):
        nisa.tensor_scalar(dst=dst, data=y, op0=op, operand0=x, reverse0=True)
    elif isinstance(y, float):
        nisa.tensor_scalar(dst=dst, data=x, op0=op, operand0=y)
    else:
        nisa.tensor_tensor(dst=dst, data1=x, data2=y, op=op)


def choose(dst, given):
    """The second where the first is not 0, else the third."""
    mask, yes, no = given
    if mask.dtype not in (nl.uint8, nl.uint16, nl.uint32):
        truth = nl.ndarray(dst.shape, dtype=nl.uint8, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=truth, data=mask, op0=nl.not_equal, operand0=0.0)
        mask = truth
    if isinstance(no, float):
        nisa.memset(dst=dst, value=no)
    else:
        nisa.tensor_copy(dst=dst, src=no)
    if not isinstance(yes, float) and yes.dtype != dst.dtype:
        same = nl.ndarray(dst.shape, dtype=dst.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=same, src=yes)
        yes = same
    nisa.tensor_copy_predicated(dst=dst, src=yes, predicate=mask)


def simple(dst, kind, x):
    """Functions of one tile that VectorE has no name for."""
    if kind == "copy":
        nisa.tensor_copy(dst=dst, src=x)
    elif kind == "neg":
        nisa.tensor_scalar(dst=dst, data=x, op0=nl.multiply, operand0=-1.0)
    elif kind == "not":
        nisa.tensor_scalar(dst=dst, data=x, op0=nl.equal, operand0=0.0)
    elif kind == "invert":
        nisa.tensor_scalar(dst=dst, data=x, op0=nl.bitwise_xor, operand0=-1)
    elif kind == "round":
        whole = nl.ndarray(dst.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=whole, src=x)
        nisa.tensor_copy(dst=dst, src=whole)
    else:
        rest = nl.ndarray(dst.shape, dtype=nl.float32, buffer=nl.sbuf)
        if kind == "ceil":
            negative = nl.ndarray(dst.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=negative, data=x, op0=nl.multiply, operand0=-1.0)
            nisa.tensor_scalar(dst=rest, data=negative, op0=nl.mod, operand0=1.0)
            nisa.tensor_tensor(dst=dst, data1=x, data2=rest, op=nl.add)
            return
        nisa.tensor_scalar(dst=rest, data=x, op0=nl.mod if kind == "floor" else nl.fmod, operand0=1.0)
        nisa.tensor_tensor(dst=dst, data1=x, data2=rest, op=nl.subtract)
