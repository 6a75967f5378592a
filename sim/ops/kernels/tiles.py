"""What the kernels share: how a size is cut into tiles, and how a program takes its share of them."""

import nki.isa as nisa
import nki.language as nl

ROWS = 128  # partitions of SBUF and PSUM
BANK = 512  # fp32 columns of a bank of PSUM: the widest product
BANK_BYTES = 2048


def blocks(size, width, first=0):
    """The slices that cut `size` elements from `first` on into pieces of `width`, the last one as long as is left."""
    return [slice(at, min(at + width, first + size)) for at in range(first, first + size, width)]


def length(piece):
    """Elements of a slice."""
    return piece.stop - piece.start


def share(size, width):
    """The slice of `size` that this program of the grid takes, in whole multiples of `width` while they last."""
    programs = nl.num_programs(0)
    each = -(-size // (width * programs)) * width
    first = min(size, nl.program_id(0) * each)
    return slice(first, min(size, first + each))


def even(size, most, width):
    """The width, a multiple of `width` and at most `most`, that cuts `size` into pieces of about the same length."""
    pieces = -(-size // most)
    return min(most, -(-size // (pieces * width)) * width)


def in_bank(shape, number, part=0, dtype=nl.float32):
    """A tile in one bank of PSUM, from byte `part` on: where tiles of several sizes take turns, a place is chosen."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum, address=(0, number * BANK_BYTES + part))


def pair(value):
    """One number stands for both axes of an image."""
    return (value, value) if isinstance(value, int) else tuple(value)


def itemsize(dtype):
    """Bytes of an element."""
    name = str(dtype)
    return 4 if "32" in name else 2 if "16" in name else 1


def tile(rows, columns, dtype=nl.float32):
    """A tile in SBUF."""
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)


def product(rows, columns):
    """A tile in PSUM: one bank or less of fp32."""
    return nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)


def column(value, columns=1, rows=ROWS):
    """A tile that holds one number, as the engines want it for a bias."""
    filled = tile(rows, columns)
    nisa.memset(dst=filled, value=value)
    return filled


def load(source, dtype=None):
    """A tile with the rows of a tensor in HBM."""
    loaded = nl.ndarray(source.shape, dtype=dtype or source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=source)
    return loaded


def load_repeated(row, rows=ROWS):
    """A vector in HBM on `rows` partitions: the DMA engines read it once for each."""
    (columns,) = row.shape
    return load(row.reshape((1, columns)).broadcast(0, rows))


def leave_psum(dst, src, turn):
    """Copy out of PSUM, on the Vector and the Scalar Engine by turns."""
    if turn % 2:
        nisa.activation(dst=dst, op=nl.copy, data=src)
    else:
        nisa.tensor_copy(dst=dst, src=src)
