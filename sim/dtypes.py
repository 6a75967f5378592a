"""Number formats: their names, and the rounding of the hardware.

Every engine computes in fp32 and casts on the way out: round to nearest even; out of range, floats overflow to what
the format has for it (inf, or NaN in float8_e4m3fn) and integers saturate. NumPy wraps and truncates instead, so `cast`
and `store` are the only way a value enters a tensor.

sources: NKI 0.6 reference "Supported Data Types"; release notes of NKI 0.6.0 (float to integer). Overflow of fp8 and
NaN to an integer (0 here) are documented nowhere: the first follows nki.simulate, the second is a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from sim.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A number format that NumPy lacks; equal to its own name, as an np.dtype is.

    storage : the NumPy dtype whose bits hold one element
    packed  : format of the four numbers inside one element, None when it is one number
    """

    name: str
    storage: np.dtype
    packed: np.dtype | None = None

    @property
    def itemsize(self) -> int:
        return self.storage.itemsize

    def __eq__(self, other: object) -> bool:
        return self is other or other == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Wide(Format):
    """A low-precision format whose values are kept in fp32 without rounding.

    It equals the narrow one, which is what a kernel compares with, but is another key, as its elements are wider.
    """

    narrow: np.dtype | None = None

    def __eq__(self, other: object) -> bool:
        return self is other or self.narrow == other

    def __hash__(self) -> int:
        return hash((self.name, self.storage))


float32 = np.dtype(np.float32)
float16 = np.dtype(np.float16)
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_e4m3 = np.dtype(ml_dtypes.float8_e4m3)
float8_e4m3fn = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)
float8_e8m0fnu = np.dtype(ml_dtypes.float8_e8m0fnu)
int8, int16, int32 = np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.int32)
uint8, uint16, uint32 = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32)
bool_ = np.dtype(np.bool_)
tfloat32 = Format("tfloat32", float32)
float8_e4m3fn_x4 = Format("float8_e4m3fn_x4", uint32, float8_e4m3fn)
float8_e5m2_x4 = Format("float8_e5m2_x4", uint32, float8_e5m2)
float4_e2m1fn_x4 = Format("float4_e2m1fn_x4", uint16, np.dtype(ml_dtypes.float4_e2m1fn))

_WIDE = {kind: Wide(kind.name, float32, narrow=kind) for kind in (bfloat16, float8_e4m3, float8_e4m3fn, float8_e5m2)}

_SHORT: dict[Any, str] = {
    float32: "fp32",
    tfloat32: "tf32",
    float16: "fp16",
    bfloat16: "bf16",
    float8_e4m3: "fp8e4",
    float8_e4m3fn: "fp8e4fn",
    float8_e5m2: "fp8e5",
    float8_e8m0fnu: "fp8e8m0",
    int8: "int8",
    int16: "int16",
    int32: "int32",
    uint8: "uint8",
    uint16: "uint16",
    uint32: "uint32",
    bool_: "bool",
    float8_e4m3fn_x4: "mxfp8e4",
    float8_e5m2_x4: "mxfp8e5",
    float4_e2m1fn_x4: "mxfp4",
}
DTYPES: tuple[Any, ...] = tuple(_SHORT)
"""Every format that a tensor on the device can have."""
_SHORT |= {wide: _SHORT[kind] for kind, wide in _WIDE.items()}

INTEGERS = frozenset((int8, int16, int32, uint8, uint16, uint32, bool_))
FP8 = frozenset(kind for pair in _WIDE.items() for kind in pair if kind != bfloat16)
WIDE_INTEGERS = frozenset((int32, uint32))
PACKED = frozenset((float8_e4m3fn_x4, float8_e5m2_x4, float4_e2m1fn_x4))

_NAMES: dict[str, Any] = {
    **{dtype.name: dtype for dtype in DTYPES},
    **{_SHORT[dtype]: dtype for dtype in DTYPES},
    "bool_": bool_,
    "uint1": bool_,
    "fp8_e4m3": float8_e4m3,
    "fp8_e5m2": float8_e5m2,
    "float8e4": float8_e4m3,
    "float8e5": float8_e5m2,
}
_KNOWN = {**_NAMES, **{dtype: dtype for dtype in DTYPES}}
_KNOWN |= {kind: kind for kind in _WIDE.values()}
_known, wide = _KNOWN, False
"""What `parse` finds, and whether those are wide formats."""


@contextmanager
def widened() -> Iterator[None]:
    """Within, bf16 and fp8 are formats of fp32's bits: what NKI_PRECISE_FP=0 asks for."""
    global _known, wide
    _known, wide = {name: _WIDE.get(kind, kind) for name, kind in _KNOWN.items()}, True
    try:
        yield
    finally:
        _known, wide = _KNOWN, False


_HOST = {np.dtype(np.float64): float32, np.dtype(np.int64): int32, np.dtype(np.uint64): uint32}


def parse(value: Any) -> Any:
    """The dtype that a name, NumPy dtype, scalar type or torch dtype stands for.

    raises: InputError listing the known names
    """
    try:
        return _known[value]
    except (KeyError, TypeError):
        pass
    name = str(value).removeprefix("torch.") if not isinstance(value, (str, type, np.dtype)) else None
    if name in _NAMES:
        return _NAMES[name]
    try:
        dtype = np.dtype(value)
    except TypeError:
        dtype = None
    if dtype is not None and dtype in _SHORT:
        return dtype
    names = ", ".join(item.name for item in DTYPES)
    raise InputError(f"dtype {value!r} is not one of {names}", remedy=_remedy(dtype))


def _remedy(dtype: np.dtype | None) -> str | None:
    narrow = None if dtype is None else _HOST.get(dtype)
    return f"the device has no 64-bit numbers; convert to {narrow.name}" if narrow is not None else None


def short(dtype: Any) -> str:
    """The name as profiles abbreviate it: fp32, bf16, fp8e4, …"""
    return _SHORT[dtype]


def is_float(dtype: Any) -> bool:
    return dtype not in INTEGERS and dtype not in PACKED


def cast(array: np.ndarray, dtype: Any) -> np.ndarray:
    """A copy of the values in another format, rounded as the hardware does; the same format copies bits."""
    target = parse(dtype)
    out = np.empty(np.shape(array), getattr(target, "storage", target))
    if target is tfloat32:
        out[...] = round_tf32(to_fp32(array))
    else:
        store(out, array)
    return out


def to_fp32(array: np.ndarray) -> np.ndarray:
    """The values as the engines see them; no copy when they are fp32 already."""
    return array if array.dtype == float32 else array.astype(np.float32)


def store(out: np.ndarray, values: np.ndarray) -> None:
    """Write values into an array of another format, rounding as the hardware does; shapes must broadcast.

    The array must not be tfloat32's: its storage does not tell it from fp32 (`round_tf32`).
    """
    kind = out.dtype
    if kind == values.dtype or kind == float32:
        np.copyto(out, values, casting="unsafe")
    elif kind == bool_:
        np.not_equal(values, 0, out=out)
    elif kind in INTEGERS:
        np.copyto(out, _saturated(to_fp32(values), kind), casting="unsafe")
    elif kind == float8_e8m0fnu:
        np.copyto(out, _power_of_two(to_fp32(values)), casting="unsafe")
    else:
        with np.errstate(all="ignore"):
            np.copyto(out, to_fp32(values), casting="unsafe")


def _saturated(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    limits = np.iinfo(dtype)
    exact = np.rint(values.astype(np.float64))
    return np.nan_to_num(np.asarray(np.clip(exact, limits.min, limits.max)), copy=False)


def _power_of_two(values: np.ndarray) -> np.ndarray:
    """Values that e8m0 can hold: it has neither sign nor zero, so those become its smallest number, 2^-127."""
    smallest = np.float32(2.0) ** np.float32(-127)
    return np.where(values < smallest, smallest, values).astype(float8_e8m0fnu)


def round_tf32(values: np.ndarray) -> np.ndarray:
    """fp32 rounded to the 10-bit mantissa of tfloat32, to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    with np.errstate(over="ignore"):
        rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    finite = (bits & np.uint32(0x7F800000)) != np.uint32(0x7F800000)
    return np.where(finite, rounded, bits).view(np.float32).reshape(np.shape(values))


def unpack(array: np.ndarray, dtype: Format) -> np.ndarray:
    """The four numbers inside each packed element, fp32[..., 4]; the first lies in the lowest bits."""
    raw = np.ascontiguousarray(array)
    if dtype is float4_e2m1fn_x4:
        bytes_ = raw.view(np.uint8).reshape(*raw.shape, 2)
        numbers = np.stack((bytes_ & 0xF, bytes_ >> 4), axis=-1).reshape(*raw.shape, 4)
    else:
        numbers = raw.view(np.uint8).reshape(*raw.shape, 4)
    return numbers.view(dtype.packed).astype(np.float32)


def pack(values: np.ndarray, dtype: Format) -> np.ndarray:
    """Inverse of `unpack`: fp32[..., 4] rounded to the packed format, as the storage dtype, shape [...]."""
    with np.errstate(all="ignore"):
        codes = np.ascontiguousarray(values, np.float32).astype(dtype.packed).view(np.uint8)
    if dtype is float4_e2m1fn_x4:
        codes = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return np.ascontiguousarray(codes).view(dtype.storage).reshape(values.shape[:-1])


class Packed(np.ndarray):
    """An array of packed elements on the host: plain integers underneath, with the packed format as its dtype."""

    def __new__(cls, array: Any, kind: Format) -> Packed:
        made = np.asarray(array).view(kind.storage).view(cls)
        made._kind = kind
        return made

    def __array_finalize__(self, source: Any) -> None:
        self._kind = getattr(source, "_kind", None)

    @property
    def dtype(self) -> Any:
        return np.ndarray.dtype.__get__(self) if self._kind is None else self._kind

    @dtype.setter
    def dtype(self, value: Any) -> None:
        self._kind = None
        np.ndarray.dtype.__set__(self, value)

    def astype(self, dtype: Any, *args: Any, **named: Any) -> np.ndarray:
        """raises: TypeError, as a number of the array is one of four in an element (see `unpack`)"""
        if self._kind is None or dtype == self._kind:
            return np.asarray(self).astype(getattr(dtype, "storage", dtype), *args, **named)
        raise TypeError(f"elements of {self._kind} are four numbers each and cannot become {dtype}")


def promote(one: Any, other: Any) -> Any:
    """The dtype of an operation on two tiles, where none is asked for.

    source: NKI 2.26 shared reference, "Type promotion": two 16-bit floats of different kind, or signed beside unsigned
    32-bit integers, become fp32; two kinds of fp8 become bf16; a float beside an integer stays the float
    """
    if one == other:
        return one
    floats = [dtype for dtype in (one, other) if is_float(dtype)]
    if len(floats) == 1:
        return floats[0]
    if not floats:
        signed = {dtype.kind for dtype in (one, other)}
        return (
            float32 if len(signed) > 1 and one.itemsize == other.itemsize else max(one, other, key=lambda d: d.itemsize)
        )
    if one.itemsize == other.itemsize:
        return bfloat16 if one.itemsize == 1 else float32
    return max(one, other, key=lambda dtype: dtype.itemsize)
