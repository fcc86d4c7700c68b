import torch
from builders import PAD, batch
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt.modules.padding import Placement


@given(
    st.lists(st.lists(st.integers(4, 20), min_size=1, max_size=6), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 5),
)
def test_sentences_move_to_the_left_edge_and_back(sentences, left_pad, extra):
    tokens = batch(sentences, left_pad, extra)
    placement = Placement.of(tokens, PAD, 6, "source")
    moved = placement.to_left(tokens)
    assert moved.size(1) <= 6
    for row, sentence in zip(moved.tolist(), sentences, strict=True):
        assert row[: len(sentence)] == sentence and set(row[len(sentence) :]) <= {PAD}
    assert torch.equal(placement.back(moved, PAD), tokens)
    states = moved.t().unsqueeze(-1).repeat(1, 1, 2)
    (restored,) = placement.states_back([states])
    assert torch.equal(restored[..., 0].t().where(tokens != PAD, PAD), tokens)
