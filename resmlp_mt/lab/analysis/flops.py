"""The floating-point operations of a translation model: only matrix products, 2 FLOPs for each multiply-add.

A product of (m x k) and (k x n) counts 2 m k n, as in torch.utils.flop_counter. Embedding look-ups, activations,
normalization, softmax and elementwise operations are left out. Lengths are in subwords with ``</s>``; padded positions
cost as much as real ones. Square matrices over positions (attention, A) are counted whole, as they are computed, also
in decoders.

A training step needs 3 times the FLOPs of its forward pass: the backward pass multiplies each product's gradient by
both of its factors. This gives the cost of training the systems of table 5, and of two more.
"""

import argparse
import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq.models import ARCH_MODEL_NAME_REGISTRY

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.progress import markdown_table, text_table
from resmlp_mt.fairseq_plugin.checkpoints import evaluate
from resmlp_mt.fairseq_plugin.options import ResMLPTransformerConfig, model_config
from resmlp_mt.lab.analysis.table5 import PAPER
from resmlp_mt.lab.models import training_args
from resmlp_mt.nn import LayerConfig

TRAINING = 3  # a forward and a backward pass over a forward pass alone


@dataclass(frozen=True)
class TranslationModel:
    """The FLOPs of a model as a polynomial in the lengths of source and target."""

    encoder_position: int  # of the encoder, for each source position
    decoder_position: int  # of the decoder, for each target position
    cross: int = 0  # for each pair of a source and a target position
    encoder_pair: int = 0  # for each pair of positions within a side
    decoder_pair: int = 0
    keys_and_values: int = 0  # of the decoder, for each source position; they are kept between steps
    beyond_the_end: int = 0  # of the decoder, for positions that it computes and drops
    beams_share: bool = False  # whether on a CPU the beams of a sentence share its keys and values

    def encoder(self, source: int) -> int:
        return source * (self.encoder_position + source * self.encoder_pair)

    def decoder(self, source: int, target: int) -> int:
        """Return the FLOPs of decoding a target sentence, all positions in parallel, after encoding the source."""
        position = self.decoder_position + target * self.decoder_pair + source * self.cross
        return target * position + source * self.keys_and_values + self.beyond_the_end

    def forward(self, source: int, target: int) -> int:
        return self.encoder(source) + self.decoder(source, target)


def token_mixing(cfg: LayerConfig) -> tuple[int, int]:
    """Return the FLOPs of a layer's token mixing: for each position, and for each pair of positions.

    Elementwise weighting is no matrix product: depthwise convolutions and the sums with a band's weights count nothing.
    """
    d = cfg.dim
    over_channels = 2 * d * d
    reach = cfg.mixing_band
    band = 2 * d * cfg.mixing_heads * (reach + 1 if cfg.causal else 2 * reach + 1) if reach else 0
    kernel = 2 * d * cfg.mixing_heads * cfg.mixing_kernel
    kinds = {
        "linear": (0, 2 * d),  # A X, whether of one A or of heads
        "gated": (3 * over_channels + band, 2 * d),  # values, gates, output
        "ema": (3 * over_channels + band, 2 * d),
        "dynamic": (3 * over_channels + kernel, 2 * d),
        "ssru": ((2 if cfg.causal else 4) * over_channels, 0),
        "synthesizer": (3 * over_channels, 4 * d),
        "attention": (4 * over_channels, 4 * d),
        "none": (0, 0),
        "mlp": (0, 4 * d * cfg.mixing_expansion),
        "conv": (over_channels * cfg.mixing_kernel, 0),
        "depthwise": (0, 0),
        "separable": (over_channels, 0),
    }
    return kinds[cfg.token_mixing]


def resmlp(args: Any, vocabulary: int) -> TranslationModel | None:
    """This plugin's model (Touvron et al. 2021) and the Transformer (Vaswani et al. 2017), which has another mixing.

    MLP: 4 d m per position; attention: 8 d^2 for four projections, and per pair 2 d for scores, 2 d for weighted sums.
    """
    d, mlp = args.encoder_embed_dim, args.encoder_ffn_embed_dim
    if (d, mlp) != (args.decoder_embed_dim, args.decoder_ffn_embed_dim):
        return None  # not counted
    attends = ARCH_MODEL_NAME_REGISTRY[args.arch] == "transformer"
    layers = args.decoder_layers
    if attends:
        encoder, decoder = [(8 * d * d, 4 * d)] * args.encoder_layers, [(8 * d * d, 4 * d)] * layers
    else:
        sizes = model_config(ResMLPTransformerConfig.from_namespace(args), 0, vocabulary)
        encoder = [token_mixing(sizes.encoder.of_layer(number)) for number in range(args.encoder_layers)]
        decoder = [token_mixing(sizes.decoder.of_layer(number)) for number in range(layers)]
    return TranslationModel(
        encoder_position=sum(each for each, _ in encoder) + args.encoder_layers * 4 * d * mlp,
        encoder_pair=sum(each for _, each in encoder),
        decoder_position=sum(each for each, _ in decoder) + layers * (4 * d * mlp + 4 * d * d) + 2 * d * vocabulary,
        decoder_pair=sum(each for _, each in decoder),
        cross=layers * 4 * d,
        keys_and_values=layers * 4 * d * d,
        beams_share=not attends,
    )


def convs2s(args: Any, vocabulary: int) -> TranslationModel:
    """Gehring et al. 2017, as fairseq's ``fconv``: gated convolutions, attention in every decoder layer.

    A layer from p to c channels with kernel k is a convolution to 2 c channels, 4 k p c per position, and, if c is not
    p, a projection of the residual, 2 p c. The decoder also convolves over k - 1 positions beyond the end, which it
    drops.
    """
    width, out = args.encoder_embed_dim, args.decoder_out_embed_dim
    encoder, decoder = evaluate(args.encoder_layers), evaluate(args.decoder_layers)
    in_encoder, in_decoder = _convolutions(encoder), _convolutions(decoder)
    attention = sum(4 * channels * width for channels, _ in decoder)
    ends = 2 * width * decoder[0][0] + 2 * decoder[-1][0] * out + 2 * out * vocabulary
    return TranslationModel(
        encoder_position=2 * width * (encoder[0][0] + encoder[-1][0]) + sum(each for each, _ in in_encoder),
        decoder_position=attention + ends + sum(each for each, _ in in_decoder),
        cross=4 * width * len(decoder),
        beyond_the_end=sum(dropped for _, dropped in in_decoder),
    )


def _convolutions(layers: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the FLOPs of each layer: for each position, and for all positions beyond the end (decoder)."""
    found, before = [], layers[0][0]
    for channels, kernel in layers:
        convolution = 4 * kernel * before * channels
        residual = 2 * before * channels if channels != before else 0
        found.append((convolution + residual, (kernel - 1) * convolution))
        before = channels
    return found


def lstm(args: Any, vocabulary: int) -> TranslationModel:
    """Luong et al. 2015, as fairseq's one-directional ``lstm``: input feeding, global attention on the last layer.

    Per position, a cell needs 8 h (in + h), attention 2 h^2 (query) and 4 h^2 (output). Its scores and weighted sums
    are no matrix products in fairseq and are left out.
    """
    h, embedding, out = args.encoder_hidden_size, args.encoder_embed_dim, args.decoder_out_embed_dim
    upper = (args.encoder_layers - 1) * 16 * h * h
    narrowed = 2 * h * out if out != h else 0
    return TranslationModel(
        encoder_position=8 * h * (embedding + h) + upper,
        decoder_position=8 * h * (embedding + 2 * h) + upper + 6 * h * h + narrowed + 2 * out * vocabulary,
    )


FORMULAS = {"resmlp_transformer": resmlp, "transformer": resmlp, "fconv": convs2s, "lstm": lstm}
"""Formulas by fairseq's name of a model, from its complete options and the size of the target dictionary."""


def of_options(args: Any, vocabulary: int) -> TranslationModel | None:
    """Return the FLOPs of the model that complete options describe, with this target vocabulary; None: not counted."""
    name = ARCH_MODEL_NAME_REGISTRY[args.arch]
    other_lstm = name == "lstm" and (args.encoder_hidden_size != args.decoder_hidden_size or args.encoder_bidirectional)
    if name not in FORMULAS or other_lstm or getattr(args, "no_cross_attention", False):
        return None
    return FORMULAS[name](args, vocabulary)


ROOT = Path(__file__).resolve().parents[3]

CORPORA: dict[str, dict[str, int]] = {
    # pairs: Vaswani et al. 2017, section 5.1; vocabulary: the BPE merges of prepare_wmt14.py; length: target subwords
    # with </s>, wpb / bsz of training logs in fairseq issues 506 (En-De, but WMT18's corpora) and 233 (En-Fr, WMT14)
    "en-de": {"pairs": 4_500_000, "vocabulary": 32_000, "length": 30},
    "en-fr": {"pairs": 36_000_000, "vocabulary": 40_000, "length": 37},
}

GPUS = {"V100": 125e12, "A100": 312e12}
"""Peak FLOP/s of tensor cores in half precision, without sparsity: NVIDIA's data sheets of V100 SXM2 and A100."""


def training_options(pair: str, system: str) -> argparse.Namespace:
    """Return the options with which the recipe trains a system, with the architecture's defaults."""
    script = f"examples/wmt14_{pair.replace('-', '_')}/train.sh"
    if not (ROOT / script).is_file():
        raise UserError(f"{ROOT / script}: no such file: run python -m resmlp_mt.cli cost in a checkout")
    environment = {key: value for key, value in os.environ.items() if key not in ("GPUS", "NODES", "AT_ONCE", "FP16")}
    done = subprocess.run(
        ["bash", script, system], cwd=ROOT, env={**environment, "DRY_RUN": "1"}, capture_output=True, text=True
    )
    if done.returncode:
        raise UserError(f"{script}: {done.stderr.strip()}")
    words = shlex.split(done.stdout)[1:]
    user_dir = words.index("--user-dir")
    del words[user_dir : user_dir + 2]  # it is imported already, and its path is relative to the checkout
    return training_args(words, script)


def estimate(pair: str, system: str, rate: float) -> dict[str, Any]:
    """Return forward FLOPs per target token, the training's target tokens and FLOPs, GPU-hours at ``rate`` FLOP/s."""
    corpus, args = CORPORA[pair], training_options(pair, system)
    length, model = corpus["length"], of_options(args, corpus["vocabulary"])
    assert model is not None, f"the FLOPs of {system} are not counted"
    per_token = model.forward(length, length) / length
    if args.max_update:
        tokens = args.max_update * args.max_tokens * args.update_freq[0]
    else:
        tokens = args.max_epoch * corpus["pairs"] * length
    total = TRAINING * per_token * tokens
    return {
        "pair": pair,
        "system": system,
        "flops_per_target_token": per_token,
        "target_tokens": tokens,
        "training_flops": total,
        "gpu_hours": total / rate / 3600,
    }


def run(args: argparse.Namespace) -> None:
    unknown = [pair for pair in args.pairs if pair not in CORPORA]
    if unknown:
        raise UserError(f"no pair {unknown[0]}: give {' or '.join(CORPORA)}")
    rate = GPUS[args.gpu] * args.utilization
    costs = [estimate(pair, system, rate) for pair in dict.fromkeys(args.pairs or CORPORA) for system in PAPER]
    if args.json:
        print(json.dumps({"estimate": True, "gpu": args.gpu, "flops_per_second": rate, "costs": costs}))
        return
    table = [["estimate", "forward MFLOPs a token", "target tokens", "training FLOPs", "GPU-hours"]]
    for cost in costs:
        figures = f"{cost['target_tokens']:.1e}", f"{cost['training_flops']:.1e}", f"{cost['gpu_hours']:,.0f}"
        table.append([f"{cost['pair']} {cost['system']}", f"{cost['flops_per_target_token'] / 1e6:.0f}", *figures])
    print((markdown_table if args.markdown else text_table)(table))
    assumed = f"{args.gpu} at {100 * args.utilization:.3g}% of {GPUS[args.gpu] / 1e12:.0f} TFLOP/s (half precision)"
    print(f"\nEstimates, for {assumed}.")
