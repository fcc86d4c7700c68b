"""How fairseq loads a trained model in generation, validation and ``from_pretrained``, and how it saves one."""

import builtins
import os
import shutil
import sys
from argparse import Namespace
from unittest.mock import Mock

import fairseq_cli.train
import pytest
import torch
from crafted import BY_SUBSCRIPT
from fairseq import checkpoint_utils, hub_utils
from fairseq.file_io import PathManager
from in_this_process import run, training

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin import trained
from resmlp_mt.fairseq_plugin.checkpoints import DoesNotFit, check_dictionaries, checksum_of, load_checkpoint
from scripts import small_files

load = checkpoint_utils.load_model_ensemble_and_task
SECRET = "/nowhere/secret"


@pytest.fixture
def changed(checkpoint, tmp_path, monkeypatch):
    """A function that writes the trained checkpoint, changed, as ``changed.pt`` in an empty current folder."""
    monkeypatch.chdir(tmp_path)

    def write(change=lambda state: state, **options):
        state = load_checkpoint(checkpoint)
        vars(state["cfg"]["model"]).update(options)
        torch.save(change(state), "changed.pt")
        return "changed.pt"

    return write


@pytest.fixture
def opened(monkeypatch):
    """Check that the test opens files, but not the secret one."""
    watched = Mock(wraps=open)
    monkeypatch.setattr(builtins, "open", watched)
    yield
    names = [str(call.args[0]) for call in watched.call_args_list]
    assert names and SECRET not in names


def test_a_model_that_translates_backwards_is_warned_of(checkpoint, task, caplog):
    backwards = task()
    backwards.cfg.source_lang, backwards.cfg.target_lang = "en", "de"
    for each in task(), backwards:
        load([str(checkpoint)], task=each)
    (told,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "was trained to translate from de to en, not from en to de: give --source-lang" in told


def test_a_model_goes_with_no_other_dictionary_of_the_same_size(checkpoint, small, generate, tmp_path):
    shutil.copytree(small / "bin", tmp_path / "bin")
    for language in "de", "en":
        path = tmp_path / "bin" / f"dict.{language}.txt"
        path.write_text("\n".join(reversed(path.read_text().split("\n"))).strip() + "\n")
    uses = [
        lambda: generate(data=tmp_path / "bin"),
        lambda: run(fairseq_cli.train, *training(tmp_path, tmp_path, "--restore-file", checkpoint)),
        lambda: trained.load([checkpoint], tmp_path / "bin"),
    ]
    for use in uses:
        with pytest.raises(UserError, match=f"^{checkpoint}: its dictionaries have other symbols than the data-bin's"):
            use()


def test_the_other_direction_is_told_by_its_dictionaries():
    both = Namespace(symbols=["a"]), Namespace(symbols=["b"])
    state = {"task_state": {"dictionaries": checksum_of(both)}}
    with pytest.raises(DoesNotFit, match="it is of the other direction: give --source-lang"):
        check_dictionaries(state, both[::-1])


def old(**options):
    """Return a function that makes a checkpoint an old one, which has ``args``, some of them changed."""

    def changed(state):
        model = vars(state["cfg"]["model"])
        return {**state, "cfg": None, "args": Namespace(**{**model, "task": "translation", **options})}

    return changed


@pytest.mark.parametrize("change", [lambda state: state, old()])
def test_no_file_is_opened_because_a_checkpoint_says_so(changed, task, opened, change):
    paths = "encoder_embed_path", "decoder_embed_path"
    _, config, _ = load([changed(change, **dict.fromkeys((*paths, "user_dir"), SECRET))], None, task())
    assert [getattr(config.model, path) for path in paths] == [None, None]
    with pytest.raises(FileNotFoundError, match="mine"):  # the user's own
        load(["changed.pt"], dict.fromkeys(paths, "mine"), task())


def test_from_pretrained_opens_and_imports_nothing_of_the_checkpoint_s(changed, small, tmp_path, opened):
    (tmp_path / "evil_plugin.py").write_text("print('imported')")

    def evil(state):
        state["cfg"]["common"]["user_dir"] = str(tmp_path / "evil_plugin.py")
        state["cfg"]["generation"]["replace_unk"] = SECRET
        state["cfg"]["bpe"] = {"_name": "subword_nmt", "bpe_codes": SECRET, "bpe_separator": "@@"}
        return state

    found = hub_utils.from_pretrained(".", changed(evil), str(small / "bin"))
    assert "evil_plugin" not in sys.modules
    with pytest.raises(Exception, match="bpe_codes"):
        hub_utils.GeneratorHubInterface(found["args"], found["task"], found["models"])


def test_what_hydra_would_instantiate_is_an_option_like_any_other(changed, task):
    def with_target(state):
        state["cfg"]["model"] = {"_target_": "os.mkdir", "_args_": ["owned"], **vars(state["cfg"]["model"])}
        return state

    load([changed(with_target)], task=task())
    assert os.listdir() == ["changed.pt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (old(bpe="../../evil"), "not loaded: its option bpe, .*evil', is no name"),
        (old(seed="one"), "not loaded: its options or state are not fairseq's"),
        (lambda state: {**state, "extra_state": None}, "not loaded: its options or state are not"),
    ],
)
def test_what_does_not_fit_is_one_line_with_the_file_s_name(changed, checkpoint, task, change, message):
    with pytest.raises(UserError, match=rf"^(changed.pt: )?{message}"):
        load([str(checkpoint), changed(change)], task=task())


def test_the_dictionary_of_other_data_and_wrong_options_are_told(changed, task):
    with pytest.raises(UserError, match=r"^(changed.pt: )?--decoder-embed-dim is 'two'"):
        load([changed(decoder_embed_dim="two")], task=task())
    earlier = changed(lambda state: {**state, "task_state": {}})  # as fairseq and earlier versions save it
    with pytest.raises(UserError, match=r"^changed.pt: its source dictionary has 16 symbols, the data-bin's has 24"):
        load([earlier], task=task("other"))
    with pytest.raises(UserError, match=r"^changed.pt: .* state, with those of --model-overrides, are not fairseq's"):
        load([changed(old())], {"seed": "one"}, task())


FCONV = {
    "arch": "fconv", "_name": "fconv", "encoder_layers": "[(8, 3)] * 2", "decoder_layers": "[(8, 3)] * 2 + [(8, 1)]",
    "decoder_attention": "[True] * 3", "encoder_embed_dim": 8, "decoder_embed_dim": 8, "decoder_out_embed_dim": 8,
    "share_input_output_embed": False, "dropout": 0.0, "max_source_positions": 64, "max_target_positions": 64,
}  # fmt: skip


def test_a_checkpoint_of_fconv_is_built_from_its_options(task, changed):
    parameters = task().build_model(Namespace(**FCONV)).state_dict()

    def load_with(overrides=None, **options):
        [loaded], _, _ = load([changed(lambda state: {**state, "model": parameters}, **options)], overrides, task())
        return loaded

    assert len(load_with(**FCONV).decoder.convolutions) == 3
    for option in "encoder_layers", "decoder_attention":
        owning = {option: BY_SUBSCRIPT}
        for own, overrides in ({**FCONV, **owning}, None), (FCONV, owning):
            with pytest.raises(UserError, match=r"^changed.pt: .*nn.Module.*: fairseq would run this option as Python"):
                load_with(overrides, **own)
    assert os.listdir() == ["changed.pt"]


@pytest.mark.parametrize("room", [0, 1_000, 100_000, 400_500])
def test_what_could_not_be_written_is_gone_and_the_old_stays(tmp_path, room):
    last, new = tmp_path / "checkpoint_last.pt", str(tmp_path / "checkpoint1.pt")
    checkpoint_utils.torch_persistent_save({"model": torch.zeros(10)}, str(last))
    checkpoint_utils.torch_persistent_save({"model": torch.zeros(100_000)}, new)
    old = last.read_bytes()
    for write in (
        lambda: checkpoint_utils.torch_persistent_save({"model": torch.zeros(100_000)}, str(last)),
        lambda: PathManager.copy(new, str(last), overwrite=True),
    ):
        with (
            pytest.raises(UserError, match=r"checkpoint_last\.pt: cannot be written: File too large: make room .*"),
            small_files(room),
        ):
            write()
    assert sorted(os.listdir(tmp_path)) == ["checkpoint1.pt", "checkpoint_last.pt"]
    assert last.read_bytes() == old
