"""AccelOpt's NKIBench: 14 kernels at their full size, against the NumPy references beside them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from tests.corpora import Case, Check, Launch, Outcome, imported, measure

FOLDER = "AccelOpt/NKIBench"
DEVICE = "trn1"
"""What the published figures were measured on."""
TOLERANCE = {"mamba": 3e-5}
"""AccelOpt's own: relative L2 2e-5 for the others."""


def cases(folder: Path) -> list[Case]:
    paths = sorted((folder / FOLDER / "kernels").glob("*.py"))
    return [
        Case("NKIBench", str(p.relative_to(folder)), p.stem.removesuffix("_0"), partial(run, p), DEVICE) for p in paths
    ]


def run(path: Path, folder: Path) -> Outcome:
    name = path.stem.removesuffix("_0")
    (reference_path,) = (folder / FOLDER / "reference").glob(f"{name}_numpy*.py")
    np.random.seed(0)
    with imported(reference_path, DEVICE) as reference, imported(path, DEVICE) as module:
        given = reference.get_inputs()
        launch = Launch(
            kernel=module.kernel,
            inputs=tuple(reference.transform_to_nki_inputs(given)),
            reference=lambda: reference.forward(*given),
            check=Check(l2=TOLERANCE.get(name.partition("_")[0], 2e-5)),
            shape_outputs=reference.transform_nki_outputs,
        )
        return measure(launch, DEVICE)
