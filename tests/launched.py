"""What kernels ran in this process, seen from outside: where each is written, and which guessed calls it made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Launched:
    """Filled while `watched` is open."""

    kernels: set[tuple[str, int]] = field(default_factory=set)
    """(path, first line) of every kernel that ran, those that another kernel called included."""
    shapes: str = ""
    """Array arguments of the last launch that was no part of another."""
    last: tuple[Any, Any] | None = None
    """Program and trace of the last launch that has a time."""
    _forms: list[list] = field(default_factory=list)

    def note(self, kernel: Any) -> None:
        function = inspect.unwrap(getattr(kernel, "function", kernel))
        code = getattr(function, "__code__", None)
        if code is not None:
            self.kernels.add((str(Path(code.co_filename).resolve()), code.co_firstlineno))

    def guesses(self) -> tuple[str, ...]:
        """Calls of which the emulator guesses a part."""
        from sim.engines import GUESSED

        made = {form.call.removeprefix("nki.isa.").partition(":")[0] for forms in self._forms for form in forms}
        return tuple(sorted(made & set(GUESSED)))

    def places(self, folder: Path) -> tuple[str, ...]:
        """`file:line` of the kernels that are in a folder of checkouts, relative to it."""
        roots = {child.resolve(): child.name for child in folder.iterdir() if child.is_dir()}
        found = []
        for path, line in self.kernels:
            for root, name in roots.items():
                if Path(path).is_relative_to(root):
                    found.append(f"{name}/{Path(path).relative_to(root)}:{line}")
        return tuple(sorted(found))


@contextmanager
def watched() -> Iterator[Launched]:
    """Within, launches and kernels that kernels call are noted."""
    from sim import launch
    from sim.nki.kernel import BenchmarkKernel, Kernel
    from sim.nki.legacy.kernel import LegacyKernel

    seen = Launched()
    calls = {kind: kind.__call__ for kind in (Kernel, BenchmarkKernel, LegacyKernel)}
    bodies, time = launch._Tracing.bodies, launch._time

    def noted(call: Callable) -> Callable:
        def called(self: Any, *args: Any, **named: Any) -> Any:
            seen.note(self)
            return call(self, *args, **named)

        return called

    def begun(self: Any, *args: Any) -> Any:
        seen.note(self.kernel)
        seen._forms.append(self.program.forms)
        made = bodies(self, *args)
        seen.shapes = " ".join(str(list(tensor.shape)) for tensor, _ in self.bound)
        return made

    def timed(program: Any, *args: Any) -> Any:
        trace = time(program, *args)
        seen.last = program, trace
        return trace

    for kind, call in calls.items():
        kind.__call__ = noted(call)
    launch._Tracing.bodies, launch._time = begun, timed
    try:
        yield seen
    finally:
        launch._Tracing.bodies, launch._time = bodies, time
        for kind, call in calls.items():
            kind.__call__ = call
