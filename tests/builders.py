"""Small models and batches for the tests."""

from argparse import Namespace

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from oracle import ACTIVATIONS

from resmlp_mt import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.options import BASE, PRESETS, apply_preset

PAD, EOS = 1, 2
POSITIONS = {"token_positional_embeddings": True}
GATED = {"token_mixing": "gated", "mixing_heads": 4, "mixing_relative": True}
MIXED = {"mixing_of_encoder_layers": "gated,attention", "mixing_of_decoder_layers": "attention,ssru"}
OPTIONS = {
    "no mixing": {"token_mixing": "none"},
    "mlp": {"token_mixing": "mlp"},
    "mlp of one unit a position": {"token_mixing": "mlp", "mixing_expansion": 1},
    "conv": {"token_mixing": "conv"},
    "conv of one position": {"token_mixing": "conv", "mixing_kernel": 1},
    "depthwise": {"token_mixing": "depthwise", "mixing_kernel": 5},
    "depthwise beyond the sentence": {"token_mixing": "depthwise", "mixing_kernel": 13},
    "separable": {"token_mixing": "separable"},
    "heads": {"mixing_heads": 8},
    "relative": {"mixing_relative": True},
    "heads and relative": {"mixing_heads": 4, "mixing_relative": True},
    "a head a channel": {"mixing_heads": 64, "mixing_relative": True, "share_all_embeddings": True},
    "gated": {"token_mixing": "gated"},
    "gated with heads": GATED,
    "gated with layernorm": {"token_mixing": "gated", "norm": "layernorm"},
    "gated with a band": {**GATED, "mixing_band": 2},
    "gated with a band beyond the sentence": {"token_mixing": "gated", "mixing_band": 13},
    "averages": {"token_mixing": "ema"},
    "averages, heads and a band": {"token_mixing": "ema", "mixing_heads": 4, "mixing_expansion": 2, "mixing_band": 2},
    "dynamic": {"token_mixing": "dynamic"},
    "dynamic beyond the sentence": {"token_mixing": "dynamic", "mixing_heads": 4, "mixing_kernel": 7},
    "ssru": {"token_mixing": "ssru"},
    "synthesizer": {"token_mixing": "synthesizer", "mixing_heads": 4},
    "attention": {"token_mixing": "attention", "mixing_heads": 4},
    "mixed": {**GATED, **MIXED, "encoder_layers": 2, "decoder_layers": 2},
    "layernorm": {"norm": "layernorm"},
    "layernorm with heads": {"norm": "layernorm", "mixing_heads": 4},
    "layernorm with convolutions": {"norm": "layernorm", "token_mixing": "separable"},
    **{name: {"activation_fn": name} for name in ACTIVATIONS if name != "gelu"},
    "sinusoidal positions": POSITIONS,
    "learned positions": {**POSITIONS, "encoder_learned_pos": True, "decoder_learned_pos": True},
    "positions alone": {**POSITIONS, "token_mixing": "none"},
    "embeddings as they are": {"no_scale_embedding": True},
    "another width at the target's end": {"decoder_output_dim": 16},
}
"""Every value of every option that changes what a model computes, in a small model."""

GENERATING = Namespace(generation=Namespace(no_beamable_mm=False, beam=4, print_alignment=None))
"""What fairseq's hook before inference reads of the options."""

SMALL = {"encoder_embed_dim": 32, "encoder_ffn_embed_dim": 48, "encoder_layers": 2, "decoder_layers": 2}
PARTS = {
    "separate dictionaries": {"separate": True},
    "shared embeddings": {"share_all_embeddings": True},
    "shared with the output": {"share_decoder_input_output_embed": True, "separate": True},
    "no cross-attention": {"no_cross_attention": True},
}
ADAPTIVE = {"adaptive_softmax_cutoff": [2, 5, 9], "adaptive_softmax_factor": 2, "criterion": "adaptive_loss"}
KINDS = {**PARTS, "adaptive loss": ADAPTIVE}
"""What a model may have or lack apart from its mixings; the oracle covers only PARTS."""

NARROWED = {str({**BASE, **PRESETS[name], **SMALL, "dropout": 0.0}): name for name in reversed(PRESETS)}
VARIANTS = {
    **{name: {"preset": name, **SMALL} for name in reversed(NARROWED.values())},
    **PARTS,
    "decoder wider than encoder": {"encoder_embed_dim": 32, "decoder_embed_dim": 64},
    "more encoder than decoder": {"encoder_layers": 3, "decoder_layers": 1},
    "unequal positions": {"max_source_positions": 12, "max_target_positions": 30},
    **OPTIONS,
}
"""Presets (narrowed, for speed; of those that are then the same, one), every option, and sizes that differ."""


def dictionary(words=40):
    result = Dictionary()
    for i in range(words):
        result.add_symbol(f"w{i}")
    return result


def build(preset="resmlp_transformer_tiny", words=40, seed=0, scatter=0.1, separate=False, **options):
    """Build a model in float64 and training mode, by default without dropout; no parameter keeps its starting value."""
    torch.manual_seed(seed)
    args = Namespace(**{"dropout": 0.0, "mixing_dropout": 0.0, **options})
    apply_preset(args, preset)
    source = dictionary(words)
    task = Namespace(source_dictionary=source, target_dictionary=dictionary(words + 3) if separate else source)
    with torch.no_grad(), torch.device("cpu"):  # the same numbers on every device
        model = ResMLPTransformerModel.build_model(args, task).double()
        for name, parameter in model.named_parameters():
            parameter.add_(scatter * torch.randn_like(parameter))
            if "embed_tokens" in name:
                parameter[PAD] = 0
    return model.to(torch.get_default_device())


def sentence(generator, length, words=40):
    """Return ``length`` tokens: random ones, then ``</s>``."""
    return [*torch.randint(4, 4 + words, (length - 1,), generator=generator).tolist(), EOS]


def pairs(*lengths, seed=0):
    generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
    return tuple([sentence(generator, length) for length in side] for side in zip(*lengths, strict=True))


def batch(sentences, left_pad=False, extra=0):
    """Pad ``sentences`` to B x T with fairseq's own collation, with ``extra`` columns of padding."""
    length = max(map(len, sentences)) + extra
    tensors = [torch.tensor(each) for each in sentences]
    return data_utils.collate_tokens(tensors, PAD, EOS, left_pad=left_pad, pad_to_length=length)


def shifted(targets):
    """Return the decoder's input for ``targets``: ``</s>`` comes first, as in fairseq."""
    return [[EOS, *each[:-1]] for each in targets]


def without_padding(out, targets, left_pad):
    """Return the scores of each sentence of a batch, B x T x V, without those at padding: a list of T x V."""
    return [row[-len(one) :] if left_pad else row[: len(one)] for row, one in zip(out, targets, strict=True)]


def logits(model, sources, targets, left_pad=False, left_pad_target=False, extra=0):
    """Return the teacher-forced logits of each sentence of one batch: a list of T x V."""
    out, _ = model(batch(sources, left_pad, extra), None, batch(shifted(targets), left_pad_target, extra))
    return without_padding(out, targets, left_pad_target)


@torch.no_grad()
def decode_in_steps(model, sources, targets, left_pad, drop_at):
    """Decode two beams a sentence, swapped at every step; after ``drop_at`` steps the first sentence is dropped.

    Of four rows, those of the two sentences take turns from step 6 on.
    Returns the logits of both beams of each sentence, {(sentence, beam): T x V}, and the beams' tokens.
    """
    beams = [[t, t[:1] + [4 + (x - 3) % 40 for x in t[1:-1]] + [EOS]] for t in targets]
    keys = [(i, j) for i in range(len(targets)) for j in range(2)]
    memory = model.encoder(batch(sources, left_pad))
    order = torch.tensor([i for i, _ in keys])
    memory, state, out = model.encoder.reorder_encoder_out(memory, order), {}, {}
    for step in range(max(map(len, targets))):
        prev = torch.tensor([([EOS, *beams[i][j]] + [PAD] * 20)[: step + 1] for i, j in keys])
        scores, _ = model.decoder(prev, encoder_out=memory, incremental_state=state)
        assert scores.size(1) == 1
        for key, row in zip(keys, scores[:, 0], strict=True):
            out.setdefault(key, []).append(row)
        order = [k + 1 if k % 2 == 0 else k - 1 for k in range(len(keys))]
        if step + 1 == drop_at:
            order = order[2:]
        elif step == 6 and len(keys) == 4:
            order = [0, 2, 1, 3]
        memory = model.encoder.reorder_encoder_out(memory, torch.tensor(order))
        keys = [keys[k] for k in order]
        model.decoder.reorder_incremental_state_scripting(state, torch.tensor(order))
    return {key: torch.stack(rows) for key, rows in out.items()}, beams


def binarize(folder, subset, lang, sentences, pair="en-de"):
    """Write one side of a subset as fairseq-preprocess does; a sentence is a list of numbers that ends with EOS."""
    prefix = f"{folder}/{subset}.{pair}.{lang}"
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
    for sentence in sentences:
        builder.add_item(torch.tensor(sentence))
    builder.finalize(f"{prefix}.idx")
