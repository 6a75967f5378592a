"""Tensors of the legacy API: indexing with index tensors, masks, and operators.

A `Tile` is a view as in the current API. An index outside the tensor is legal for as long as a mask excludes it, so
bounds are checked when an instruction uses the view, not when it is taken.
"""

from __future__ import annotations

import sys
from typing import Any

from sim import dtypes
from sim.errors import InputError
from sim.memory import Layout, Storage
from sim.nki.legacy.index import Affine, Grid, LoopIndex, Range
from sim.nki.session import builder
from sim.nki.tensor import DynamicSlice, NkiTensor

PLAIN = frozenset((int, slice, LoopIndex, DynamicSlice, type(Ellipsis), type(None)))
"""Index items that are not index tensors."""


class Tile(NkiTensor):
    """A tensor, or a view of one.

    bounds   : [(index expression, size)] of dimensions that index tensors address; may reach outside until masked
    kept     : the part that a masked instruction wrote, (first, last + 1) an axis; None for all of it
    reduction: (operator, mask) of an `nl.loop_reduce` of this tile that still waits for its destination
    site     : the place in the kernel's code of the `nl.loop_reduce` that made this tile
    """

    __slots__ = ("bounds", "kept", "reduction", "site")

    def __init__(self, storage: Storage, layout: Layout, offset: int, indirection: Any = None, bounds: tuple = ()):
        self.storage = storage
        self.layout = layout
        self.offset = offset
        self.indirection = indirection
        self.bounds: tuple[tuple[Affine, int], ...] = bounds
        self.kept: tuple[Range, ...] | None = None
        self.reduction: tuple[Any, Any] | None = None
        self.site: tuple[Any, int] | None = None

    @classmethod
    def of(cls, view: NkiTensor) -> Tile:
        """The same view with legacy behaviour."""
        return view if isinstance(view, cls) else cls(view.storage, view.layout, view.offset, view.indirection)

    def __bool__(self) -> bool:
        """Whether there is a tile at all, as kernels ask of an optional one.

        raises: InputError for what a comparison gave, whose values are known on the device alone
        """
        if self.dtype == dtypes.bool_:
            fault = f"`{self.name}` {list(self.shape)} is no condition: its values are known on the device alone"
            raise InputError(fault, source=builder().where(), remedy="use nl.where, or a mask of nl.arange")
        return True

    def __class_getitem__(cls, shape: Any) -> type[Tile]:
        """`nki.tensor[128, 512]`: an annotation without effect."""
        return cls

    # -- indexing ----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tile:
        if key is Ellipsis:
            return self.whole()
        if isinstance(key, Grid):
            key = key.axes
        items = key if isinstance(key, tuple) else (key,)
        known = self._known_view(items)
        if known is not None:
            return known
        if not PLAIN.issuperset(map(type, items)):
            from sim.nki.legacy.indexing import ADVANCED, index

            for item in items:
                if isinstance(item, ADVANCED):
                    return index(self, items)
        if self.bounds:
            self.check("index")
        for item, size in zip(items, self.layout.shape):
            if type(item) is slice and item.stop is not None and item.stop > size:
                from sim.nki.legacy.indexing import overrunning

                return overrunning(self, items)
        return Tile.of(NkiTensor.__getitem__(self, items))

    def _known_view(self, items: tuple) -> Tile | None:
        """The view by index tensors and numbers when one of the same forms has been taken of this layout before.

        Only the constants of the expressions differ, as long as these stay inside.
        """
        forms, constants = [], []
        for item in items:
            kind = type(item)
            if kind is Affine:
                forms.append(item.form if item._form is None else item._form)
                constants.append(item.const)
            elif kind is LoopIndex or kind is int:
                forms.append(None)
                constants.append(item)
            else:
                return None
        known = self.layout.by_form.get(tuple(forms))
        if known is None:
            return None
        layout, reaches = known
        offset = self.offset
        for const, (stride, low, high) in zip(constants, reaches):
            if not low <= const <= high:
                return None
            offset += const * stride
        return Tile(self.storage, layout, offset, self.indirection, self.bounds)

    def has_place_of(self, other: NkiTensor) -> bool:
        """Whether two views are one; `tile[...] += x` assigns a view to itself."""
        return self.storage is other.storage and self.offset == other.offset and self.layout is other.layout

    def whole(self) -> Tile:
        """Another view of the same elements."""
        if self.bounds:
            self.check("index")
        return Tile(self.storage, self.layout, self.offset, self.indirection)

    def __setitem__(self, key: Any, value: Any) -> None:
        from sim.nki.legacy.assignment import assign

        if key is Ellipsis and type(value) is Tile and value.storage is self.storage and self.has_place_of(value):
            return
        references = sys.getrefcount(value)
        assign(self[key], value, references)

    def __iadd__(self, value: Any) -> Tile:
        from sim.nki.legacy.assignment import add_in_place

        references = sys.getrefcount(value)
        return add_in_place(self, value, references)

    def box(self, ranges: tuple[Range, ...]) -> Tile:
        """The part of the view that a mask leaves; axes of size 1 stay whole."""
        layout, offset, shape, kept = self.layout, self.offset, [], []
        for (first, last), size, stride in zip(ranges, layout.shape, layout.strides):
            if size == 1:
                first, last = 0, 1
            offset += first * stride
            shape.append(last - first)
            kept.append(slice(first, last))
        rows = self.indirection
        if rows is not None and rows.vector:
            offset -= kept[0].start * layout.strides[0]
            rows = rows.box(kept[0])
        part = Layout(tuple(shape), layout.strides, layout.dtype, layout.memory, layout.pitch)
        bounds = tuple((_clip(expression, kept), size) for expression, size in self.bounds)
        return Tile(self.storage, part, offset, rows, bounds)

    def check(self, call: str) -> None:
        """raises: InputError when an index reaches outside its dimension, or the values are not there yet."""
        for expression, size in self.bounds:
            low, high = expression.low_high()
            if low < 0 or high >= size:
                raise InputError(
                    f"{call}: index {low}…{high} of `{self.name}` is outside a dimension of size {size}",
                    source=builder().where(),
                    remedy="mask= the elements outside",
                )
        if self.reduction is not None:
            raise InputError(
                f"{call}: the result of nl.loop_reduce is used before it is assigned to a tile",
                source=builder().where(),
            )

    # -- views that legacy code names differently --------------------------------------------------

    def reshape(self, shape: Any = None, *more: Any, new_shape: Any = None) -> Tile:
        return Tile.of(super().reshape(shape, *more, new_shape=new_shape))

    def permute(self, dims: tuple[int, ...]) -> Tile:
        return Tile.of(super().permute(dims))

    def broadcast_to(self, shape: Any, *more: Any) -> Tile:
        """Repeat dimensions of size 1; partitions too, by a multiplication with ones on the Tensor Engine."""
        from sim.nki.legacy import language

        wanted = (shape, *more) if more or isinstance(shape, int) else tuple(shape)
        return language.broadcast_to(self, shape=wanted)

    def repeated(self, shape: tuple[int, ...]) -> Tile:
        """A view with free dimensions of size 1 repeated."""
        return Tile.of(NkiTensor.broadcast_to(self, shape))

    def expand_dims(self, axis: int) -> Tile:
        return Tile.of(self.expand_dim(axis if axis >= 0 else axis + self.ndim + 1))

    def astype(self, dtype: Any) -> Tile:
        from sim.nki.legacy import language

        return language.copy(self, dtype=dtype)

    def view(self, dtype: Any) -> Tile:
        return Tile.of(super().view(dtype))

    def assert_shape(self, shape: tuple[int, ...]) -> Tile:
        if tuple(shape) != self.shape:
            raise InputError(f"`{self.name}` has shape {list(self.shape)}, not {list(shape)}", source=builder().where())
        return self

    @property
    def itemsize(self) -> int:
        return self.layout.itemsize

    def __repr__(self) -> str:
        return f"<{self.name}: {dtypes.short(self.dtype)}{list(self.shape)} in {self.storage.buffer}>"


def _clip(expression: Affine, kept: list[slice]) -> Affine:
    """An index expression cut to the axes' ranges; axes of size 1 stay whole."""
    wide = expression.wider(len(kept))
    return wide[tuple([slice(0, 1) if size == 1 else part for size, part in zip(wide.shape, kept)])]


def _operator(name: str, swapped: bool = False) -> Any:
    def method(self: Tile, other: Any) -> Any:
        from sim.nki.legacy.functions import FUNCTIONS

        if other is None or isinstance(other, str):
            return NotImplemented
        function = FUNCTIONS[name]
        return function(other, self) if swapped else function(self, other)

    return method


for _symbol, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power", "mod": "mod",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}.items():  # fmt: skip
    setattr(Tile, f"__{_symbol}__", _operator(_name))
    setattr(Tile, f"__r{_symbol}__", _operator(_name, swapped=True))
for _symbol, _name in {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}.items():  # fmt: skip
    setattr(Tile, f"__{_symbol}__", _operator(_name))
Tile.__hash__ = NkiTensor.__hash__  # type: ignore[method-assign]


def _unary_operator(name: str) -> Any:
    def method(self: Tile) -> Any:
        from sim.nki.legacy.functions import FUNCTIONS

        return FUNCTIONS[name](self)

    return method


for _symbol, _name in {"neg": "negative", "invert": "invert", "abs": "abs"}.items():
    setattr(Tile, f"__{_symbol}__", _unary_operator(_name))
