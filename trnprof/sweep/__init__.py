"""Design spaces: a model or a kernel at every point of a grid, what bounds it there, and which points are best."""

from trnprof.sweep.record import Point, Result, Specification, Swept
from trnprof.sweep.running import sweep
from trnprof.sweep.specification import read

__all__ = ["Point", "Result", "Specification", "Swept", "read", "sweep"]
