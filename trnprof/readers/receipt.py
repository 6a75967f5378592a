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

    def quarantined(self, tables: Iterable[str]) -> int:
        """Rows of these tables that were set aside, whatever the reason."""
        return sum(sum(self._aside.get(table, Counter()).values()) for table in set(tables))

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
