"""What is wrong in a kernel although it runs: each kind has a kernel that shows it and one that does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.errors import CapacityError, InputError, TrnprofError
from sim.launch import TensorSpec
from sim.nki import collectives as ncc
from sim.nki import isa as nisa
from sim.nki import language as nl
from sim.nki.kernel import Kernel
from trnprof import cli

SHAPE = (128, 64)


def line(function: Callable, marker: str) -> str:
    """`path:line` of the line of a kernel that ends in `# marker`."""
    first = function.__code__.co_firstlineno
    lines = Path(__file__).read_text().splitlines()[first - 1 :]
    return f"{__file__}:{first + next(n for n, text in enumerate(lines) if text.endswith(f'# {marker}'))}"


def launched(kernel: Callable, values: bool = True, lnc: int = 1, **named: object) -> sim.Run:
    x = np.ones(SHAPE, np.float32) if values else TensorSpec(SHAPE, "float32")
    return sim.run(kernel, x, values=values, lnc=lnc, **named)


def found(kernel: Callable, values: bool = True, lnc: int = 1, **named: object) -> list[sim.trace.Finding]:
    return list(launched(kernel, values, lnc, **named).findings)


# -- unwritten memory ------------------------------------------------------------------------------


def reads_unwritten(x, rows):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)  # tile
    if rows:
        nisa.dma_copy(tile[:rows], x[:rows])
    nisa.dma_copy(out, tile)  # read
    return out


def adds_to_zeros(x, begin):
    out = nl.ndarray((64, 64), nl.float32, nl.shared_hbm)
    tile = nl.load(x)
    sums = nl.ndarray((64, 64), nl.float32, nl.psum)
    if begin:
        nisa.nc_matmul(sums, tile, tile, accumulate=False)
    else:
        nisa.memset(sums, 0)
    for _ in range(2):
        nisa.nc_matmul(sums, tile, tile, accumulate=True)  # adds
    nl.store(out, nl.copy(sums))
    return out


def test_a_sum_that_no_matmul_began_is_a_warning_before_v4():
    (finding,) = found(adds_to_zeros, begin=False)
    assert finding.kind == "undefined_accumulation"
    assert finding.is_warning
    assert f"({line(adds_to_zeros, 'adds')}) adds to `sums`" in finding.sentence
    assert found(adds_to_zeros, begin=True) == []
    assert list(sim.run(adds_to_zeros, np.ones(SHAPE, np.float32), begin=False, device="trn3").findings) == []


@pytest.mark.parametrize(("rows", "values"), [(0, True), (0, False), (64, True)])
def test_a_read_of_unwritten_memory_is_found(rows, values):
    (finding,) = found(reads_unwritten, values, rows=rows)
    assert finding.kind == "uninitialised_read"
    assert finding.source == line(reads_unwritten, "read")
    assert f"({finding.source})" in finding.sentence
    assert f"`tile` (allocated at {line(reads_unwritten, 'tile')})" in finding.sentence


@pytest.mark.parametrize("values", [True, False])
def test_a_tile_that_is_written_whole_may_be_read(values):
    assert found(reads_unwritten, values, rows=128) == []


def changes_one_row(x):
    nisa.tensor_copy(row := nl.ndarray((1, SHAPE[1]), x.dtype), nl.load(x[3:4]))
    nisa.dma_copy(x[5:6], row)


@pytest.mark.parametrize("values", [True, False])
def test_an_argument_that_a_kernel_also_writes_holds_values(values):
    assert found(changes_one_row, values) == []


def reads_unwritten_on_core(x, core):
    out = nl.ndarray((2, *x.shape), x.dtype, nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    if nl.program_id(0) != core:
        nisa.dma_copy(tile, x)
    nisa.dma_copy(out[nl.program_id(0)], tile)  # read
    return out


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("core", [0, 1])
def test_a_read_of_unwritten_memory_is_found_on_each_core(core, values):
    (finding,) = found(reads_unwritten_on_core, values, 2, core=core)
    assert (finding.kind, finding.source) == ("uninitialised_read", line(reads_unwritten_on_core, "read"))
    assert found(reads_unwritten_on_core, values, 2, core=2) == []


def reads_unwritten_on_rank(x, rank):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    if int(ncc.rank_id()) != rank:
        nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)  # read
    return out


@pytest.mark.parametrize("rank", [0, 1])
def test_a_read_of_unwritten_memory_is_found_on_each_rank(rank):
    (finding,) = found(reads_unwritten_on_rank, rank=rank, ranks=2)
    assert (finding.kind, finding.source) == ("uninitialised_read", line(reads_unwritten_on_rank, "read"))
    assert finding.sentence.startswith("rank 1: ") is (rank == 1)
    assert found(reads_unwritten_on_rank, rank=2, ranks=2) == []


def reads_unwritten_often(x, times):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    for _ in range(times):
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("values", [True, False])
def test_a_line_that_reads_unwritten_memory_again_and_again_is_one_finding(values):
    assert len(found(reads_unwritten_often, values, times=5)) == 1


def gathers(x, part, rows):
    """Elements that indices name, of a tile of which some are written."""
    out = nl.ndarray((128, 32), x.dtype, nl.shared_hbm)
    table, index = nl.ndarray((128, 64), x.dtype), nl.ndarray((128, 4), nl.uint16)
    nisa.memset(table[:, :part], 1.0)
    nisa.iota(index[:, :2], [[0, 2]], 0, 0)
    if rows > 2:
        nisa.iota(index[:, 2:], [[0, 2]], 31, 0)
    result = nl.ndarray((128, 16 * rows), x.dtype)
    nisa.local_gather(result, table, index, 1, 16 * rows)  # read
    nisa.dma_copy(out, result[:, :32])
    return out


@pytest.mark.parametrize(("part", "rows", "wrong"), [(1, 2, False), (32, 4, False), (31, 4, True), (0, 2, True)])
def test_a_gather_needs_only_what_its_indices_name(part, rows, wrong):
    def kernel(x):
        return gathers(x, part, rows) if part else gathers_from_nothing(x)

    kinds = [finding.kind for finding in found(kernel)]
    assert kinds == ["uninitialised_read"] * wrong


def gathers_from_nothing(x):
    out = nl.ndarray((128, 4), x.dtype, nl.shared_hbm)
    table, index, result = nl.ndarray((128, 8), x.dtype), nl.ndarray((128, 4), nl.uint32), nl.ndarray((128, 4), x.dtype)
    nisa.iota(index, [[1, 4]], 0, 0)
    nisa.nc_n_gather(result, table, index)
    nisa.dma_copy(out, result)
    return out


# -- overlapping allocations -----------------------------------------------------------------------


def lays_tiles_over_one_another(x, at, late=True):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    kept = nl.ndarray(x.shape, x.dtype, address=(0, 0))  # kept
    nisa.dma_copy(kept, x)
    if not late:
        nisa.dma_copy(out, kept)
    scratch = nl.ndarray(x.shape, x.dtype, address=(0, at))  # scratch
    nisa.memset(scratch, 0.0)  # write
    nisa.dma_copy(out, kept if late else scratch)  # read
    return out


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("at", [0, 128])
def test_a_tile_laid_over_one_that_is_still_read_is_found(values, at):
    (finding,) = found(lays_tiles_over_one_another, values, at=at)
    kernel = lays_tiles_over_one_another
    assert finding.kind == "overlap"
    assert finding.source == line(kernel, "read")
    for part in ("nki.isa.memset", "nki.isa.dma_copy", "`scratch`", "`kept`", "SBUF"):
        assert part in finding.sentence
    for marker in ("kept", "scratch", "write", "read"):
        assert line(kernel, marker) in finding.sentence


def test_tiles_beside_one_another_or_one_after_the_other_may_share_a_pool():
    assert found(lays_tiles_over_one_another, at=256) == []
    assert found(lays_tiles_over_one_another, at=0, late=False) == []


def fills_both_halves(x):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    upper = nl.ndarray((64, x.shape[1]), x.dtype, address=(0, 0))
    lower = nl.ndarray((64, x.shape[1]), x.dtype, address=(64, 0))
    sums = nl.ndarray(x.shape, x.dtype, address=(0, 4096))
    nisa.dma_copy(upper, x[:64])
    nisa.dma_copy(lower, x[64:])
    nisa.tensor_tensor(sums[:64], upper, lower, nl.add)
    nisa.tensor_copy(sums[64:], lower)
    nisa.dma_copy(out, sums)
    return out


def test_tiles_on_other_partitions_may_have_the_same_bytes():
    assert found(fills_both_halves) == []


def uses_bytes_beside_the_shared_ones(x, ordered):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    kept = nl.ndarray(x.shape, x.dtype, address=(0, 0))
    scratch = nl.ndarray(x.shape, x.dtype, address=(0, 128))
    first = nisa.memset(scratch[:, :32], 1.0)
    nisa.dma_copy(kept, x)
    nisa.memset(scratch[:, 32:], 0.0)
    total = nl.ndarray((128, 32), x.dtype)
    then = nisa.tensor_tensor(total, kept[:, 32:], scratch[:, 32:], nl.add)
    if ordered:
        then.depends_on(first)
    nisa.dma_copy(out[:, :32], total)
    nisa.dma_copy(out[:, 32:], total)
    return out


@pytest.mark.parametrize("ordered", [False, True])
def test_only_bytes_that_are_read_after_all_count(ordered):
    assert found(uses_bytes_beside_the_shared_ones, ordered=ordered) == []


def reads_before_its_bytes_are_reused(x):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    first = nl.ndarray(x.shape, x.dtype, address=(0, 0))
    other = nl.ndarray(x.shape, x.dtype, address=(0, 0))
    for _ in range(2):
        nisa.dma_copy(first, x)
        nisa.dma_copy(out, first)
        nisa.memset(other, 0.0)
        nisa.dma_copy(out, other)
    return out


def test_tiles_that_take_turns_in_a_loop_are_no_finding():
    assert found(reads_before_its_bytes_are_reused) == []


# -- races of two cores ----------------------------------------------------------------------------


def passes_through_shared_memory(x, barrier):
    between = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="between")
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    mine, other = nl.program_id(0) * 64, 64 - nl.program_id(0) * 64
    tile = nl.ndarray((64, x.shape[1]), x.dtype)
    nisa.dma_copy(tile, x[mine : mine + 64])
    nisa.dma_copy(between[mine : mine + 64], tile)  # write
    if barrier:
        nisa.core_barrier(between if barrier == "between" else out, (0, 1))
    seen = nl.ndarray((64, x.shape[1]), x.dtype)
    nisa.dma_copy(seen, between[other : other + 64])  # read
    nisa.dma_copy(out[mine : mine + 64], seen)
    return out


@pytest.mark.parametrize("barrier", ["", "out"])
def test_a_read_of_what_the_other_core_writes_is_a_race_without_a_barrier_of_the_tensor(barrier):
    kernel = Kernel(passes_through_shared_memory)
    races = [finding for finding in found(kernel, False, 2, barrier=barrier) if finding.kind == "race"]
    (finding,) = races
    assert "`between`" in finding.sentence
    assert "core_barrier" in finding.sentence
    assert "core 0" in finding.sentence and "core 1" in finding.sentence
    assert line(passes_through_shared_memory, "write") in finding.sentence
    assert line(passes_through_shared_memory, "read") in finding.sentence


@pytest.mark.parametrize("values", [True, False])
def test_a_barrier_orders_the_cores(values):
    assert found(Kernel(passes_through_shared_memory), values, 2, barrier="between") == []


def says_when_it_is_done(x, waits):
    shared = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="shared")
    flag = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="flag")
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile, copied = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    if nl.program_id(0) == 0:
        nisa.dma_copy(tile, x)
        nisa.dma_copy(shared, tile)
        nisa.dma_copy(copied, shared)
        nisa.dma_copy(flag, copied)
    nisa.core_barrier(flag, (0, 1))
    if nl.program_id(0) == 1:
        seen = nisa.dma_copy(copied, flag)
        read = nisa.dma_copy(tile, shared)
        if waits:
            read.depends_on(seen)
        nisa.tensor_tensor(tile, tile, copied, nl.add)
        nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("waits", [False, True])
def test_what_a_barrier_of_another_tensor_stands_for_must_be_waited_for(waits):
    kinds = [finding.kind for finding in found(Kernel(says_when_it_is_done), False, 2, waits=waits)]
    assert kinds == ([] if waits else ["race"])


def waits_alone(x):
    if nl.program_id(0) == 0:
        nisa.core_barrier(x, (0, 1))  # barrier
    return nl.ndarray(x.shape, x.dtype, nl.shared_hbm)


def test_a_barrier_that_one_core_never_reaches_is_an_error():
    with pytest.raises(TrnprofError, match="core_barrier") as raised:
        launched(Kernel(waits_alone), lnc=2)
    assert raised.value.exit_code == 1


# -- deadlock --------------------------------------------------------------------------------------


def waits_in_a_circle(x, circle):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile, copy = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    first = nisa.activation(copy, nl.copy, tile)  # first
    then = nisa.dma_copy(out, copy)  # then
    if circle:
        first.depends_on(then)
    else:
        then.depends_on(first)
    return out


def test_instructions_that_wait_for_each_other_are_an_error():
    with pytest.raises(InputError, match="deadlock") as raised:
        launched(waits_in_a_circle, circle=True)
    assert raised.value.exit_code == 1
    for marker in ("first", "then"):
        assert line(waits_in_a_circle, marker) in str(raised.value)
    assert found(waits_in_a_circle, circle=False) == []


# -- capacity --------------------------------------------------------------------------------------


def holds(x, count, space, columns):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    held = []
    for _ in range(count):
        piece = nl.ndarray((128, columns), nl.float32, space)  # piece
        nisa.memset(piece, 1.0)
        held.append(piece)
    for piece in held:
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.tensor_copy(tile, piece[:, : x.shape[1]])
        nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize(("space", "columns", "count"), [(nl.psum, 512, 9), (nl.sbuf, 8192, 8)])
def test_more_tiles_than_the_memory_holds_are_an_error(space, columns, count):
    options = sim.compiler.Options(spill=False) if space is nl.sbuf else None
    with pytest.raises(CapacityError) as raised:
        launched(holds, count=count, space=space, columns=columns, options=options)
    assert raised.value.exit_code == 4
    text = rf"\d × `piece` float32\[128, {columns}\] {columns * 4} bytes \({re.escape(line(holds, 'piece'))}\)"
    assert re.search(text, str(raised.value))
    assert found(holds, count=count // 2, space=space, columns=columns) == []


# -- Python that the compiler refuses --------------------------------------------------------------


def compares_identity(x, scale=None):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    if scale is not None:  # wrong
        nisa.tensor_scalar(tile, tile, nl.multiply, scale)
    nisa.dma_copy(out, tile)
    return out


def compares_values(x, scale=None):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    if scale != None:  # noqa: E711
        nisa.tensor_scalar(tile, tile, nl.multiply, scale)
    nisa.dma_copy(out, tile)
    return out


def has_generator(x):
    size = sum(2 * n for n in x.shape)  # wrong
    return compares_values(x) if size else None


def has_list_comprehension(x):
    size = sum([2 * n for n in x.shape])
    return compares_values(x) if size else None


def has_separator(x, *, scale=None):  # wrong
    return compares_values(x, scale)


def has_number_keys(x):
    sizes = {0: x.shape[0]}  # wrong
    return compares_values(x) if sizes else None


def has_string_keys(x):
    sizes = {"rows": x.shape[0]}
    return compares_values(x) if sizes else None


def has_list_default(x, sizes=[1]):  # noqa: B006  # wrong
    return compares_values(x) if sizes else None


def has_tuple_default(x, sizes=(1,)):
    return compares_values(x) if sizes else None


@dataclass
class Plain:
    rows: int


@dataclass
class Proper(nl.NKIObject):
    rows: int


class Mode(Enum):
    fast = 1


def uses_plain_class(x):  # wrong
    return compares_values(x) if Plain(1).rows else None


def uses_proper_class(x):
    return compares_values(x) if Proper(1).rows and Mode.fast == Mode.fast else None


def calls_another(x):
    return compares_identity(x)


def calls_through_another(x):
    return calls_another(x)


@pytest.mark.parametrize(
    ("wrong", "what", "right"),
    [
        (compares_identity, "`is`", compares_values),
        (has_generator, "generator", has_list_comprehension),
        (has_separator, "`*`", compares_values),
        (has_number_keys, "dictionary key", has_string_keys),
        (has_list_default, "list", has_tuple_default),
        (uses_plain_class, "`Plain`", uses_proper_class),
    ],
)
def test_python_that_the_compiler_refuses_is_a_warning(wrong, what, right):
    (finding,) = found(wrong)
    assert finding.kind == "unsupported_python"
    assert finding.is_warning
    assert what in finding.sentence
    assert finding.source == line(wrong, "wrong")
    assert finding.source in finding.sentence
    assert found(right) == []


def test_functions_that_a_kernel_calls_are_read_too():
    (finding,) = found(calls_through_another)
    assert finding.source == line(compares_identity, "wrong")


@pytest.mark.parametrize(("given", "wrong"), [([1], True), ((1,), False), (Plain(1), True), (Proper(1), False)])
def test_arguments_that_the_compiler_refuses_are_a_warning(given, wrong):
    assert [finding.kind for finding in found(has_tuple_default, sizes=given)] == ["unsupported_python"] * wrong


def test_a_rule_broken_on_many_lines_is_one_warning(tmp_path):
    path = tmp_path / "many.py"
    path.write_text("def kernel(x):\n    a = x is None\n    b = x is None\n    return x.shape[a or b :]\n")
    kernel = sim.load(f"{path}::kernel")
    (finding,) = sim.nki.subset.findings(kernel, ())
    assert f"{path}:2, and in 1 more lines" in finding.sentence


# -- the command -----------------------------------------------------------------------------------

FILE = """
import nki, nki.isa as nisa, nki.language as nl


@nki.jit
def copied(x, rows):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    if rows is not None:
        nisa.dma_copy(dst=tile[:rows], src=x[:rows])
    nisa.dma_copy(dst=out, src=tile)
    return out


if __name__ == "__main__":
    import sys
    import numpy as np

    copied(np.ones((128, 8), np.float32), int(sys.argv[1]))
    sys.exit(int(sys.argv[2]))
"""


def forgets(x, back):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(out, nl.load(x))
    return out if back else None


def writes_its_argument(x):
    nisa.dma_copy(x, nl.add(nl.load(x), 1))


@pytest.mark.parametrize("values", [True, False])
def test_a_kernel_that_gives_nothing_back_is_warned_of(values):
    (finding,) = found(forgets, values, back=False)
    place = f"{__file__}:{forgets.__code__.co_firstlineno}"
    assert (finding.kind, finding.source, finding.is_warning) == ("no_output", place, True)
    assert f"`forgets` ({place}) returns no tensor" in finding.sentence
    assert found(forgets, values, back=True) == found(writes_its_argument, values) == []


@pytest.mark.parametrize("value", [np.zeros((3, 3)), 7, "x", (1.5,)])
def test_what_is_no_tensor_is_refused_as_an_output(value):
    def gives(x):
        return value

    with pytest.raises(InputError, match=r"gives returns .* of type \w+ \(return tensors that are allocated"):
        launched(gives)


def test_what_an_index_of_the_older_api_does_wrong_has_a_place():
    from sim.nki.legacy import language as older
    from sim.nki.legacy.kernel import jit

    def mixes(x):
        return older.load(x[older.arange(8)[:, None], older.arange(4)[:, None]])  # index

    with pytest.raises(InputError, match=r"^\S+test_findings.py:\d+: index tensors of shapes \[8, 1\] and") as fault:
        launched(jit(mixes))
    assert fault.value.source == line(mixes, "index")


def test_what_is_no_function_is_refused_as_a_kernel():
    with pytest.raises(InputError, match=r"sim.run: kernel: 'k' is no function \(get one with sim.load"):
        sim.run("k", np.ones(SHAPE, np.float32))


@pytest.mark.parametrize(("rows", "code"), [(128, 0), (64, 1)])
@pytest.mark.parametrize("form", [["--json"], []])
def test_run_fails_on_findings_but_not_on_warnings(tmp_path, capsys, rows, code, form):
    path = tmp_path / "kernels.py"
    path.write_text(FILE)
    argv = ["run", f"{path}::copied", "--arg", "x=fp32[128,8]", "--arg", f"rows={rows}", *form]
    assert cli.main(argv) == code
    out, err = capsys.readouterr()
    assert "unsupported_python" in out
    assert ("uninitialised_read" in out) == bool(code)
    assert ("1 found wrong: uninitialised_read" in err) == bool(code)


@pytest.mark.parametrize(("rows", "own", "code"), [(128, 0, 0), (64, 0, 1), (64, 5, 5)])
def test_a_script_fails_on_findings_unless_it_fails_by_itself(tmp_path, capsys, rows, own, code):
    path = tmp_path / "kernels.py"
    path.write_text(FILE)
    assert cli.main(["run", str(path), str(rows), str(own)]) == code
    out, err = capsys.readouterr()
    assert "copied" in out
    assert ("1 found wrong: uninitialised_read" in err) == (rows < 128)


def test_values_that_this_machine_cannot_hold_are_named():
    def holds(x):
        raise MemoryError("Unable to allocate 37.3 GiB")  # large

    with pytest.raises(CapacityError, match=r"no memory for the values of `holds`: Unable.*without values") as fault:
        launched(holds)
    assert fault.value.source == line(holds, "large")


def test_tensors_that_fill_hbm_are_named_with_their_places():
    def holds(x):
        return nl.ndarray((1 << 17, 1 << 17), x.dtype, nl.shared_hbm, name="large")

    with pytest.raises(CapacityError, match=r"HBM is full.* 68719476736 bytes \(\S+:\d+\), `x` .* 32768 bytes \(shard"):
        launched(holds, values=False)
