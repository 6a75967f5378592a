"""Names and signatures of a documented API, out of the stub files that the Neuron SDK's documents are made from.

    python -m tests.documented nki=STUBS/nki … > tests/names/RELEASE.txt

STUBS/nki is a folder of the SDK's repository (nki/api/nki); only names, parameters, defaults and the values of enums
are kept. A line is `module.name(parameter, other=default)`, `module.Class.member = value` or `module.name`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SPECIAL = ("__getitem__", "__setitem__")


def documented(package: str, folder: Path) -> Iterator[str]:
    """A line for every public name of every module of a package."""
    for path in sorted(folder.rglob("*.py")):
        inner = path.relative_to(folder).with_suffix("").parts
        parts = [package, *(part for part in inner if part != "__init__")]
        yield from _names(".".join(parts), ast.parse(path.read_text()).body)


def _names(prefix: str, body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef) and _public(node.name):
            yield f"{prefix}.{node.name}"
            yield from _names(f"{prefix}.{node.name}", node.body)
        elif isinstance(node, ast.FunctionDef) and _public(node.name):
            yield f"{prefix}.{node.name}{_signature(node)}"
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and _public(target.id):
                yield f"{prefix}.{target.id}{_value(node.value)}"


def _public(name: str) -> bool:
    return not name.startswith("_") or name in SPECIAL


def _value(node: ast.expr | None) -> str:
    """` = value` of what is written out: the members of enums."""
    return f" = {node.value!r}" if isinstance(node, ast.Constant) and node.value is not ... else ""


def _signature(node: ast.FunctionDef) -> str:
    """The parameters without annotations; empty for a property."""
    if any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list):
        return ""
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    for argument in (arguments.vararg, arguments.kwarg):
        if argument is not None:
            argument.annotation = None
    if arguments.args and arguments.args[0].arg == "self":
        del arguments.args[0]
    return f"({ast.unparse(arguments)})"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        name, _, where = given.partition("=")
        print(*documented(name, Path(where)), sep="\n")
