"""Reads the TOML that says what is swept; every fault is found before the first point runs."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any

from sim import spec
from sim.errors import InputError
from sim.models import Sharding, Workload
from sim.passes import PASSES
from trnprof import whatif
from trnprof.sweep.fronts import word
from trnprof.sweep.record import Axis, Point, Specification, Value

LARGEST = 1 << 20
"""Bytes of a specification."""
LONGEST = 10_000
"""Values of one axis."""
MOST = 1_000_000
"""Points that can be asked for."""

OF_A_MODEL = ("model", *Workload.__slots__, *Sharding.__slots__, "device", "lnc", "fabric", "slow_chip", "slow_link")
OF_A_KERNEL = ("kernel", "device", "lnc")
TABLES = ("set", "grid", "together", "arguments", "price_per_hour", "page")
WORK = ("model", "phase", "seq", "context", "steps")
"""What a model does; everything else is how. A kernel does what the shapes of its arguments say.

A machine that does not exist is compared with itself alone, so what-ifs count as work.
"""
NESTED = ("what_if", "pass")
"""Tables of parameters: `what_if.hbm_bw`."""
FIELD = re.compile(r"\{(\w+)\}")
"""Where an argument of a kernel takes a parameter."""
SHAPE = re.compile(r"\[(.*?)\]")


def read(path: str | os.PathLike[str]) -> Specification:
    """raises : InputError that names the file and what is wrong in it"""
    file = Path(path)
    text = _text(file)
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise InputError(f"{file}: not TOML: {fault}") from None
    except RecursionError:
        raise InputError(f"{file}: not TOML that is meant: it is nested too deeply") from None
    return _Reading(file, said).specification()


def _text(file: Path) -> str:
    try:
        if file.is_file() and file.stat().st_size > LARGEST:
            raise InputError(f"{file}: {file.stat().st_size} bytes; a sweep is said in at most {LARGEST}")
        return file.read_text("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file}: not a text in UTF-8") from None
    except OSError as fault:
        raise InputError(f"{file}: {fault.strerror}") from None


def points(specification: Specification) -> Iterator[Point]:
    """Every combination, the last axis fastest."""
    for choice in product(*(axis.values for axis in specification.axes)):
        chosen = {
            name: value
            for axis, values in zip(specification.axes, choice, strict=True)
            for name, value in zip(axis.names, values, strict=True)
        }
        parameters = {**specification.fixed, **chosen}
        filled = {name: _filled(text, parameters) for name, text in specification.arguments.items()}
        yield Point(specification.subject, parameters, filled)


def _filled(text: str, parameters: Mapping[str, Value]) -> str:
    return FIELD.sub(lambda found: word(parameters[found[1]]), text)


class _Reading:
    """One file on its way to a specification."""

    def __init__(self, file: Path, said: dict[str, Any]):
        self.file = file
        self.said = said

    def specification(self) -> Specification:
        fixed, axes = self._fixed(), (*self._grid(), *self._together())
        names = [*fixed, *(name for axis in axes for name in axis.names)]
        self._once(names)
        if not axes:
            raise self.fault("nothing is swept", "give [grid] a list of values, such as batch = [1, 4, 16]")
        subject = self._subject(names)
        arguments = self._arguments(subject)
        self._known(subject, names, arguments)
        asked = {axis.title for axis in axes}
        across, up = (self._axis(name, asked) for name in ("x", "y"))
        if across is not None and across == up:
            raise self.fault(f"[page] x and y are both {across}")
        work = self._work(names, subject, arguments)
        here = Specification(str(self.file), subject, fixed, axes, arguments, self._prices(), work, across, up)
        return self._checked(self._placed(here))

    def fault(self, what: str, remedy: str | None = None) -> InputError:
        return InputError(f"{self.file}: {what}", remedy=remedy)

    def _table(self, name: str) -> Mapping[str, Any]:
        found = self.said.get(name, {})
        if not isinstance(found, dict):
            raise self.fault(f"{name} is no table", f"write [{name}]")
        return found

    def _fixed(self) -> dict[str, Value]:
        beside = {name: value for name, value in self.said.items() if name not in TABLES}
        both = beside.keys() & self._table("set").keys()
        if both:
            raise self.fault(f"{', '.join(sorted(both))}: given at the top and in [set]")
        found = dict(self._flat({**beside, **self._table("set")}))
        for name, value in found.items():
            if isinstance(value, list):
                raise self.fault(f"{name} is a list outside of [grid]", f"[grid] {name} = [...] sweeps it")
            self._plain(name, value)
        return found

    def _flat(self, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in table.items():
            if name in NESTED and isinstance(value, dict):
                yield from ((f"{name}.{inner}", each) for inner, each in value.items())
            else:
                yield name, value

    def _plain(self, name: str, value: Any) -> Value:
        if not isinstance(value, (str, int, float, bool)) or (isinstance(value, float) and not isfinite(value)):
            raise self.fault(f"{name}: {str(value)[:40]!r} is neither a number, a text, nor true or false")
        return value

    def _values(self, name: str, values: Any) -> list[Value]:
        if not isinstance(values, list):
            raise self.fault(f"{name} is no list", f"[grid] {name} = [{values!r}], or {name} under [set]")
        if not values:
            raise self.fault(f"{name} has no values, so the grid is empty")
        if len(values) > LONGEST:
            raise self.fault(f"{name} has {len(values)} values, of at most {LONGEST}")
        return [self._plain(name, value) for value in values]

    def _grid(self) -> Iterator[Axis]:
        for name, values in self._flat(self._table("grid")):
            given = self._values(name, values)
            if len({(type(value), value) for value in given}) < len(given):
                raise self.fault(f"{name} has a value twice")
            yield Axis((name,), tuple((value,) for value in given))

    def _together(self) -> Iterator[Axis]:
        tables = self.said.get("together", [])
        for table in tables if isinstance(tables, list) else [tables]:
            if not isinstance(table, dict) or not table:
                raise self.fault("together is no table of lists", "write [[together]] and a list for each name")
            columns = {name: self._values(name, values) for name, values in self._flat(table)}
            sizes = {name: len(values) for name, values in columns.items()}
            if len(set(sizes.values())) > 1:
                said = ", ".join(f"{name} {size}" for name, size in sizes.items())
                raise self.fault(f"[[together]] has lists of different lengths: {said}")
            yield Axis(tuple(columns), tuple(zip(*columns.values(), strict=True)))

    def _once(self, names: Sequence[str]) -> None:
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise self.fault(f"{', '.join(twice)}: given twice", "fixed, in [grid] or in one [[together]]")

    def _subject(self, names: Sequence[str]) -> str:
        found = [name for name in ("model", "kernel") if name in names]
        if len(found) != 1:
            what = "both model and kernel are given" if found else "neither model nor kernel is given"
            raise self.fault(what, 'model = "config.json", or kernel = "FILE.py::NAME"')
        return found[0]

    def _arguments(self, subject: str) -> dict[str, str]:
        table = self._table("arguments")
        if table and subject == "model":
            raise self.fault("a model has no [arguments]")
        return {name: word(self._plain(name, text)) for name, text in table.items()}

    def _known(self, subject: str, names: Sequence[str], arguments: Mapping[str, str]) -> None:
        """Every parameter is one, and every `{name}` has a value."""
        fields = {field for text in arguments.values() for field in FIELD.findall(text)}
        lacking = sorted(fields - {*names})
        if lacking:
            raise self.fault(
                f"[arguments] asks for {{{lacking[0]}}}, which nothing gives", f"[grid] {lacking[0]} = […]"
            )
        known = {*OF_A_MODEL} if subject == "model" else {*OF_A_KERNEL, *fields}
        for name in names:
            head, dot, rest = name.partition(".")
            if dot and head in NESTED:
                self._known_inside(subject, head, rest)
            elif name not in known:
                near = get_close_matches(name, known, n=3)
                told = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(sorted(known))}"
                raise self.fault(f"{subject} has no parameter {name!r}", told)

    def _known_inside(self, subject: str, table: str, name: str) -> None:
        if table == "pass" and subject == "model":
            raise self.fault(f"pass.{name}: passes are switched for kernels alone")
        if table == "pass" and name not in PASSES:
            raise self.fault(f"no pass {name!r}", f"known: {', '.join(PASSES)}")
        setting = whatif.SETTINGS.get(name)
        if table == "what_if" and subject == "model" and setting is not None and setting.word:
            raise self.fault(f"what_if.{name}: a model takes figures of a device alone")

    def _axis(self, name: str, asked: set[str]) -> str | None:
        """A heat map's axis as [page] names it."""
        page = self._table("page")
        strange = sorted(page.keys() - {"x", "y", "work"})
        if strange:
            raise self.fault(f"[page] has x, y and work, not {', '.join(strange)}")
        value = page.get(name)
        if value is not None and (not isinstance(value, str) or value not in asked):
            raise self.fault(f"[page] {name} = {value!r} is not swept", f"one of {', '.join(sorted(asked))}")
        return value

    def _work(self, names: Sequence[str], subject: str, arguments: Mapping[str, str]) -> tuple[str, ...]:
        """Parameters that say what is done, as [page] names them or as they are used."""
        said = self._table("page").get("work")
        if said is not None and not (isinstance(said, list) and {*map(str, said)} <= {*names}):
            raise self.fault(f"[page] work = {said!r}", "a list of parameters that are given")
        shapes = " ".join(part for text in arguments.values() for part in SHAPE.findall(text))
        own = WORK if subject == "model" else FIELD.findall(shapes)
        if said is not None:
            return tuple(name for name in names if name in said)
        return tuple(name for name in names if name in own or name.startswith("what_if."))

    def _prices(self) -> dict[str, float]:
        sizes = {each.name.lower() for each in spec.instances()}
        for name, price in self._table("price_per_hour").items():
            if isinstance(price, bool) or not isinstance(price, (int, float)) or not 0 <= price < float("inf"):
                raise self.fault(f"[price_per_hour] {name} = {price!r} is no price")
            if name.lower() not in sizes:
                spec.device(name)
        return {name: float(price) for name, price in self._table("price_per_hour").items()}

    def _placed(self, here: Specification) -> Specification:
        """Files are looked for beside the specification, then where it is run."""
        from dataclasses import replace

        def place(value: Value) -> Value:
            path, _, kernel = str(value).partition("::")
            if here.subject == "kernel" and not kernel:
                raise self.fault(f"kernel {value!r} names no kernel", "FILE.py::NAME")
            found = next((each for each in (self.file.parent / path, Path(path)) if path and each.exists()), None)
            if found is None:
                raise self.fault(f"{here.subject} {path!r}: no such file")
            return f"{found}::{kernel}" if kernel else str(found)

        fixed = {name: place(value) if name == here.subject else value for name, value in here.fixed.items()}
        axes = tuple(
            replace(axis, values=tuple(
                tuple(place(value) if name == here.subject else value for name, value in zip(axis.names, values))
                for values in axis.values
            )) for axis in here.axes
        )  # fmt: skip
        return replace(here, fixed=fixed, axes=axes)

    def _checked(self, here: Specification) -> Specification:
        """The devices and what-ifs of every axis exist; what combinations do is for each point to say."""
        values = {name: {value} for name, value in here.fixed.items()}
        for axis in here.axes:
            for name, column in zip(axis.names, zip(*axis.values, strict=True), strict=True):
                values[name] = {*column}
        if here.size > MOST:
            raise self.fault(f"{here.size} points; at most {MOST}")
        devices = [spec.device(name) for name in values.get("device", {"trn2"})]
        for name, given in values.items():
            head, _, rest = name.partition(".")
            for value in given if head == "what_if" else ():
                for device in devices:
                    device.replace(whatif.changes(device, {rest: value})[0])
        return here
