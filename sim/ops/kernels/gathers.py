"""Rows by their number: embedding, gather, and the update of a paged key or value cache.

Nothing is computed. GpSimd writes a descriptor for each row from numbers that lie on the partitions, one each, and the
DMA engines fetch or put 128 rows at a time; the table itself is never read as a whole.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, blocks, itemsize, length, share, tile

LARGEST_ROW = 32768  # bytes of a row that are on chip at a time


@nki.jit
def embedding(ids, table):
    """table [V, H] rows by ids [T] -> [T, H]"""
    return rows_by_number(table, ids)


@nki.jit
def gather(x, indices):
    """x [N, …] along its first dimension by indices [T] -> [T, …]"""
    return rows_by_number(x, indices)


def rows_by_number(table, numbers):
    (T,) = numbers.shape
    out = nl.ndarray((T, *table.shape[1:]), dtype=table.dtype, buffer=nl.shared_hbm)
    width = 1
    for extent in table.shape[1:]:
        width *= extent
    rows, target = table.reshape((table.shape[0], width)), out.reshape((T, width))
    mine = share(T, 1)
    for block in blocks(length(mine), ROWS, mine.start):
        chosen = load_numbers(numbers[block])
        for part in blocks(width, LARGEST_ROW // itemsize(table.dtype)):
            fetched = tile(length(block), length(part), table.dtype)
            nisa.dma_copy(dst=fetched, src=by_number(rows, chosen, part))
            nisa.dma_copy(dst=target[block, part], src=fetched)
    return out


def load_numbers(numbers):
    """One number a partition."""
    (count,) = numbers.shape
    chosen = tile(count, 1, numbers.dtype)
    nisa.dma_copy(dst=chosen, src=numbers.reshape((count, 1)))
    return chosen


def by_number(rows, chosen, part):
    """Some columns of the rows [N, W] of a table whose numbers lie on the partitions of `chosen`."""
    pattern = [[rows.shape[1], chosen.shape[0]], [1, length(part)]]
    return rows.ap(pattern=pattern, offset=part.start, vector_offset=chosen, indirect_dim=0)


@nki.jit
def kv_cache_update(cache, new, slots, in_pages=False):
    """Put new [T, Hkv, D] into cache [P, Hkv, page, D] at slots [T], counted over all pages; the page a power of two.

    The cache is written in place. Of a prompt, `in_pages` promises that each `page` tokens fill a page in order: one
    number a page is read, and one DMA a head writes up to 128 pages.
    """
    P, heads, page, D = cache.shape
    assert page & (page - 1) == 0, "a page has a power of two of slots"
    rows = cache.reshape((P * heads * page, D))
    full = 0
    if in_pages:
        full = new.shape[0] // page
        own = share(full, 1)
        for group in blocks(length(own), ROWS, own.start):
            put_pages(rows, new, slots, group, page)
    rest = new.shape[0] - full * page
    mine = share(rest, 1)
    for block in blocks(length(mine), ROWS, full * page + mine.start):
        count = length(block)
        data = nl.ndarray((count, heads, D), dtype=cache.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=data, src=new[block])
        # One number a token finds its row of the first head; those of the others lie a page further each.
        pattern = [[D, count], [page * D, heads], [1, D]]
        first = first_rows(load_numbers(slots[block]), heads, page)
        nisa.dma_copy(dst=rows.ap(pattern=pattern, vector_offset=first, indirect_dim=0), src=data)
    return cache


def put_pages(rows, new, slots, group, page):
    """Whole pages from HBM to HBM, all of a head in one DMA."""
    heads, D = new.shape[1:]
    count = length(group)
    numbers, scale, first = [tile(count, 1, nl.int32) for _ in range(3)]
    nisa.dma_copy(dst=numbers, src=slots.ap(pattern=[[page, count], [1, 1]], offset=group.start * page))
    nisa.memset(dst=scale, value=heads)
    nisa.tensor_tensor(dst=first, data1=numbers, data2=scale, op=nl.multiply)
    for head in range(heads):
        begin = (group.start * page * heads + head) * D
        taken = new.ap(pattern=[[page * heads * D, count], [heads * D, page], [1, D]], offset=begin)
        pattern = [[D, count], [D, page], [1, D]]
        put = rows.ap(pattern=pattern, offset=head * page * D, vector_offset=first, indirect_dim=0)
        nisa.dma_copy(dst=put, src=taken)


def first_rows(slots, heads, page):
    """slot // page * heads * page + slot % page"""
    count = slots.shape[0]
    inside, before, scale, first = [tile(count, 1, nl.int32) for _ in range(4)]
    nisa.tensor_scalar(dst=inside, data=slots, op0=nl.bitwise_and, operand0=page - 1)
    nisa.tensor_scalar(dst=before, data=slots, op0=nl.bitwise_and, operand0=-page)
    nisa.memset(dst=scale, value=heads)
    nisa.tensor_tensor(dst=first, data1=before, data2=scale, op=nl.multiply)
    nisa.tensor_tensor(dst=first, data1=first, data2=inside, op=nl.add)
    return first
