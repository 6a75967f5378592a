"""Counts the kernels of public corpora: functions that their files mark as kernels, found without importing them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

POPULATIONS: dict[str, tuple[str, ...]] = {
    "aws-neuron-sdk nki/test": ("aws-neuron-sdk/nki/test",),
    "aws-neuron-sdk nki/examples, nki/deep-dives": ("aws-neuron-sdk/nki/examples", "aws-neuron-sdk/nki/deep-dives/src"),
    "nki-samples": ("nki-samples/src", "nki-samples/contributed"),
    "nki-samples before c4b806e": (
        *(
            f"nki-samples-legacy/src/nki_samples/{name}"
            for name in ("reference", "tutorials/rotary", "tutorials/softmax")
        ),
    ),
    "nki-library": ("nki-library/src/nkilib_src",),
    "NKIBench": ("AccelOpt/NKIBench/kernels",),
    "AccelOpt samples": ("AccelOpt/samples/nki",),
    "nkipy": ("nkipy",),
    "PyPI trn*": ("pypi",),
    "trainium-kernel-fusion": ("trainium-kernel-fusion/kernels",),
}
"""Corpus -> its folders in a folder of checkouts."""

MODES = ("jit", "baremetal", "benchmark", "profile", "trace", "simulate")


@dataclass(frozen=True, slots=True)
class Found:
    """A kernel as its file shows it."""

    corpus: str
    file: str
    """Relative to the folder of checkouts."""
    name: str
    line: int
    """Its first line, decorators included; 0 for a file that is no Python."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def census(folder: Path) -> list[Found]:
    return [
        found
        for corpus, places in POPULATIONS.items()
        for place in places
        for path in sorted((folder / place).rglob("*.py"))
        for found in _kernels(corpus, path, folder)
    ]


def _kernels(corpus: str, path: Path, folder: Path) -> Iterator[Found]:
    file = str(path.relative_to(folder))
    text = path.read_text(errors="replace")
    if "nki" not in text:
        return
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield Found(corpus, file, f"({error.msg}, line {error.lineno})", 0)
        return
    wrapped = set(_wrapped(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.name in wrapped or any(map(_marks, node.decorator_list))):
            line = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            yield Found(corpus, file, node.name, line)


def _wrapped(tree: ast.AST) -> Iterator[str]:
    """Functions of a file that it makes kernels by a call: `nki.jit(f)`, `nki.baremetal(…)(f)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _marks(node.func) and node.args and isinstance(node.args[0], ast.Name):
            yield node.args[0].id


def _marks(mark: ast.expr) -> bool:
    """Whether a decorator, with or without options, makes a kernel."""
    name = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)
    root, _, mode = name.rpartition(".")
    return name == "nki_jit" or (mode in MODES and root.rpartition(".")[2].startswith("nki"))
