"""A recording as one row of a Parquet table, so that a trace directory can be timed anew.

Columns are lists: of instructions, of operands, of storages. What is small (device, options, shapes, calls, regions) is
one JSON text. Nothing in it is code: a file from elsewhere can be wrong, but it cannot run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim import dtypes, spec
from sim.compiler import Options
from sim.errors import InputError, UnsupportedError
from sim.explorer.columns import array
from sim.figures import Figure
from sim.memory import Layout, Storage
from sim.program import Form, Program, Region
from sim.retiming import Recording, described
from sim.trace import NONE, Engine, Finding, Memory, RegionKind, Strings

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
"""Of what `head` holds; raised when older files can no longer be read."""

COLUMNS = {
    "form": np.int32,
    "source": np.int32,
    "region": np.int32,
    "core": np.int16,
    "iteration": np.int32,
    "iterations": np.int32,
    "immediate": np.int32,
    "name": np.int32,
    "operand_storage": np.int32,
    "operand_offset": np.int64,
    "order": np.int64,
    "born": np.int64,
    "storage_name": np.int32,
    "storage_layout": np.int32,
    "storage_role": np.int32,
    "storage_buffer": np.int32,
    "storage_source": np.int32,
    "storage_region": np.int32,
    "storage_partition": np.int32,
    "storage_offset": np.int64,
}
"""Lists and their types; `name`, `storage_name`, `_role` and `_buffer` are places in `head["texts"]`."""


LATER = ("iteration", "iterations")
"""Columns that files of earlier versions lack; their programs are outside all loops then."""


def storable(recorded: Recording) -> bool:
    """Whether every call's options can be written down."""
    try:
        for asked in recorded.program.asked:
            _plain(asked)
    except UnsupportedError:
        return False
    return len(recorded.program.calls) == len(recorded.program.forms)


def table(recorded: Recording) -> pa.Table:
    """The recording as a table of one row."""
    import pyarrow as pa

    program, texts = recorded.program, Strings()
    columns = {**_instructions(program, texts), **_storages(program, texts)}
    layouts = _Layouts()
    columns["storage_layout"] = [layouts.number(storage.layout) for storage in program.storages]
    head = {
        "format": FORMAT,
        "kernel": program.kernel,
        "device": program.device.name,
        "figures": {id: figure.value for id, figure in program.device.figures.items()},
        "options": asdict(recorded.options),
        "strings": len(program.strings),
        "regions": [[region.parent, int(region.kind), region.name, region.source] for region in program.regions],
        "findings": [asdict(finding) for finding in program.findings],
        "forms": [
            [call, _plain(asked), [layouts.number(layout) for layout in form.layouts]]
            for call, asked, form in zip(program.calls, program.asked, program.forms)
        ],
        "layouts": layouts.found,
        "texts": list(texts),
    }
    arrays = {name: _listed(np.asarray(columns[name], kind)) for name, kind in COLUMNS.items()}
    return pa.table({"head": _text(json.dumps(head)), **arrays})


def _text(text: str) -> pa.LargeStringArray:
    """A column of one row."""
    import pyarrow as pa

    coded = text.encode()
    ends = np.array([0, len(coded)], np.int64)
    return pa.LargeStringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(coded))


def _listed(values: np.ndarray) -> pa.ListArray:
    """A column of one row, the list of all values."""
    import pyarrow as pa

    return pa.ListArray.from_arrays(array(np.array([0, values.size], np.int32)), array(values))


def _instructions(program: Program, texts: Strings) -> dict[str, Any]:
    named = np.full(len(program), NONE, np.int32)
    for number, name in program.names.items():
        named[number] = texts.code(name)
    return {
        "form": program.form,
        "source": program.source,
        "region": program.region,
        "core": program.core,
        "iteration": program.iteration,
        "iterations": program.iterations.ravel(),
        "immediate": program.immediate,
        "name": named,
        "operand_storage": program.operands[:, 0],
        "operand_offset": program.operands[:, 1],
        "order": program.order.ravel(),
        "born": program.born,
    }


def _storages(program: Program, texts: Strings) -> dict[str, Any]:
    held = program.storages
    places = [storage.address or (NONE, NONE) for storage in held]
    return {
        "storage_name": texts.codes(storage.name for storage in held),
        "storage_role": texts.codes(storage.role for storage in held),
        "storage_buffer": texts.codes(storage.buffer for storage in held),
        "storage_source": [storage.source for storage in held],
        "storage_region": [storage.region for storage in held],
        "storage_partition": [partition for partition, _ in places],
        "storage_offset": [offset for _, offset in places],
    }


class _Layouts:
    """Layouts by number, as JSON has them."""

    def __init__(self) -> None:
        self.found: list[list[Any]] = []
        self._numbers: dict[int, int] = {}

    def number(self, layout: Layout) -> int:
        known = self._numbers.get(layout.index)
        if known is None:
            known = self._numbers[layout.index] = len(self.found)
            fields = [list(layout.shape), list(layout.strides), str(layout.dtype), int(layout.memory), layout.pitch]
            self.found.append(fields)
        return known


def _plain(value: Any) -> Any:
    """An option of a call in JSON's terms: text, numbers and None as they are, the rest as {kind: value}."""
    if isinstance(value, Engine):
        return {"engine": int(value)}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, np.generic) and not isinstance(value, np.dtype):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    try:
        return {"dtype": str(dtypes.parse(value))}
    except (InputError, TypeError):
        raise UnsupportedError(f"an option of type {type(value).__name__} cannot be written down") from None


def _option(value: Any) -> Any:
    """The option that `_plain` wrote."""
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "tuple":
        return tuple(_option(item) for item in inner)
    return Engine(inner) if kind == "engine" else dtypes.parse(inner)


def read(path: Path, strings: Strings) -> Recording:
    """The recording of a file that `table` made.

    strings : of the trace; the program's own are its first
    raises  : InputError that names the file, for one that is damaged or of another version
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_table(path, memory_map=True)
        head = json.loads(found.column("head")[0].as_py())
        if head.get("format") != FORMAT:
            raise InputError(
                f"{path}: format {head.get('format')!r}, this version reads {FORMAT}", remedy="emulate the kernel again"
            )
        columns = {
            name: found.column(name).chunk(0).values.to_numpy(zero_copy_only=False).astype(kind, copy=False)
            for name, kind in COLUMNS.items()
            if name in found.column_names or name not in LATER
        }
        return Recording(_program(head, columns, strings), _options(head["options"]))
    except InputError:
        raise
    except (pa.ArrowException, OSError, KeyError, IndexError, TypeError, ValueError) as fault:
        raise InputError(
            f"{path}: damaged: {type(fault).__name__} {fault}", remedy="emulate the kernel again"
        ) from None


def _options(fields: Mapping[str, Any]) -> Options:
    return Options(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})


def _program(head: Mapping[str, Any], columns: Mapping[str, np.ndarray], strings: Strings) -> Program:
    device = _device(head)
    layouts = [
        Layout(tuple(shape), tuple(strides), dtypes.parse(dtype), Memory(memory), pitch)
        for shape, strides, dtype, memory, pitch in head["layouts"]
    ]
    asked = tuple(_option(options) for _, options, _ in head["forms"])
    calls = tuple(call for call, _, _ in head["forms"])
    places = [tuple(layouts[number] for number in numbers) for _, _, numbers in head["forms"]]
    forms = tuple(described(device, *each) for each in zip(calls, places, asked))
    texts = head["texts"]
    start, operands = _operands(forms, columns)
    return Program(
        device=device,
        forms=forms,
        storages=_held(columns, layouts, texts),
        regions=tuple(Region(parent, RegionKind(kind), name, source) for parent, kind, name, source in head["regions"]),
        strings=Strings(text for text, _ in zip(strings, range(head["strings"]))),
        **{name: columns[name] for name in ("form", "source", "region", "core", "immediate", "born")},
        operand_start=start,
        operands=operands,
        iteration=columns.get("iteration", np.full(len(columns["form"]), NONE, np.int32)),
        iterations=columns.get("iterations", np.zeros(0, np.int32)).reshape(-1, 4),
        names={int(number): texts[columns["name"][number]] for number in np.flatnonzero(columns["name"] >= 0)},
        order=columns["order"].reshape(-1, 3),
        findings=tuple(Finding(**finding) for finding in head["findings"]),
        asked=asked,
        calls=calls,
        kernel=head["kernel"],
    )


def _operands(forms: tuple[Form, ...], columns: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(operand_start, operands); how many operands an instruction has, and their layouts, its form says."""
    count = np.array([len(form.layouts) for form in forms] or [0], np.int64)[columns["form"]]
    start = np.concatenate((np.zeros(1, np.int64), np.cumsum(count)))
    flat = np.array([layout.index for form in forms for layout in form.layouts] or [0], np.int64)
    first = np.cumsum([0, *(len(form.layouts) for form in forms)])[columns["form"]]
    place = np.repeat(first - start[:-1], count) + np.arange(start[-1])
    return start, np.column_stack((columns["operand_storage"], columns["operand_offset"], flat[place]))


def _held(columns: Mapping[str, np.ndarray], layouts: list[Layout], texts: list[str]) -> tuple[Storage, ...]:
    fields = [columns[f"storage_{name}"].tolist() for name in ("name", "layout", "role", "source", "region")]
    buffer, partition, offset = (columns[f"storage_{name}"].tolist() for name in ("buffer", "partition", "offset"))
    held = []
    for index, (name, layout, role, source, region) in enumerate(zip(*fields, strict=True)):
        storage = Storage(index, texts[name], layouts[layout], texts[role], source, region, values=False)
        storage.buffer = texts[buffer[index]]
        storage.address = (partition[index], offset[index]) if partition[index] >= 0 else None
        held.append(storage)
    return tuple(held)


def _device(head: Mapping[str, Any]) -> spec.Device:
    """The device with the figures that it had then."""
    today = spec.device(head["device"])
    figures: dict[str, Figure] = dict(today.figures)
    for id, value in head["figures"].items():
        if id not in figures:
            raise InputError(f"{today.name} has no figure {id!r} any more", remedy="emulate the kernel again")
        if value != figures[id].value:
            figures[id] = replace(figures[id], value=value, kind="what-if", source="as the trace was recorded")
    return replace(today, figures=figures)
