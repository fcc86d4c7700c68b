"""``--amp`` on a CPU: products in bfloat16, all that is kept in fp32."""

import pytest
import torch
from torch import nn

from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint

ADAM = "--optimizer", "adam", "--lr", 1e-3


@pytest.fixture
def products(monkeypatch):
    """The types of what linear layers compute, by whether the model is in training."""
    found = {True: set(), False: set()}
    forward = nn.Linear.forward

    def seen(self, x):
        y = forward(self, x)
        found[self.training].add(y.dtype)
        return y

    monkeypatch.setattr(nn.Linear, "forward", seen)
    return found


def weights(folder):
    return load_checkpoint(folder / "checkpoint_last.pt")["model"]


@pytest.mark.parametrize("arch", ["resmlp_transformer_tiny", "resmlp_transformer_multi30k_gated", "transformer_tiny"])
def test_a_training_multiplies_in_bfloat16_and_validates_and_keeps_fp32(train, products, tmp_path, recwarn, arch):
    train(tmp_path, "--arch", arch, *ADAM, "--amp", validate=True)
    assert products == {True: {torch.bfloat16}, False: {torch.float32}}
    state = load_checkpoint(tmp_path / "checkpoint_last.pt")
    assert {tensor.dtype for tensor in state["model"].values() if tensor.is_floating_point()} == {torch.float32}
    moments = [each for one in state["last_optimizer_state"]["state"].values() for each in (one["exp_avg"],)]
    assert {tensor.dtype for tensor in moments} == {torch.float32}
    assert not [each for each in recwarn if "Disabling" in str(each.message)]


def test_without_it_all_is_fp32(train, products, tmp_path):
    train(tmp_path, *ADAM, validate=True)
    assert products == {True: {torch.float32}, False: {torch.float32}}


@pytest.mark.parametrize("arch", ["resmlp_transformer_tiny", "resmlp_transformer_multi30k_gated"])
def test_it_trains_as_fp32_does_but_for_rounding(train, tmp_path, arch):
    descent = "--arch", arch, "--optimizer", "sgd", "--max-update", 4  # whose steps are the gradients
    train(tmp_path / "begun", *descent, "--lr", 1e-30)
    for name, options in ("fp32", ()), ("mixed", ("--amp",)):
        train(tmp_path / name, *descent, "--lr", 0.1, *options)
    begun, exact, mixed = (weights(tmp_path / name) for name in ("begun", "fp32", "mixed"))
    for name, first in begun.items():
        if not name.endswith("k_proj.bias") and not torch.equal(exact[name], first):  # a softmax takes no bias of keys
            one, other = (exact[name] - first).flatten(), (mixed[name] - first).flatten()
            assert torch.cosine_similarity(one, other, 0) > 0.95, name
            assert not torch.equal(one, other), name


@pytest.mark.parametrize("optimizer", [ADAM, ("--optimizer", "adagrad", "--lr", 0.01)])
def test_broken_off_it_goes_on_to_the_same_weights(train, tmp_path, optimizer):
    options = *optimizer, "--amp", "--update-epoch-batch-itr", True, "--max-update"
    train(tmp_path / "unbroken", *options, 4)
    for updates in 2, 4:
        train(tmp_path / "broken", *options, updates)
    for name, tensor in weights(tmp_path / "unbroken").items():
        assert torch.equal(tensor, weights(tmp_path / "broken")[name]), name


def test_a_processor_without_bfloat16_is_told(train, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    train(tmp_path, *ADAM, "--amp")
    assert "this processor has no bfloat16 arithmetic: it will be slower than fp32" in caplog.text
