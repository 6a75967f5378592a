"""Which reader reads which family of models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sim.errors import InputError, UnsupportedError
from sim.models.backward import RULES
from sim.models.config import Fields, load
from sim.models.decoder import read_gpt2, read_llama
from sim.models.dit import read_dit
from sim.models.encoder import read_bert, read_vit
from sim.models.graph import Graph
from sim.models.mamba import read_mamba
from sim.models.unet import read_autoencoder, read_unet
from sim.models.whisper import read_whisper
from sim.models.workload import Sharding, Workload


class Model(Protocol):
    """What every family offers."""

    name: str
    phases: tuple[str, ...]

    def graph(self, workload: Workload, sharding: Sharding) -> Graph:
        """What one core of each pipeline stage does."""
        ...

    def cache_bytes(self, workload: Workload, sharding: Sharding) -> int:
        """Keys, values and states of one core."""
        ...


FAMILIES: dict[str, Callable[[Fields], Model]] = {
    "llama": read_llama,
    "mistral": read_llama,
    "qwen2": read_llama,
    "qwen2_moe": read_llama,
    "qwen3": read_llama,
    "qwen3_moe": read_llama,
    "mixtral": read_llama,
    "gpt_oss": read_llama,
    "gpt2": read_gpt2,
    "bert": read_bert,
    "roberta": read_bert,
    "vit": read_vit,
    "whisper": read_whisper,
    "DiTTransformer2DModel": read_dit,
    "UNet2DConditionModel": read_unet,
    "AutoencoderKL": read_autoencoder,
    "mamba": read_mamba,
}


STEPWISE = ("kv_cache_update", "decode_attention")
"""Operators of a decoder that goes token by token, in whose place training has attention over all of them."""


def build(config: str | os.PathLike[str] | Mapping[str, Any]) -> Model:
    """raises : InputError for a faulty description, UnsupportedError for a family that nobody reads"""
    fields = load(config)
    family = fields.text("model_type", "_class_name", default=None)
    if family is None:
        raise fields.fault("model_type", "is missing", remedy=f"one of {', '.join(FAMILIES)}")
    reader = FAMILIES.get(family)
    if reader is None:
        message = f"{fields.source}: field `model_type`: {family!r} is not a known family"
        raise UnsupportedError(message, remedy=f"known are {', '.join(FAMILIES)}")
    return reader(fields)


def check_phase(model: Model, phase: str) -> None:
    """raises : InputError for a phase that the model does not have, UnsupportedError for training, with what lacks"""
    if phase not in model.phases and phase == "train":
        raise UnsupportedError(f"{model.name} cannot be trained: {_untrained(model)}", remedy=_others(model))
    if phase not in model.phases:
        raise InputError(f"{model.name} has no phase {phase}", remedy=_others(model))


def _others(model: Model) -> str:
    return f"it has {', '.join(model.phases)}"


def _untrained(model: Model) -> str:
    """What is missing to a training step."""
    graph = model.graph(Workload(model.phases[0], seq=64), Sharding())
    names = dict.fromkeys(operation.operator for operation, _ in graph.operations())
    lacking = [name for name in names if name not in RULES and name not in STEPWISE]
    return f"there is no gradient of {', '.join(lacking)}" if lacking else "there is no forward pass with a loss"
