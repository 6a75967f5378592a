"""`nki.compiler`: what a kernel may tell the vendor's compiler (NKI 0.7); nothing of it changes what is emulated.

Fields that are None have a default that is documented nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class AddressRotation(Enum):
    """Whether the vendor's back end may move what is allocated."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True)
class CompileConfig:
    """`@nki.jit(compile_config=…)`."""

    address_rotation: AddressRotation = AddressRotation.AUTO
    non_ssa_legalization: bool | None = None
    dead_code_elim: bool | None = None
    barrier_check: bool | None = None
    prefetch_auto: bool = False
    nki_alloc_fallback: bool = True


@dataclass(frozen=True)
class SpecializationConfig:
    """`@nki.jit(specialization_config=…)`."""

    allow_nested_config_override: bool | None = None
