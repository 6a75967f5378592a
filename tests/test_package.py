"""The package's public names, and where its files lie."""

from __future__ import annotations

from pathlib import Path

import pytest

import sim
import trnprof
from sim.errors import InputError
from trnprof import home


def test_every_public_name_is_there() -> None:
    assert {name: getattr(trnprof, name) for name in trnprof.__all__}.keys() <= set(dir(trnprof))
    assert trnprof.run is sim.run
    assert trnprof.Trace is sim.Trace


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'trnprof' has no attribute 'profile'"):
        _ = trnprof.profile


def test_data_lie_in_the_package_or_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site" / "trnprof").mkdir(parents=True)
    (tmp_path / "site" / "traces").mkdir()
    monkeypatch.setattr(home, "__file__", str(tmp_path / "site" / "trnprof" / "home.py"))
    assert home.data_dir("traces") == tmp_path / "site" / "traces"
    (tmp_path / "site" / "trnprof" / "traces").mkdir()
    assert home.data_dir("traces") == tmp_path / "site" / "trnprof" / "traces"
    with pytest.raises(InputError, match="assets: not found"):
        home.data_dir("assets")


def test_the_cache_lies_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert home.cache_dir() == Path("/somewhere/trnprof")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert home.cache_dir() == Path.home() / ".cache" / "trnprof"
