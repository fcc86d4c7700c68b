"""fairseq's ``eval``: data, whatever the route by which a text comes to it."""

import importlib
import os
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils, utils
from in_this_process import change_options

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint
from resmlp_mt.fairseq_plugin.checkpoints.options import EVALUATED, evaluate

BY_SUBSCRIPT = "[nn.Module['touch owned'] for nn.Module.__class_getitem__ in [torch.os.system]]"


def test_each_of_its_modules_has_ours():
    assert {importlib.import_module(name).eval for name in EVALUATED} == {evaluate}


@pytest.mark.parametrize("function", [utils.eval_str_list, utils.eval_str_dict, utils.eval_bool])
def test_nothing_is_run(tmp_path, monkeypatch, function):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="fairseq would run this option as Python"):
        function("__import__('os').mkdir('owned')")
    assert os.listdir() == []


def test_data_is_read_as_before():
    assert utils.eval_str_list("10,20", int) == [10, 20]
    assert utils.eval_str_list([1.5], float) == [1.5]
    assert utils.eval_str_dict("{'name': 'linformer'}") == {"name": "linformer"}
    assert (utils.eval_bool("True"), utils.eval_bool(False, default=True)) == (True, True)


FCONV = {
    "arch": "fconv", "_name": "fconv", "encoder_layers": "[(8, 3)] * 2", "decoder_layers": "[(8, 3)] * 2 + [(8, 1)]",
    "decoder_attention": "[True] * 3", "encoder_embed_dim": 8, "decoder_embed_dim": 8, "decoder_out_embed_dim": 8,
    "share_input_output_embed": False, "dropout": 0.0, "max_source_positions": 64, "max_target_positions": 64,
}  # fmt: skip


def test_a_checkpoint_of_fconv_is_built_from_its_options(task, checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = change_options(load_checkpoint(checkpoint), **FCONV)
    model = task().build_model(Namespace(**FCONV))
    torch.save({**state, "model": model.state_dict()}, "fconv.pt")
    [loaded], _, _ = checkpoint_utils.load_model_ensemble_and_task(["fconv.pt"], task=task())
    assert len(loaded.decoder.convolutions) == 3

    for option in "encoder_layers", "decoder_attention":
        torch.save(change_options(state, **{option: BY_SUBSCRIPT}), "owning.pt")
        with pytest.raises(UserError, match=rf"owning.pt: not loaded: fairseq might run its option {option}"):
            checkpoint_utils.load_model_ensemble_and_task(["owning.pt"], task=task())
        # nor if the check of the options did not see it
        with pytest.raises(UserError, match="fairseq would run this option"):
            checkpoint_utils.load_model_ensemble_and_task(["fconv.pt"], {option: BY_SUBSCRIPT}, task())
    assert sorted(os.listdir()) == ["fconv.pt", "owning.pt"]
