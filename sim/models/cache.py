"""Traces of single operators kept between runs, by everything that decides them: kernels, emulator, figures, shapes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sim.spec import Device
from sim.trace import TABLES, Finding, Meta, Strings, Trace

MOST = 2 << 30
"""Bytes that the folder may take; what was used longest ago goes first."""

FORMAT = 1


class Cache:
    """A folder of traces; one that cannot be read or written is as good as an empty one."""

    def __init__(self, folder: Path | None):
        self.folder = folder

    def trace(self, key: tuple, device: Device, lnc: int, make: Callable[[], Trace]) -> Trace:
        """The trace of that key, made where it is not there."""
        if self.folder is None:
            return make()
        path = self.folder / f"{_digest(key, device, lnc)}.npz"
        found = _read(path)
        if found is not None:
            return found
        made = make()
        with contextlib.suppress(OSError):
            self._write(path, made)
        return made

    def _write(self, path: Path, trace: Trace) -> None:
        """Whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".draft")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **_arrays(trace))
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
        self._prune()

    def _prune(self) -> None:
        files = sorted((file.stat().st_mtime, file.stat().st_size, file) for file in self.folder.glob("*.npz"))
        total = sum(size for _, size, _ in files)
        for _, size, file in files:
            if total <= MOST:
                return
            file.unlink(missing_ok=True)
            total -= size


def _digest(key: tuple, device: Device, lnc: int) -> str:
    figures = sorted((id, figure.value) for id, figure in device.figures.items())
    text = repr((FORMAT, key, device.name, figures, lnc, sources()))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def sources() -> str:
    """A digest of the code that decides the trace of an operator: the emulator's own, kernels included."""
    import sim

    digest = hashlib.sha256()
    root = Path(sim.__file__).parent
    laying_out = root / "models"
    for path in sorted(path for path in root.rglob("*.py") if laying_out not in path.parents):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


def _arrays(trace: Trace) -> dict[str, np.ndarray]:
    texts = json.dumps({"strings": list(trace.strings), "meta": asdict(trace.meta),
                        "rows": {name: len(table) for name, table in trace.tables()}}, default=_plain)  # fmt: skip
    columns = {f"{name}.{column}": table.column(column) for name, table in trace.tables() for column in table.present()}
    return columns | {"texts": np.frombuffer(texts.encode(), np.uint8)}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else dict(value)


def _read(path: Path) -> Trace | None:
    """None for a file that is not there or damaged."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        said = json.loads(arrays.pop("texts").tobytes())
        os.utime(path)
        return _trace(arrays, said)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None


def _trace(arrays: dict[str, np.ndarray], said: dict[str, Any]) -> Trace:
    fields = said["meta"]
    fields |= {name: tuple(fields[name]) for name in ("window", "notes", "outputs")}
    fields["findings"] = tuple(Finding(**finding) for finding in fields["findings"])
    tables = {}
    for name, kind in TABLES.items():
        own = {key.partition(".")[2]: values for key, values in arrays.items() if key.partition(".")[0] == name}
        tables[name] = kind(said["rows"][name], **own)
    return Trace(Meta(**fields), Strings(said["strings"]), **tables)
