"""The recipes of table 5: their command lines, which train tiny models here, and their results in the table."""

import json
import shlex

import pytest
import torch
from fairseq_commands import prepare

from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from scripts import ROOT, options_of

PAIRS = {"en_de": "de", "en_fr": "fr"}
RESMLP = (
    "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "32", "--decoder-attention-heads", "2",
    "--encoder-layers", "2", "--decoder-layers", "2",
)  # fmt: skip
SMALL = {
    **dict.fromkeys(("resmlp6", "resmlp12", "gated6"), RESMLP),
    "transformer": (
        *RESMLP, "--encoder-attention-heads", "2", "--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "32",
    ),
    "convs2s": (
        "--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--decoder-out-embed-dim", "16",
        "--encoder-layers", "[(16, 3)] * 2", "--decoder-layers", "[(16, 3)] * 2",
    ),
    "lstm": (
        "--encoder-embed-dim", "16", "--encoder-hidden-size", "16", "--encoder-layers", "2", "--decoder-layers", "2",
        "--decoder-embed-dim", "16", "--decoder-hidden-size", "16", "--decoder-out-embed-dim", "16",
    ),
}  # fmt: skip
HERE = ("--cpu", "--num-workers", "0", "--disable-validation", "--save-interval-updates", "1")


@pytest.fixture(scope="session")
def dry_run(run_script):
    return lambda pair, *arguments, **variables: shlex.split(
        run_script(f"wmt14_{pair}/train", *arguments, DRY_RUN=1, **variables).stdout
    )


@pytest.mark.parametrize("pair", PAIRS)
def test_resmlp_is_trained_as_in_the_paper_and_with_a_gate_at_half_the_transformer_s_rate(dry_run, pair):
    paper = {"--optimizer": "adagrad", "--lr": "0.2", "--warmup-updates": "32000", "--layerscale-init": "0.2"}
    gated = {"--optimizer": "adam", "--lr": "3.5e-4", "--warmup-updates": "4000"}
    both = {"--dropout": {"en_de": "0.15", "en_fr": "0.1"}[pair], "--label-smoothing": "0.1"}
    kinds = {"resmlp6": "wmt", "resmlp12": "12_wmt", "gated6": "gated_wmt", "gated12": "gated_12_wmt"}
    for system, kind in kinds.items():
        expected = {"--arch": f"resmlp_transformer_{kind}_{pair}", **both, **(gated if "gated" in kind else paper)}
        assert options_of(dry_run(pair, system)).items() >= expected.items()


@pytest.mark.parametrize("pair", PAIRS)
def test_the_readme_shows_the_command(dry_run, pair):
    readme = (ROOT / f"examples/wmt14_{pair}/README.md").read_text()
    block = next(block for block in readme.split("```bash\n") if block.startswith("fairseq-train")).split("```")[0]
    assert shlex.split(block.replace("\\\n", " ")) == dry_run(pair, "resmlp6")


@pytest.mark.parametrize("system", SMALL)
def test_both_pairs_are_trained_alike(dry_run, system):
    german, french = (options_of(dry_run(pair, system)) for pair in PAIRS)
    different = {name for name in german.keys() | french.keys() if german.get(name) != french.get(name)}
    own = {"transformer": set(), "convs2s": {"--arch", "--dropout", "--max-tokens"}, "lstm": set()}
    assert different == {"--target-lang", "--save-dir"} | own.get(system, {"--arch", "--dropout"})


@pytest.mark.parametrize(
    ("system", "at_once", "name", "batch"), [("resmlp6", 3584, "max-tokens", 28672), ("lstm", 128, "batch-size", 128)]
)
def test_the_batch_is_the_same_for_every_number_of_gpus(dry_run, system, at_once, name, batch):
    for variables in {}, {"GPUS": 4, "AT_ONCE": 700}, {"NODES": 2, "GPUS": 8}, {"AT_ONCE": 10**6}:
        found = options_of(dry_run("en_de", system, **variables, RENDEZVOUS="host:29500"))
        world, limit = variables.get("GPUS", 1) * variables.get("NODES", 1), variables.get("AT_ONCE", at_once)
        if "NODES" in variables:
            assert found.items() >= {"--nnodes": "2", "--nproc_per_node": "8", "--rdzv_endpoint": "host:29500"}.items()
        step, update_freq = int(found[f"--{name}"]), int(found["--update-freq"])
        assert step * update_freq * world == batch
        assert step <= limit
        assert all((batch // world) % steps or batch // world // steps > limit for steps in range(1, update_freq))


def test_half_precision_as_fairseq_wants_it_of_each_optimizer(dry_run):
    assert dry_run("en_de", "resmlp6", FP16=1).count("--fp16-no-flatten-grads") == 1
    assert "--fp16-no-flatten-grads" not in dry_run("en_de", "transformer", FP16=1)
    assert all("--fp16" in dry_run("en_de", system, FP16=1) for system in SMALL)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder for each pair as prepare_wmt14.py leaves it: data-bin with a joined dictionary, and raw references."""
    folders = {pair: tmp_path_factory.mktemp(pair) for pair in PAIRS}
    sets = {"train": ("train", 120, 1), "valid": ("newstest2013", 16, 2), "test": ("newstest2014", 16, 3)}
    for pair, folder in folders.items():
        prepare(folder, "en", PAIRS[pair], **sets)
        (folder / "tokenized").mkdir()
        for split in "valid", "test":
            reference = (folder / f"{sets[split][0]}.{PAIRS[pair]}").read_text()
            (folder / "tokenized" / f"{split}.1.{PAIRS[pair]}").write_text(reference.replace(".", " ."))
    return folders


@pytest.fixture
def train(run_script):
    """A function that runs ``train.sh SYSTEM WORK`` and returns the checkpoint."""

    def checkpoint_of(folder, pair, system, *more, updates, **variables):
        small = (*SMALL[system], *HERE, "--max-update", updates, *more)
        run_script(f"wmt14_{pair}/train", system, folder, "--", *small, **variables)
        return load_checkpoint(folder / system / "checkpoint_last.pt")

    return checkpoint_of


@pytest.fixture
def linked(work, tmp_path):
    """A function that makes a folder for one run, with links to a pair's data."""

    def link(pair, name):
        folder = tmp_path / name
        folder.mkdir()
        for path in work[pair].iterdir():
            (folder / path.name).symlink_to(path)
        return folder

    return link


@pytest.mark.parametrize(("pair", "system"), [*(("en_de", system) for system in SMALL), ("en_fr", "convs2s")])
def test_every_system_trains(train, linked, pair, system):
    checkpoint = train(linked(pair, "run"), pair, system, updates=1)
    assert checkpoint["optimizer_history"][-1]["num_updates"] == 1
    assert all(tensor.isfinite().all() for tensor in checkpoint["model"].values())


def test_from_training_over_a_break_to_the_table(run_script, train, linked):
    folder, unbroken = linked("en_de", "broken"), linked("en_de", "unbroken")
    more = ("--update-freq", "1", "--lr", "20")  # several updates an epoch, large enough to see
    train(folder, "en_de", "resmlp6", *more, updates=2, AT_ONCE=256)
    model = train(folder, "en_de", "resmlp6", *more, updates=5, AT_ONCE=256)["model"]
    assert "checkpoint_last.pt (epoch 1 @ 2 updates)" in (folder / "resmlp6" / "train.log").read_text()
    expected = train(unbroken, "en_de", "resmlp6", *more, updates=5, AT_ONCE=256)["model"]
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.items())

    done = run_script("wmt14_en_de/evaluate", "resmlp6", folder, "--", "--cpu", "--max-len-b", "8", AVERAGE=3)
    assert (folder / "resmlp6" / "average3.pt").exists()
    result = json.loads((folder / "resmlp6" / "test.json").read_text())
    assert (result["segments"], result["target_lang"]) == (16, "de")
    bleu = f"{result['scores']['compound_split_bleu']['score']:.1f}*"
    row = next(line for line in done.stdout.splitlines() if line.startswith("ResMLP-6"))
    assert row.split() == ["ResMLP-6", "26.4", bleu, f"{result['scores']['sacrebleu']['score']:.1f}*", "40.3"]
    assert "16 segments, not the 3003 of newstest2014" in done.stdout


def test_two_processes_under_torchrun_take_the_step_of_one(train, linked):
    one, two = linked("en_fr", "one"), linked("en_fr", "two")
    # An even number of batches: fairseq gives an odd last batch to one process, and weighs that update wrongly.
    # SGD, so that the weights show the gradient. fairseq's default wrapper needs a GPU.
    more = ("--dropout", "0", "--optimizer", "sgd", "--lr", "32000")
    expected = train(one, "en_fr", "resmlp6", *more, updates=1, AT_ONCE=512)["model"]
    gloo = ("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp")
    found = train(two, "en_fr", "resmlp6", *more, *gloo, updates=1, GPUS=2, AT_ONCE=512)["model"]
    assert "training on 2 devices" in (two / "resmlp6" / "train.log").read_text()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    further = train(two, "en_fr", "resmlp6", *more, *gloo, updates=2, GPUS=2, AT_ONCE=512)
    assert further["optimizer_history"][-1]["num_updates"] == 2
    assert "@ 1 updates)" in (two / "resmlp6" / "train.log").read_text()  # from where it went on
