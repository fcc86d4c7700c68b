"""Each sentence has its own shortlist; a search with it equals one in which all other tokens are impossible."""

import copy

import pytest
import torch
from builders import EOS, PAD, batch
from translate.engines import assert_equal
from translate.small_folder import SYMBOLS, make
from translate.test_search import SOURCES, ready

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.text.tokenizer import UNKNOWN
from resmlp_mt.translate.model_folder import SHORTLIST
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.search import search
from resmlp_mt.translate.shortlist import Shortlist, lexicon
from scripts import in_process

OPTIONS = Options(max_len_b=20)


def test_candidates():
    found = Shortlist([7], {4: [9, 7], 5: [8]}, 10, 11).candidates(torch.tensor([[4, 5, EOS], [PAD, 6, EOS]]))
    assert found.tolist() == [[EOS, UNKNOWN, 7, 8, 9], [EOS, UNKNOWN, 7, PAD, PAD]]


@pytest.mark.parametrize("options", [OPTIONS, Options(beam=1), Options(beam=30, max_len_b=2)])
def test_all_else_is_impossible_and_the_batch_never_changes_a_sentence(options):
    """Compare with a search over all tokens in which each sentence's decoder gives all but its own tokens -inf."""
    _, model = ready()
    torch.manual_seed(3)
    symbols = model.cfg.target_symbols
    of_source = {number: torch.randperm(symbols)[: 1 + number % 9].tolist() for number in range(symbols)}
    candidates = Shortlist([5, 6, 7], of_source, symbols, symbols).candidates(batch(SOURCES))
    expected, alone = [], []
    for source, row in zip(SOURCES, candidates, strict=True):
        limited = copy.deepcopy(model)
        impossible = torch.ones(symbols, dtype=torch.bool)
        impossible[row[row != PAD]] = False
        limited.decoder.output_projection.register_forward_hook(
            lambda module, inputs, scores, impossible=impossible: scores.masked_fill(impossible, -torch.inf)
        )
        expected += search(limited, batch([source]), options)
        alone += search(model, batch([source]), options, row[row != PAD].unsqueeze(0))
    found = search(model, batch(SOURCES), options, candidates)
    assert_equal(found, expected, 1e-5)
    assert_equal(found, alone, 1e-6)
    if options == OPTIONS:
        assert len({len(each[0].tokens) for each in alone}) > 2  # some leave the batch before others


def test_lexicon_is_model_1():
    """Compare with EM written out with dictionaries, sentence by sentence."""
    made = [([4, 5], [7, 8, 8]), ([4, 6, 6], [7, 9]), ([5], [8, 7])]
    table = {(s, t): 1.0 for source, target in made for s in source for t in target}
    for _ in range(3):
        counts = dict.fromkeys(table, 0.0)
        for source, target in made:
            for t in target:
                total = sum(table[s, t] for s in source)
                for s in source:
                    counts[s, t] += table[s, t] / total
        of_source = {s: sum(count for (other, _), count in counts.items() if other == s) for s, _ in table}
        table = {(s, t): count / of_source[s] for (s, t), count in counts.items()}
    expected = {s: sorted({t for other, t in table if other == s}, key=lambda t: (-table[s, t], t)) for s, _ in table}
    assert lexicon(made, 9, iterations=3) == expected


def test_the_command_and_the_translator(tmp_path, capsys, monkeypatch):
    sides = tmp_path / "a", tmp_path / "b"
    sides[0].write_text("the hen\nthe man\n\na man in the hen\n")
    sides[1].write_text("die Henne\nder Mann\nnichts\nein Mann in der Henne\n")
    run, folder = in_process("shortlist", monkeypatch), make(tmp_path / "folder")
    before = Translator(folder).translate("the hen in there.")
    run(folder, "--train", *sides, "--valid", *sides, "--per-token", 3, "--always", 2)
    assert "from 3 pairs" in capsys.readouterr().out
    translator = Translator(folder)
    source = torch.tensor([translator.tokenizer.encode("the hen in there.")])
    allowed = {SYMBOLS[number] for number in translator.shortlist.candidates(source)[0]}
    assert 5 < len(allowed) < len(SYMBOLS) and "the" in allowed  # a source token that is a target token too
    assert {*translator.translate("the hen in there.").tokens} <= allowed and not {*before.tokens} <= allowed
    without = translator.translate("the hen in there.", shortlist=False)
    assert without.tokens == before.tokens and without.score == pytest.approx(before.score, abs=1e-5)
    with pytest.raises(UserError, match="exists: give --overwrite"):
        run(folder, "--train", *sides, "--always", 1)
    (folder / f".{SHORTLIST}.0123abcd.tmp").touch()  # of a run that was killed
    run(folder, "--train", *sides, "--always", 1, "--overwrite")
    assert not any(folder.glob("*.tmp"))
    assert Translator(folder).shortlist  # though the one token for every sentence is </s>


def test_a_shortlist_that_is_broken_or_another_model_s_is_refused(tmp_path):
    folder = make(tmp_path / "folder")
    broken = "\tdie der\nthe die\n", "line 2: is not a source token, a tab and target tokens"
    of_another = "\tt h\nder\tt\ndie\tt\nthe\th\n", "most of its tokens are not the model's"
    for content, message in broken, of_another:
        (folder / SHORTLIST).write_text(content)
        with pytest.raises(UserError, match=message):
            Translator(folder)
