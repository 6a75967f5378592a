"""A trace can be timed anew: unchanged to the picosecond, changed as if the kernel had run on that machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sim
from sim import TensorSpec, dtypes, retiming, spec, tracefile
from sim.compiler import Options
from sim.engines import OPS
from sim.errors import CapacityError, InputError, UnsupportedError
from sim.retiming import Ideal, Recording
from sim.trace import Trace

KERNELS = Path(__file__).resolve().parent.parent / "traces" / "kernels"
BF16 = dtypes.bfloat16

CASES = {
    "attention.py::attention": {"q_t": (128, 512), "k_t": (128, 1024), "v": (1024, 128)},
    "matmul.py::matmul": {"a_t": (256, 512), "b": (256, 1024)},
    "silu_multiply.py::silu_multiply": {"gate": (512, 1024), "up": (512, 1024)},
    "rmsnorm.py::rmsnorm": {"x": (256, 1024), "weight": (1, 1024)},
    "softmax.py::softmax": {"x": (256, 1024)},
}


def run(name: str, device: str = "trn2") -> sim.Run:
    kernel = sim.load(str(KERNELS / name), device=device)
    tensors = {key: TensorSpec(shape, BF16) for key, shape in CASES[name].items()}
    return sim.run(kernel, device=device, values=False, **tensors)


def check_equal(one: Trace, other: Trace) -> None:
    assert one.meta.window == other.meta.window and one.meta.total_ps == other.meta.total_ps
    assert list(one.strings) == list(other.strings)
    for name, table in one.tables():
        there = getattr(other, name)
        assert table.present() == there.present()
        for column in table.present():
            assert np.array_equal(table.column(column), there.column(column)), f"{name}.{column}"


@pytest.fixture(scope="module")
def attention() -> sim.Run:
    return run("attention.py::attention")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["trn1", "trn2", "trn3"])
def test_unchanged_a_trace_is_the_same_again_from_memory_and_from_its_directory(name, device, tmp_path):
    trace = run(name, device).trace
    check_equal(trace, retiming.retime(trace).trace)
    tracefile.write(trace, tmp_path / "t")
    read = tracefile.read(tmp_path / "t")
    check_equal(trace, retiming.retime(read).trace)
    tracefile.write(read, tmp_path / "again")
    check_equal(trace, retiming.retime(tracefile.read(tmp_path / "again")).trace)


def test_the_sample_that_ships_can_be_timed_anew():
    sample = tracefile.read(KERNELS.parent / "attention")
    check_equal(sample, retiming.retime(sample).trace)


def legacy(x):
    import neuronxcc.nki.language as nl

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        tile = nl.load(x[i * 128 : (i + 1) * 128, :])
        nl.store(out[i * 128 : (i + 1) * 128, :], nl.exp(tile))
    return out


def test_the_options_of_the_compiler_are_kept(tmp_path):
    from sim.nki.legacy.kernel import jit

    trace = sim.run(jit(legacy), TensorSpec((512, 256), BF16), values=False).trace
    assert trace.recorded().options == Options.for_generation("legacy")
    tracefile.write(trace, tmp_path / "t")
    read = tracefile.read(tmp_path / "t")
    assert read.recorded().options == Options.for_generation("legacy")
    check_equal(trace, retiming.retime(read).trace)


def test_every_form_is_described_anew_as_it_was(attention):
    program = attention.program
    again = retiming.on_device(program, program.device)
    assert again.forms == program.forms
    assert set(program.calls) <= set(OPS)


def test_the_file_holds_a_few_bytes_an_instruction(tmp_path):
    kernel = sim.load(str(KERNELS / "matmul.py::matmul"))
    trace = sim.run(kernel, TensorSpec((1024, 2048), BF16), TensorSpec((1024, 2048), BF16), values=False).trace
    tracefile.write(trace, tmp_path / "t")
    size = (tmp_path / "t" / f"{tracefile.PROGRAM}.parquet").stat().st_size
    assert size < 50 * len(trace.recorded().program)


def test_a_faster_clock_is_the_kernel_on_a_device_with_that_clock(attention):
    made = retiming.retime(attention.trace, {"clock_tensor": "2x"}).trace
    quick = spec.device("trn2").replace({"clock_tensor": "2x"})
    program = retiming.on_device(attention.program, quick)
    assert made.recorded().program.forms == program.forms
    assert made.meta.window[1] < attention.trace.meta.window[1]
    assert made.meta.what_if["clock_tensor"] == quick["clock_tensor"]
    assert made.meta.what_if["pe.lat"] == quick["pe.lat"]


def test_a_what_if_of_a_what_if_starts_from_there(attention, tmp_path):
    once = retiming.retime(attention.trace, {"clock_tensor": "2x"}).trace
    tracefile.write(once, tmp_path / "t")
    back = retiming.retime(tracefile.read(tmp_path / "t"), {"clock_tensor": "0.5x"}).trace
    assert back.meta.window == attention.trace.meta.window


def test_the_figures_that_times_depend_on_are_told(attention):
    read = retiming.retime(attention.trace).read
    assert {"clock_tensor", "dma.bw_read", "act.table_load"} <= read
    assert not {"neuronlink_bw", "cc.base"} & read


def test_less_memory_may_be_too_little(attention):
    with pytest.raises(CapacityError, match=r"attention\.py:\d+: SBUF is full"):
        retiming.retime(attention.trace, {"sbuf_partition_bytes": "0.01x"})


@pytest.mark.parametrize(
    "ideal",
    [
        Ideal(free=frozenset({"tensor"})),
        Ideal(free=frozenset({"dma"})),
        Ideal(without=frozenset({"buffers"})),
        Ideal(without=frozenset({"dependences"})),
    ],
)
def test_what_costs_nothing_takes_time_away(attention, ideal):
    made = retiming.retime(attention.trace, ideal=ideal).trace
    assert made.meta.window[1] < attention.trace.meta.window[1]


def test_without_dependences_each_engine_is_only_held_up_by_itself(attention):
    made = retiming.retime(attention.trace, ideal=Ideal(without=frozenset({"dependences"}))).trace
    assert len(made.edges) == 0
    only = retiming.retime(attention.trace, ideal=Ideal(without=frozenset({"buffers"}))).trace
    assert 0 < len(only.edges) < len(attention.trace.edges) and set(only.edges.kind.tolist()) <= {0, 3}


def test_findings_stay_what_they_were(attention):
    trace = replace(attention.trace, meta=replace(attention.trace.meta, findings=()))
    made = retiming.retime(trace, ideal=Ideal(without=frozenset({"dependences"}))).trace
    assert made.meta.findings == ()


def test_a_trace_without_a_program_says_how_to_get_one(attention):
    with pytest.raises(UnsupportedError, match=r"holds no program .*trnprof run FILE\.py::KERNEL -o DIR"):
        retiming.retime(replace(attention.trace, recorded=None))


def test_a_call_that_this_version_lacks_is_named(attention):
    program = attention.program
    other = replace(program, calls=("nki.isa.gone", *program.calls[1:]))
    trace = replace(attention.trace, recorded=lambda: Recording(other, Options()))
    with pytest.raises(UnsupportedError, match=r"nki\.isa\.gone: this version has no such instruction"):
        retiming.retime(trace)


def test_a_damaged_program_names_its_file(attention, tmp_path):
    tracefile.write(attention.trace, tmp_path / "t")
    path = tmp_path / "t" / f"{tracefile.PROGRAM}.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["form"]), path)
    with pytest.raises(InputError, match=r"TrnprofProgram\.parquet: damaged"):
        retiming.retime(tracefile.read(tmp_path / "t"))
    head = table.column("head")[0].as_py().replace('"format": 1', '"format": 99')
    pq.write_table(table.set_column(0, "head", [[head]]), path)
    with pytest.raises(InputError, match="format 99, this version reads 1"):
        retiming.retime(tracefile.read(tmp_path / "t"))


def test_a_program_of_an_earlier_version_is_outside_all_loops(attention, tmp_path):
    tracefile.write(attention.trace, tmp_path / "t")
    path = tmp_path / "t" / f"{tracefile.PROGRAM}.parquet"
    before = tracefile.read(tmp_path / "t").recorded().program
    np.testing.assert_array_equal(before.iterations, attention.program.iterations)
    assert before.iteration.max() >= 0
    pq.write_table(pq.read_table(path).drop_columns(["iteration", "iterations"]), path)
    program = tracefile.read(tmp_path / "t").recorded().program
    assert set(program.iteration.tolist()) == {-1}
    assert program.iterations.shape == (0, 4)
    assert len(retiming.retime(tracefile.read(tmp_path / "t")).trace.instructions) == len(attention.trace.instructions)


def test_a_device_keeps_the_figures_that_it_had_when_the_trace_was_made(attention, tmp_path):
    tracefile.write(attention.trace, tmp_path / "t")
    path = tmp_path / "t" / f"{tracefile.PROGRAM}.parquet"
    table = pq.read_table(path)
    was = spec.device("trn2")["act.table_load"]
    head = table.column("head")[0].as_py().replace(f'"act.table_load": {was}', f'"act.table_load": {10 * was}')
    pq.write_table(table.set_column(0, "head", [[head]]), path)
    device = tracefile.read(tmp_path / "t").recorded().program.device
    assert device["act.table_load"] == 10 * was
    assert retiming.retime(tracefile.read(tmp_path / "t")).trace.meta.what_if == {"act.table_load": 10 * was}
