"""Architectures of one size, their options, and the batches that they get."""

import pytest
import torch

from resmlp_mt.data.binarized import made_up_dictionary
from resmlp_mt.lab.benchmarks.systems import Comparison, Conditions, Shape, Size, System, as_override
from resmlp_mt.lab.benchmarks.workloads import Training

SIZE = Size(width=16, mlp=24, layers=4, heads=2, vocabulary=40)


def options(name):
    return System(name).config(SIZE, Conditions()).model


def test_all_architectures_get_the_same_size():
    for name in "resmlp_transformer", "transformer", "lightconv", "dynamicconv":
        given = options(name)
        sizes = given.encoder_embed_dim, given.encoder_ffn_embed_dim, given.encoder_layers, given.decoder_layers
        assert sizes == (16, 24, 4, 4)
    assert all(options(name).encoder_kernel_size_list == [3, 7, 15, 31] for name in ("lightconv", "dynamicconv"))
    assert options("fconv").encoder_layers == "[(16,3)]*4"
    assert (options("lstm").encoder_hidden_size, options("lstm").decoder_layers) == (16, 4)


def test_a_system_may_name_the_library_of_its_products(monkeypatch):
    """oneDNN is on while the system works, and at no other time."""
    monkeypatch.setattr("resmlp_mt.common.matmul.mkl_is_slow", lambda: False)  # the model's own choice is BLAS
    by_onednn, found = System("resmlp_transformer@onednn:encoder_layers=1"), []
    assert (by_onednn.arch, by_onednn.library) == ("resmlp_transformer", "onednn")
    assert by_onednn.options == ["encoder_layers=1"]
    assert (System("a@b/model.pt").arch, System("a@b/model.pt").library) == ("a@b/model.pt", "blas")
    training = Training(by_onednn, Comparison((System("transformer"),), size=SIZE))
    monkeypatch.setattr(training.trainer, "train_step", lambda _: found.append(torch.get_float32_matmul_precision()))
    training.step({})
    assert found == ["medium"] and torch.get_float32_matmul_precision() == "highest"


def test_options_of_a_system_come_last_and_those_of_a_checkpoint_are_data():
    given = options("resmlp_transformer:encoder_layers=1,--layerscale-init=0.5,no_scale_embedding")
    assert (given.encoder_layers, given.decoder_layers, given.layerscale_init) == (1, 4, 0.5)
    assert given.no_scale_embedding
    given = options("resmlp_transformer:mixing_of_encoder_layers=gated,none,mixing_heads=2,encoder_layers=2")
    assert (given.mixing_of_encoder_layers, given.mixing_heads) == ("gated,none", 2)
    given = ["a-b=1", "--flag", "a=[1, 2]", "a=__import__('os')"]
    assert list(map(as_override, given)) == [("a_b", 1), ("flag", True), ("a", [1, 2]), ("a", "__import__('os')")]


@pytest.mark.parametrize("padding", [0, 0.1, 0.3])
def test_a_batch_has_its_shape_and_padding(padding):
    dictionary = made_up_dictionary(40)
    batch = Shape(20, 50).random_batch(padding, dictionary)
    source, target = batch["net_input"]["src_tokens"], batch["target"]
    assert source.shape == target.shape == (50, 20)
    for tokens in source, target:
        assert tokens.eq(dictionary.pad()).float().mean() == pytest.approx(padding, abs=0.01)
        assert tokens.eq(dictionary.eos()).sum() == 50
    assert batch["ntokens"] == target.ne(dictionary.pad()).sum()
    assert source[:, -1].eq(dictionary.eos()).all()  # padded on the left
    assert target[:, 0].ne(dictionary.pad()).all()
