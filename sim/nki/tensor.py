"""`NkiTensor`: the tensor that a kernel holds, and every view that can be taken of it.

Nothing is copied: each method returns another (storage, layout, offset). Semantics follow the NkiTensor reference of
NKI 0.6 (nki.language); strides and offsets that a kernel sees are in elements, those of `sim.memory` in bytes.
"""

from __future__ import annotations

from enum import Enum
from math import prod
from operator import index as as_int
from typing import Any

from sim import dtypes
from sim.errors import InputError, UnsupportedError
from sim.memory import Layout, Storage, View, merge_dims, reshape_layout, slice_layout
from sim.nki.session import builder
from sim.nki.valueless import Valueless
from sim.trace import Memory


class MemoryRegion(Enum):
    """Where a tensor lives."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    __hash__ = object.__hash__
    """Members are single objects; the hash of `Enum` goes through the name, in Python."""

    @property
    def memory(self) -> Memory:
        return _MEMORY[self._value_]


_MEMORY = {"sbuf": Memory.SBUF, "psum": Memory.PSUM, "private_hbm": Memory.HBM, "shared_hbm": Memory.HBM}


class DynamicSlice:
    """`nl.ds(start, size)`: elements start … start + size - 1."""

    __slots__ = ("size", "start")

    def __init__(self, start: int, size: int):
        self.start = start
        self.size = size


class Index:
    """Where an indirect view takes its addresses from.

    view    : the tensor that holds them, None for a register
    vector  : one address a partition (gather, scatter) rather than one for all
    stride  : bytes that one unit of the index moves
    outside : what is wrong with the place, if it lies outside the storage; only an instruction minds
    """

    __slots__ = ("outside", "stride", "vector", "view")

    def __init__(self, view: NkiTensor | None, vector: bool, stride: int, outside: str | None = None):
        self.view = view
        self.vector = vector
        self.stride = stride
        self.outside = outside


class NkiTensor(Valueless, View):
    """A tensor or a view of one, in HBM, SBUF or PSUM."""

    __slots__ = ("indirection",)

    def __init__(self, storage: Storage, layout: Layout, offset: int, indirection: Index | None = None):
        self.storage = storage
        self.layout = layout
        self.offset = offset
        self.indirection = indirection

    # -- what a kernel asks ------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def dtype(self) -> Any:
        return self.layout.dtype

    @property
    def ndim(self) -> int:
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        return prod(self.layout.shape)

    @property
    def name(self) -> str:
        return self.storage.name

    @property
    def data(self) -> NkiTensor:
        """The tensor itself, as a grid's `data` is one (NKI 0.7)."""
        return self

    @property
    def base_tensor(self) -> NkiTensor:
        """All of the storage that this is a view of; not in the reference, but public kernels read it."""
        return type(self)(self.storage, self.storage.layout, 0)

    @property
    def buffer(self) -> MemoryRegion:
        return MemoryRegion(self.storage.buffer)

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements."""
        size = self.layout.itemsize
        return tuple(stride // size for stride in self.layout.strides)

    def get_pattern(self) -> list[list[int]]:
        """[[stride, count], …] in elements."""
        return [[stride, size] for stride, size in zip(self.strides, self.shape)]

    def is_contiguous(self) -> bool:
        """Whether the free dimensions are row-major without holes."""
        free = slice(1, None) if self.layout.pitch else slice(None)
        blocks = merge_dims(self.layout.shape[free], self.layout.strides[free])
        return not blocks or (len(blocks) == 1 and blocks[0][1] == self.layout.itemsize)

    def is_identity(self) -> bool:
        """Whether this is all of its storage, as it was allocated (NKI 0.4)."""
        return self.layout == self.storage.layout and not self.offset and self.indirection is None

    @property
    def sim_value(self) -> Any:
        """A copy of the values, as NKI 0.4 shows them in a debugger; None without values."""
        return self.array().copy() if builder().values else None

    @property
    def device_value(self) -> None:
        """None: nothing runs on a device."""
        return None

    def is_indirect(self) -> bool:
        return self.indirection is not None and self.indirection.stride != 0

    def __len__(self) -> int:
        return self.layout.shape[0]

    def __repr__(self) -> str:
        return f"<{self.name}: {dtypes.short(self.dtype)}{list(self.shape)} in {self.storage.buffer}>"

    # -- indexing ----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> NkiTensor:
        if type(key) is not tuple:
            key = (key,)
        items = tuple([_item(item) for item in key])
        try:
            layout, delta = slice_layout(self.layout, items)
        except InputError as error:
            raise self._fault(None, error.message) from None
        if self.indirection is not None and self.indirection.vector and layout.shape[0] != self.layout.shape[0]:
            raise self._fault(None, f"index {key!r} cuts dimension 0, whose rows an index names")
        return NkiTensor(self.storage, layout, self.offset + delta, self.indirection)

    def __setitem__(self, key: Any, value: Any) -> None:
        from sim.nki import assignment

        assignment.assign(self[key], value)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        if not 0 <= start < end <= self.shape[dim] or step < 1:
            fault = f"start, end, step: {start}:{end}:{step} does not fit dimension {dim} of size {self.shape[dim]}"
            raise self._fault("slice", fault)
        return self[(slice(None),) * dim + (slice(start, end, step),)]

    def select(self, dim: int, index: Any) -> NkiTensor:
        """One element of a dimension, which goes; an `NkiTensor` index is read when the instruction runs."""
        if isinstance(index, NkiTensor):
            return self._dynamic(dim, index, drop=True)
        if not 0 <= index < self.shape[dim]:
            raise self._fault("select", f"index: {index} is outside dimension {dim} of size {self.shape[dim]}")
        return self[(slice(None),) * dim + (index,)]

    # -- views -------------------------------------------------------------------------------------

    def permute(self, dims: tuple[int, ...]) -> NkiTensor:
        dims = tuple(dims)
        if sorted(dims) != list(range(self.ndim)):
            raise self._fault("permute", f"dims: {dims} is not an order of {self.ndim} dimensions")
        self._keep_partition("permute", "dims", dims, dims[0] == 0)
        layout = self.layout
        return self._with(tuple(layout.shape[d] for d in dims), tuple(layout.strides[d] for d in dims))

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        if self.shape[dim] != 1:
            raise self._fault("broadcast", f"dim: dimension {dim} has size {self.shape[dim]}, only 1 can be repeated")
        self._keep_partition("broadcast", "dim", dim, dim != 0)
        return self._with(_put(self.layout.shape, dim, size), _put(self.layout.strides, dim, 0))

    def expand_dim(self, dim: int) -> NkiTensor:
        self._keep_partition("expand_dim", "dim", dim, dim != 0)
        shape, strides = list(self.layout.shape), list(self.layout.strides)
        shape.insert(dim, 1)
        strides.insert(dim, 0)
        return self._with(tuple(shape), tuple(strides))

    def squeeze_dim(self, dim: int) -> NkiTensor:
        if self.shape[dim] != 1:
            raise self._fault("squeeze_dim", f"dim: dimension {dim} has size {self.shape[dim]}, must be 1")
        self._keep_partition("squeeze_dim", "dim", dim, dim != 0)
        shape, strides = list(self.layout.shape), list(self.layout.strides)
        del shape[dim], strides[dim]
        return self._with(tuple(shape), tuple(strides))

    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> NkiTensor:
        self._keep_partition("reshape_dim", "dim", dim, dim != 0 or len(shape) == 1)
        sizes = self._infer("reshape_dim", tuple(shape), self.shape[dim])
        stride, strides = self.layout.strides[dim], []
        for size in reversed(sizes):
            strides.append(stride)
            stride *= size
        old = self.layout
        return self._with(
            old.shape[:dim] + sizes + old.shape[dim + 1 :],
            old.strides[:dim] + tuple(reversed(strides)) + old.strides[dim + 1 :],
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        self._keep_partition("flatten_dims", "start_dim", start_dim, start_dim != 0)
        shape, strides = self.layout.shape, self.layout.strides
        blocks = merge_dims(shape[start_dim : end_dim + 1], strides[start_dim : end_dim + 1])
        if len(blocks) > 1:
            fault = f"start_dim, end_dim: dimensions {start_dim} to {end_dim} are not contiguous in memory"
            raise self._fault("flatten_dims", fault)
        size, stride = blocks[0] if blocks else (1, self.layout.itemsize)
        return self._with(
            (*shape[:start_dim], size, *shape[end_dim + 1 :]), (*strides[:start_dim], stride, *strides[end_dim + 1 :])
        )

    def reshape(self, shape: Any = None, *more: Any, new_shape: Any = None) -> NkiTensor:
        """The same elements in another shape; `new_shape` is what NKI 0.4 called it."""
        shape = new_shape if shape is None else shape
        sizes = (shape, *more) if more or isinstance(shape, int) else tuple(shape)
        sizes = self._infer("reshape", tuple(as_int(s) for s in sizes), self.size)
        self._keep_partition("reshape", "shape", list(sizes), sizes[0] == self.shape[0])
        try:
            layout = reshape_layout(self.layout, sizes)
        except InputError as error:
            raise self._fault("reshape", f"shape: {error.message}") from None
        return NkiTensor(self.storage, layout, self.offset, self.indirection)

    def rearrange(self, src_pattern: tuple, dst_pattern: tuple, fixed_sizes: dict[str, int] | None = None) -> NkiTensor:
        """Split, reorder and merge dimensions by name, as einops does."""
        sizes = dict(fixed_sizes or {})
        view, names = self, []
        for item in src_pattern:
            group = (item,) if isinstance(item, str) else tuple(item)
            dim = len(names)
            shape = tuple(sizes.get(name, -1) for name in group)
            view = view.reshape_dim(dim, shape) if len(group) > 1 else view
            names.extend(group)
        groups = [(item,) if isinstance(item, str) else tuple(item) for item in dst_pattern]
        order = [name for group in groups for name in group]
        if sorted(order) != sorted(names):
            fault = f"dst_pattern: {dst_pattern} and {src_pattern} do not name the same dimensions"
            raise self._fault("rearrange", fault)
        view = view.permute(tuple(names.index(name) for name in order))
        for dim, group in enumerate(groups):
            view = view.flatten_dims(dim, dim + len(group) - 1) if len(group) > 1 else view
        return view

    def view(self, dtype: Any) -> NkiTensor:
        """The same bytes as another dtype; the last dimension scales by the ratio of the sizes."""
        target = dtypes.parse(dtype)
        old, size = self.layout, self.layout.itemsize
        self._direct("view", "dtype")
        if target.itemsize == size:
            return self._as(old.shape, old.strides, target)
        if old.strides[-1] != size and old.shape[-1] > 1:
            fault = f"dtype: {dtypes.short(target)} needs a last dimension that is contiguous in memory"
            raise self._fault("view", fault)
        count = old.shape[-1] * size
        if count % target.itemsize:
            fault = f"dtype: {old.shape[-1]} elements of {size} bytes are no whole {dtypes.short(target)}"
            raise self._fault("view", fault)
        return self._as((*old.shape[:-1], count // target.itemsize), (*old.strides[:-1], target.itemsize), target)

    reinterpret_cast = view

    def ap(
        self,
        pattern: list,
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> NkiTensor:
        """An explicit [[stride, count], …] pattern over the storage, in elements of `dtype`."""
        target = self.layout.dtype if dtype is None else dtypes.parse(dtype)
        size = target.itemsize
        if scalar_offset is not None and vector_offset is not None:
            raise self._fault("ap", "scalar_offset, vector_offset: both are given, must be one of them")
        if scalar_offset is not None or vector_offset is not None:
            self._direct("ap", "scalar_offset" if vector_offset is None else "vector_offset")
        shape = tuple(as_int(count) for _, count in pattern)
        strides = tuple(as_int(stride) * size for stride, _ in pattern)
        pitch = self.layout.pitch
        if pitch and shape[0] > 1 and strides[0] != pitch:
            fault = f"pattern: {list(pattern[0])} steps over partitions by {pattern[0][0]}, must be {pitch // size}"
            raise self._fault("ap", f"{fault}, the elements of one")
        layout = Layout(shape, strides, target, self.layout.memory, pitch)
        start = self.offset + (0 if offset is None else as_int(offset) * size)
        # Rows of a gather lie where the index says, wherever the pattern would put them.
        rows = 1 if vector_offset is not None else shape[0]
        outside = self._outside(Layout((rows, *shape[1:]), strides, target, layout.memory, layout.pitch), start)
        if outside is not None:
            return NkiTensor(self.storage, layout, self.offset, Index(None, False, 0, f"ap: {outside}"))
        view = NkiTensor(self.storage, layout, start)
        if scalar_offset is None and vector_offset is None:
            return view
        stride = self.layout.strides[indirect_dim]
        if vector_offset is not None:
            return NkiTensor(self.storage, layout, start, Index(vector_offset, True, stride))
        return view._at(scalar_offset, stride)

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """One row of dimension 0 for each partition of the index tensor (gather)."""
        if dim != 0 or self.layout.pitch:
            fault = f"dim: {dim} of a tensor in {self.layout.memory.name}, must be 0 of one in HBM"
            raise self._fault("vector_select", fault)
        self._direct("vector_select", "vector_offset")
        if vector_offset.size != vector_offset.shape[0]:
            fault = f"vector_offset: shape {list(vector_offset.shape)}, must be [{vector_offset.shape[0]}, 1]"
            raise self._fault("vector_select", fault)
        view = self._with((vector_offset.shape[0], *self.shape[1:]), self.layout.strides)
        return NkiTensor(self.storage, view.layout, self.offset, Index(vector_offset, True, self.layout.strides[0]))

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        raise UnsupportedError(
            "NkiTensor.indirect is not emulated: which offsets the partition groups after the first use is documented "
            "nowhere",
            source=builder().where(),
            remedy="gather with nki.isa.nc_n_gather or nki.isa.local_gather",
        )

    def broadcast_to(self, shape: tuple[int, ...]) -> NkiTensor:
        """Repeat dimensions of size 1 until the shape fits; partitions cannot be repeated by a view."""
        if shape == self.layout.shape:
            return self
        view = self
        for dim, (have, want) in enumerate(zip(self.shape, shape)):
            if have != want:
                view = view.broadcast(dim, want)
        return view

    # -- inside ------------------------------------------------------------------------------------

    def _with(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> NkiTensor:
        return self._as(shape, strides, self.layout.dtype)

    def _as(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> NkiTensor:
        layout = Layout(tuple(shape), tuple(strides), dtype, self.layout.memory, self.layout.pitch)
        return NkiTensor(self.storage, layout, self.offset, self.indirection)

    def _dynamic(self, dim: int, index: NkiTensor, drop: bool) -> NkiTensor:
        self._direct("select", "index")
        self._keep_partition("select", "dim", dim, dim != 0)
        keep = [d for d in range(self.ndim) if d != dim or not drop]
        view = self._with(tuple(self.shape[d] for d in keep), tuple(self.layout.strides[d] for d in keep))
        return view._at(index, self.layout.strides[dim])

    def _at(self, index: Any, stride: int) -> NkiTensor:
        """Moved by a scalar that a tensor or register holds; without values, it is taken as 0."""
        program = builder()
        value = 0
        if program.values:
            value = int(index.array().reshape(-1)[0]) if isinstance(index, NkiTensor) else int(index)
        start = self.offset + value * stride
        outside = self._outside(self.layout, start)
        held = index if isinstance(index, NkiTensor) else None
        if outside is not None:
            index = Index(held, False, stride, f"offset {value}: {outside}")
            return NkiTensor(self.storage, self.layout, self.offset, index)
        return NkiTensor(self.storage, self.layout, start, Index(held, False, stride))

    def _outside(self, layout: Layout, start: int) -> str | None:
        """What is wrong with a pattern that reaches beyond the storage."""
        last = start + layout.itemsize + sum((n - 1) * s for n, s in zip(layout.shape, layout.strides) if s > 0)
        first = start + sum((n - 1) * s for n, s in zip(layout.shape, layout.strides) if s < 0)
        if first >= 0 and last <= self.storage.nbytes:
            return None
        return f"bytes {first} to {last} reach outside the {self.storage.nbytes} of `{self.name}`"

    @property
    def _gathers(self) -> bool:
        """Whether an index names the rows of dimension 0."""
        return self.indirection is not None and self.indirection.vector

    def _direct(self, call: str, argument: str) -> None:
        if self.indirection is not None:
            raise self._fault(call, f"{argument}: the view is indirect already, only one dynamic offset is possible")

    def _keep_partition(self, call: str, argument: str, value: Any, kept: bool) -> None:
        if kept:
            return
        if self.layout.pitch:
            fault = f"{argument}: {value}, dimension 0 of an on-chip tensor is the partition and stays first"
            raise self._fault(call, fault)
        if self._gathers:
            raise self._fault(
                call, f"{argument}: {value}, an index names the rows of dimension 0, which stays as it is"
            )

    def _infer(self, call: str, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
        """The shape with its one -1 filled in."""
        if shape.count(-1) > 1:
            raise self._fault(call, f"shape: {list(shape)} has more than one -1")
        if -1 in shape:
            rest = prod(s for s in shape if s != -1)
            if rest == 0 or size % rest:
                raise self._fault(call, f"shape: {size} elements do not divide into {list(shape)}")
            shape = tuple(size // rest if s == -1 else s for s in shape)
        if prod(shape) != size:
            raise self._fault(call, f"shape: {size} elements do not fill {list(shape)}")
        return shape

    def _fault(self, call: str | None, message: str) -> InputError:
        """What is wrong with a method's argument, or with an index."""
        tensor = f"`{self.name}` {list(self.shape)}"
        where = builder().where()
        return InputError(f"NkiTensor.{call}: {message}; {tensor}" if call else f"{tensor}: {message}", source=where)


def _item(item: Any) -> Any:
    """An index as the hashable form that `slice_layout` takes."""
    kind = type(item)
    if kind is slice:
        start, stop, step = item.start, item.stop, item.step
        return (
            start if start is None else as_int(start),
            stop if stop is None else as_int(stop),
            step if step is None else as_int(step),
        )
    if kind is int or item is Ellipsis or item is None:
        return item
    if kind is DynamicSlice:
        start = as_int(item.start)
        return (start, start + as_int(item.size), None)
    if isinstance(item, range):
        return (item.start, item.stop, item.step)
    numbers = getattr(item, "numbers", None)
    if isinstance(numbers, range):
        return (numbers.start, numbers.stop, numbers.step)
    try:
        return as_int(item)
    except TypeError:
        raise InputError(
            f"index {item!r} of type {type(item).__name__}", source=builder().where(), remedy="use int, slice or nl.ds"
        ) from None


def _put(values: tuple[int, ...], dim: int, value: int) -> tuple[int, ...]:
    return (*values[:dim], value, *values[dim + 1 :])
