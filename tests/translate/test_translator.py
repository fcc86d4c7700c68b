"""Text to text with a folder, without fairseq: order, batches, texts that are empty or too long, alignment."""

import math
import subprocess
import sys

import pytest
import torch
from translate.engines import assert_equal
from translate.small_folder import LONG, POSITIONS
from translate.small_folder import TEXTS as SENTENCES

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.matmul import has_bfloat16
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.model_folder import find_folder, load
from resmlp_mt.translate.precision import PackedLinear
from resmlp_mt.translate.search import Hypothesis
from resmlp_mt.translate.translator import Part, Translation, batches, joined_alignment, split

TEXTS = [*SENTENCES, " \t ", "the hen in there.", "No."]


def test_one_text_gives_one_translation_and_many_a_list_or_n_best_each(translator):
    one, many = translator.translate(TEXTS[0]), translator.translate(TEXTS)
    assert many[0].text == one.text and one.score < 0
    assert one.text == translator.tokenizer.decode(map(translator.tokenizer.target.index, one.tokens))
    assert one.source_tokens == ["the", "h@@", "e@@", "n", "in", "th@@", "er@@", "e", "."]
    assert translator.translate([]) == []
    assert translator.translate(iter(TEXTS)) == many
    for best, found in zip(many, translator.translate(TEXTS, n_best=4), strict=True):
        scores = [each.score for each in found]
        assert len(found) == 4 and found[0].text == best.text and scores == sorted(scores, reverse=True)


def test_texts_that_need_the_cross_attention_are_in_batches_of_their_own():
    """Compiled models do not return the attention, and round differently."""
    assert list(batches([Part(None, [1, 2], None, by) for by in ("", "attention", "omission")], 100)) == [[0, 2], [1]]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"beam": 5, "n_best": 3}])
def test_order_and_batches_change_nothing(folder, precision, options):
    translator = Translator(folder, precision=precision)
    alone = [translator.translate(text, **options) for text in TEXTS]
    for batch_tokens in 1, 30, 10_000:
        assert_equal(translator.translate(TEXTS, batch_tokens=batch_tokens, **options), alone, 1e-5)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 1e-2)])
def test_packed_weights_change_nothing(folder, monkeypatch, precision, tolerance):
    translator = Translator(folder, precision=precision)
    if precision == "fp32" or has_bfloat16():
        assert isinstance(translator.model.decoder.output_projection, PackedLinear)
    monkeypatch.setattr("resmlp_mt.translate.translator.pack_", lambda *_, **__: None)
    assert_equal(translator.translate(TEXTS), Translator(folder, precision=precision).translate(TEXTS), tolerance)


def test_nothing_is_translated_to_nothing_and_a_token_attends_to_the_source(translator):
    aligned = translator.translate(TEXTS, alignment=True)
    for found in aligned:
        assert len(found.alignment) == len(found.tokens)
        for row in found.alignment:
            assert (len(row), sum(row)) == (len(found.source_tokens) + 1, pytest.approx(1, abs=1e-5))
    assert aligned[2] == Translation("", 0.0, [], [], [], word_links=[])
    assert translator.translate(" ") == Translation("", 0.0, [], [])
    assert [each.text for each in translator.translate("", n_best=3)] == ["", "", ""]


def test_scores_of_tokens_and_words_are_those_of_teacher_forcing(translator, folder):
    model, tokenizer, _ = load(folder)
    for found in translator.translate(TEXTS[0], n_best=4):
        numbers = [END, *map(tokenizer.target.index, found.tokens)]
        with torch.no_grad():
            scores = model(torch.tensor([tokenizer.encode(TEXTS[0])]), torch.tensor([numbers]))[0].log_softmax(1)
        expected = scores[range(len(found.tokens)), numbers[1:]].tolist()
        assert found.token_scores == pytest.approx(expected, abs=1e-4)
        assert found.score * len(numbers) == pytest.approx(sum(expected) + scores[-1, END].item(), abs=1e-4)
        assert [word for word, _ in found.words] == found.text.split()
        assert sum(score for _, score in found.words) == pytest.approx(sum(expected), abs=1e-4)


@pytest.mark.parametrize("penalty", [1, 50, -50])
def test_scores_are_divided_by_the_length_even_to_the_power_of_fifty(translator, penalty):
    found = translator.translate(LONG, n_best=4, length_penalty=penalty, too_long="truncate")
    assert all(math.isfinite(each.score) and each.score < 0 for each in found)
    weighed = [each.score * (len(each.tokens) + 1) ** penalty for each in found]
    plain = translator.translate(LONG, n_best=4, length_penalty=0, too_long="truncate")
    assert sorted(weighed) == pytest.approx(sorted(each.score for each in plain))


def test_how_wide_the_search_is(translator, monkeypatch):
    few = {"beam": 200, "n_best": 200, "max_len_b": 1}
    with pytest.raises(UserError, match=r"^texts\[1\]: n_best 200: there are only \d+ translations within the limit"):
        translator.translate(["A man.", LONG], too_long="split", **few)
    assert len(translator.translate("A man.", **{**few, "max_len_b": 2})) == 200
    monkeypatch.setitem(translator.generation, "num_beams", 1)
    assert translator.translate(TEXTS) == translator.translate(TEXTS, beam=1)
    assert len(translator.translate(TEXTS[0], n_best=2)) == 2  # the beam is wider if n_best needs it


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a", LONG], {}, "texts[1]: 85 tokens, but the model takes 23: split the text, or choose split or truncate"),
        (["a", "x" * 20_000], {}, "texts[1]: "),
        (b"a", {}, "texts: bytes: give a str or a list of str"),
        (["a"], {"beam": 10**9}, "beam 1000000000: give a whole number from 1 to 1,000"),
        (["a"], {"max_len_a": None}, "max_len_a None: give a number from 0 to 100,000"),
        (["a"], {"beam": 2, "n_best": 3}, "n_best 3: beam 2 finds no more than 2: raise beam"),
        (["a"], {"length_penalty": float("nan")}, "length_penalty nan: give a number"),
        (["a"], {"too_long": "cut"}, "too_long 'cut': give one of error, split, truncate"),
    ],
)
def test_mistakes_are_told_before_any_work(translator, monkeypatch, texts, options, message):
    monkeypatch.setattr(translator, "_searched", None)  # cannot translate
    with pytest.raises(UserError) as error:
        translator.translate(texts, **options)
    assert str(error.value).startswith(message)


def test_wrong_settings(folder, tmp_path):
    for name, value, problem in ("threads", 0, "give a whole number"), ("device", "nowhere", ""):
        with pytest.raises(UserError, match=f"{name} {value}: {problem}"):
            Translator(folder, **{name: value})
    with pytest.raises(UserError, match="no such folder"):
        Translator(tmp_path / "none")


def test_too_long_a_text_is_cut_or_split(translator):
    cut = translator.translate(f"{LONG} http://a.org", too_long="truncate")
    assert cut.source_tokens == translator.tokenizer.pieces(LONG)[: POSITIONS - 1] and "http" not in cut.text
    parts = translator.translate([f"{each}." for each in LONG.strip().split(".")[:-1]], alignment=True)
    whole = translator.translate(["A man.", LONG], too_long="split", alignment=True)[1]
    assert whole.tokens == [token for part in parts for token in part.tokens]
    assert whole.token_scores == pytest.approx([score for part in parts for score in part.token_scores], abs=1e-4)
    assert [word for word, _ in whole.words] == whole.text.split()
    assert whole.source_tokens == translator.tokenizer.pieces(LONG)
    lengths = [len(part.tokens) + 1 for part in parts]
    total = sum(part.score * length for part, length in zip(parts, lengths, strict=True))
    assert whole.score == pytest.approx(total / sum(lengths), abs=1e-5)
    ranked = translator.translate(LONG.replace(".", ""), n_best=30, too_long="split", max_len_a=3, max_len_b=3)
    assert ranked == sorted(ranked, key=lambda each: -each.score)
    row = whole.alignment[len(parts[0].tokens)]  # the first token of the second sentence
    before, after = (sum(len(part.source_tokens) for part in some) for some in (parts[:1], parts[2:]))
    *weights, of_end = parts[1].alignment[0]
    assert row == pytest.approx([*before * [0.0], *weights, *after * [0.0], of_end], abs=1e-5)
    long = range(10**7)  # its alignment would take 400 TB
    assert joined_alignment([Hypothesis(long, 0.0, [])]) is None


@pytest.mark.parametrize(
    ("pieces", "subwords", "expected"),
    [
        ("a b . c d e", "bpe", ["a b .", "c d e"]),
        ("a b c d e", "bpe", ["a b c d", "e"]),
        ("a b c d@@ e f", "bpe", ["a b c", "d@@ e f"]),
        ("a@@ b@@ c@@ d@@ e", "bpe", ["a@@ b@@ c@@ d@@", "e"]),
        ("▁a b ▁c d e", "sentencepiece", ["▁a b", "▁c d e"]),
        ("▁a b 。 c d e", "sentencepiece", ["▁a b 。", "c d e"]),
        ("a b c d", "bpe", ["a b c d"]),
    ],
)
def test_where_a_text_is_split(pieces, subwords, expected):
    assert [" ".join(part) for part in split(pieces.split(), 4, subwords)] == expected


def test_rows_of_the_mixing(translator):
    """A position's weight is the change of the row's mixture when only that position changes."""
    rows = translator.mixing_rows(4)
    assert [layer.shape for layer in rows] == [(4, 5)] * 2
    mixing = translator.model.decoder.layers[1].mixing.mixing
    x = torch.zeros(5, 1, 32)
    x[2, 0, 9] = 1.0  # one of the second head's channels
    moved = mixing(x) - mixing(torch.zeros(5, 1, 32))
    torch.testing.assert_close(moved[4, 0, 9], rows[1][1, 2] * mixing.scale[9])
    with pytest.raises(UserError, match="position 24: give a number from 0 to 23"):
        translator.mixing_rows(24)


def test_a_name_on_the_hub_is_looked_for_in_the_cache(folder, tmp_path, monkeypatch):
    repository = tmp_path / "huggingface" / "hub" / "models--someone--a-model"
    for name in "refs", "snapshots":
        (repository / name).mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots" / "abc").symlink_to(folder)
    for name in "HF_HUB_CACHE", "HF_HOME":
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Translator("someone/a-model").translate("A man.").text
    monkeypatch.setenv("HF_HOME", str(repository.parents[1]))
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert find_folder("someone/a-model").samefile(folder)


ALONE = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("fairseq", "transformers", "hydra", "omegaconf", "sacrebleu", "scipy", "psutil"):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Forbidden())
from resmlp_mt import Translator
from resmlp_mt.cli import main

print(Translator(sys.argv[1]).translate("A man.").text)
sys.argv = ["resmlp-mt", "translate", sys.argv[1]]
main()
"""


def test_nothing_else_is_needed(folder, translator):
    """The call and the command need neither fairseq, transformers nor the other packages of training."""
    command = [sys.executable, "-c", ALONE, folder]
    done = subprocess.run(command, input="A man.\n", capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == 2 * [translator.translate("A man.").text]
