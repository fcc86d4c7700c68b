"""fairseq's loading of a trained model: generation, validation and ``from_pretrained`` go through it."""

import builtins
import os
import re
import shutil
import sys
from argparse import Namespace

import fairseq_cli.generate
import fairseq_cli.interactive
import fairseq_cli.validate
import pytest
import torch
from fairseq import checkpoint_utils, hub_utils
from in_this_process import change_options, run

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint

load = checkpoint_utils.load_model_ensemble_and_task


@pytest.fixture
def changed(checkpoint, tmp_path, monkeypatch):
    """Write the trained checkpoint with something changed as ``changed.pt`` into an empty folder, which is entered."""
    monkeypatch.chdir(tmp_path)

    def write(name="changed.pt", change=lambda state: state, **options):
        torch.save(change(change_options(load_checkpoint(checkpoint), **options)), name)
        return name

    return write


@pytest.fixture
def opened(monkeypatch):
    """The files that are opened meanwhile."""
    names = []
    open_file = builtins.open

    def watching(file, *args, **kwargs):
        names.append(str(file))
        return open_file(file, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", watching)
    return names


def test_what_a_training_wrote_is_loaded_though_its_folder_looks_like_a_call(changed, task):
    changed(save_dir="work/exp(2)")
    load(["changed.pt"], task=task())


def test_a_model_that_translates_backwards_is_warned_of(checkpoint, task, caplog):
    backwards = task()
    backwards.cfg.source_lang, backwards.cfg.target_lang = "en", "de"
    for each in task(), backwards:
        load([str(checkpoint)], task=each)
    (told,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "was trained to translate from de to en, not from en to de: give --source-lang" in told


@pytest.mark.parametrize("option", ["encoder_embed_path", "decoder_embed_path"])
def test_no_file_is_opened_because_a_checkpoint_says_so(changed, task, opened, option):
    changed(**{option: "/nowhere/secret"})
    _, config, _ = load(["changed.pt"], task=task())
    assert getattr(config.model, option) is None
    assert not [name for name in opened if "secret" in name]
    with pytest.raises(FileNotFoundError, match="mine"):  # the user's own
        load(["changed.pt"], {"encoder_embed_path": "mine", "decoder_embed_path": "mine"}, task())


def test_from_pretrained_opens_and_imports_nothing_of_the_checkpoint_s(changed, small, opened):
    (open("evil_plugin.py", "w")).write("print('imported')")  # noqa: SIM115

    def evil(state):
        state["cfg"]["common"]["user_dir"] = os.path.abspath("evil_plugin.py")
        state["cfg"]["generation"]["replace_unk"] = "/nowhere/secret"
        state["cfg"]["bpe"] = {"_name": "subword_nmt", "bpe_codes": "/nowhere/secret", "bpe_separator": "@@"}
        return state

    found = hub_utils.from_pretrained(".", changed(change=evil), str(small / "bin"))
    assert "evil_plugin" not in sys.modules
    with pytest.raises(Exception, match="bpe_codes"):
        hub_utils.GeneratorHubInterface(found["args"], found["task"], found["models"])
    assert not [name for name in opened if "secret" in name]


def test_what_hydra_would_instantiate_is_an_option_like_any_other(changed, task):
    def with_target(state):
        model = {"_target_": "os.mkdir", "_args_": ["owned"], **vars(state["cfg"]["model"])}
        return {**state, "cfg": {**state["cfg"], "model": model}}

    load([changed(change=with_target)], task=task())
    assert os.listdir() == ["changed.pt"]


def test_old_checkpoints_with_args_are_loaded_under_the_same_rules(changed, task, opened):
    def old(**options):
        def change(state):
            args = Namespace(**{**vars(state["cfg"]["model"]), "task": "translation", **options})
            return {**state, "cfg": None, "args": args}

        return change

    _, config, _ = load(
        [changed(change=old(encoder_embed_path="/nowhere/secret", user_dir="/nowhere/secret"))], None, task()
    )
    assert config.model.encoder_embed_path is None
    assert not [name for name in opened if "secret" in name]
    with open("evil.yaml", "w") as stream:
        stream.write("_name: evil\n")
    for options, message in (
        ({"bpe": f"../../../../../../../..{os.getcwd()}/evil"}, "its option bpe, .*evil', is no name"),
        ({"bpe": "none_such"}, "its options or state are, not fairseq's"),
        ({"save_dir": "${oc.env:HOME}"}, "its option save_dir, .* would be replaced"),
    ):
        with pytest.raises(UserError, match=rf"^changed.pt: not loaded: {message}") as error:
            load([changed(change=old(**options))], None, task())
        assert "\n" not in str(error.value)
    for overrides, message in (
        (None, "are, not fairseq's"),
        ({"seed": "one"}, "are, with those of --model-overrides, not"),
    ):
        with pytest.raises(UserError, match=rf"^changed.pt: not loaded: its options or state {message}") as error:
            load([changed(change=old(max_update="many" if not overrides else 1))], overrides, task())
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("w.int32", lambda w: w.int(), "is of torch.int32, the model's of floating-point numbers"),
        ("w.nan", lambda w: w * float("nan"), "is not finite"),
        ("w.shape", lambda w: w[:-1], "is 255 x 64 in it, but 256 x 64 in the model"),
    ],
)
def test_the_file_of_an_ensemble_that_does_not_fit_is_named(changed, checkpoint, task, name, change, message):
    parameter = "encoder.layers.0.mlp.fc1.weight"

    def with_another(state):
        return {**state, "model": {**state["model"], parameter: change(state["model"][parameter])}}

    changed(name, with_another)
    with pytest.raises(UserError, match=f"^{name}: {parameter} {message}"):
        load([str(checkpoint), name], task=task())


def test_a_data_bin_of_another_vocabulary(checkpoint, task):
    message = rf"^{checkpoint}: its source dictionary has 16 symbols, the data-bin's has 24: give the data-bin"
    with pytest.raises(UserError, match=message):
        load([str(checkpoint)], task=task("other"))


def test_an_ensemble_is_loaded_in_order(changed, checkpoint, task):
    changed(change=lambda state: {**state, "model": {k: torch.zeros_like(v) for k, v in state["model"].items()}})
    (one, other), _, _ = load([str(checkpoint), "changed.pt"], task=task())
    assert one.encoder.embed_tokens.weight.any()
    assert not other.encoder.embed_tokens.weight.any()
    (alone,), _ = checkpoint_utils.load_model_ensemble([str(checkpoint)], task=task())
    assert torch.equal(alone.encoder.embed_tokens.weight, one.encoder.embed_tokens.weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {**state, "cfg": None}, "it holds no options"),
        (
            lambda state: change_options(state, _name="huge", arch="huge"),
            "changed.pt: fairseq knows no architecture 'huge'",
        ),
        (
            lambda state: change_options(state, decoder_embed_dim="two"),
            "--decoder-embed-dim is 'two': give something like",
        ),
        (lambda state: change_options(state, quant_noise_pq="x"), "changed.pt: its options make no model"),
        (lambda state: change_options(state, encoder_layers_to_keep="x"), "changed.pt: its options make no model"),
        (
            lambda state: change_options(state, max_source_positions=10**9),
            "changed.pt: --max-source-positions 10{9}: .* lower it",
        ),
        (lambda state: {**state, "extra_state": None}, "its options or state are"),
    ],
)
def test_checkpoints_without_a_model_are_one_line(changed, task, change, message):
    with pytest.raises(UserError, match=message) as error:
        load([changed(change=change)], task=task())
    assert "\n" not in str(error.value)


OVERRIDES = "[1]", "{1: 2}", "dropout=0", "{'dropout'}", "{", "None", "{'a': f()}"


@pytest.mark.parametrize("overrides", OVERRIDES)
@pytest.mark.parametrize("command", [fairseq_cli.generate, fairseq_cli.interactive, fairseq_cli.validate])
def test_overrides_that_are_no_dictionary_are_the_option_s_fault(small, checkpoint, command, overrides):
    with pytest.raises(UserError, match=r"^--model-overrides .*: give a dictionary of options, such as") as error:
        run(
            command,
            small / "bin",
            "--path",
            checkpoint,
            "--cpu",
            "--task",
            "translation",
            "--model-overrides",
            overrides,
        )
    assert overrides in str(error.value)


def test_overrides_that_would_override_nothing_are_refused(changed, task):
    message = "--model-overrides: no option 'inference_precison': did you mean inference_precision?"
    with pytest.raises(UserError, match=re.escape(message)):
        load([changed()], {"inference_precison": "bf16"}, task())


def test_overrides_in_python_too(checkpoint, task):
    with pytest.raises(UserError, match=r"^--model-overrides \[1\]: give a dictionary"):
        load([str(checkpoint)], [1], task())


def test_the_commands_say_it(small, checkpoint, tmp_path):
    data, common = small / "other", ("--path", checkpoint, "--cpu", "--task", "translation")
    for command, *more in [fairseq_cli.generate], [fairseq_cli.interactive], [fairseq_cli.validate, "--batch-size", 4]:
        with pytest.raises(UserError, match="its source dictionary has 16 symbols, the data-bin's has 24"):
            run(command, data, *common, *more, "-s", "de", "-t", "en")
    run(fairseq_cli.validate, small / "bin", *common, "--batch-size", 4)
    shutil.copy(checkpoint, tmp_path / "exp(2).pt")
    run(fairseq_cli.generate, small / "bin", "--path", tmp_path / "exp(2).pt", "--cpu", "--beam", 1)
