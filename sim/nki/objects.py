"""`nki.language.NKIObject`: classes of a kernel's own, as NKI's compiler reads them."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from dataclasses import MISSING, fields
from types import FunctionType
from typing import Any


class _Fields(ABCMeta):
    """What NKI's own compiler takes a class for: every attribute is a field, and a field may be left out."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        missing = _missing_fields(cls, args, named)
        made = super().__call__(*args, **named, **dict.fromkeys(missing))
        for name in missing:
            object.__delattr__(made, name)
        return made


def _missing_fields(cls: type, args: tuple, named: dict) -> list[str]:
    """Fields of a dataclass that a call neither gives nor that have a default; reading one later fails."""
    if "__dataclass_fields__" not in cls.__dict__ or cls._has_own_init:
        return []
    asked = [field for field in fields(cls) if field.init][len(args) :]
    return [f.name for f in asked if f.name not in named and f.default is MISSING and f.default_factory is MISSING]


class NKIObject(metaclass=_Fields):
    """Base class that NKI up to 0.6 asks of a kernel's own classes."""

    _has_own_init = True

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)

    def __init_subclass__(cls, **named: Any) -> None:
        """An attribute without annotation is a field for `@dataclass` too."""
        super().__init_subclass__(**named)
        cls._has_own_init = "__init__" in cls.__dict__
        known = inspect.get_annotations(cls)
        plain = [name for name, value in vars(cls).items() if name not in known and _is_default(name, value)]
        cls.__annotations__ = {**known, **dict.fromkeys(plain, Any)}


def _is_default(name: str, value: Any) -> bool:
    code = (staticmethod, classmethod, property, type, FunctionType)
    return name != "_has_own_init" and not name.startswith("__") and not isinstance(value, (*code, list, dict, set))
