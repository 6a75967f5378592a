"""The public names, where the frameworks are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sim.errors import InputError, UnsupportedError
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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def build(:\n", r":1: SyntaxError"),
        ("import nowhere_at_all\n", r":1: ModuleNotFoundError while importing"),
        ("def build():\n    raise ValueError('boom')\n", r":2: ValueError: boom"),
        ("def build():\n    return 3\n", r"::build: returns int"),
        ("", r"has no kernel `build`"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(tmp_path, text, told):
    path = tmp_path / "model.py"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        frontends.load(f"{path}::build")
