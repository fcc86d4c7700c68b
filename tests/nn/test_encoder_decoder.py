"""The sizes of a model, and the scores of a few candidate tokens."""

import json
from dataclasses import asdict, replace

import pytest
import torch
from builders import PAD

from resmlp_mt.nn import EncoderDecoder, LayerConfig, ModelConfig

LAYER = LayerConfig(8, 16, 20)
SIZES = ModelConfig(30, 30, LAYER, replace(LAYER, causal=True, source_dim=8), 1, 2, 4, 8)


def test_what_was_written_is_read_again_also_a_negative_layerscale():
    for sizes in SIZES, replace(SIZES, encoder=replace(LAYER, layerscale_init=-0.2), adaptive_cutoffs=(10, 20)):
        assert ModelConfig.of(json.loads(json.dumps(asdict(sizes)))) == sizes


@pytest.mark.parametrize("wrong", [{"dim": 8.5}, {"dim": 1 << 40}, {"causal": 1}, {"norm": 3}, {"mixing_kernel": 2}])
def test_what_no_layer_can_be_is_refused(wrong):
    values = asdict(SIZES)
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} is "):
        ModelConfig.of({**values, "encoder": {**values["encoder"], **wrong}})


def test_kernels_of_dynamicconv_grow_from_layer_to_layer():
    """Widths 3, 7, 15, 31, 31, ... (Wu et al. 2019, section 5)."""
    for first, widths in (3, [3, 7, 15, 31, 31]), (33, [33] * 5):
        cfg = replace(LAYER, token_mixing="dynamic", mixing_kernel=first)
        assert [cfg.of_layer(number).mixing_kernel for number in range(5)] == widths


@torch.no_grad()
def test_candidates_score_as_in_the_vocabulary_while_sentences_leave():
    torch.manual_seed(0)
    model = EncoderDecoder(ModelConfig(30, 30, LAYER, replace(SIZES.decoder, attention_heads=2), 1, 2, 8, 8)).eval()
    encoded, padding = model.encoder(torch.randint(4, 30, (8, 5)))
    numbers = torch.stack([torch.randperm(26)[:6] + 4 for _ in range(8)])
    numbers[::2, 4:] = PAD
    every, few = model.decoder.start(encoded, padding), model.decoder.start(encoded, padding, numbers)
    for kept in [*range(8)], [7, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2], [1, 3, 0], [2, 1], [1, 0]:  # two beams each
        sentences = torch.tensor(kept)
        rows = (2 * sentences.unsqueeze(1) + torch.tensor([1, 0])).flatten()
        numbers = numbers[sentences]
        for state in every, few:
            state.reorder(rows, sentences)
        tokens = torch.randint(4, 30, (len(rows), 1))
        expected, _ = model.decoder.step(tokens, every)
        found, _ = model.decoder.step(tokens, few)
        of_rows = numbers.repeat_interleave(2, 0).unsqueeze(1)
        expected = expected.gather(2, of_rows).masked_fill(of_rows == PAD, float("-inf"))
        torch.testing.assert_close(found, expected)
