import torch
from builders import PAD, batch
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt.fairseq_plugin.length import leading_padding
from resmlp_mt.nn.padding import back, states_back, to_left


@given(
    st.lists(st.lists(st.integers(4, 20), min_size=1, max_size=6), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 5),
)
def test_sentences_move_to_the_left_edge_and_back(sentences, left_pad, extra):
    tokens = batch(sentences, left_pad, extra)
    shift, length = leading_padding(tokens, PAD, 6, "source"), tokens.size(1)
    moved = to_left(tokens, shift, 6)
    assert moved.size(1) <= 6
    for row, sentence in zip(moved.tolist(), sentences, strict=True):
        assert row[: len(sentence)] == sentence and set(row[len(sentence) :]) <= {PAD}
    assert torch.equal(back(moved, shift, length, PAD), tokens)
    states = moved.t().unsqueeze(-1).repeat(1, 1, 2)
    (restored,) = states_back([states], shift, length)
    assert torch.equal(restored[..., 0].t().where(tokens != PAD, PAD), tokens)
