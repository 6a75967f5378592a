"""`--arg NAME=SPEC`: what a person types for a kernel's parameter, as the value that the kernel gets."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any

from sim.errors import InputError, UsageError

if TYPE_CHECKING:
    import numpy as np

HELP = (
    "a parameter of the kernel. SPEC: DTYPE[SHAPE] such as bf16[128,512] (seeded: normal for floats, 0-127 for "
    "integers), @file.npy, a number, true, false, none, or a string (in quotes where it looks like one of the others)"
)

DTYPES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "f16": "float16",
    "f32": "float32",
    "fp8e4": "float8_e4m3",
    "fp8e5": "float8_e5m2",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "float32": "float32",
    "float8_e4m3": "float8_e4m3",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "bool": "bool",
}

_TENSOR = re.compile(r"(?P<dtype>[A-Za-z_]\w*)\[(?P<shape>[^\]]*)\]")
_WORDS = {"true": True, "false": False, "none": None}


def parse(texts: list[str], seed: int, values: bool) -> dict[str, Any]:
    """The kernel's keyword arguments from `NAME=SPEC` texts.

    values : False makes tensors that have a shape and a dtype but take no memory
    raises : UsageError for a text that is not NAME=SPEC, a name given twice, an unknown dtype or a bad shape;
             InputError for a file that is missing or holds no array
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
    if spec.startswith("@"):
        return _load(name, spec[1:])
    tensor = _TENSOR.fullmatch(spec)
    if tensor:
        dtype, shape = _dtype(name, tensor["dtype"]), _shape(name, tensor["shape"])
        return _tensor(name, dtype, shape, seed) if values else _hollow(dtype, shape)
    if len(spec) >= 2 and spec[0] == spec[-1] and spec[0] in "'\"":
        return spec[1:-1]
    if spec.lower() in _WORDS:
        return _WORDS[spec.lower()]
    for number in (int, float):
        try:
            return number(spec)
        except ValueError:
            pass
    return spec


def _dtype(name: str, text: str) -> np.dtype:
    import ml_dtypes
    import numpy as np

    if text not in DTYPES:
        raise UsageError(f"--arg {name}: unknown dtype {text}; known: {' '.join(DTYPES)}")
    full = DTYPES[text]
    return np.dtype(getattr(ml_dtypes, full, full))


def _shape(name: str, text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(extent) for extent in text.split(",")) if text.strip() else ()
    except ValueError:
        raise UsageError(f"--arg {name}: [{text}] is not a shape; expected whole numbers, such as [128,512]") from None
    if any(extent < 1 for extent in shape):
        raise UsageError(f"--arg {name}: [{text}] has an extent below 1")
    return shape


def _tensor(name: str, dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    import numpy as np

    # A stream per name: adding an argument must not change the values of the others.
    stream = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if dtype.kind in "iu":
        return stream.integers(0, 128, shape).astype(dtype)
    if dtype.kind == "b":
        return stream.integers(0, 2, shape).astype(dtype)
    return stream.standard_normal(shape, np.float32).astype(dtype)


def _hollow(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    import numpy as np

    return np.broadcast_to(np.zeros((), dtype), shape)


def _load(name: str, path: str) -> np.ndarray:
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"--arg {name}: {path} is not a .npy file of numbers: {error}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"--arg {name}: {path} holds several arrays; save the one you mean as .npy")
    return array
