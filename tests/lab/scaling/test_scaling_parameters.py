"""Which parameters of a model grow with the positions, and which with the width."""

import pytest
from builders import build

from resmlp_mt.lab.scaling.grid import count


@pytest.mark.parametrize("heads", [1, 4])
def test_the_projections_of_a_gated_mixing_are_no_mixing_matrices(heads):
    options = {"encoder_layers": 1, "decoder_layers": 1, "mixing_heads": heads}
    linear, gated = (count(build(token_mixing=kind, **options)) for kind in ("linear", "gated"))
    positions, width = 64, 64
    assert gated.mixing == linear.mixing == 2 * heads * (positions**2 + positions)
    projections = 2 * 3 * (width**2 + width)
    assert gated.without_mixing == linear.without_mixing + projections
