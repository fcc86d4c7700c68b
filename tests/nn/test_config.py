import json
from dataclasses import asdict, replace

import pytest

from resmlp_mt.nn import LayerConfig, ModelConfig

LAYER = LayerConfig(8, 16, 20)
SIZES = ModelConfig(30, 30, LAYER, replace(LAYER, causal=True, source_dim=8), 1, 2, 8, 8)


def test_what_was_written_is_read_again_also_a_negative_layerscale():
    for sizes in SIZES, replace(SIZES, encoder=replace(LAYER, layerscale_init=-0.2), adaptive_cutoffs=(10, 20)):
        assert ModelConfig.of(json.loads(json.dumps(asdict(sizes)))) == sizes


@pytest.mark.parametrize(
    "wrong",
    [
        {"dim": -8},
        {"dim": 8.5},
        {"dim": True},
        {"dim": 1 << 40},
        {"causal": 1},
        {"layerscale_init": float("nan")},
        {"dropout": None},
        {"norm": 3},
        {"mixing_kernel": 2},
    ],
)
def test_what_no_layer_can_be_is_refused(wrong):
    values = asdict(SIZES)
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} is "):
        ModelConfig.of({**values, "encoder": {**values["encoder"], **wrong}})
