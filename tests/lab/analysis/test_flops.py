"""The formulas against torch's own count of what the models run."""

import pytest
import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.analysis import flops

VOCABULARY = 52
SIZES = ("--encoder-embed-dim", "24", "--encoder-ffn-embed-dim", "40", "--decoder-attention-heads", "2")
RESMLP = ("resmlp_transformer_12_wmt_en_de", *SIZES, "--encoder-layers", "3", "--decoder-layers", "2")
MIXINGS = ("gated", "none", "mlp", "conv", "depthwise", "separable")
MODELS = {
    "resmlp": RESMLP,
    **{mixing: (*RESMLP, "--token-mixing", mixing) for mixing in MIXINGS},
    "mlp of 2 units": (*RESMLP, "--token-mixing", "mlp", "--mixing-expansion", "2"),
    "conv of 5 positions": (*RESMLP, "--token-mixing", "conv", "--mixing-kernel", "5"),
    "heads and relative": (*RESMLP, "--mixing-heads", "4", "--mixing-relative"),
    "gated with a band": (*RESMLP, "--token-mixing", "gated", "--mixing-heads", "4", "--mixing-band", "3"),
    "mixer": ("mixer_transformer", *RESMLP[1:]),
    "transformer": (
        "transformer_wmt_en_de", *SIZES, "--encoder-attention-heads", "2", "--encoder-layers", "1",
        "--decoder-layers", "2", "--decoder-embed-dim", "24", "--decoder-ffn-embed-dim", "40",
    ),
    "fconv": (
        "fconv_wmt_en_de", "--encoder-embed-dim", "24", "--decoder-embed-dim", "24", "--decoder-out-embed-dim", "20",
        "--encoder-layers", "[(16, 3)] * 2 + [(28, 1)] * 1", "--decoder-layers", "[(16, 3)] + [(20, 5)] * 2",
    ),
    "lstm": (
        "lstm_luong_wmt_en_de", "--encoder-embed-dim", "24", "--decoder-embed-dim", "24",
        "--decoder-out-embed-dim", "20", "--encoder-hidden-size", "32", "--decoder-hidden-size", "32",
        "--encoder-layers", "3", "--decoder-layers", "3",
    ),
}  # fmt: skip


def options_of(arch, *words):
    parser = options.get_training_parser()
    return options.parse_args_and_arch(parser, ["data", "--task", "translation", "--arch", arch, *words])


def conv_tbc(x, weight, *rest, **_):
    """Output positions x sentences x kernel x channels in x channels out; its backward pass is made of products."""
    length, batch, _ = x
    kernel, inputs, outputs = weight
    padding = rest[1] if len(rest) > 1 else 0
    return 2 * (length + 2 * padding - kernel + 1) * batch * kernel * inputs * outputs


def addmm_(into, left, right, **_):
    return 2 * left[0] * left[1] * right[1]


UNKNOWN_TO_TORCH = {torch.ops.aten.conv_tbc: conv_tbc, torch.ops.aten.addmm_: addmm_}


@pytest.fixture(autouse=True)
def made_of_matrix_products():
    """No fused attention or LSTM, whose products torch's counter does not see."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    with sdpa_kernel(SDPBackend.MATH):
        yield
    torch._C._set_mkldnn_enabled(before)


def counted(args, source, target, batch, backward):
    symbols = Dictionary()
    for number in range(VOCABULARY - len(symbols)):
        symbols.add_symbol(f"word{number}")
    model = TranslationTask(TranslationConfig(), symbols, symbols).build_model(args)
    sentences = torch.randint(symbols.nspecial, VOCABULARY, (batch, source + target))
    with FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCH) as counter:
        out, _ = model(sentences[:, :source], torch.full((batch,), source), sentences[:, source:])
        if backward:
            out.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("source", "target"), [(7, 5), (4, 9)])
def test_the_formula_is_what_torch_counts(name, source, target):
    args = options_of(*MODELS[name])
    model = flops.of_options(args, VOCABULARY)
    assert counted(args, source, target, 3, backward=False) == 3 * model.forward(source, target)
    assert model.per_target_token(source, target) == model.forward(source, target) / target


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_is_three_forward_passes(name):
    args = options_of(*MODELS[name])
    expected = flops.TRAINING * 2 * flops.of_options(args, VOCABULARY).forward(30, 40)
    # a little less is run: no gradient reaches an LSTM's first state or a convolution's padding
    assert 0.97 * expected < counted(args, 30, 40, 2, backward=True) <= expected


def test_what_is_not_counted_is_refused():
    with pytest.raises(UserError, match="lightconv: its FLOPs are not counted"):
        flops.of_options(options_of("lightconv"), VOCABULARY)
    with pytest.raises(UserError, match="transformer: encoder and decoder of unequal width"):
        flops.of_options(options_of("transformer", "--decoder-ffn-embed-dim", "40"), VOCABULARY)
