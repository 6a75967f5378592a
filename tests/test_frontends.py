"""The public names, where the frameworks are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sim.errors import UnsupportedError
from trnprof import frontends


@pytest.mark.parametrize(("package", "make"), [("torch", frontends.from_torch), ("jax", frontends.from_jax)])
def test_a_missing_framework_is_told_with_its_extra(
    package: str, make: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontends, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=rf"{package} is not installed .*trnprof\[{package}\]"):
        make(lambda x: x, [1])


def test_importing_the_names_imports_no_framework() -> None:
    code = "import sys, trnprof.frontends; print([name for name in ('torch', 'jax', 'numba') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
