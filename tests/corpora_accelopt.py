"""AccelOpt: NKIBench's 14 kernels and the 5 samples at their full size, against the NumPy references beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.corpora import Case, Check, Launch, Outcome, imported, measure

FOLDER, SAMPLES = "AccelOpt/NKIBench", "AccelOpt/samples/nki"
DEVICE = "trn1"
"""What the published figures were measured on."""
TOLERANCE = {"mamba": 3e-5}
"""AccelOpt's own: relative L2 2e-5 for the others."""


def cases(folder: Path) -> list[Case]:
    paths = sorted((folder / FOLDER / "kernels").glob("*.py"))
    samples = [p for p in sorted((folder / SAMPLES).glob("*.py")) if not p.stem.startswith("profile_")]
    return [
        Case("NKIBench", str(p.relative_to(folder)), p.stem.removesuffix("_0"), partial(run, p), DEVICE) for p in paths
    ] + [Case("AccelOpt samples", str(p.relative_to(folder)), p.stem, partial(run, p), DEVICE) for p in samples]


@contextmanager
def with_prelude(path: Path) -> Iterator[Any]:
    """A kernel file as AccelOpt's own drivers load it: behind these imports, which some files go without."""
    import sim

    with sim.stand_ins(DEVICE):
        import neuronxcc.nki
        import neuronxcc.nki.isa
        import neuronxcc.nki.language
        import neuronxcc.nki.typing

        nki, module = neuronxcc.nki, ModuleType(path.stem)
        module.__dict__.update(
            np=np, nki=nki, nl=nki.language, nt=nki.typing, nisa=nki.isa, trace=nki.trace, par_dim=nki.language.par_dim
        )
        exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
        yield module


def run(path: Path, folder: Path) -> Outcome:
    name = path.stem.removesuffix("_0")
    name = name.partition("_")[0] if SAMPLES in str(path) else name
    (reference_path,) = (folder / FOLDER / "reference").glob(f"{name}_*numpy*.py")
    np.random.seed(0)
    with imported(reference_path, DEVICE) as reference, with_prelude(path) as module:
        given = reference.get_inputs()
        launch = Launch(
            kernel=module.kernel,
            inputs=tuple(reference.transform_to_nki_inputs(given)),
            reference=lambda: reference.forward(*given),
            check=Check(l2=TOLERANCE.get(name.partition("_")[0], 2e-5)),
            shape_outputs=reference.transform_nki_outputs,
        )
        return measure(launch, DEVICE)
