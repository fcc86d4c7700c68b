import torch
from builders import PAD, batch, build
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt.nn.positions import restore_padding

ENCODER = build(max_source_positions=6).encoder


@given(
    st.lists(st.lists(st.integers(4, 20), min_size=1, max_size=6), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 5),
)
def test_sentences_move_to_the_left_edge_and_back(sentences, left_pad, extra):
    tokens = batch(sentences, left_pad, extra)
    moved, shift = ENCODER.shift_left(tokens)
    assert moved.size(1) <= 6
    for row, sentence in zip(moved.tolist(), sentences, strict=True):
        assert row[: len(sentence)] == sentence and set(row[len(sentence) :]) <= {PAD}
    length, states = tokens.size(1), moved.unsqueeze(-1).repeat(1, 1, 2)
    for restored in restore_padding(moved, shift, length), restore_padding(states, shift, length)[..., 0]:
        assert torch.equal(restored.where(tokens != PAD, PAD), tokens)
