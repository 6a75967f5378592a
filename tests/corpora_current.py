"""aws-neuron-sdk's examples and deep dives, and nki-samples' tutorials, as far as they use the current API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.corpora import Case, Check, Launch, Outcome, imported, measure
from tests.corpora_samples import mamba, pooled, transposed

EXAMPLES = "aws-neuron-sdk/nki/examples"
MATMULS = (EXAMPLES + "/matrix_multiplication", "nki-samples/src/nki_samples/tutorials/matrix_multiplication")
MX_DIVE, MX_SAMPLE = (
    "aws-neuron-sdk/nki/deep-dives/src/mxfp-matmul",
    "nki-samples/src/nki_samples/tutorials/mxfp-matmul",
)
EXACT, BF16, SINGLE = Check(rtol=0, atol=0), Check(rtol=1e-2, atol=1e-2), Check(rtol=1e-5, atol=1e-6)
DRIVER = ("torch", "torch_xla", "torch_neuronx", "nkipy", "nkipy.core", "nkipy.core.nki_op", "nkipy.runtime")
"""Packages of the host side; where they are not installed, a module that holds nothing takes their place."""


@dataclass(frozen=True)
class Example:
    """inputs : (generator) -> arrays and numbers; reference : (*inputs) -> what the kernel must return"""

    file: str
    kernel: str
    inputs: Callable[[np.random.Generator], tuple]
    reference: Callable[..., Any]
    check: Check
    device: str = "trn2"
    scalars: dict[str, Any] = field(default_factory=dict)
    spoilt: str = ""
    """Why no Python can import the file, or what the documents say is wrong with the kernel."""


def _normal(dtype: Any, *shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple]:
    return lambda generator: tuple(generator.standard_normal(shape).astype(dtype) for shape in shapes)


def _product(lhs_t: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return lhs_t.astype(np.float32).T @ rhs.astype(np.float32)


def _max_pooled(x: np.ndarray, size: int) -> np.ndarray:
    c, h, w = x.shape
    return x.reshape(c, h // size, size, w // size, size).max((2, 4))


def _matmuls(folder: str) -> list[Example]:
    file = f"{folder}/matrix_multiplication_nki_kernels.py"
    small, large = ((128, 64), (128, 512)), ((1024, 4096), (1024, 2048))
    sizes = {"nki_matmul_basic_": small, "nki_matmul_tiled_": large, "nki_matmul_hoist_load_": large}
    sizes |= {"nki_matmul_block_free_dimension_": large, "nki_matmul_fully_optimized_": large}
    bf16 = ml_dtypes.bfloat16
    return [Example(file, kernel, _normal(bf16, *shapes), _product, BF16) for kernel, shapes in sizes.items()]


def _mamba_inputs(generator: np.random.Generator) -> tuple:
    shapes = ((1, 256, 512), (1, 256, 512), (256, 16), (1, 16, 512), (1, 16, 512))
    return tuple(
        generator.uniform(0, 1, shape).astype(np.float32) * (-1 if i == 2 else 1) for i, shape in enumerate(shapes)
    )


def rmsnorm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + epsilon) * weight


def _whole_numbers(*shape: int) -> Callable[[np.random.Generator], tuple]:
    return lambda generator: (np.arange(np.prod(shape)).reshape(shape).astype(np.float16), 2)


SDK = [
    Example(f"{EXAMPLES}/getting_started_baremetal.py", "nki_tensor_add_kernel",
            _normal(np.float16, (4, 3), (4, 3)), np.add, EXACT),
    Example(f"{EXAMPLES}/getting_started_jax.py", "nki_tensor_add_kernel",
            _normal(np.float16, (4, 3), (4, 3)), np.add, EXACT),
    Example(f"{EXAMPLES}/getting_started_torch.py", "nki_tensor_add_kernel",
            _normal(np.float16, (4, 3), (4, 3)), np.add, EXACT),
    Example(f"{EXAMPLES}/index-case-1.py", "tensor_split_kernel_",
            _normal(ml_dtypes.bfloat16, (4, 5)), lambda x: (x[:, ::2], x[:, 1::2]), EXACT),
    Example(f"{EXAMPLES}/index-case-3.py", "tensor_maxpool_kernel_", _whole_numbers(2, 6, 6), _max_pooled, EXACT),
    Example(f"{EXAMPLES}/layout-pass.py", "tensor_exp_kernel_",
            _normal(np.float32, (128, 512)), np.exp, SINGLE),
    Example(f"{EXAMPLES}/layout-loop.py", "tensor_exp_kernel_", _normal(np.float32, (256, 512)), np.exp, SINGLE,
            spoilt="imports nki_jit from torch_neuronx, which is gone, and names an undefined variable"),
    Example(f"{EXAMPLES}/layout-dynamic-loop.py", "tensor_exp_kernel_", _normal(np.float32, (300, 512)), np.exp,
            SINGLE, spoilt="a bracket is missing: not valid Python"),
    Example(f"{EXAMPLES}/layout-violation.py", "tensor_exp_kernel_", _normal(np.float32, (256, 512)), np.exp,
            SINGLE, spoilt="shown for its fault: 256 partitions"),
    Example(f"{EXAMPLES}/simulate/nki_simulate_example.py", "add_kernel",
            _normal(np.float32, (128, 512), (128, 512)), np.add, EXACT),
    Example(f"{EXAMPLES}/tensor_addition/tensor_addition_nki_kernels.py", "nki_tensor_add",
            _normal(ml_dtypes.bfloat16, (256, 1024), (256, 1024)), np.add, EXACT),
    Example(f"{EXAMPLES}/average_pool2d/average_pool2d_nki_kernels.py", "tensor_avgpool_kernel",
            _whole_numbers(2, 6, 6), pooled, EXACT),
    Example(f"{EXAMPLES}/transpose2d/transpose2d_nki_kernels.py", "tensor_transpose2D_kernel_",
            lambda generator: (np.arange(60, dtype=np.int8).reshape(5, 12), (3, 4)), transposed, EXACT),
    *(Example(f"{EXAMPLES}/fused_mamba/mamba_nki_kernels.py", f"mamba_v{version}", _mamba_inputs, mamba, SINGLE)
      for version in (1, 2, 3)),
]  # fmt: skip


NKIPY = [
    Example("nkipy/examples/models/gpt_oss/kernels/nki/rmsnorm.py", "nki_rmsnorm_kernel",
            lambda generator: (*_normal(np.float32, (200, 512), (512,))(generator), 1e-5), rmsnorm, SINGLE),
    Example("nkipy/examples/playground/simple_nki_kernel.py", "nki_tensor_add",
            _normal(np.float32, (128, 512), (128, 512)), np.add, EXACT),
]  # fmt: skip


def cases(folder: Path) -> list[Case]:
    examples = [*SDK, *NKIPY, *(example for place in MATMULS for example in _matmuls(place))]
    found = [_case(example) for example in examples if (folder / example.file).is_file()]
    for place in (MX_DIVE, MX_SAMPLE):
        file = f"{place}/mx_kernels.py"
        if (folder / file).is_file():
            text = (folder / file).read_text()
            names = [name for name in MX if f"def {name}(" in text]
            found += [Case(_corpus(place), file, name, partial(_mx, place, name), "trn3") for name in names]
    return found


def _corpus(file: str) -> str:
    return {"aws-neuron-sdk": "sdk examples", "nkipy": "nkipy"}.get(file.partition("/")[0], "nki-samples, current")


def _case(example: Example) -> Case:
    return Case(_corpus(example.file), example.file, example.kernel, partial(_run, example), example.device)


def _run(example: Example, folder: Path) -> Outcome:
    if example.spoilt:
        return _refused(example, folder)
    with imported(folder / example.file, example.device, _missing(DRIVER)) as module:
        inputs = example.inputs(np.random.default_rng(0))
        launch = Launch(
            getattr(module, example.kernel), inputs, lambda: example.reference(*inputs), example.check, example.scalars
        )
        return measure(launch, example.device)


def _refused(example: Example, folder: Path) -> Outcome:
    """An example that cannot run must not seem to."""
    try:
        with imported(folder / example.file, example.device, _missing(DRIVER)) as module:
            inputs = example.inputs(np.random.default_rng(0))
            measure(Launch(getattr(module, example.kernel), inputs, lambda: None, EXACT), example.device)
    except Exception as error:
        return Outcome(known=example.spoilt, reason=f"{type(error).__name__}: {str(error)[:120]}")
    return Outcome(ran=True, right=False, reason=f"ran, although {example.spoilt}")


def _missing(names: tuple[str, ...]) -> tuple[str, ...]:
    import importlib.util

    return tuple(name for name in names if importlib.util.find_spec(name.partition(".")[0]) is None)


def _mx_data(tools: Any, dtype: Any, *shape: int) -> tuple:
    np.random.seed(0)
    return tools.generate_stabilized_mx_data(dtype, shape)


def _offline(tools: Any, nl: Any) -> tuple:
    kind = ml_dtypes.float8_e5m2
    _, _, left, left_scale = _mx_data(tools, kind, 128, 128 * 4)
    _, _, right, right_scale = _mx_data(tools, kind, 128, 512 * 4)
    golden = tools.nc_matmul_mx_golden(left, right, left_scale, right_scale, kind, kind)
    return (left, left_scale, right, right_scale, nl.float8_e5m2_x4), golden


def _on_device(tools: Any, nl: Any) -> tuple:
    kind = ml_dtypes.float8_e5m2
    _, _, left, left_scale = _mx_data(tools, kind, 128, 128 * 4)
    right = _mx_data(tools, kind, 128, 512 * 4)[0]
    data, scale = tools.quantize_mx_golden(right, kind)
    golden = tools.nc_matmul_mx_golden(left, data, left_scale, scale, kind, kind)
    return (left, left_scale, right.astype(ml_dtypes.bfloat16), nl.float8_e5m2_x4, nl.float8_e5m2_x4), golden


def _strided(tools: Any, nl: Any) -> tuple:
    left, right = (_mx_data(tools, ml_dtypes.float8_e5m2, 512, width)[0] for width in (128, 512))
    arrays = tuple(side.astype(ml_dtypes.bfloat16) for side in (left, right))
    return (*arrays, nl.float8_e5m2_x4, True), left.T @ right


MX: dict[str, Callable[[Any, Any], tuple]] = {
    "kernel_offline_quantized_mx_matmul": _offline,
    "kernel_on_device_quantize_matmul_mx": _on_device,
    "kernel_copy_strided_quantize_matmul_mx": _strided,
    "kernel_copy_strided_quantize_matmul_mx_packed_scale": _strided,
}


def _mx(place: str, kernel: str, folder: Path) -> Outcome:
    """Inputs and reference as the tutorial's own driver makes them, which needs hardware."""
    with imported(folder / place / "mx_kernels.py", "trn3") as module:
        import mx_cpu_utils
        from nki import language as nl

        inputs, golden = MX[kernel](mx_cpu_utils, nl)
        return measure(Launch(getattr(module, kernel), inputs, lambda: golden, Check(rtol=5e-2, atol=5e-2)), "trn3")
