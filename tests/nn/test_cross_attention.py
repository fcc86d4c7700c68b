"""Cross-attention and its weights are those of PyTorch's multi-head attention, for each beam of a sentence."""

import torch
from torch import nn

from resmlp_mt.nn.cross_attention import CrossAttention


def test_cross_attention_is_pytorch_s():
    ours, theirs = CrossAttention(8, 8, 2), nn.MultiheadAttention(8, 2)
    for name in "weight", "bias":
        parts = [getattr(each, name).data for each in (ours.q_proj, ours.k_proj, ours.v_proj)]
        getattr(theirs, f"in_proj_{name}").data = torch.cat(parts)
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    x, encoded, padding = torch.randn(5, 6, 8), torch.randn(7, 3, 8), torch.arange(7) >= torch.tensor([[7], [4], [2]])
    of_beams, mask = encoded.repeat_interleave(2, 1), padding.repeat_interleave(2, 0)
    expected, weights = theirs(x, of_beams, of_beams, mask, average_attn_weights=False)
    found, shown = ours(x, ours.source(encoded, padding), need_weights=True)
    torch.testing.assert_close((found, shown.transpose(0, 1)), (expected, weights))
