"""The import receipt: what became of every row of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_FEW = 1 << 16
"""Numbers that are added together."""


def total(durations: np.ndarray) -> int:
    """The sum of int64 numbers, which may need more than 64 bits."""
    found = 0
    for part in np.split(durations, range(_FEW, durations.size, _FEW)):
        found += (int((part >> 32).sum(dtype=np.int64)) << 32) + int((part & 0xFFFF_FFFF).sum(dtype=np.int64))
    return found


def losses(receipt: Mapping[str, Any]) -> list[str]:
    """What of a file is not shown as it was: a sentence for each reason and table."""
    found = []
    for table, account in receipt.get("tables", {}).items():
        found += [f"{rows} of {account['rows']} {table} {reason}" for reason, rows in account["reasons"].items()]
        if not account["balanced"]:
            found.append(f"{table}: {account['rows']} rows in, {account['shown']} shown, durations may differ")
    return found


class Receipt:
    """Counts rows by table: read, shown, set aside with a reason, and left in the file."""

    def __init__(self) -> None:
        self._read: Counter[str] = Counter()
        self._shown: Counter[str] = Counter()
        self._aside: dict[str, Counter[str]] = {}
        self._left: Counter[str] = Counter()
        self._remarks: list[str] = []
        self._read_ps: Counter[str] = Counter()
        self._shown_ps: Counter[str] = Counter()
        self._aside_ps: Counter[str] = Counter()

    def read(self, table: str, rows: int) -> None:
        self._read[table] += rows

    def show(self, table: str, rows: int) -> None:
        self._shown[table] += rows

    def set_aside(self, table: str, reason: str, rows: int = 1) -> None:
        if rows:
            self._aside.setdefault(table, Counter())[reason] += rows

    def read_time(self, table: str, ps: int) -> None:
        """Durations of the rows read, summed."""
        self._read_ps[table] += ps

    def show_time(self, table: str, ps: int) -> None:
        self._shown_ps[table] += ps

    def set_time_aside(self, table: str, ps: int) -> None:
        """Durations of rows that were set aside but have one."""
        self._aside_ps[table] += ps

    def leave(self, table: str, rows: int) -> None:
        """Rows that the trace has no place for."""
        if rows:
            self._left[table] += rows

    def remark(self, sentence: str) -> None:
        """Something derived, assumed or missing."""
        if sentence not in self._remarks:
            self._remarks.append(sentence)

    def quarantined(self, tables: Iterable[str]) -> int:
        """Rows of these tables that were set aside, whatever the reason."""
        return sum(sum(self._aside.get(table, Counter()).values()) for table in set(tables))

    def to_json(self) -> dict[str, Any]:
        """Rows and durations by table; `balanced` where rows in = shown + quarantined and the durations agree."""
        return {
            "tables": {table: self._account(table) for table in sorted(self._read.keys() | self._shown.keys())},
            "left": dict(sorted(self._left.items())),
            "remarks": list(self._remarks),
        }

    def _account(self, table: str) -> dict[str, Any]:
        reasons = dict(sorted(self._aside.get(table, Counter()).items()))
        rows, shown, aside = self._read[table], self._shown[table], sum(reasons.values())
        account: dict[str, Any] = {"rows": rows, "shown": shown, "quarantined": aside, "reasons": reasons}
        balanced = rows == shown + aside
        if table in self._read_ps:
            read, kept, lost = self._read_ps[table], self._shown_ps[table], self._aside_ps[table]
            account |= {"duration_ps": read, "shown_ps": kept, "quarantined_ps": lost}
            balanced = balanced and read == kept + lost
        return account | {"balanced": balanced}

    def notes(self, warnings: Iterable[str] = ()) -> tuple[str, ...]:
        """The receipt as sentences, after the profile's own warnings."""
        whole = [table for table in sorted(self._read) if self._read[table] == self._shown[table]]
        parts = [self._line(table) for table in sorted(self._read) if table not in whole]
        return (*warnings, *self._all(whole), *parts, *self._rest(), *self._remarks)

    def _all(self, tables: list[str]) -> list[str]:
        names = ", ".join(f"{table} ({self._read[table]})" for table in tables if self._read[table])
        return [f"Import receipt: every row is shown of {names}."] if names else []

    def _line(self, table: str) -> str:
        aside = self._aside.get(table, Counter())
        reasons = "; ".join(f"{rows} {reason}" for reason, rows in sorted(aside.items()))
        kept = f"{self._shown[table]} shown + {sum(aside.values())} quarantined ({reasons})"
        return f"Import receipt, {table}: {self._read[table]} rows in = {kept}."

    def _rest(self) -> list[str]:
        if not self._left:
            return []
        names = ", ".join(f"{table} ({rows})" for table, rows in sorted(self._left.items()))
        return [f"Import receipt, tables left in the file (rows): {names}."]
