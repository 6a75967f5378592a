"""`neuronxcc.starfish.support`: the two functions of the compiler's insides that public scripts import."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.nki.legacy.language import static_cast


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, verbose: int = 0, **options: Any) -> bool:
    """NumPy's comparison, in fp32."""
    return bool(np.allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=rtol, atol=atol))


__all__ = ["allclose", "static_cast"]
