"""Which column of a profile is which of ours, in schema versions that name or count it otherwise.

A column is looked for by its name, by the names of other versions, by its name written otherwise (`startTime`,
`start_time_us` for `start_ts`), and last by a description in SchemaFields that mentions the name. Only columns that
schema 7.4.0 does not have are taken for renamed ones. Units are those of SchemaFields, else of the name's ending.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sim.explorer.columns import schema
from trnprof.readers.clock import PS_PER_NS

UNITS_PS = {
    **dict.fromkeys(("picoseconds", "picosecond", "ps"), 1),
    **dict.fromkeys(("nanoseconds", "nanosecond", "ns"), 1_000),
    **dict.fromkeys(("microseconds", "microsecond", "us", "µs"), 1_000_000),
    **dict.fromkeys(("milliseconds", "millisecond", "ms"), 1_000_000_000),
    **dict.fromkeys(("seconds", "second", "s"), 1_000_000_000_000),
}

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNIT = re.compile(r"_(ps|ns|us|ms)$")
_MOMENT = re.compile(r"_(timestamp|time|ts)$")


@dataclass(slots=True)
class Versions:
    """What a profile says of its own columns: unit and description by table and column."""

    described: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    renamed: dict[tuple[str, str], str] = field(default_factory=dict)
    """What columns under other names were taken for, for the receipt."""

    def find(self, table: str, wanted: tuple[str, ...], present: Iterable[str]) -> str | None:
        """The column that has what is wanted, by the names that it may have; None when there is none."""
        names = set(present)
        for name in wanted:
            if name in names:
                return name
        if self.renamed.get((table, wanted[0])) in names:
            return self.renamed[table, wanted[0]]
        known = {known.name for known in schema()[table][1]} if table in schema() else set()
        taken = {name for (place, _), name in self.renamed.items() if place == table}
        strange = sorted(names - known - taken)
        found = next((name for name in strange if _plain(name) in {*map(_plain, wanted)}), None)
        found = found or next((name for name in strange if self._mentions(table, name, wanted[0])), None)
        if found is not None:
            self.renamed[table, wanted[0]] = found
        return found

    def _mentions(self, table: str, name: str, wanted: str) -> bool:
        _, description = self.described.get((table, name), ("", ""))
        return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", description) is not None

    def unit_ps(self, table: str, column: str) -> int:
        """Picoseconds that a time column counts in."""
        unit, _ = self.described.get((table, column), ("", ""))
        ending = _UNIT.search(column)
        return UNITS_PS.get(unit.lower()) or (UNITS_PS[ending[1]] if ending else PS_PER_NS)

    def remarks(self) -> list[str]:
        """The renamed columns, a sentence a table."""
        tables: dict[str, list[str]] = {}
        for (table, wanted), name in sorted(self.renamed.items()):
            tables.setdefault(table, []).append(f"{name} as {wanted}")
        return [f"Columns of {table} read under other names: {', '.join(names)}." for table, names in tables.items()]


def _plain(name: str) -> str:
    """A name without spelling and unit: `startTime`, `start_ps` and `start_ts` are `start`."""
    return _MOMENT.sub("", _UNIT.sub("", _HUMP.sub("_", name).lower()))
