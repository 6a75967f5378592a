"""String tables of millions of texts: UTF-8 in one block, decoded when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from sim.trace import NONE, Strings

ERRORS = "surrogatepass"
"""Names of real profiles hold halves of characters; they come back as they were."""


class PackedStrings(Strings):
    """As `Strings`; texts that come later are held beside the block.

    data : uint8 [bytes];  offsets : int64 [texts + 1], may be mapped from a file
    """

    __slots__ = ("_found", "_packed", "data", "offsets")

    def __init__(self, data: np.ndarray, offsets: np.ndarray):
        super().__init__()
        self.data = data
        self.offsets = offsets
        self._packed = offsets.size - 1
        self._found: dict[str, int] = {}

    def code(self, text: str | None) -> int:
        """The code of a text, which is added when it is new."""
        if text is None:
            return NONE
        code = self.find(text)
        if code == NONE:
            code = self._codes[text] = self._found[text] = len(self)
            self._texts.append(text)
        return code

    def find(self, text: str) -> int:
        """The code of a text, -1 when no row can have it."""
        if text not in self._found:
            self._found[text] = self._search(text.encode(errors=ERRORS))
        return self._found[text]

    def _search(self, sought: bytes) -> int:
        start = self.offsets[:-1]
        rows = np.flatnonzero(np.diff(self.offsets) == len(sought))
        # Names of instructions differ at their ends.
        for k in reversed(range(len(sought))):
            rows = rows[self.data[start[rows] + k] == sought[k]]
        return int(rows[0]) if rows.size else NONE

    def __getitem__(self, code: int) -> str | None:
        if code < 0:
            return None
        if code >= self._packed:
            return self._texts[code - self._packed]
        return self.data[self.offsets[code] : self.offsets[code + 1]].tobytes().decode(errors=ERRORS)

    def __len__(self) -> int:
        return self._packed + len(self._texts)

    def __iter__(self) -> Iterator[str]:
        block, ends = self.data.tobytes(), self.offsets.tolist()
        for first, last in pairwise(ends):
            yield block[first:last].decode(errors=ERRORS)
        yield from self._texts


def packed(texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Data and offsets of a string table."""
    if isinstance(texts, PackedStrings) and not texts._texts:
        return texts.data, texts.offsets
    coded = [text.encode(errors=ERRORS) for text in texts]
    offsets = np.zeros(len(coded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, coded), np.int64, len(coded)), out=offsets[1:])
    return np.frombuffer(b"".join(coded), np.uint8), offsets
