"""The import receipt: what became of every row of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class Receipt:
    """Counts rows by table: read, shown, set aside with a reason, and left in the file."""

    def __init__(self) -> None:
        self._read: Counter[str] = Counter()
        self._shown: Counter[str] = Counter()
        self._aside: dict[str, Counter[str]] = {}
        self._left: Counter[str] = Counter()
        self._remarks: list[str] = []

    def read(self, table: str, rows: int) -> None:
        self._read[table] += rows

    def show(self, table: str, rows: int) -> None:
        self._shown[table] += rows

    def set_aside(self, table: str, reason: str, rows: int = 1) -> None:
        if rows:
            self._aside.setdefault(table, Counter())[reason] += rows

    def leave(self, table: str, rows: int) -> None:
        """Rows that the trace has no place for."""
        if rows:
            self._left[table] += rows

    def remark(self, sentence: str) -> None:
        """Something derived, assumed or missing."""
        if sentence not in self._remarks:
            self._remarks.append(sentence)

    def balance(self, table: str) -> int:
        """Rows that are neither shown nor set aside; 0 when the receipt is sound."""
        return self._read[table] - self._shown[table] - sum(self._aside.get(table, {}).values())

    def notes(self, warnings: Iterable[str] = ()) -> tuple[str, ...]:
        """The receipt as sentences, after the profile's own warnings."""
        return (*warnings, *(self._line(table) for table in sorted(self._read)), *self._rest(), *self._remarks)

    def _line(self, table: str) -> str:
        read, shown = self._read[table], self._shown[table]
        aside = self._aside.get(table, Counter())
        reasons = "; ".join(f"{rows} {reason}" for reason, rows in sorted(aside.items()))
        kept = f"{shown} shown + {sum(aside.values())} quarantined"
        return f"Import receipt, {table}: {read} rows in = {kept}{f' ({reasons})' if reasons else ''}."

    def _rest(self) -> list[str]:
        if not self._left:
            return []
        names = ", ".join(f"{table} ({rows})" for table, rows in sorted(self._left.items()))
        return [f"Import receipt, tables left in the file (rows): {names}."]
