"""fairseq-generate: one model, one set of sentences, many ways."""

import math

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq_commands import VALID

N_BEST = ("--nbest", 3, "--lenpen", 0.6, "--print-alignment", "--batch-size", 32)


def hypotheses(done):
    """Return ``{id: [(text, score), ...]}``, best first."""
    return {number: [(text, float(score)) for score, text in best] for number, best in done.lines("H").items()}


def token_scores(done):
    """Return ``{id: [log2 probability of each token of the best]}``."""
    return {number: [float(score) for score in best[0][0].split()] for number, best in done.lines("P").items()}


@pytest.fixture(scope="module")
def baseline(generate):
    return generate(*N_BEST)


def test_every_sentence_gets_its_n_best_in_order_with_alignments(baseline):
    found = hypotheses(baseline)
    assert sorted(found) == list(range(VALID))
    sources, alignments = baseline.lines("S"), baseline.lines("A")
    for number, best in found.items():
        texts, scores = zip(*best, strict=True)
        assert len(set(texts)) == 3
        assert list(scores) == sorted(scores, reverse=True)
        for (text, _), (alignment,) in zip(best, alignments[number], strict=True):
            pairs = [pair.split("-") for pair in alignment.split()]
            assert [int(target) for _, target in pairs] == list(range(len(text.split())))
            assert all(0 <= int(source) < len(sources[number][0][0].split()) for source, _ in pairs)


def test_neither_neighbours_nor_padding_nor_training_options_matter(generate, baseline):
    # --left-pad-source switches left-padding, the default, off
    overrides, expected = ("--model-overrides", {"dropout": 0.5, "layerscale_init": 7.0}), hypotheses(baseline)
    for options in ["--batch-size", 1], ["--left-pad-source", *overrides]:
        found = hypotheses(generate(*N_BEST, *options))
        assert found.keys() == expected.keys()
        for number, best in found.items():
            assert [text for text, _ in best] == [text for text, _ in expected[number]]
            assert [score for _, score in best] == pytest.approx([score for _, score in expected[number]], abs=1e-4)


def test_a_reference_s_score_is_that_of_teacher_forcing_and_an_ensemble_averages(generate, train, trained, tmp_path):
    assert train(tmp_path, "--max-update", 2, "--share-all-embeddings").status == 0
    paths = [trained[0] / "checkpoint_best.pt", tmp_path / "checkpoint_last.pt"]
    models = [*paths, f"{paths[0]}:{paths[1]}"]
    one, other, both = (token_scores(generate("--score-reference", path=model)) for model in models)

    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(paths[0])])
    task.load_dataset("valid")
    model.eval()
    dataset = task.dataset("valid")
    for number in range(VALID):
        sample = dataset.collater([dataset[number]])
        with torch.no_grad():
            lprobs = model.get_normalized_probs(model(**sample["net_input"]), log_probs=True)
        expected = lprobs.gather(2, sample["target"].unsqueeze(2)).flatten() / math.log(2)
        assert one[number] == pytest.approx(expected.tolist(), abs=1e-3)
        average = [math.log2((2**a + 2**b) / 2) for a, b in zip(one[number], other[number], strict=True)]
        assert both[number] == pytest.approx(average, abs=1e-3)


def test_adaptive_softmax(train, generate, tmp_path):
    options = ("--adaptive-softmax-cutoff", "8,16", "--criterion", "adaptive_loss", "--ddp-backend", "legacy_ddp")
    assert train(tmp_path, "--max-update", 3, *options).status == 0
    assert len(hypotheses(generate("--max-len-b", 9, path=tmp_path / "checkpoint_last.pt"))) == VALID
