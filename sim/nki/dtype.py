"""`nki.dtype`: the number formats by name."""

from __future__ import annotations

from sim import dtypes

globals().update({dtype.name if dtype is not dtypes.bool_ else "bool_": dtype for dtype in dtypes.DTYPES})

__all__ = ["bool_", *(dtype.name for dtype in dtypes.DTYPES if dtype is not dtypes.bool_)]
