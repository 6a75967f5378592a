"""What the functions of `nki.language` refuse beyond the table of limits."""

import numpy as np
import pytest

from sim.nki import language as nl
from tests.chip import Chip


@pytest.mark.parametrize("option", ["mask", "precise_schedule"])
def test_what_only_the_legacy_api_has_is_not_swallowed(option):
    with Chip() as chip, pytest.raises(TypeError, match=option):
        nl.exp(chip.tensor(np.ones((4, 4), np.float32)), **{option: None})
