"""What a person types for a kernel and for its parameters, as what the kernel gets."""

from __future__ import annotations

import re
import zlib
from math import prod
from typing import TYPE_CHECKING, Any

from sim.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from sim.launch import TensorSpec

MADE_BYTES = 8
"""An element while it is made up: drawn in four bytes, then cast."""

_TENSOR = re.compile(r"(?P<dtype>[A-Za-z_]\w*)\[(?P<shape>[^\]]*)\]")
_FILE = re.compile(r"(?P<dtype>[A-Za-z_]\w*)@(?P<path>.+\.npy)|@(?P<bare>.+)")
_WORDS = {"true": True, "false": False, "none": None}


def parse(texts: list[str], seed: int, values: bool) -> dict[str, Any]:
    """The kernel's keyword arguments from `NAME=SPEC` texts.

    values : False makes tensors of a shape and a dtype alone
    raises : UsageError for a text that is not NAME=SPEC, a name given twice, an unknown dtype or a bad shape;
             InputError for a file that is missing or holds no array, and for values larger than memory
    """
    arguments: dict[str, Any] = {}
    for text in texts:
        name, equals, spec = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--arg {text}: expected NAME=SPEC, such as x=bf16[128,512]")
        if name in arguments:
            raise UsageError(f"--arg {text}: {name} is given twice")
        arguments[name] = _value(name, spec, seed, values)
    return arguments


def _value(name: str, spec: str, seed: int, values: bool) -> Any:
    file = _FILE.fullmatch(spec)
    if file:
        return _load(name, file["bare"] or file["path"], _dtype(name, file["dtype"]) if file["dtype"] else None)
    tensor = _TENSOR.fullmatch(spec)
    if tensor:
        dtype, shape = _dtype(name, tensor["dtype"]), _shape(name, tensor["shape"])
        return _tensor(name, dtype, shape, seed) if values else _shape_only(dtype, shape)
    if len(spec) >= 2 and spec[0] == spec[-1] and spec[0] in "'\"":
        return spec[1:-1]
    if spec.lower() in _WORDS:
        return _WORDS[spec.lower()]
    for number in (int, float):
        try:
            return number(spec)
        except ValueError:
            pass
    if "[" in spec:
        raise UsageError(f"--arg {name}: {spec} is not DTYPE[SHAPE]", remedy=f"""a string goes in quotes: '"{spec}"'""")
    return spec


def _dtype(name: str, text: str) -> Any:
    from sim import dtypes

    try:
        return dtypes.parse(text)
    except InputError:
        known = " ".join(dtypes.short(dtype) for dtype in dtypes.DTYPES)
        raise UsageError(f"--arg {name}: unknown dtype {text}", remedy=f"known: {known}") from None


def _shape(name: str, text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(extent) for extent in text.split(","))
    except ValueError:
        raise UsageError(f"--arg {name}: [{text}] is not a shape; expected whole numbers, such as [128,512]") from None
    if any(extent < 1 for extent in shape):
        raise UsageError(f"--arg {name}: [{text}] has an extent below 1")
    return shape


def _tensor(name: str, dtype: Any, shape: tuple[int, ...], seed: int) -> np.ndarray:
    import numpy as np

    from sim import dtypes

    if not isinstance(dtype, np.dtype):
        raise UsageError(f"--arg {name}: no values can be made up for {dtype}", remedy="use @file.npy or --no-values")
    needed, memory = prod(shape) * MADE_BYTES, _memory_bytes()
    if needed > memory:
        sizes = f"{needed / 1e9:.1f} GB to make it up, this machine has {memory / 1e9:.1f}"
        raise InputError(f"--arg {name}: {list(shape)} needs {sizes}", remedy="--no-values keeps its shape only")
    # A stream per name: adding an argument must not change the values of the others.
    stream = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if dtype in dtypes.INTEGERS:
        return np.asarray(stream.integers(0, 2 if dtype == dtypes.bool_ else 128, shape)).astype(dtype)
    return dtypes.cast(np.asarray(stream.standard_normal(shape, np.float32)), dtype)


def _memory_bytes() -> int:
    import os

    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _shape_only(dtype: Any, shape: tuple[int, ...]) -> TensorSpec:
    from sim import TensorSpec

    return TensorSpec(shape, dtype)


def _load(name: str, path: str, dtype: Any | None) -> np.ndarray:
    """The array of a file, in another dtype where one is asked for.

    NumPy writes bf16 and fp8 as raw bytes; with their dtype named they are read as what they were.
    """
    import numpy as np

    from sim import dtypes

    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        raise InputError(f"--arg {name}: {path} is not a .npy file of numbers") from None
    if array.dtype.kind == "V" and array.dtype.itemsize == getattr(dtype, "itemsize", None):
        return array.view(dtype)
    if array.dtype.kind == "V":
        raw = f"{path} holds raw values of {array.dtype.itemsize} bytes"
        raise InputError(f"--arg {name}: {raw}", remedy=f"name their dtype: {name}=bf16@{path}")
    return array if dtype is None else dtypes.cast(array, dtype)


def find_kernel(target: str, device: str) -> Any:
    """The kernel of `FILE.py::NAME`, over the launch grid of `FILE.py::NAME[2]`."""
    import sim

    path, grid = re.fullmatch(r"(.*?)(?:\[([\d, ]+)\])?", target, re.DOTALL).groups()
    kernel = sim.load(path, device=device)
    return kernel[tuple(int(size) for size in grid.split(","))] if grid else kernel


def bind(kernel: Callable, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Arguments by place where that is possible: a kernel may call a parameter as `sim.run` calls one of its own."""
    import inspect

    signature = inspect.signature(kernel)
    try:
        bound = signature.bind(**named)
    except TypeError as error:
        title = f"{getattr(kernel, '__name__', 'kernel')}{signature}"
        raise InputError(f"{title}: {error}", remedy="give each with --arg NAME=SPEC") from None
    return bound.args, bound.kwargs
