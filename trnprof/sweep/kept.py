"""Outcomes kept between runs, each in a file that is named after everything that decides it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from functools import cache
from pathlib import Path

from sim import spec
from sim.errors import InputError, TrnprofError
from trnprof.sweep.evaluation import DEFAULT_DEVICE
from trnprof.sweep.imported import files
from trnprof.sweep.record import Outcome, Point

FORMAT = 1


class Kept:
    """A folder of outcomes."""

    def __init__(self, folder: Path):
        self.folder = folder

    def find(self, key: str) -> Outcome | None:
        """None where there is none, or only a damaged one."""
        try:
            return Outcome(**json.loads(self._path(key).read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def add(self, key: str, outcome: Outcome) -> None:
        """Whole or not at all. raises : InputError where the folder cannot be written"""
        path = self._path(key)
        draft = path.with_suffix(f".{os.getpid()}.draft")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(asdict(outcome), allow_nan=False), "utf-8")
            os.replace(draft, path)
        except OSError as fault:
            raise InputError(f"{path.parent}: {fault.strerror}", remedy="--keep DIR names a folder") from None

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


class Keys:
    """The content key of each point: parameters, what the files that it names hold, figures, and our own code."""

    def __init__(self) -> None:
        self._subjects: dict[str, str] = {}
        self._file = cache(_file)

    def __call__(self, point: Point) -> str:
        device = point.parameters.get("device", DEFAULT_DEVICE)
        said = (
            FORMAT, point.subject, sorted((name, repr(value)) for name, value in point.parameters.items()),
            sorted(point.arguments.items()), _figures(str(device)), self._subject(point),
            [self._file(text.partition("@")[2]) for text in point.arguments.values() if "@" in text], sources(),
        )  # fmt: skip
        return hashlib.sha256(repr(said).encode("utf-8", "surrogatepass")).hexdigest()

    def _subject(self, point: Point) -> str:
        """A digest of the model's description, or of the kernel's file and what it imports."""
        named = str(point.parameters[point.subject])
        if named not in self._subjects:
            self._subjects[named] = _described(named) if point.subject == "model" else _coded(named)
        return self._subjects[named]


@cache
def _figures(device: str) -> str:
    try:
        return repr(sorted((id, figure.value) for id, figure in spec.device(device).figures.items()))
    except TrnprofError as fault:
        return str(fault)


def _described(config: str) -> str:
    """Every field, those of included files too."""
    from sim.models.config import load

    try:
        return hashlib.sha256(repr(sorted(load(config).values.items())).encode()).hexdigest()
    except TrnprofError as fault:
        return str(fault)


def _coded(target: str) -> str:
    digest = hashlib.sha256(target.rpartition("::")[2].encode())
    for path in files(Path(target.partition("::")[0])):
        digest.update(str(path).encode("utf-8", "surrogateescape") + _file(str(path)).encode())
    return digest.hexdigest()


def _file(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as fault:
        return str(fault)


@cache
def sources() -> str:
    """A digest of the emulator, its figures, and the analysis."""
    import sim
    import trnprof

    digest = hashlib.sha256()
    for root, pattern in ((sim, "**/*.py"), (sim, "**/*.json"), (trnprof, "*.py"), (trnprof, "models/*.py")):
        folder = Path(root.__file__).parent
        for path in sorted(folder.glob(pattern)):
            digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()
