import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from score.generated import CLOSING, HEADER, TRANSLATED, sentence_lines, write

from resmlp_mt.common.errors import UserError
from resmlp_mt.score.generate_output import ordered_texts, read_generate_output

# fairseq joins tokens by single spaces and ends a line at \n: no white space but the space, no surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Zl", "Zp", "Zs"], exclude_characters="\t\n\v\f\r"), max_size=12)
TEXTS = st.lists(st.lists(TEXT.filter(str.strip), max_size=4).map(" ".join), min_size=1, max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(texts=TEXTS, shards=st.integers(1, 4), seed=st.integers(0, 9999))
def test_any_order_of_lines_and_shards_gives_the_order_of_the_test_set(tmp_path, texts, shards, seed):
    paths = []
    for shard in range(min(shards, len(texts))):
        numbers = range(shard, len(texts), min(shards, len(texts)))
        lines = [line for number in numbers for line in sentence_lines(number, [texts[number]])]
        random.Random(seed).shuffle(lines)
        paths.append(write(tmp_path / f"shard{shard}.out", [HEADER, *lines, TRANSLATED, CLOSING]))
    assert ordered_texts(read_generate_output(paths), len(texts)) == texts


def read(tmp_path, *lines, **options):
    return read_generate_output([write(tmp_path / "gen.out", lines)], **options)


def test_a_run_without_target_ends_with_its_log(tmp_path):
    assert ordered_texts(read(tmp_path, "S-0\ta", "H-0\t-1.0\tb", "D-0\t-1.0\tb", "P-0\t-1.0", TRANSLATED), 1) == ["b"]


def test_the_first_of_an_nbest_list_is_taken(tmp_path):
    lines = [*sentence_lines(1, ["a", "b"]), *sentence_lines(0, ["c", "d"])]
    assert ordered_texts(read(tmp_path, *lines, CLOSING, nbest=2), 2) == ["c", "a"]
    with pytest.raises(UserError, match=r"gen.out:6: sentence 1 again, first seen at .*gen.out:3: .*--nbest"):
        read(tmp_path, *lines, CLOSING)
    with pytest.raises(UserError, match=r"gen.out:19: sentence 1 again"):  # its n-best list had ended
        read(tmp_path, *lines, *sentence_lines(1, ["c"]), CLOSING, nbest=3)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["H-" + "9" * 5000 + "\t-1\ta", CLOSING], "gen.out:1: not a whole H- line"),
        (sentence_lines(0, ["a"]), "gen.out: unfinished"),
        ([CLOSING, *sentence_lines(0, ["a"])], "gen.out: unfinished"),  # the end of another run comes first
        ([*sentence_lines(0, ["a"]), "H-1\t-0.3"], "gen.out:6: not a whole H- line"),
        ([HEADER, CLOSING], "gen.out: no H- lines"),
    ],
)
def test_what_is_not_a_whole_run_is_refused(tmp_path, lines, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, *lines)


def test_missing_and_surplus_sentences_are_named(tmp_path):
    hypotheses = read(tmp_path, *sentence_lines(0, ["a"]), *sentence_lines(3, ["b"]), CLOSING)
    with pytest.raises(UserError, match=r"no hypothesis for sentence 1 \(line 2 of .* 2 of 4 are missing"):
        ordered_texts(hypotheses, 4)
    with pytest.raises(UserError, match=r"gen.out:8: sentence 3 .* only 3 lines"):
        ordered_texts(hypotheses, 3)
