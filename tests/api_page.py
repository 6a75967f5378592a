"""The reference page of the library, made from its docstrings: `python -m tests.api_page > docs/api.md`."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import sim
import trnprof

HEAD = """# The library

Made from docstrings by `python -m tests.api_page > docs/api.md`. Everything is typed (`py.typed`), and loaded when it
is first asked for: `import trnprof` costs next to nothing. What is at fault in an input raises `trnprof.TrnprofError`,
in one line. In a notebook a run, a trace, a verdict and a chart show themselves.
"""

EMULATOR = ("run", "load", "stand_ins", "repeat", "TensorSpec", "PerRank", "Run")
"""Names of `sim` that people type."""

RECORDS = (
    ("trnprof.bounds", "Verdict"),
    ("trnprof.evidence", "Evidence"),
    ("trnprof.ranking", "Rank"),
    ("trnprof.critical", "CriticalPath"),
    ("trnprof.compare", "Comparison"),
    ("trnprof.whatif", "WhatIf"),
    ("trnprof.roofline", "Chart"),
    ("trnprof.roofline", "Point"),
    ("trnprof.baseline", "Change"),
    ("sim.trace", "Meta"),
    ("sim.trace", "Finding"),
)
"""What the functions give back."""

TABLES = "sim.trace"
WITHIN = ("Session",)
"""Classes whose methods are the views' own."""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## Functions and classes of `trnprof`\n"]
    parts += [_entry("trnprof", name, getattr(trnprof, name)) for name in trnprof.__all__ if not name.startswith("_")]
    parts.append("## The emulator: `sim`\n")
    parts += [_entry("sim", name, getattr(sim, name)) for name in EMULATOR]
    parts.append("## Records\n\nFrozen; `dataclasses.asdict` makes a dictionary of each.\n")
    for module, name in RECORDS:
        found = getattr(importlib.import_module(module), name)
        parts.append(_entry(module, name, found))
    parts.append("## Tables of a trace\n\nColumns are NumPy arrays; text is a code into `trace.strings`.\n")
    parts += [_table(name, kind) for name, kind in importlib.import_module(TABLES).TABLES.items()]
    parts.append("## Testing\n")
    parts.append(_module("trnprof.pytest_plugin"))
    plugin = importlib.import_module("trnprof.pytest_plugin")
    parts.append(_entry("trnprof.pytest_plugin", "Kernel", plugin.Kernel))
    return "\n".join(parts).rstrip() + "\n"


def _entry(module: str, name: str, found: Any) -> str:
    lines = [f"### `{module}.{name}`\n", *_shown(name, found)]
    if inspect.isclass(found) and name not in WITHIN:
        lines += [f"- `{field}`: {meaning}" if meaning else f"- `{field}`" for field, meaning in _fields(found)]
        lines += [f"- `{_signature(method, each)}`: {_sentence(each)}" for method, each in _methods(found)]
    return "\n".join(lines) + "\n"


def _shown(name: str, found: Any) -> Iterator[str]:
    if not inspect.isclass(found) or not _fields(found):
        yield f"```python\n{_signature(name, found)}\n```\n"
    yield _prose(inspect.getdoc(found) or "")


def _signature(name: str, found: Any) -> str:
    if isinstance(found, property):
        return name
    try:
        text = str(inspect.signature(found))
    except (TypeError, ValueError):
        return name
    text = re.sub(r"'([^']*)'", r"\1", text) if "'" in text and "= '" not in text else _unquoted(text)
    text = re.sub(r" = <[^()]*?>(?=[,)])", " = …", re.sub(r" at 0x[0-9a-f]+", "", text))
    return name + text.replace("(self, ", "(").replace("(self)", "()").replace(" -> None", "")


def _unquoted(text: str) -> str:
    """Annotations without their quotes; defaults keep theirs."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _prose(text: str) -> str:
    """A docstring: its sentence, then its indented lines as they are."""
    head, _, rest = text.partition("\n\n")
    return f"{head}\n" + (f"\n```text\n{textwrap.dedent(rest).rstrip()}\n```\n" if rest.strip() else "")


def _sentence(found: Any) -> str:
    return " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split())


def _methods(found: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, each in vars(found).items():
        if not name.startswith("_") and (inspect.isfunction(each) or isinstance(each, property)):
            yield name, each


def _fields(found: type) -> list[tuple[str, str]]:
    """Fields of a record with their types, and the text that stands below each."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0].body
    except (OSError, TypeError):
        return []
    fields = []
    for at, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        after = body[at + 1] if at + 1 < len(body) else None
        told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        meaning = " ".join(str(after.value.value).split()) if told else ""
        if not node.target.id.startswith("_"):
            fields.append((f"{node.target.id}: {ast.unparse(node.annotation)}", meaning))
    return fields


def _table(name: str, kind: type) -> str:
    rows = [f"- `{column}` ({'text' if spec.text else spec.dtype.name}): {spec.meaning}"
            for column, spec in kind.columns.items()]  # fmt: skip
    return f"### `trace.{name}`\n\n{_prose(inspect.getdoc(kind) or '')}\n" + "\n".join(rows) + "\n"


def _module(name: str) -> str:
    head, _, rest = (importlib.import_module(name).__doc__ or "").partition("\n\n")
    example, _, more = textwrap.dedent(rest).strip().partition("\n\n`--")
    return f"{head}\n\n```python\n{textwrap.dedent('    ' + example).strip()}\n```\n\n`--{more}\n"


if __name__ == "__main__":
    print(page(), end="")
