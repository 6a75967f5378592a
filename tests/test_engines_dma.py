"""Transfers: what arrives, how it is cut into descriptors, who starts it and how long it takes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim.nki.language as nl
from sim import dtypes, spec
from sim.engines import laws
from sim.errors import InputError
from sim.memory import Layout
from sim.nki import isa as nisa
from sim.trace import Engine, Memory, QueueType
from tests.chip import Chip, fp32, normal, rounded

GENERATIONS = ("trn1", "trn2", "trn3")


def transfer(chip):
    return chip.form.dma


@given(
    st.integers(1, 128),
    st.integers(1, 40),
    st.sampled_from(["float32", "bfloat16", "float8_e5m2"]),
    st.sampled_from(["float32", "float16"]),
)
def test_a_copy_casts_through_fp32(partitions, n, source_dtype, dtype):
    data = normal(partitions, n)
    with Chip() as chip:
        tile, out = chip.tensor((partitions, n), dtype), chip.hbm((n * partitions,), dtype)
        nisa.dma_copy(tile, chip.hbm(data, source_dtype))
        nisa.dma_copy(out.reshape((partitions, n)), tile)
    np.testing.assert_array_equal(fp32(out).reshape(partitions, n), rounded(rounded(data, source_dtype), dtype))


def test_any_view_can_be_the_source():
    data = normal(6, 40)
    with Chip() as chip:
        tensor, tile = chip.hbm(data), chip.tensor((3, 20))
        nisa.dma_copy(tile, tensor[::2, ::2])
        np.testing.assert_array_equal(fp32(tile), data[::2, ::2])
        nisa.dma_copy(tile, tensor.ap([[0, 3], [1, 20]], offset=5))
        np.testing.assert_array_equal(fp32(tile), np.tile(data[0, 5:25], (3, 1)))


# -- gather and scatter ----------------------------------------------------------------------------


def indices(chip, numbers):
    tile = chip.tensor((len(numbers), 1), "uint32")
    tile.storage.fill(np.array(numbers, np.uint32)[:, None])
    return tile


@given(st.lists(st.integers(0, 19), min_size=1, max_size=30))
def test_a_gather_reads_the_rows_that_the_index_names(rows):
    data = normal(20, 12)
    with Chip() as chip:
        dst = chip.tensor((len(rows), 12))
        nisa.dma_copy(dst, chip.hbm(data).ap([[12, len(rows)], [1, 12]], vector_offset=indices(chip, rows)))
        assert transfer(chip).queue_type is QueueType.SOFTWARE_DYNAMIC
        assert chip.form.engine is Engine.GPSIMD
    np.testing.assert_array_equal(fp32(dst), data[rows])


def test_a_scatter_writes_the_rows_that_the_index_names():
    data = normal(4, 12)
    with Chip() as chip:
        out = chip.hbm(np.zeros((9, 12)))
        pattern = [[12, 4], [1, 12]]
        nisa.dma_copy(out.ap(pattern, vector_offset=indices(chip, [8, 0, 3, 5])), chip.tensor(data))
    expected = np.zeros((9, 12), np.float32)
    expected[[8, 0, 3, 5]] = data
    np.testing.assert_array_equal(fp32(out), expected)


def test_an_index_outside_the_tensor_is_an_error_unless_it_is_skipped():
    data = normal(4, 12)
    with Chip() as chip:
        dst, source = chip.tensor(np.full((2, 12), 9.0)), chip.hbm(data)
        view = source.ap([[12, 2], [1, 12]], vector_offset=indices(chip, [7, 1]))
        with pytest.raises(InputError, match=r"test_engines_dma.*nki.isa.dma_copy: src: index 7 of partition 0"):
            nisa.dma_copy(dst, view)
        nisa.dma_copy(dst, view, oob_mode=nisa.oob_mode.skip)
    np.testing.assert_array_equal(fp32(dst), [[9.0] * 12, data[1].tolist()])


@pytest.mark.parametrize("scatters", [True, False])
def test_rows_are_added_where_the_index_points(scatters):
    table, addend = normal(9, 12), normal(3, 12, seed=4)
    with Chip() as chip:
        tensor, tile = chip.hbm(table), chip.tensor(addend)
        indexed = tensor.ap([[12, 3], [1, 12]], vector_offset=indices(chip, [2, 8, 4]))
        dst = indexed if scatters else tile
        nisa.dma_compute(dst, [indexed, tile], nl.add)
    expected = table.copy()
    expected[[2, 8, 4]] += addend
    np.testing.assert_array_equal(fp32(tensor), expected if scatters else table)
    np.testing.assert_array_equal(fp32(tile), addend if scatters else addend + table[[2, 8, 4]])


def test_gathered_rows_are_added_to_the_other_source():
    table, addend = normal(9, 12), normal(2, 12, seed=4)
    with Chip() as chip:
        dst = chip.tensor((2, 12))
        rows = chip.hbm(table).ap([[12, 2], [1, 12]], vector_offset=indices(chip, [5, 0]))
        nisa.dma_compute(dst, [chip.tensor(addend), rows], nl.add)
    np.testing.assert_array_equal(fp32(dst), addend + table[[5, 0]])


def test_sources_are_summed_in_fp32():
    parts = [normal(16, 8, seed=i) for i in range(5)]
    with Chip() as chip:
        dst = chip.hbm((16, 8), "bfloat16")
        nisa.dma_compute(dst, [chip.hbm(part, "bfloat16") for part in parts], nl.add)
    total = sum(rounded(part, "bfloat16") for part in parts)
    np.testing.assert_array_equal(fp32(dst), rounded(total, "bfloat16"))


# -- transposes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axes"), [((24, 64), (1, 0)), ((4, 6, 16), (2, 1, 0)), ((3, 4, 5, 16), (3, 1, 2, 0)), ((8, 16), None)]
)
def test_a_transpose_permutes_dimensions(shape, axes):
    data = normal(*shape)
    order = axes or (1, 0)
    with Chip() as chip:
        dst = chip.tensor(tuple(shape[a] for a in order), "bfloat16")
        nisa.dma_transpose(dst, chip.hbm(data, "bfloat16"), axes)
    np.testing.assert_array_equal(fp32(dst), rounded(data, "bfloat16").transpose(order))


def test_a_generated_transpose_takes_up_to_128_columns():
    data = normal(16, 128)
    with Chip() as chip:
        dst = chip.tensor((128, 16), "bfloat16")
        nisa.dma_transpose(dst, chip.hbm(data, "bfloat16"), dge_mode=nisa.dge_mode.hwdge)
    np.testing.assert_array_equal(fp32(dst), rounded(data, "bfloat16").T)


def test_a_transpose_can_gather_its_rows():
    data = normal(300, 64)
    places = np.random.default_rng(0).integers(0, 300, (128, 2))
    with Chip() as chip:
        dst, index = chip.tensor((64, 256), "bfloat16"), chip.tensor((128, 2), "uint32")
        index.storage.fill(places.astype(np.uint32))
        source = chip.hbm(data, "bfloat16").ap([[64, 256], [1, 64]], vector_offset=index)
        nisa.dma_transpose(dst, source, (1, 0))
        assert transfer(chip).queue_type is QueueType.SOFTWARE_DYNAMIC
    flat = places.T.reshape(-1)
    np.testing.assert_array_equal(fp32(dst), rounded(data, "bfloat16")[flat].T)


# -- descriptors -----------------------------------------------------------------------------------


def places(layout):
    """(partition, byte) of every element, in order."""
    grid = np.indices(layout.shape).reshape(len(layout.shape), -1)
    on_chip = layout.pitch > 0
    free = slice(1, None) if on_chip else slice(None)
    byte = np.tensordot(layout.strides[free], grid[free], 1)
    return list(zip(grid[0] * on_chip, byte.tolist(), strict=True))


def counted(dst, src):
    """Descriptors from the definition: a new one wherever either side does not go on."""
    pieces = 1
    for before, after in pairwise(zip(places(dst), places(src), strict=True)):
        for (p0, b0), (p1, b1), layout in zip(before, after, (dst, src), strict=True):
            if p1 != p0 or b1 != b0 + layout.itemsize:
                pieces += 1
                break
    return pieces


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_a_descriptor_is_a_run_without_holes_on_both_sides(a, b, c, hole0, hole1, to_chip):
    size = dtypes.bfloat16.itemsize
    inner, middle = (c + hole0) * size, (c + hole0) * b * size + hole1 * size
    strided = Layout((a, b, c), (middle, inner, size), dtypes.bfloat16, Memory.HBM, 0)
    memory = Memory.SBUF if to_chip else Memory.HBM
    for shape in ((a, b, c), (a, b * c), (a * b, c)):
        dense = Layout.dense(shape, dtypes.bfloat16, memory)
        assert laws.descriptors(dense, strided) == counted(dense, strided)


@pytest.mark.parametrize(
    ("rows", "columns", "engines", "pieces"), [(128, 512, 16, 128), (8, 512, 1, 8), (9, 512, 2, 9), (1, 1, 1, 1)]
)
def test_partitions_are_dealt_out_to_the_engines(rows, columns, engines, pieces):
    with Chip(values=False) as chip:
        nisa.dma_copy(chip.tensor((rows, columns)), chip.hbm((rows, columns)))
        dma = transfer(chip)
    assert (dma.engines, dma.descriptors, dma.bytes) == (engines, pieces, rows * columns * 4)


def test_a_copy_within_hbm_is_dealt_out_in_packets():
    with Chip(values=False) as chip:
        for bytes_, engines in ((4096, 1), (4097, 2), (1 << 20, 16)):
            nisa.dma_copy(chip.hbm((bytes_,), "uint8"), chip.hbm((bytes_,), "uint8"))
            assert transfer(chip).engines == engines


# -- who starts it, and time -----------------------------------------------------------------------

MODES = {mode.name: mode for mode in nisa.dge_mode}


@pytest.mark.parametrize(
    ("device", "mode", "engine", "queue", "starter"),
    [
        ("trn1", "unknown", "unknown", "qSyncIO0", Engine.SYNC),
        ("trn2", "unknown", "unknown", "qSyncDynamicHW", Engine.SYNC),
        ("trn2", "hwdge", "scalar", "qScalarDynamicHW", Engine.SCALAR),
        ("trn2", "swdge", "unknown", "qGpSimdDynamic", Engine.GPSIMD),
        ("trn2", "none", "unknown", "qSyncIO0", Engine.SYNC),
        ("trn3", "unknown", "gpsimd", "qGpSimdDynamic", Engine.GPSIMD),
    ],
)
def test_the_mode_and_the_engine_choose_the_queue(device, mode, engine, queue, starter):
    with Chip(device, values=False) as chip:
        nisa.dma_copy(chip.tensor((128, 64)), chip.hbm((128, 64)), dge_mode=MODES[mode], engine=nisa.engine[engine])
        assert (transfer(chip).queue, chip.form.engine, chip.form.opcode) == (queue, starter, "DMA_DIRECT2D")


@pytest.mark.parametrize("device", GENERATIONS)
@pytest.mark.parametrize("stores", [True, False])
def test_a_transfer_takes_its_bytes_and_its_descriptors(device, stores):
    figures = spec.device(device)
    with Chip(device, values=False) as chip:
        tile, tensor = chip.tensor((64, 1024)), chip.hbm((64, 1024))
        nisa.dma_copy(*((tensor, tile) if stores else (tile, tensor)))
        dma, cost = transfer(chip), chip.form.cost
    side = "store" if stores else "load"
    rate = figures["dma.bw_write" if stores else "dma.bw_read"]
    assert dma.service_ps == round((64 * 4096 / 8 / rate + 8 * figures["dma.desc_ovh"]) * 1000)
    assert dma.hbm_ps == round(64 * 4096 / figures["hbm_nc"] * 1000)
    assert (dma.dispatch_ps, dma.notify_ps) == (
        (figures[f"dma.dispatch_{side}"] + figures[f"dma.stagger_{side}"]) * 1000,
        figures[f"dma.notify_{side}"] * 1000,
    )
    issue = figures["dma.issue_static" if device == "trn1" else "dma.issue_hw"] * 1000
    assert cost.occupancy_ps == cost.latency_ps == issue


@pytest.mark.parametrize("device", GENERATIONS)
def test_software_descriptors_are_written_before_the_trigger(device):
    figures = spec.device(device)
    with Chip(device, values=False) as chip:
        nisa.dma_copy(chip.tensor((64, 8)), chip.hbm((64, 8)), dge_mode=nisa.dge_mode.swdge)
        dma, cost = transfer(chip), chip.form.cost
    assert cost.occupancy_ps == figures["dma.issue_sw"] * 1000
    reached = figures["dma.sw_wake"] + figures["dma.dispatch_load"] + figures["dma.stagger_load"]
    assert cost.occupancy_ps + dma.dispatch_ps == reached * 1000


def test_a_32_kib_store_takes_as_long_as_in_the_documents():
    with Chip(values=False) as chip:
        nisa.dma_copy(chip.hbm((1, 8192)), chip.tensor((1, 8192)))
        assert transfer(chip).service_ps / 1000 == pytest.approx(1223, rel=0.02)


@pytest.mark.parametrize("figure", ["dma_transpose_eff", "dma_transpose_eff_sbuf"])
def test_a_transpose_reaches_a_share_of_the_bandwidth_from_hbm_and_less_on_chip(figure):
    share = spec.device("trn2")[figure]
    with Chip(values=False) as chip:
        source = chip.hbm if figure == "dma_transpose_eff" else chip.tensor
        tile, tensor = chip.tensor((128, 128), "bfloat16"), source((128, 128), "bfloat16")
        nisa.dma_transpose(tile, tensor)
        turned = transfer(chip).service_ps
        nisa.dma_copy(tile, tensor)
        straight = transfer(chip).service_ps
    overhead = 8 * spec.device("trn2")["dma.desc_ovh"] * 1000
    pieces = overhead / 8 if figure == "dma_transpose_eff" else overhead
    assert turned - round(pieces) == pytest.approx((straight - overhead) / share, rel=0.02)


def test_reads_from_hbm_are_counted_once_for_each_partition_that_wants_them():
    with Chip(values=False) as chip:
        nisa.dma_copy(chip.tensor((128, 512)), chip.hbm((1, 512)).ap([[0, 128], [1, 512]]))
        assert transfer(chip).bytes == 128 * 2048
