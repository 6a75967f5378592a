"""Kernels that nkipy's tests and the scripts of trnblas and trnrand define inside of functions or beside a driver.

Their own drivers need a device, so the text of each kernel is compiled as it stands, with the imports of its file.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.corpora import Case, Check, Launch, Outcome, measure
from tests.corpora_current import rmsnorm

NKIPY = "nkipy/tests/unit/test_nki.py"
PAIRS, FUSED, TUNED = (
    f"pypi/trnblas-0.5.4/scripts/{name}.py"
    for name in ("spike_batched_pair", "spike_phase3_fused_gemm_energy", "autotune_gemm")
)
WORDS = "pypi/trnrand-0.5.0/tests/test_nki_sim.py"
SAMPLING = "nkipy/examples/models/qwen3/kernels/sampling.py"
BUILT_INS = "NKI 0.2's built-in names `sbuf` and `hbm`, which no document describes and later releases have not"
SINGLE, EXACT = Check(rtol=1e-5, atol=1e-5), Check(rtol=0, atol=0)


@dataclass(frozen=True)
class Nested:
    """inputs : (generator) -> arguments; reference : (*arguments) -> what the kernel must return"""

    corpus: str
    file: str
    kernel: str
    inputs: Callable[[np.random.Generator], tuple]
    reference: Callable[..., Any]
    check: Check = SINGLE
    grid: tuple[int, ...] = ()
    free: dict[str, Any] = field(default_factory=dict)
    """Names that the function around the kernel gives it."""
    known: str = ""
    """Why it cannot run."""
    helpers: tuple[str, ...] = ()
    """Functions of the file that it calls."""
    inside: str = ""
    """The function around it, where several define a kernel of that name."""


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple]:
    return lambda generator: tuple(generator.standard_normal(shape).astype(np.float32) for shape in shapes)


def pair_energy(b: np.ndarray, low: np.ndarray, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Row sums of T (2 T - T^T) / (e_i + e_j - e_a - e_b) for every pair, shape [a, i * j]"""
    t = np.einsum("iap,jbp->ijab", b, b)
    gap = (low[0][:, None] + low[0])[:, :, None, None] - column - row
    return (t * (2 * t - t.swapaxes(2, 3)) / gap).sum(3).transpose(2, 0, 1).reshape(b.shape[1], -1)


def energies(generator: np.random.Generator) -> tuple:
    low, high = np.linspace(-0.9, -0.1, 4, dtype=np.float32), np.linspace(0.1, 1, 128, dtype=np.float32)
    return (*normal((4, 128, 128))(generator), low[None], high[:, None], high[None])


def two_products(b_i: np.ndarray, b_j: np.ndarray, gap: np.ndarray) -> np.ndarray:
    t = b_i @ b_j.T
    return (t * (2 * t - t.T) / gap).sum(1, keepdims=True)


def halves_of_product(a: np.ndarray, *unused: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """High and low words of a times 0xD2511F53; the casts between signed and unsigned words pass through fp32, which
    is why the package expects its own test of this kernel to fail (aws-neuron-sdk#1308)."""
    from tests.test_pypi_kernels import as_int32, as_uint32

    product = as_uint32(a).astype(np.uint64) * np.uint64(0xD2511F53)
    return tuple(as_int32((product >> np.uint64(shift)).astype(np.uint32)) for shift in (32, 0))


def words(generator: np.random.Generator) -> tuple:
    edges = [0, 1, 0xFFFF, 0x10000, 0xFFFE0001, 0x7FFFFFFF, 0x80000000, 0xD2511F53, 0xFFFFFFFF]
    column = np.array(edges + [0] * (128 - len(edges)), np.uint32).view(np.int32)[:, None]
    return column, np.zeros_like(column), np.zeros_like(column)


PLAIN = ("", "_called_twice_different_shapes", "_kwargs_operand_order")
BETA_2 = ("_called_twice_different_shapes", "_kwargs_operand_order")
SQUARES = ((128, 512), (128, 512))
NESTED = [
    Nested("nkipy", NKIPY, "nki_tensor_add_kernel_jit", normal(*SQUARES), np.add, EXACT),
    Nested("nkipy", NKIPY, "nki_tensor_add_kernel_grid", normal((256, 1024), (256, 1024)), np.add, EXACT, (2, 2)),
    *(Nested("nkipy", NKIPY, "nki_add_kernel", normal(*SQUARES), np.add, EXACT, known=BUILT_INS,
             inside=f"test_nki_direct_jit_beta2{name}") for name in BETA_2),
    *(Nested("nkipy", NKIPY, "nki_add_kernel", normal(*SQUARES), np.add, EXACT, inside=name)
      for name in (*(f"test_nki_direct_jit_beta3{name}" for name in PLAIN), "test_nki_wrap_kernel_beta3",
                   "test_nki_simple_beta3_hardware")),
    *(Nested("nkipy", NKIPY, "nki_inplace_add_kernel", normal(*SQUARES), np.add, EXACT, inside=name)
      for name in ("test_nki_mutable_tensor_beta3", "test_nki_mutable_tensor_beta3_hardware")),
    Nested("nkipy", SAMPLING, "nki_rmsnorm_kernel",
           lambda generator: (*normal((200, 512), (512,))(generator), 1e-5), rmsnorm,
           helpers=("stream_shuffle_broadcast",)),
    Nested("PyPI trn*", PAIRS, "spike_A_3d_index", normal((4, 128, 128)), lambda b: b.sum(2).T),
    Nested("PyPI trn*", PAIRS, "spike_A_3d_transpose", normal((4, 128, 128)), lambda b: b.sum(1).T),
    Nested("PyPI trn*", PAIRS, "spike_B_pair_loop", energies, pair_energy, Check(l2=1e-5)),
    Nested("PyPI trn*", PAIRS, "spike_C_running_add", normal((4, 128, 128), (1, 1)),
           lambda b, unused: 4 * b.sum((0, 2))[:, None]),
    Nested("PyPI trn*", FUSED, "_spike_a_psum_to_ve", normal((128, 128), (128, 128)),
           lambda a, b: 2 * (a @ b).sum(1, keepdims=True), Check(rtol=1e-3, atol=1e-2)),
    Nested("PyPI trn*", FUSED, "_spike_b_two_gemm",
           lambda generator: (*normal((128, 128), (128, 128))(generator), np.full((128, 128), 2, np.float32)),
           two_products, Check(rtol=1e-3, atol=1e-2)),
    Nested("PyPI trn*", FUSED, "_spike_c_te_ve_overlap", normal((8, 128, 128), (128, 128)),
           lambda b, unused: 2 * np.einsum("kap,kbp->ak", b, b), Check(rtol=1e-3, atol=1e-2)),
    Nested("PyPI trn*", TUNED, "_kernel", normal((256, 256), (256, 512)), np.matmul, Check(l2=1e-5),
           free={"tile_m": 128, "tile_k": 128, "tile_n": 512}),
    Nested("PyPI trn*", WORDS, "_mul32_kernel", words, halves_of_product, EXACT),
]  # fmt: skip


def cases(folder: Path) -> list[Case]:
    return [
        Case(nested.corpus, nested.file, f"{nested.kernel} {nested.inside}".strip(), partial(run, nested))
        for nested in NESTED
        if (folder / nested.file).is_file()
    ]


def run(nested: Nested, folder: Path) -> Outcome:
    import sim

    with sim.stand_ins("trn2"):
        kernel = taken(folder / nested.file, nested)
        kernel = kernel[nested.grid] if nested.grid else kernel
        inputs = nested.inputs(np.random.default_rng(0))
        wanted = nested.reference(*inputs)
        if not nested.known:
            return measure(Launch(kernel, inputs, lambda: wanted, nested.check), "trn2")
        try:
            measure(Launch(kernel, inputs, lambda: wanted, nested.check), "trn2")
        except Exception as error:
            return Outcome(known=nested.known, reason=f"{type(error).__name__}: {str(error)[:120]}")
    return Outcome(ran=True, right=False, reason=f"ran, although {nested.known}")


def taken(path: Path, nested: Nested) -> Any:
    """A kernel out of its file: what is compiled is its own text, at its own lines."""
    tree = ast.parse(path.read_text())
    around = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == nested.inside]
    functions = [node for root in around or [tree] for node in ast.walk(root) if isinstance(node, ast.FunctionDef)]
    (kernel,) = [node for node in functions if node.name == nested.kernel]
    module = ModuleType(path.stem)
    module.__dict__.update(nested.free, __file__=str(path))
    sys.path.insert(0, str(path.parent.parent))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            _import(node, path, module)
    called = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in nested.helpers]
    exec(compile(ast.Module([*called, kernel], []), str(path), "exec"), module.__dict__)
    return module.__dict__[nested.kernel]


def _import(node: ast.stmt, path: Path, module: ModuleType) -> None:
    """Run an import of the file; what is not installed, the kernel does without."""
    try:
        exec(compile(ast.Module([node], []), str(path), "exec"), module.__dict__)
    except ImportError:
        return
