"""Models: what they are made of, how they are spread over cores, and how long they take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sim.models.workload import PHASES, RECOMPUTE, Sharding, Workload

if TYPE_CHECKING:
    from sim.models.families import Model

__all__ = ["PHASES", "RECOMPUTE", "Sharding", "Workload", "read"]


def read(config: str | os.PathLike[str] | Mapping[str, Any]) -> Model:
    """The model that a Hugging Face `config.json`, a TOML of ours, or a mapping describes.

    raises : InputError that names the file and the field
    """
    from sim.models.families import build

    return build(config)
