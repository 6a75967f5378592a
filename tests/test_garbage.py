"""Searches for cyclic garbage around a launch."""

import gc

import pytest

from sim import garbage


@pytest.fixture(autouse=True)
def searched():
    gc.enable()
    yield
    gc.enable()


def test_there_are_no_searches_within_and_there_are_again_after():
    with garbage.ignored():
        with garbage.ignored():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_brings_the_searches_back():
    with pytest.raises(ZeroDivisionError), garbage.ignored():
        1 / 0
    assert gc.isenabled()


def test_who_has_turned_them_off_finds_them_off():
    gc.disable()
    with garbage.ignored():
        pass
    assert not gc.isenabled()
