"""The fixture `trnprof_kernel`: claims that hold pass, claims that do not fail with the evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from trnprof import readers
from trnprof.home import data_dir

pytest_plugins = ("pytester",)

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.dma_copy(out, tile)
    return out
"""


@pytest.fixture
def tests(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makefile(".py", kernels=KERNEL)
    # The plugin is named here because an installed one may be another version's.
    pytester.makeini("[pytest]\naddopts = -p no:trnprof -p trnprof.pytest_plugin -p no:cacheprovider -p no:dash")
    return pytester


def test_claims_pass_where_they_hold_and_fail_with_the_evidence(tests: pytest.Pytester) -> None:
    path: Path = data_dir("traces") / "kernels" / "silu_multiply.py"
    tests.makepyfile(
        test_claims=f"""
        import numpy as np
        import pytest
        from sim.errors import UsageError

        DOUBLE = "kernels.py::double"

        def test_named(trnprof_kernel):
            kernel = trnprof_kernel(DOUBLE, x="bf16[128,512]")
            assert kernel.stays("latency", "memory_bandwidth").under(us=100).under(ms=1) is kernel
            assert kernel.moves_at_most(kib=256).finds_nothing().latency_us > 0
            assert kernel.run.outputs is None

        def test_values(trnprof_kernel):
            kernel = trnprof_kernel(DOUBLE, np.ones((128, 4), np.float32), values=True, device="trn1")
            assert (kernel.run.outputs[0] == 2).all()
            assert kernel.trace.meta.device == "trn1"

        def test_sample(trnprof_kernel):
            kernel = trnprof_kernel({str(path)!r} + "::silu_multiply", gate="bf16[1024,2048]", up="bf16[1024,2048]")
            kernel.stays("memory_bandwidth").under(us=60).moves_at_most(mib=12)

        def test_claims_that_make_no_sense(trnprof_kernel):
            kernel = trnprof_kernel(DOUBLE, x="bf16[128,512]")
            for claim in (lambda: kernel.stays("bandwidth"), lambda: kernel.stays(), lambda: kernel.under(s=1),
                          lambda: kernel.under(), lambda: kernel.under(us=1, ns=1)):
                with pytest.raises(UsageError):
                    claim()

        def test_two(trnprof_kernel):
            for width in (4, 8):
                trnprof_kernel(DOUBLE, x=f"bf16[128,{{width}}]")

        def test_bound(trnprof_kernel):
            trnprof_kernel(DOUBLE, x="bf16[128,512]").stays("compute")

        def test_time(trnprof_kernel):
            trnprof_kernel(DOUBLE, x="bf16[128,512]").under(us=0.5)

        def test_bytes(trnprof_kernel):
            trnprof_kernel(DOUBLE, x="bf16[128,512]").moves_at_most(bytes=262_143)
    """
    )
    result = tests.runpytest_subprocess("--trnprof-traces", "traces")
    result.assert_outcomes(passed=5, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*double on trn2 is bound by *, not by compute*",
            "*double on trn2 takes * us, more than 0.5 us*",
            "*double on trn2 moves 2.621e+05 bytes, more than 262143 bytes*",
        ]
    )
    found = sorted(path.name for path in (tests.path / "traces").glob("*test_two*"))
    assert found == ["test_claims.py-test_two", "test_claims.py-test_two-2"]
    assert readers.open(tests.path / "traces" / found[1]).meta.kernel == "double"


def test_the_plugin_costs_a_test_run_nothing(tests: pytest.Pytester) -> None:
    tests.makepyfile("""
        import sys

        def test_it():
            assert not {"numpy", "numba", "pyarrow", "sim.trace", "trnprof.bounds"} & sys.modules.keys()
    """)
    tests.runpytest_subprocess().assert_outcomes(passed=1)
