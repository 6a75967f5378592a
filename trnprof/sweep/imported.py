"""The files of Python code that a kernel's file imports, other than of installed packages; found without running it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

OURS = ("nki", "neuronxcc", "sim", "trnprof")
"""Packages that the emulator stands for, or is."""


def files(path: Path) -> tuple[Path, ...]:
    """The file itself and all that it imports, sorted; a file that cannot be read or parsed imports nothing."""
    found: set[Path] = set()
    todo = [path.resolve()]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += _imports(file)
    return tuple(sorted(found))


def _imports(file: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    roots = _roots(file)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _resolved(roots, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = roots if not node.level else [file.parents[min(node.level, len(file.parents)) - 1]]
            module = node.module or ""
            for alias in node.names:
                yield from _resolved(base, f"{module}.{alias.name}".strip("."))


def _roots(file: Path) -> list[Path]:
    """Folders that absolute names are looked for in: beside the file, above its package, then Python's own path."""
    top = file.parent
    while (top / "__init__.py").is_file() and top.parent != top:
        top = top.parent
    installed = (Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
    others = [Path(entry or ".").resolve() for entry in sys.path]
    return [file.parent, top, *(each for each in others if not any(each.is_relative_to(home) for home in installed))]


def _resolved(roots: list[Path], name: str) -> Iterator[Path]:
    """Files of a dotted name and of the packages around it, in the first folder that has any."""
    parts = name.split(".")
    if parts[0] in OURS:
        return
    for root in roots:
        places = [root.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
        each = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
        there = [file.resolve() for file in each if file.is_file()]
        if there:
            yield from there
            return
