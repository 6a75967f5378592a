"""`nki.collectives`: values over simulated ranks, time, and what is refused."""

import re

import numpy as np
import pytest

import sim
from sim import dtypes
from sim.collectives import exchange
from sim.engines import collectives as wire
from sim.engines import laws
from sim.errors import InputError
from sim.fabrics import holding
from sim.memory import Layout
from sim.nki import collectives as ncc
from sim.nki import language as nl
from sim.nki.collectives import ReplicaGroup
from sim.nki.isa import dma_copy
from sim.nki.kernel import jit
from sim.trace import Engine, Memory
from tests.chip import Chip, normal

RANKS = 4
ALL = ReplicaGroup([[0, 1, 2, 3]])
PAIRS = ReplicaGroup([[0, 1], [2, 3]])


def hbm(shape, dtype=np.float32):
    return nl.ndarray(shape, dtype, nl.shared_hbm)


def over_ranks(body, arrays, lnc=1, **scalars):
    """Outputs of every rank, each of which has its own input."""
    return [
        outputs[0] for outputs in sim.run(jit(body), sim.PerRank(tuple(arrays)), ranks=RANKS, lnc=lnc, **scalars).ranks
    ]


def inputs(*shape, dtype=np.float32):
    return [normal(*shape, seed=rank).astype(dtype) for rank in range(RANKS)]


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(("op", "fold"), [(nl.add, np.sum), (nl.maximum, np.max), (nl.minimum, np.min)])
def test_all_reduce_folds_within_the_group(op, fold, lnc):
    def kernel(x):
        source, out = hbm(x.shape), hbm(x.shape)
        dma_copy(source, x)
        ncc.all_reduce([source], [out], PAIRS, op)
        return out

    x = inputs(8, 6)
    for rank, got in enumerate(over_ranks(kernel, x, lnc)):
        np.testing.assert_allclose(got, fold(x[rank // 2 * 2 : rank // 2 * 2 + 2], axis=0), rtol=1e-6)


def test_low_precision_is_folded_in_fp32_and_rounded_once():
    def kernel(x):
        out = hbm(x.shape, nl.bfloat16)
        ncc.all_reduce([x], [out], ALL, nl.add)
        return out

    x = inputs(8, 6, dtype=dtypes.bfloat16)
    expected = dtypes.cast(np.sum([side.astype(np.float32) for side in x], axis=0), nl.bfloat16)
    for got in over_ranks(kernel, x):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dim", [0, 1])
def test_all_gather_joins_tiles_in_sbuf_along_either_dimension(dim):
    def kernel(x):
        tile = nl.load(x)
        shape = (8 * RANKS, 6) if dim == 0 else (8, 6 * RANKS)
        joined, out = nl.ndarray(shape, x.dtype), hbm(shape)
        ncc.all_gather([tile], [joined], ALL, dim)
        nl.store(out, joined)
        return out

    x = inputs(8, 6)
    for got in over_ranks(kernel, x):
        np.testing.assert_array_equal(got, np.concatenate(x, axis=dim))


def test_several_tensors_travel_together():
    def kernel(x):
        outs = [hbm((8 * RANKS, 6)), hbm((8 * RANKS, 6))]
        ncc.all_gather([x, x], outs, ALL, 0)
        return outs[1]

    x = inputs(8, 6)
    np.testing.assert_array_equal(over_ranks(kernel, x)[2], np.concatenate(x))


def test_reduce_scatter_gives_each_rank_its_part_of_the_sum():
    def kernel(x):
        out = hbm((2, 6))
        ncc.reduce_scatter([x], [out], ALL, 0, nl.add)
        return out

    x = inputs(8, 6)
    for rank, got in enumerate(over_ranks(kernel, x)):
        np.testing.assert_allclose(got, np.sum(x, axis=0)[2 * rank : 2 * rank + 2], rtol=1e-5)


def test_all_to_all_sends_part_i_to_rank_i():
    def kernel(x):
        out = hbm(x.shape)
        ncc.all_to_all([x], [out], ALL, 0)
        return out

    x = inputs(8, 6)
    for rank, got in enumerate(over_ranks(kernel, x)):
        np.testing.assert_array_equal(got, np.concatenate([side[2 * rank : 2 * rank + 2] for side in x]))


def test_a_permutation_moves_data_along_its_pairs_only():
    def kernel(x):
        out = hbm(x.shape)
        dma_copy(out, nl.zeros(x.shape, x.dtype))
        ncc.collective_permute([x], [out], [(0, 2), (2, 1)])
        return out

    x = inputs(8, 6)
    got = over_ranks(kernel, x)
    for rank, source in ((2, 0), (1, 2)):
        np.testing.assert_array_equal(got[rank], x[source])
    for rank in (0, 3):
        assert not got[rank].any()


def test_a_ring_brings_the_data_of_the_rank_before_and_says_whose_it_is():
    def kernel(x):
        out, held = hbm((RANKS, *x.shape)), x
        for step in range(RANKS):
            owner = ncc.collective_permute_implicit_current_processing_rank_id(step, ALL)
            rows = out.ap([[6, 8], [1, 6]], scalar_offset=owner, indirect_dim=0)
            dma_copy(rows, held)
            after = hbm(x.shape)
            ncc.collective_permute_implicit([[held]], [[after]], ALL)
            held = after
        return out

    x = inputs(8, 6)
    for got in over_ranks(kernel, x):
        np.testing.assert_array_equal(got, np.stack(x))


def test_a_ring_may_add_before_it_sends():
    def kernel(x):
        out = hbm(x.shape)
        ncc.collective_permute_implicit_reduce([[x]], [[x]], [[out]], ALL, nl.add)
        return out

    x = inputs(8, 6)
    for rank, got in enumerate(over_ranks(kernel, x)):
        np.testing.assert_array_equal(got, 2 * x[rank - 1])


def test_every_rank_knows_its_number():
    def kernel(table):
        out = hbm((1, 6))
        dma_copy(out, table.ap([[6, 1], [1, 6]], scalar_offset=ncc.rank_id(), indirect_dim=0))
        return out

    table = normal(RANKS, 6)
    for rank, got in enumerate(over_ranks(kernel, [table] * RANKS)):
        np.testing.assert_array_equal(got[0], table[rank])


def metadata(counts, displacements, places=None):
    rows = [counts, displacements, [0] * RANKS] + ([places] if places else [])
    return np.array(rows, np.uint32)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("placed", [False, True])
def test_all_to_all_v_sends_chunks_of_any_length(placed, split):
    def kernel(x, table):
        out, counts = hbm((40,)), hbm(table.shape, np.uint32)
        dma_copy(out, nl.zeros((1, 40), np.float32))
        held = hbm(table.shape, np.uint32)
        dma_copy(held, table)
        if split:
            prepared = ncc.all_to_all_v_prepare([x], [out], ALL, held, has_rdispls=placed)
            ncc.all_to_all_v_trigger(prepared)
        else:
            ncc.all_to_all_v([x], [out], ALL, held, has_rdispls=placed)
        dma_copy(counts, held)
        return out, counts

    x = [normal(16, seed=rank) for rank in range(RANKS)]
    counts = [[rank + 1, 2, 0, 1] for rank in range(RANKS)]
    starts = [[0, 5, 7, 9]] * RANKS
    places = [0, 12, 20, 31]
    tables = [metadata(counts[r], starts[r], places if placed else None) for r in range(RANKS)]
    device = "trn3" if placed else "trn2"
    run = sim.run(jit(kernel), sim.PerRank(tuple(x)), sim.PerRank(tuple(tables)), ranks=RANKS, device=device)
    for rank, (out, table) in enumerate(run.ranks):
        expected = np.zeros(40, np.float32)
        for sender in range(RANKS):
            at, size = (places[sender] if placed else 10 * sender), counts[sender][rank]
            expected[at : at + size] = x[sender][starts[sender][rank] :][:size]
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(table[2], [counts[sender][rank] for sender in range(RANKS)])


@pytest.mark.parametrize("split", [False, True])
def test_all_gather_v_sends_one_chunk_to_all(split):
    def kernel(x, table):
        out, held = hbm((40,)), hbm(table.shape, np.uint32)
        dma_copy(out, nl.zeros((1, 40), np.float32))
        dma_copy(held, table)
        if split:
            prepared = ncc.all_gather_v_prepare([x], [out], ALL, held, recv_counts_known=True)
            ncc.all_gather_v_trigger(prepared)
        else:
            ncc.all_gather_v([x], [out], ALL, held, recv_counts_known=True)
        return out, held

    x = [normal(16, seed=rank) for rank in range(RANKS)]
    tables = [metadata([rank + 2, 9, 9, 9], [rank, 9, 9, 9]) for rank in range(RANKS)]
    run = sim.run(jit(kernel), sim.PerRank(tuple(x)), sim.PerRank(tuple(tables)), ranks=RANKS, lnc=2)
    expected = np.zeros((RANKS, 10), np.float32)
    for sender in range(RANKS):
        expected[sender, : sender + 2] = x[sender][sender : 2 * sender + 2]
    for out, table in run.ranks:
        np.testing.assert_array_equal(out, expected.ravel())
        assert not table[2].any(), "counts that are known are not written back"


def test_time_needs_no_other_rank():
    def kernel(x):
        out = hbm(x.shape)
        ncc.all_reduce([x], [out], ALL, nl.add)
        return out

    x = normal(128, 512)
    alone = sim.run(jit(kernel), x, values=False)
    together = sim.run(jit(kernel), x, ranks=RANKS)
    assert alone.latency_ns == together.latency_ns
    assert list(alone.trace.transfers.queue.tolist()) == together.trace.transfers.queue.tolist()


def test_an_exchange_has_a_row_of_its_own_from_the_trigger_until_its_end_is_told():
    def kernel(x):
        out = hbm(x.shape)
        ncc.all_reduce([x], [out], ALL, nl.add)
        return out

    trace = sim.run(jit(kernel), normal(128, 512), values=False).trace
    ins = trace.instructions
    (row,) = np.flatnonzero(ins.engine == Engine.COLLECTIVE)
    trigger = ins.wait_for[row]
    assert trace.strings[ins.opcode[row]] == "ALL_REDUCE" and trace.strings[ins.opcode[trigger]] == "COLLECTIVE"
    assert ins.engine[trigger] == Engine.SYNC and ins.start_ps[row] == ins.end_ps[trigger]
    told = laws.ns(sim.device("trn2")["dma.notify_load"])
    assert ins.end_ps[row] == trace.transfers.end_ps[trace.transfers.instruction == trigger].max() + told
    assert not ins.hbm_read_bytes[row] and not ins.hbm_write_bytes[row], "its bytes are the trigger's"


def test_cores_that_share_the_tensors_move_them_once():
    def kernel(x):
        core, out, source = nl.program_id(0), hbm(x.shape), hbm(x.shape)
        dma_copy(source[core * 4 : core * 4 + 4], x[core * 4 : core * 4 + 4])
        ncc.all_reduce([source], [out], ALL, nl.add)
        return out

    x = inputs(8, 6)
    run = sim.run(jit(kernel), sim.PerRank(tuple(x)), ranks=RANKS, lnc=2)
    np.testing.assert_allclose(run.ranks[3][0], np.sum(x, axis=0), rtol=1e-6)
    calls = [run.program.forms[form].call for form in run.program.form]
    assert calls.count("nki.collectives.all_reduce") == 1
    assert not [finding for finding in run.findings if finding.kind == "race"]


@pytest.mark.parametrize("device", ["trn1", "trn2", "trn3"])
def test_time_is_that_of_the_fabric(device):
    with Chip(device) as chip:
        table = chip.program.device
        layout = Layout.dense((128, 4096), dtypes.float32, Memory.HBM)
        form = wire.describe(table, (layout, layout), "all_reduce", 1, (0, 1, 2, 3))
        alone = exchange("all_reduce", 128 * 4096 * 4, holding(table, 4, 1), range(4), element_bytes=4)
        assert form.dma.dispatch_ps + form.dma.service_ps == alone.duration_ps
        assert form.dma.bytes == alone.bytes_on_wire == 2 * 128 * 4096 * 4 * 3 // 4

        def service(kind, columns, ranks):
            layout = Layout.dense((128, columns), dtypes.float32, Memory.HBM)
            made = wire.describe(table, (layout, layout), kind, 1, ranks)
            return made.dma.dispatch_ps + made.dma.service_ps

        assert service("all_gather", 64, 8) > service("all_gather", 64, 2)
        assert service("collective_permute", 512, 8) == service("collective_permute", 512, 2)
        assert service("all_gather_v", 512, 4) > service("all_gather", 512, 4), "lengths must be read"


@pytest.mark.parametrize("group", [(0, 1), (0, 8)])
def test_ranks_of_two_chips_are_further_apart_than_those_of_one(group):
    table = sim.device("trn2")
    layout = Layout.dense((128, 65536), dtypes.bfloat16, Memory.HBM)
    found = wire.timed(table, "all_reduce", layout.nbytes, group, 1, 2)
    assert bool(found.links) == (group == (0, 8))


def test_a_collective_takes_dma_engines_as_its_bytes_need_them():
    table = sim.device("trn2")
    layout = Layout.dense((128, 65536), dtypes.bfloat16, Memory.HBM)
    folded, moved = (
        wire.describe(table, (layout, layout), kind, 1, (0, 8)).dma.engines
        for kind in ("all_reduce", "collective_permute")
    )
    assert 1 <= moved < folded <= 16


def _tile(shape=(8, 6), dtype=np.float32):
    return nl.ndarray(shape, dtype)


REFUSED = {
    "no list": (
        lambda x: ncc.all_reduce(x, [hbm((8, 6))], ALL, nl.add),
        "all_reduce: srcs: .*, must be a list of tensors",
    ),
    "lengths": (lambda x: ncc.all_reduce([x], [hbm((8, 6))] * 2, ALL, nl.add), "dsts: 2 tensors, srcs has 1"),
    "no tensor": (lambda x: ncc.all_reduce([x], [3], ALL, nl.add), "dsts: holds what is no tensor"),
    "shape": (lambda x: ncc.all_reduce([x], [hbm((8, 7))], ALL, nl.add), r"dsts: shape \[8, 7\], must be \[8, 6\]"),
    "dtype": (
        lambda x: ncc.all_reduce([x], [hbm((8, 6), nl.bfloat16)], ALL, nl.add),
        "dsts: dtype bf16, srcs has fp32",
    ),
    "memories": (lambda x: ncc.all_reduce([x], [_tile()], ALL, nl.add), "some in HBM, some on chip"),
    "several in SBUF": (
        lambda x: ncc.all_reduce([_tile(), _tile()], [_tile(), _tile()], ALL, nl.add),
        "2 tensors in SBUF",
    ),
    "op": (lambda x: ncc.all_reduce([x], [hbm((8, 6))], ALL, nl.multiply), "op: multiply, must be nl.add, nl.minimum"),
    "group": (lambda x: ncc.all_reduce([x], [hbm((8, 6))], [[0, 1]], nl.add), "is no ReplicaGroup"),
    "no member": (lambda x: ncc.all_reduce([x], [hbm((8, 6))], ReplicaGroup([[1, 2]]), nl.add), "rank 0 is in none"),
    "priority": (lambda x: ncc.all_reduce([x], [hbm((8, 6))], ALL, nl.add, 2), "priority: 2, needs NeuronCore-v4"),
    "gather dim": (lambda x: ncc.all_gather([x], [hbm((32, 6))], ALL, 1), "all_gather: collective_dim: 1, must be 0"),
    "gather 3d": (
        lambda x: ncc.all_gather([_tile((8, 2, 3))], [_tile((32, 2, 3))], ALL, 0),
        "srcs: 3 dimensions, a tensor in SBUF must have 2",
    ),
    "scatter dim": (lambda x: ncc.reduce_scatter([x], [hbm((2, 6))], ALL, 1, nl.add), "collective_dim: 1, must be 0"),
    "scatter parts": (
        lambda x: ncc.reduce_scatter([x], [hbm((2, 6))], ReplicaGroup([[0, 1, 2]]), 0, nl.add),
        "dimension 0 of size 8 does not divide by 3 ranks",
    ),
    "all to all in SBUF": (lambda x: ncc.all_to_all([_tile()], [_tile()], ALL, 0), "a tensor in SBUF, must be in HBM"),
    "permute two": (lambda x: ncc.collective_permute([x, x], [x, x], [(0, 1)]), "srcs: 2 tensors, must be 1"),
    "channels": (
        lambda x: ncc.collective_permute_implicit([[x]], [[x]], ALL, [1]),
        r"channel_ids: \[1\], must count up from 0",
    ),
    "channel count": (
        lambda x: ncc.collective_permute_implicit([[x]], [[x]], ALL, [0, 1]),
        r"2 channel_ids for \[1, 1\] channels",
    ),
    "many channels": (
        lambda x: ncc.collective_permute_implicit([[x]] * 5, [[x]] * 5, ALL, range(5)),
        "5 channels > 4",
    ),
    "gather_v displacements": (
        lambda x: ncc.all_gather_v([x], [x], ALL, hbm((4, 4), np.uint32), has_rdispls=True),
        "has_rdispls: True is not supported yet",
    ),
    "gather_v ranks": (
        lambda x: ncc.all_gather_v([x], [x], PAIRS, hbm((3, 2), np.uint32)),
        "a group of 2 ranks, must be 4",
    ),
    "gather_v lnc": (lambda x: ncc.all_gather_v([x], [x], ALL, hbm((3, 4), np.uint32)), "needs LNC 2"),
    "second prepare": (
        lambda x: [ncc.all_to_all_v_prepare([x], [x], ALL, hbm((3, 4), np.uint32)) for _ in range(2)],
        "all_to_all_v_prepare: the prepare before it has no trigger yet",
    ),
    "trigger of another": (
        lambda x: ncc.all_gather_v_trigger(ncc.all_to_all_v_prepare([x], [x], ALL, hbm((3, 4), np.uint32))),
        "all_gather_v_trigger: prepare_instr: not of the all_gather_v_prepare before it",
    ),
    "trigger of nothing": (
        lambda x: ncc.all_to_all_v_trigger(dma_copy(hbm(x.shape), x)),
        "all_to_all_v_trigger: prepare_instr: not of the all_to_all_v_prepare before it",
    ),
    "metadata dtype": (
        lambda x: ncc.all_to_all_v([x], [x], ALL, hbm((3, 4), np.int32)),
        "metadata_tensor: must be a tensor of uint32",
    ),
    "metadata shape": (
        lambda x: ncc.all_to_all_v([x], [x], ALL, hbm((4, 4), np.uint32)),
        r"metadata_tensor: shape \[4, 4\], must be \[3, 4\]",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_a_broken_limit_is_named_with_its_call_and_line(call, message):
    def kernel(x):
        call(x)
        return x

    with pytest.raises(InputError) as fault:
        sim.run(jit(kernel), normal(8, 6), values=False)
    assert re.search(message, str(fault.value))
    assert __file__ in str(fault.value)
    assert "nki.collectives." in str(fault.value)


def test_values_need_the_ranks_of_the_group():
    def kernel(x):
        ncc.all_reduce([x], [hbm(x.shape)], ALL, nl.add)
        return x

    with pytest.raises(InputError, match=r"the launch has no core 0 of rank 1 \(run it with ranks=4\)"):
        sim.run(jit(kernel), normal(8, 6))


def test_a_chunk_beyond_its_destination_is_refused():
    def kernel(x, table):
        ncc.all_to_all_v([x], [hbm((8,))], ALL, table)
        return x

    tables = (metadata([9] * RANKS, [0] * RANKS),) * RANKS
    with pytest.raises(InputError, match="dsts: elements 0 to 9 of 8"):
        sim.run(jit(kernel), normal(16), sim.PerRank(tables), ranks=RANKS)


def test_ranks_at_different_calls_are_told():
    def kernel(x, first):
        if first:
            ncc.all_reduce([x], [hbm(x.shape)], PAIRS, nl.add)
        else:
            ncc.all_to_all([x], [hbm(x.shape)], PAIRS, 0)
        return x

    with pytest.raises(InputError, match="other ranks of the group are at all_reduce and all_to_all"):
        sim.run(jit(kernel), normal(8, 6), sim.PerRank((True, False, True, True)), ranks=RANKS)


def test_a_rank_stands_in_one_group_only():
    with pytest.raises(InputError, match="every rank must stand in one group only"):
        ReplicaGroup([[0, 1], [1, 2]])


def test_too_few_inputs_are_told():
    with pytest.raises(InputError, match="PerRank has 2 values, rank 2 has none"):
        sim.run(jit(lambda x: x), sim.PerRank((normal(2, 2),) * 2), ranks=3)
    with pytest.raises(InputError, match="ranks=0"):
        sim.run(jit(lambda x: x), normal(2, 2), ranks=0)
