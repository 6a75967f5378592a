"""Whether arguments fit together, in words that name the operator and the argument."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec


def check_shape(operator: str, argument: str, spec: TensorSpec | None, wanted: tuple[int | str, ...]) -> None:
    """raises: InputError where a dimension is not the number that is wanted; a letter stands for any size"""
    if spec is None:
        raise InputError(f"{operator}: {argument} is missing")
    if len(spec.shape) != len(wanted) or any(
        isinstance(want, int) and have != want for have, want in zip(spec.shape, wanted)
    ):
        names = ", ".join(map(str, wanted))
        raise InputError(f"{operator}: {argument}: shape {list(spec.shape)}, must be [{names}]")


def check_dtype(operator: str, argument: str, spec: TensorSpec, *known: str) -> None:
    """raises: InputError for a dtype that is not known"""
    if np.dtype(spec.dtype) not in map(np.dtype, known):
        raise InputError(f"{operator}: {argument}: dtype {spec.dtype}, must be {' or '.join(known)}")


def check_word(operator: str, argument: str, word: str, known: Iterable[str]) -> None:
    """raises: InputError for a word that is not known"""
    if word not in known:
        raise InputError(f"{operator}: {argument}: {word!r}, must be one of {', '.join(known)}")
