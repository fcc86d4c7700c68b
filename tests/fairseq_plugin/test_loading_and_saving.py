"""fairseq's loading of a trained model, as generation, validation and ``from_pretrained`` have it, and its saving."""

import builtins
import os
import resource
import sys
from argparse import Namespace

import pytest
import torch
from crafted import BY_SUBSCRIPT
from fairseq import checkpoint_utils, hub_utils, utils
from fairseq.file_io import PathManager
from in_this_process import change_options

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint

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

    secret = dict.fromkeys(("encoder_embed_path", "user_dir"), "/nowhere/secret")
    _, config, _ = load([changed(change=old(**secret))], None, task())
    assert config.model.encoder_embed_path is None
    assert not [name for name in opened if "secret" in name]
    with open("evil.yaml", "w") as stream:
        stream.write("_name: evil\n")
    for options, overrides, message in (
        ({"bpe": f"../../../../../../../..{os.getcwd()}/evil"}, None, "its option bpe, .*evil', is no name"),
        ({"bpe": "none_such"}, None, "its options or state are not fairseq's"),
        ({"save_dir": "${oc.env:HOME}"}, None, "its option save_dir, .* would be replaced"),
        ({}, {"seed": "one"}, "its options or state, with those of --model-overrides, are not"),
    ):
        with pytest.raises(UserError, match=rf"^changed.pt: not loaded: {message}") as error:
            load([changed(change=old(**options))], overrides, task())
        assert "\n" not in str(error.value)


def test_the_file_that_does_not_fit_is_named(changed, checkpoint, task):
    parameter = "encoder.layers.0.mlp.fc1.weight"

    def with_nan(state):
        return {**state, "model": {**state["model"], parameter: float("nan") * state["model"][parameter]}}

    with pytest.raises(UserError, match=f"^changed.pt: {parameter} is not finite"):
        load([str(checkpoint), changed(change=with_nan)], task=task())
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
        (lambda state: change_options(state, decoder_embed_dim="two"), "--decoder-embed-dim is 'two'"),
        (lambda state: change_options(state, max_source_positions=10**9), "--max-source-positions is 10{9}: give 2 to"),
        (lambda state: {**state, "extra_state": None}, "changed.pt: not loaded: its options or state are"),
    ],
)
def test_checkpoints_without_a_model_are_one_line(changed, task, change, message):
    with pytest.raises(UserError, match=message) as error:
        load([changed(change=change)], task=task())
    assert "\n" not in str(error.value)


def test_text_is_not_run_but_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for function in utils.eval_str_list, utils.eval_str_dict, utils.eval_bool:
        with pytest.raises(UserError, match="fairseq would run this option as Python"):
            function("__import__('os').mkdir('owned')")
    assert os.listdir() == []
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
        for file, overrides in ("owning.pt", None), ("fconv.pt", {option: BY_SUBSCRIPT}):
            with pytest.raises(UserError, match=rf"^{file}: .*nn.Module.*: fairseq would run this option as Python"):
                checkpoint_utils.load_model_ensemble_and_task([file], overrides, task())
    assert sorted(os.listdir()) == ["fconv.pt", "owning.pt"]


@pytest.fixture
def small_files():
    """No file of this process can have more than that many bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1_000, 100_000, 400_500])
def test_what_could_not_be_written_is_gone_and_the_old_stays(tmp_path, small_files, room):
    path = str(tmp_path / "checkpoint_last.pt")
    checkpoint_utils.torch_persistent_save({"model": torch.zeros(10)}, path)
    old = (tmp_path / "checkpoint_last.pt").read_bytes()
    new = str(tmp_path / "checkpoint1.pt")
    checkpoint_utils.torch_persistent_save({"model": torch.zeros(100_000)}, new)
    small_files(room)
    message = r"checkpoint_last\.pt: cannot be written: File too large: make room .* run the same command again"
    with pytest.raises(UserError, match=message):
        checkpoint_utils.torch_persistent_save({"model": torch.zeros(100_000)}, path)
    with pytest.raises(UserError, match=message):
        PathManager.copy(new, path, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint1.pt", "checkpoint_last.pt"]
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == old


def test_ctrl_c_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint_utils.torch_persistent_save({}, str(tmp_path / "checkpoint1.pt"))
    assert os.listdir(tmp_path) == []
