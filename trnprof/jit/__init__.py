"""Compiled loops of the analysis and the views."""

import sim.jit  # noqa: F401  where compiled code is kept
