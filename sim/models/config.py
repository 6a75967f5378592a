"""Reads what describes a model: a Hugging Face `config.json`, a short TOML of our own, or a mapping.

A TOML or JSON file may say `include = "base.toml"`: what the base says holds where the file is silent. Every fault
names the file and the field.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.errors import InputError

LARGEST = 4 << 20
"""Bytes of a file; descriptions of models have a few thousand."""

DEEPEST = 8
"""Files that include each other in a row."""

INCLUDE = "include"
_REQUIRED: Any = object()


class Fields:
    """The fields of a description, read by name and type.

    A field may have several names, for the same thing is called otherwise in other families; the first that is there
    counts. raises : InputError with the file and the field
    """

    def __init__(self, values: Mapping[str, Any], source: str, path: str = ""):
        self.values = values
        self.source = source
        self.path = path

    def has(self, *names: str) -> bool:
        """Whether one of the names has a value; null is none."""
        return any(self.values.get(name) is not None for name in names)

    def integer(self, *names: str, default: Any = _REQUIRED, least: int = 1, most: int = 1 << 24) -> Any:
        """A whole number; `default` where it is missing, which may be None."""
        name, value = self._find(names, default)
        if name is None:
            return value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(name, f"{_shown(value)} is no whole number")
        if not least <= value <= most:
            raise self.fault(name, f"{_shown(value)} lies outside {least} to {most}")
        return value

    def number(self, *names: str, default: Any = _REQUIRED, least: float = 0.0, most: float = 1e9) -> Any:
        """A finite number."""
        name, value = self._find(names, default)
        if name is None:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fault(name, f"{_shown(value)} is no number")
        if not (math.isfinite(value) and least <= value <= most):
            raise self.fault(name, f"{_shown(value)} lies outside {least:g} to {most:g}")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        name, value = self._find(names, default)
        if not isinstance(value, bool):
            raise self.fault(name or names[0], f"{_shown(value)} is neither true nor false")
        return value

    def text(self, *names: str, default: Any = _REQUIRED) -> Any:
        name, value = self._find(names, default)
        if name is None:
            return value
        if not isinstance(value, str):
            raise self.fault(name, f"{_shown(value)} is no text")
        return value

    def integers(self, *names: str, default: Any = _REQUIRED, most: int = 1 << 24, length: int = 4096) -> Any:
        """A list of whole numbers of at least 1, as a tuple; one number stands for a list of one."""
        return self._list(names, default, length, lambda inner, name: inner.integer(name, most=most))

    def texts(self, *names: str, default: Any = _REQUIRED, length: int = 4096) -> Any:
        """A list of texts, as a tuple."""
        return self._list(names, default, length, lambda inner, name: inner.text(name))

    def inner(self, name: str) -> Fields:
        """A table inside."""
        value = self.values.get(name)
        if not isinstance(value, Mapping):
            raise self.fault(name, "is missing" if value is None else f"{_shown(value)} is no table")
        return Fields(value, self.source, f"{self.path}{name}.")

    def fault(self, name: str, what: str, remedy: str | None = None) -> InputError:
        """The error that names the file and the field."""
        return InputError(f"{self.source}: field `{self.path}{name}`: {what}", remedy=remedy)

    def _find(self, names: tuple[str, ...], default: Any) -> tuple[str | None, Any]:
        for name in names:
            if self.values.get(name) is not None:
                return name, self.values[name]
        if default is _REQUIRED:
            others = f", which may also be called {', '.join(f'`{name}`' for name in names[1:])}" if names[1:] else ""
            raise self.fault(names[0], f"is missing{others}")
        return None, default

    def _list(self, names: tuple[str, ...], default: Any, length: int, read: Any) -> Any:
        name, value = self._find(names, default)
        if name is None:
            return value
        items = value if isinstance(value, list) else [value]
        if not 0 < len(items) <= length:
            raise self.fault(name, f"has {len(items)} entries, of 1 to {length}")
        inner = Fields({f"{name}[{k}]": item for k, item in enumerate(items)}, self.source, self.path)
        return tuple(read(inner, key) for key in inner.values)


def load(description: str | os.PathLike[str] | Mapping[str, Any]) -> Fields:
    """The fields of a file, a folder with a `config.json`, or a mapping.

    raises : InputError for what cannot be read, is too large, no table, or includes itself
    """
    if isinstance(description, Mapping):
        return Fields(description, "the given description")
    path = Path(description)
    if path.is_dir():
        path = path / "config.json"
    return Fields(_included(path, ()), str(path))


def _included(path: Path, open_files: tuple[Path, ...]) -> dict[str, Any]:
    """A file's own table over those of its bases."""
    real = Path(os.path.realpath(path))
    if real in open_files:
        way = " includes ".join(file.name for file in (*open_files[open_files.index(real) :], real))
        raise InputError(f"{path}: field `{INCLUDE}`: a circle: {way}")
    if len(open_files) >= DEEPEST:
        raise InputError(f"{path}: field `{INCLUDE}`: more than {DEEPEST} files include each other in a row")
    values = _parsed(path)
    base = values.pop(INCLUDE, None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise InputError(f"{path}: field `{INCLUDE}`: {_shown(base)} is no path")
    return {**_included(path.parent / base, (*open_files, real)), **values}


def _parsed(path: Path) -> dict[str, Any]:
    text = _read(path)
    try:
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise InputError(f"{path}: tables lie too deep in each other") from None
    except ValueError as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise InputError(f"{path}: no {kind}: {str(error)[:200]}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: holds {_shown(values)}, not a table of fields")
    return values


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            there = "not a file" if path.exists() else "no such file"
            raise InputError(f"{path}: {there}", remedy="a Hugging Face config.json or a TOML is read")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > LARGEST:
        size = path.stat().st_size
        raise InputError(f"{path}: {size} bytes are no description of a model", remedy=f"at most {LARGEST} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no text in UTF-8") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _shown(value: Any) -> str:
    """A value as it may stand in an error."""
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**20 else "a number of more than 20 digits"
    return text if len(text) <= 60 else f"{text[:57]}…"
