"""What is wrong in a legacy kernel although it runs, with allocation objects and with lazily made blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.errors import CapacityError
from sim.launch import TensorSpec

KERNELS = """
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def loads_in_part(x, rows):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    half = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)  # half
    i, j = nl.mgrid[0:128, 0:64]
    half[i, j] = nl.load(x[i, j], mask=i < rows)
    nl.store(out[i, j], half[i, j])  # read
    return out


@nki.jit
def lays_tiles_over_one_another(x, at):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((128, 64), x.dtype, buffer=ncc.sbuf.alloc(lambda idx, pdim_size, fdim_size: (0, 0)))  # kept
    kept[...] = nl.load(x)
    scratch = nl.ndarray((128, 64), x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=at))  # scratch
    scratch[...] = nl.zeros((128, 64), x.dtype)  # write
    nl.store(out, nl.add(kept, scratch))  # read
    return out


@nki.jit
def rotates_banks(x, banks):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    rotating = ncc.psum.mod_alloc(base_bank=0, num_bank_tiles=(banks,))
    sums = nl.ndarray((2, nl.par_dim(64), 64), nl.float32, buffer=rotating)  # sums
    for k in nl.affine_range(2):
        sums[k] = nisa.nc_matmul(tile, tile)  # write
    for k in nl.affine_range(2):
        nl.store(out[k * 64 : (k + 1) * 64], nl.copy(sums[k]))  # read
    return out


@nki.jit
def holds(x, count):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    pieces = nl.ndarray((count, nl.par_dim(128), 512), nl.float32, buffer=nl.psum)  # pieces
    tile = nl.ndarray((128, 128), x.dtype, buffer=nl.sbuf)
    tile[:, 0:64] = nl.load(x)
    tile[:, 64:128] = nl.load(x)
    for k in nl.affine_range(count):
        pieces[k, :, 0:64] = nisa.nc_matmul(tile, tile[:, 0:64])
    for k in nl.affine_range(count):
        nl.store(out, nl.copy(pieces[k, :, 0:64]))
    return out


@nki.jit
def shares(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    between = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    nl.store(between[core * 64 : core * 64 + 64], nl.load(x[core * 64 : core * 64 + 64]))  # write
    other = (1 - core) * 64
    nl.store(out[core * 64 : core * 64 + 64], nl.load(between[other : other + 64]))  # read
    return out
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> object:
    path = tmp_path_factory.mktemp("kernels") / "kernels.py"
    path.write_text(KERNELS)
    return sim.load(str(path))


def found(kernel: Callable, values: bool = True, **named: object) -> list[sim.trace.Finding]:
    x = np.ones((128, 64), np.float32) if values else TensorSpec((128, 64), "float32")
    return list(sim.run(kernel, x, values=values, **named).findings)


def line(kernels: object, function: str, marker: str) -> str:
    lines = Path(kernels.__file__).read_text().splitlines()
    first = lines.index(next(text for text in lines if text.startswith(f"def {function}(")))
    return (
        f"{kernels.__file__}:{next(n for n, text in enumerate(lines, 1) if n > first and text.endswith(f'# {marker}'))}"
    )


def test_what_a_mask_leaves_unwritten_is_found_when_it_is_read(kernels):
    (finding,) = found(kernels.loads_in_part, rows=64)
    assert (finding.kind, finding.source) == ("uninitialised_read", line(kernels, "loads_in_part", "read"))
    assert "reads 4096 of 8192 elements of `half`" in finding.sentence
    assert line(kernels, "loads_in_part", "half") in finding.sentence
    assert found(kernels.loads_in_part, rows=128) == []


@pytest.mark.parametrize("values", [True, False])
def test_allocation_objects_that_overlap_are_found(kernels, values):
    (finding,) = found(kernels.lays_tiles_over_one_another, values, at=128)
    assert (finding.kind, finding.source) == ("overlap", line(kernels, "lays_tiles_over_one_another", "read"))
    for marker in ("kept", "scratch", "write", "read"):
        assert line(kernels, "lays_tiles_over_one_another", marker) in finding.sentence
    assert "`scratch`" in finding.sentence and "`kept`" in finding.sentence
    assert found(kernels.lays_tiles_over_one_another, values, at=256) == []


@pytest.mark.parametrize("values", [True, False])
def test_blocks_that_rotate_through_too_few_banks_are_found(kernels, values):
    (finding,) = found(kernels.rotates_banks, values, banks=1)
    assert finding.kind == "overlap"
    declared = line(kernels, "rotates_banks", "sums")
    assert (
        f"`sums[1]` (allocated at {declared}) over bytes of `sums[0]` (allocated at {declared}) in PSUM"
        in finding.sentence
    )
    for marker in ("write", "read"):
        assert line(kernels, "rotates_banks", marker) in finding.sentence
    assert found(kernels.rotates_banks, values, banks=2) == []


@pytest.mark.parametrize("values", [True, False])
def test_more_blocks_than_psum_holds_are_an_error_that_names_the_tensor(kernels, values):
    options = sim.compiler.Options.for_generation("current")
    with pytest.raises(CapacityError, match="PSUM") as raised:
        found(kernels.holds, values, count=9, options=options)
    assert raised.value.exit_code == 4
    assert re.search(rf"`pieces\[\d\]`.*{re.escape(line(kernels, 'holds', 'pieces'))}", str(raised.value), re.DOTALL)
    assert found(kernels.holds, values, count=8, options=options) == []


def test_cores_of_a_legacy_grid_that_share_memory_without_a_barrier_race(kernels):
    with sim.stand_ins():
        import neuronxcc.nki.language as nl

        (finding,) = [race for race in found(kernels.shares[nl.nc(2)], values=False) if race.kind == "race"]
    for part in ("core 0", "core 1", "`between`", line(kernels, "shares", "write"), line(kernels, "shares", "read")):
        assert part in finding.sentence
