"""The toy corpus: correct German, the same bytes for the same seed, and a test that training never saw."""

import random
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from resmlp_mt.common.errors import UserError

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "toy_en_de"))

import make_corpus
import word_for_word
from grammar import Clause, NounPhrase, Phrase, pronoun_for, relative_pronoun, tidy
from lexicon import MODALS, NOUNS, PRONOUNS, adjective, verb
from sentences import KINDS, Sampler

SIZES = {"train": 2500, "valid": 40, "test": 60}
NOUN = {noun.en: noun for noun in NOUNS}
MODAL = {modal.auxiliary or modal.en_s or modal.en_past: modal for modal in MODALS}


def phrase(name: str, determiner: str = "the", quality: str = "", **more) -> NounPhrase:
    return NounPhrase(NOUN[name], determiner, adjective=adjective(quality) if quality else None, **more)


TODAY = Phrase("today", "heute")
OLD_MAN = phrase("man", quality="old")
WINDOW = phrase("window")
SHOP = Clause(verb("einkaufen"), PRONOUNS["you"], time=TODAY)
OPEN = Clause(verb("aufmachen"), OLD_MAN, "perfect", direct=WINDOW, time=TODAY)
THANK = Clause(verb("danken"), phrase("girl"), "past", direct=PRONOUNS["who"])
BOOKS = phrase("book", "bare", "old", plural=True, number=23)
CAR = phrase("car", owner=phrase("teacher"), quality="new")
STATEMENTS = [
    (Clause(verb("kaufen"), OLD_MAN, direct=phrase("coat", "a", "red"), negated=True),
     "The old man does not buy a red coat.", "Der alte Mann kauft keinen roten Mantel."),
    (Clause(verb("kaufen"), PRONOUNS["I"], "past", direct=phrase("coat"), negated=True, time=TODAY),
     "I did not buy the coat today.", "Ich habe heute den Mantel nicht gekauft."),
    (Clause(verb("aufmachen"), phrase("boy"), "progressive", direct=WINDOW),
     "The boy is opening the window.", "Der Junge macht das Fenster auf."),
    (Clause(verb("ankommen"), phrase("train", plural=True), "past", time=TODAY),
     "The trains arrived today.", "Die Züge sind heute angekommen."),
    (Clause(verb("geben"), phrase("mother", "my"), indirect=phrase("neighbour", "a"), direct=phrase("key")),
     "My mother gives a neighbour the key.", "Meine Mutter gibt einem Nachbarn den Schlüssel."),
    (Clause(verb("kaufen"), PRONOUNS["she"], direct=BOOKS),
     "She buys twenty-three old books.", "Sie kauft dreiundzwanzig alte Bücher."),
    (Clause(verb("waschen"), PRONOUNS["I"], direct=CAR),
     "I wash the teacher's new car.", "Ich wasche das neue Auto des Lehrers."),
    (Clause(verb("warten"), PRONOUNS["you"], "progressive", direct=phrase("bus"), negated=True),
     "You are not waiting for the bus.", "Sie warten nicht auf den Bus."),
]  # fmt: skip
SENTENCES = [
    *((clause.english(), english, clause.german(), german) for clause, english, german in STATEMENTS),
    # whatever comes first, the verb is second
    (OPEN.english("time"), "Today the old man has opened the window.",
     OPEN.german(front="time"), "Heute hat der alte Mann das Fenster aufgemacht."),
    (THANK.english("direct", question=True), "Who did the girl thank?",
     THANK.german(front="direct"), "Wem hat das Mädchen gedankt?"),
    (SHOP.english(question=True), "Do you go shopping today?", SHOP.german("first"), "Kaufen Sie heute ein?"),
]  # fmt: skip


@pytest.mark.parametrize(("english", "expected_english", "german", "expected_german"), SENTENCES)
def test_sentences(english: str, expected_english: str, german: str, expected_german: str) -> None:
    assert tidy(english, expected_english[-1]) == expected_english
    assert tidy(german, expected_german[-1]) == expected_german


def related(antecedent: NounPhrase, action: str) -> str:
    clause = Clause(verb(action), PRONOUNS["I"], direct=relative_pronoun(antecedent))
    return NounPhrase(antecedent.noun, plural=antecedent.plural, relative=clause, relative_gap="direct").german()


def test_where_the_verb_ends_a_clause_and_how_words_agree() -> None:
    open_door = partial(Clause, verb("aufmachen"), phrase("girl"), direct=phrase("door"))
    for found, expected in (
        (open_door("past").german("final"), "das Mädchen die Tür aufgemacht hat"),
        (open_door(modal=MODAL["must"]).german("final"), "das Mädchen die Tür aufmachen muss"),
        (open_door().german("zu"), "die Tür aufzumachen"),
        (related(phrase("letter"), "lesen"), "der Brief, den ich lese,"),
        (related(phrase("child", plural=True), "helfen"), "die Kinder, denen ich helfe,"),
        (phrase("table", "a", "old").german("nom"), "ein alter Tisch"),
        (phrase("table", "your", "old").german("dat"), "Ihrem alten Tisch"),
        (phrase("house", "bare", "old", plural=True).german("dat"), "alten Häusern"),
        (phrase("car", "many", "expensive", plural=True).german("acc"), "viele teure Autos"),
        (phrase("dog", owner=phrase("neighbour")).german("dat"), "dem Hund des Nachbarn"),
        (phrase("apple", "a", "old").english(), "an old apple"),
        (pronoun_for(phrase("apple")).acc, "ihn"),
        (pronoun_for(phrase("soup")).acc, "sie"),
        (pronoun_for(phrase("girl")), None),
    ):
        assert found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_well_formed(kind: str) -> None:
    sampler = Sampler(random.Random(7))
    for _ in range(150):
        english, german, _ = sampler.sentence(kind)
        for text in (english, german):
            assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zäöüßÄÖÜ'-]*(,? [A-Za-zäöüßÄÖÜ'-]+)*[.?]", text), text
        assert english[-1] == german[-1]
        assert not re.search(r"\b(in|an|von|zu) dem\b|\bzu der\b|\b(in|an) das\b", german), german
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]|\bcan not\b", english), english


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    make_corpus.write(folder, make_corpus.corpus(SIZES, seed=5))
    return folder


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_same_seed_same_bytes_of_the_sizes_asked_for(made: Path, tmp_path: Path) -> None:
    for split, count in SIZES.items():
        assert len(lines(made / f"{split}.en")) == len(lines(made / f"{split}.de")) == count
    make_corpus.write(tmp_path, make_corpus.corpus(SIZES, seed=5))
    for path in made.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    few = {**SIZES, "train": 100, "valid": 0, "test": 0}
    assert make_corpus.corpus(few, seed=5) != make_corpus.corpus(few, seed=6)


def test_the_test_is_unseen(made: Path) -> None:
    train = set(lines(made / "train.en")) | set(lines(made / "train.de"))
    words = {word for line in train for word in re.findall(r"\w+", line.lower())}
    pairs = [[set(cell.split(" ")) for cell in line.split("\t")] for line in lines(made / "held_out.tsv")]
    bags = [set(re.findall(r"\w+", line.lower())) for line in lines(made / "train.en")]
    assert not [pair for pair in pairs for bag in bags if bag & pair[0] and bag & pair[1]]
    for line in lines(made / "test.en"):
        assert line not in train
        bag = set(re.findall(r"\w+", line.lower()))
        assert any(bag & heads and bag & nouns for heads, nouns in pairs), line
        assert bag <= words
    assert not set(lines(made / "test.de")) & train
    assert make_corpus.check_unseen(made)[-1].startswith("test: 60 sentences, 60 with a held-out pair")


def test_the_check_finds_what_training_has_seen(made: Path, tmp_path: Path) -> None:
    for name, first_line, message in (
        ("train.en", lines(made / "test.en")[:1], r"train\.en:1: has the held-out pair"),
        ("test.de", lines(made / "train.de")[3:4], r"test\.en:1: it or its translation occurs in train"),
        ("test.de", ["Das Zebra schläft."], r"test\.en:1: 'zebra' is not in training"),
    ):
        shutil.copytree(made, tmp_path, dirs_exist_ok=True)
        changed = [*first_line, *lines(made / name)[1:]]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in changed), encoding="utf-8")
        with pytest.raises(UserError, match=message):
            make_corpus.check_unseen(tmp_path)


def test_too_few_sentences_to_test_on_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--test 5: .*more --train sentences"):
        make_corpus.main(["--out", str(tmp_path / "few"), "--train", "3", "--test", "5"])
    assert not (tmp_path / "few").exists()


def test_other_files_of_those_names_are_not_written_over(tmp_path: Path) -> None:
    few = ["--out", str(tmp_path), "--train", "300", "--valid", "2", "--test", "2"]
    make_corpus.main(few)
    make_corpus.main(few)
    (tmp_path / "test.de").write_text("mine\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match=r"test\.de: is there with other contents: .* --overwrite$"):
        make_corpus.main(few)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    make_corpus.main([*few, "--overwrite"])


def test_word_for_word(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("The man sleeps.\nThe man laughs.\nA man sleeps.\n")
    (tmp_path / "train.de").write_text("Der Mann schläft.\nDer Mann lacht.\nEin Mann schläft.\n", encoding="utf-8")
    (tmp_path / "test.en").write_text("A man laughs, the zebra sleeps.\n")
    names = ["--train", str(tmp_path / "train"), "--input", str(tmp_path / "test.en")]
    word_for_word.main([*names, "--output", str(tmp_path / "out.de")])
    assert (tmp_path / "out.de").read_text(encoding="utf-8") == "Ein Mann lacht, der zebra schläft.\n"
