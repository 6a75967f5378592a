"""What an instruction says it reads and writes is what it reads and writes: dependencies follow from it."""

import numpy as np
import pytest

import sim.nki.language as nl
from sim import dtypes
from sim.nki import isa as nisa
from sim.nki.functions import AluOp
from sim.program import Role
from tests.chip import HBM, PSUM, SBUF, Chip

BF16, U8, U16, U32, I32 = "bfloat16", "uint8", "uint16", "uint32", "int32"
RESET_REDUCE = nisa.reduce_cmd.reset_reduce


class Full:
    """Tensors with random contents; numbers below 8 where they serve as indices."""

    def __init__(self, chip):
        self.chip = chip
        self.random = np.random.default_rng(0)

    def __call__(self, *shape, dtype="float32", memory=SBUF):
        tensor = self.chip.tensor(shape, dtype, memory)
        kind = dtypes.parse(dtype)
        if kind in dtypes.PACKED or kind == dtypes.float8_e8m0fnu:
            contents = self.random.integers(120, 124, tensor.storage.nbytes, np.uint8)
        elif kind in dtypes.INTEGERS:
            contents = self.random.integers(1, 8, shape).astype(kind)
        else:
            contents = dtypes.cast(self.random.standard_normal(shape).astype(np.float32), kind)
        tensor.storage.fill(contents)
        return tensor

    def p(self, *shape, dtype="float32"):
        return self(*shape, dtype=dtype, memory=PSUM)

    def h(self, *shape, dtype="float32"):
        return self(*shape, dtype=dtype, memory=HBM)


def indexed(t):
    return t.h(16, 8).ap([[8, 4], [1, 8]], vector_offset=t(4, 1, dtype=U32))


def scaled(t, *shape):
    """A packed tile and its scales."""
    return t(*shape, dtype="float8_e4m3fn_x4"), t(*shape, dtype=U8)


def mx(t):
    (a, a_scale), (b, b_scale) = scaled(t, 32, 4), scaled(t, 32, 6)
    return nisa.nc_matmul_mx(t.p(4, 6), a, b, a_scale, b_scale)


CALLS = {
    "nc_matmul": lambda t: nisa.nc_matmul(t.p(4, 6), t(8, 4), t(8, 6)),
    "nc_matmul accumulate": lambda t: nisa.nc_matmul(t.p(4, 6), t(8, 4), t(8, 6), accumulate=True),
    "nc_matmul_mx": mx,
    "nc_transpose": lambda t: nisa.nc_transpose(t.p(64, 40), t(40, 64)),
    "nc_transpose vector": lambda t: nisa.nc_transpose(t(6, 4), t(4, 6), engine=nisa.engine.vector),
    "tensor_copy": lambda t: nisa.tensor_copy(t(4, 6), t.p(4, 6)),
    "memset": lambda t: nisa.memset(t(4, 6), 9.5),
    "tensor_tensor": lambda t: nisa.tensor_tensor(t(4, 6), t(4, 6), t(4, 6), nl.add),
    "tensor_scalar": lambda t: nisa.tensor_scalar(t(4, 6), t(4, 6), nl.add, t(4, 1), False, nl.multiply, t(4, 1)),
    "scalar_tensor_tensor": lambda t: nisa.scalar_tensor_tensor(t(4, 6), t(4, 6), nl.add, t(4, 1), nl.add, t(4, 6)),
    "reciprocal": lambda t: nisa.reciprocal(t(4, 6), t(4, 6)),
    "tensor_reduce": lambda t: nisa.tensor_reduce(t(4, 1), nl.add, t(4, 6), 1),
    "tensor_tensor_scan": lambda t: nisa.tensor_tensor_scan(t(4, 6), t(4, 6), t(4, 6), t(4, 1), nl.add, nl.add),
    "tensor_scalar_cumulative": lambda t: nisa.tensor_scalar_cumulative(
        t(4, 6), t(4, 6), nl.add, nl.add, t(4, 1), t(4, 1), nisa.reduce_cmd.load_reduce
    ),
    "tensor_scalar_reduce": lambda t: nisa.tensor_scalar_reduce(t(4, 6), t(4, 6), nl.add, t(4, 1), nl.add, t(4, 1)),
    "bn_stats": lambda t: nisa.bn_stats(t(4, 6), t(4, 9)),
    "bn_aggr": lambda t: nisa.bn_aggr(t(4, 2), t(4, 6)),
    "activation": lambda t: nisa.activation(t(4, 6), nl.exp, t(4, 6), t(4, 1), t(4, 1)),
    "activation reduce": lambda t: nisa.activation_reduce(t(4, 6), nl.exp, t(4, 6), nl.add, t(4, 1)),
    "activate2": lambda t: nisa.activate2(t(4, 6), nl.exp, t(4, 6), t(4, 1), t(4, 1), nl.multiply, nl.add),
    "exponential": lambda t: nisa.exponential(t(4, 6), t(4, 6), t(4, 1), t(4, 1), RESET_REDUCE),
    "quantize_mx": lambda t: nisa.quantize_mx(
        t(32, 2, dtype="float8_e4m3fn_x4"), t(32, 8, dtype=BF16), t(32, 2, dtype=U8)
    ),
    "tensor_copy_predicated": lambda t: nisa.tensor_copy_predicated(t(4, 6), t(4, 6), t(4, 6, dtype=U8)),
    "select_reduce": lambda t: nisa.select_reduce(t(4, 6), t(4, 6, dtype=U8), t(4, 6), t(4, 1), t(4, 1), RESET_REDUCE),
    "range_select": lambda t: nisa.range_select(
        t(4, 6), t(4, 6), nl.greater, nl.less, t(4, 1), t(4, 1), reduce_res=t(4, 1)
    ),
    "max8": lambda t: nisa.max8(t(4, 8), t(4, 20)),
    "nc_find_index8": lambda t: nisa.nc_find_index8(t(4, 8, dtype=U32), t(4, 20), t(4, 8)),
    "nc_match_replace8": lambda t: nisa.nc_match_replace8(t(4, 20), t(4, 20), t(4, 8), 0.5, t(4, 8, dtype=U32)),
    "nc_stream_shuffle": lambda t: nisa.nc_stream_shuffle(t(32, 6), t(32, 6), [*range(1, 32), 255]),
    "iota": lambda t: nisa.iota(t(4, 6), [[1, 6]], 100),
    "affine_select": lambda t: nisa.affine_select(t(4, 6), [[1, 6]], 1, t(4, 6), 0.5, nl.greater),
    "local_gather": lambda t: nisa.local_gather(t(16, 16), t(16, 8), t(16, 1, dtype=U16)),
    "nc_n_gather": lambda t: nisa.nc_n_gather(t(4, 6), t(4, 8), t(4, 6, dtype=U32)),
    "nonzero_with_count": lambda t: nisa.nonzero_with_count(t(16, 7, dtype=I32), t(16, 6)),
    "sequence_bounds": lambda t: nisa.sequence_bounds(t(1, 2, 6), t(1, 6, dtype=I32)),
    "tensor_partition_reduce": lambda t: nisa.tensor_partition_reduce(t(1, 6), nl.add, t(4, 6)),
    "topk": lambda t: nisa.topk(t(16, 3, dtype=BF16), t(16, 3, dtype=U32), t(16, 2, dtype=BF16), 20),
    "rng": lambda t: nisa.rng(t(4, 6, dtype=U32)),
    "rand2": lambda t: nisa.rand2(t(4, 6), t(4, 1), t(4, 1)),
    "dropout": lambda t: nisa.dropout(t(4, 6), t(4, 6), t(4, 1)),
    "set_rng_seed": lambda t: nisa.set_rng_seed(t(1, 1, dtype=U32)),
    "rand_set_state": lambda t: nisa.rand_set_state(t(4, 6, dtype=U32)),
    "rand_get_state": lambda t: nisa.rand_get_state(t(4, 6, dtype=U32)),
    "dma_copy load": lambda t: nisa.dma_copy(t(4, 6), t.h(4, 6)),
    "dma_copy store": lambda t: nisa.dma_copy(t.h(4, 6), t(4, 6)),
    "dma_copy gather": lambda t: nisa.dma_copy(t(4, 8), indexed(t)),
    "dma_copy scatter": lambda t: nisa.dma_copy(indexed(t), t(4, 8)),
    "dma_transpose": lambda t: nisa.dma_transpose(t(6, 4), t.h(4, 6)),
    "dma_compute": lambda t: nisa.dma_compute(t(4, 6), [t.h(4, 6), t(4, 6)], nl.add),
    "register_load": lambda t: nisa.register_load(nisa.VirtualRegister(), t(1, 1, dtype=I32)),
    "register_store": lambda t: nisa.register_store(t(1, 1, dtype=I32), nisa.register_alloc(99)),
    "power": lambda t: nisa.tensor_tensor(t(4, 6), t(4, 6), t(4, 6), AluOp("power")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_written_changes_and_what_is_read_does_not(call):
    with Chip("trn3") as chip:
        made = []
        allocate = chip.program.allocate

        def remembered(*args, **named):
            made.append(allocate(*args, **named))
            return made[-1]

        chip.program.allocate = remembered
        issue, before = chip.program.issue, {}

        def watched(op, operands, *rest, **named):
            for view in operands:
                before.setdefault(view.storage.index, view.storage.bytes.tobytes())
            return issue(op, operands, *rest, **named)

        chip.program.issue = watched
        call(Full(chip))
        program = chip.program.finish()
    written = set()
    for number, first, last in zip(program.form, program.operand_start, program.operand_start[1:], strict=False):
        for role, (storage, *_) in zip(program.forms[number].roles, program.operands[first:last], strict=True):
            if role is not Role.READ:
                written.add(int(storage))
    changed = {index for index, old in before.items() if program.storages[index].bytes.tobytes() != old}
    assert changed == written
    assert len(before) == len(made), "every tensor of the call is an operand"


def test_every_operand_that_may_stay_as_it_was_is_also_read():
    for name in ("tensor_copy_predicated", "nc_stream_shuffle", "nonzero_with_count"):
        with Chip("trn3") as chip:
            CALLS[name](Full(chip))
            roles = dict.fromkeys(zip(chip.form.roles, chip.program.finish().operands[:, 0].tolist(), strict=True))
        assert {(Role.WRITE, 0), (Role.READ, 0)} <= set(roles), name
