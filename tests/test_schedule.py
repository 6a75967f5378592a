"""The event loop: what it means, and that the compiled one agrees with its plain twin to the picosecond."""

from __future__ import annotations

import heapq
import importlib.util
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import compiler
from sim import schedule as scheduling
from sim.compiler import Options
from sim.errors import InputError
from sim.jit import schedule as jit
from sim.program import Program, Role
from sim.schedule import Schedule
from sim.trace import EdgeKind, Engine, Wait


def _load(name: str, path: str):
    """A module beside the tests; pytest's importlib mode puts none of them on the path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
