"""Results as a Parquet file: a row a point, parameters first."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.errors import InputError
from trnprof.sweep.record import COSTS, Outcome, Swept

if TYPE_CHECKING:
    import pyarrow

TAKEN = {"number", "best", *COSTS, *(field.name for field in fields(Outcome))}


def write(swept: Swept, path: Path) -> Path:
    """An existing file is replaced whole or not at all. raises : InputError when it cannot be written"""
    import pyarrow.parquet

    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(to_table(swept), beside)
        os.replace(beside, path)
    except OSError as fault:
        beside.unlink(missing_ok=True)
        raise InputError(f"{path}: {fault.strerror or fault}") from None
    return path


def to_table(swept: Swept) -> pyarrow.Table:
    """Columns: `number`, every parameter (`parameter.NAME` where a result is called so), `best`, costs, the outcome."""
    import pyarrow

    results = swept.results
    columns: dict[str, Any] = {"number": pyarrow.array([one.number for one in results], pyarrow.int64())}
    for name in results[0].parameters:
        title = f"parameter.{name}" if name in TAKEN else name
        columns[title] = _values([one.parameters[name] for one in results])
    columns["best"] = pyarrow.array([one.best for one in results], pyarrow.bool_())
    for name in COSTS:
        columns[name] = pyarrow.array([getattr(one, name) for one in results], pyarrow.float64())
    for field in fields(Outcome):
        kind = _KINDS[field.type.partition(" |")[0]]
        columns[field.name] = pyarrow.array(
            [getattr(one.outcome, field.name) for one in results], getattr(pyarrow, kind)()
        )
    said = {"source": swept.specification.source, "subject": swept.specification.subject,
            "arguments": dict(swept.specification.arguments), "prices": dict(swept.specification.prices)}  # fmt: skip
    return pyarrow.table(columns).replace_schema_metadata({"trnprof.sweep": json.dumps(said)})


_KINDS = {"int": "int64", "float": "float64", "str": "string"}


def _values(values: Sequence[Any]) -> pyarrow.Array:
    """Of one type; as text where they have several."""
    import pyarrow

    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return pyarrow.array([float(value) for value in values], pyarrow.float64())
    try:
        return pyarrow.array(values if len(kinds) == 1 else [str(value) for value in values])
    except (OverflowError, pyarrow.ArrowInvalid):
        return pyarrow.array([str(value) for value in values])
