"""Options that no model can have are refused in one line, and older checkpoints have no newer ones."""

from argparse import Namespace

import pytest
from builders import build, dictionary

from resmlp_mt import ResMLPTransformerModel
from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.presets import apply_preset


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mixing_heads": 3}, "--encoder-embed-dim 64 is not a multiple of --mixing-heads 3"),
        ({"mixing_heads": 0}, "--mixing-heads is 0: give 1 or more"),
        (
            {"mixing_heads": 64, "decoder_embed_dim": 32},
            "--decoder-embed-dim 32 is not a multiple of --mixing-heads 64",
        ),
        (
            {"mixing_heads": 2, "token_mixing": "conv"},
            "--mixing-heads 2 is for --token-mixing linear or gated, not conv",
        ),
        (
            {"mixing_relative": True, "token_mixing": "mlp"},
            "--mixing-relative is for --token-mixing linear or gated, not mlp",
        ),
        (
            {"mixing_dropout": 0.5, "token_mixing": "none"},
            "--mixing-dropout 0.5 is for --token-mixing linear or gated, not none",
        ),
        ({"mixing_dropout": 1.0}, "--mixing-dropout is 1.0: give a number from 0 to below 1"),
        ({"max_target_positions": 500_000, "token_mixing": "gated"}, "--max-target-positions 500000: .* 2,000.0 GB"),
        ({"mixing_kernel": 2}, "--mixing-kernel is 2: give an odd number from 1"),
        ({"mixing_kernel": -1}, "--mixing-kernel is -1: give an odd number from 1"),
        ({"mixing_expansion": 0}, "--mixing-expansion is 0: give 1 or more"),
        (
            {"token_mixing": "attention"},
            "--token-mixing is 'attention': give one of linear, gated, none, mlp, conv, depthwise, separable",
        ),
        ({"decoder_learned_pos": True}, "--decoder-learned-pos needs --token-positional-embeddings"),
        ({"norm": "batch"}, "--norm is 'batch': give one of affine, layernorm"),
        ({"activation_fn": "step"}, "--activation-fn is 'step': give one of relu, .*silu, hardswish"),
        (
            {"max_source_positions": 1_000_000},
            r"--max-source-positions 1000000: the token mixing of its layers needs 8,000\.0 GB, and as much for its "
            r"gradients; this machine has [\d,.]+ GB: lower it",
        ),
        ({"max_target_positions": 500_000, "mixing_heads": 4}, "--max-target-positions 500000: .* needs 8,000.0 GB"),
        ({"max_target_positions": 500_000, "token_mixing": "mlp"}, "--max-target-positions 500000: .* 16,000.0 GB"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(UserError, match=message) as caught:
        build(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [("2 64\nw1 1 2 men\n", "could not convert .*'men'"), ("9 1\nw1 5\n", "'w1' has 1 numbers"), ("", r"\(\)")],
)
def test_embeddings_that_are_none_are_refused(tmp_path, content, message):
    (tmp_path / "words.vec").write_text(content)
    with pytest.raises(UserError, match=rf"words\.vec: no embeddings of 64 numbers .*{message}"):
        build(separate=True, encoder_embed_path=str(tmp_path / "words.vec"))


def test_embeddings_are_taken_from_a_file(tmp_path):
    (tmp_path / "words.vec").write_text(f"1 64\nw1 {' '.join(map(str, range(64)))}\n")
    model = build(separate=True, encoder_embed_path=str(tmp_path / "words.vec"), scatter=0)
    words = model.encoder.embed_tokens.weight[model.encoder.dictionary.index("w1")]
    assert words.tolist() == list(range(64))


def test_a_checkpoint_from_before_these_options_is_the_paper_s_model():
    args = Namespace()
    apply_preset(args, "resmlp_transformer_tiny")
    for name in [*vars(args)]:
        if name.startswith(("mixing_", "token_")) or name == "norm":
            delattr(args, name)

    class Task:
        source_dictionary = target_dictionary = dictionary()

    names = ResMLPTransformerModel.build_model(args, Task).state_dict().keys()
    assert names == build().state_dict().keys()
    layer = {name.removeprefix("decoder.layers.1.") for name in names if name.startswith("decoder.layers.1.mixing")}
    affines = {f"mixing.{place}_affine.{part}" for place in ("pre", "post") for part in ("alpha", "beta")}
    assert layer == {"mixing.mixing.weight", "mixing.mixing.bias", *affines}
