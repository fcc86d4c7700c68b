"""The toy corpus: correct German, the same bytes for the same seed, and a test that training never saw."""

import random
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from resmlp_mt.common.errors import UserError

FOLDER = Path(__file__).parents[2] / "examples" / "toy_en_de"
sys.path.insert(0, str(FOLDER))

import make_corpus  # noqa: E402
import word_for_word  # noqa: E402
from grammar import Clause, NounPhrase, Phrase, pronoun_for, relative_pronoun, tidy  # noqa: E402
from lexicon import MODALS, NOUNS, PRONOUNS, VERBS, adjective, noun, verb  # noqa: E402
from sentences import KINDS, Sampler  # noqa: E402

SIZES = {"train": 2500, "valid": 40, "test": 60}
MODAL = {modal.auxiliary or modal.en_s or modal.en_past: modal for modal in MODALS}


def phrase(name: str, determiner: str = "the", quality: str = "", **more) -> NounPhrase:
    return NounPhrase(noun(name), determiner, adjective=adjective(quality) if quality else None, **more)


def today() -> Phrase:
    return Phrase("today", "heute")


OLD_MAN = phrase("man", quality="old")
WINDOW = phrase("window")


def states(english: str, german: str, clause: Clause) -> None:
    assert tidy(clause.english(), ".") == english
    assert tidy(clause.german(), ".") == german


def test_statements() -> None:
    clause = Clause(verb("kaufen"), OLD_MAN, direct=phrase("coat", "a", "red"), negated=True)
    states("The old man does not buy a red coat.", "Der alte Mann kauft keinen roten Mantel.", clause)
    clause = Clause(verb("kaufen"), PRONOUNS["I"], "past", direct=phrase("coat"), negated=True, time=today())
    states("I did not buy the coat today.", "Ich habe heute den Mantel nicht gekauft.", clause)
    clause = Clause(verb("aufmachen"), phrase("boy"), "progressive", direct=WINDOW)
    states("The boy is opening the window.", "Der Junge macht das Fenster auf.", clause)
    clause = Clause(verb("ankommen"), phrase("train", plural=True), "past", time=today())
    states("The trains arrived today.", "Die Züge sind heute angekommen.", clause)
    clause = Clause(verb("geben"), phrase("mother", "my"), indirect=phrase("neighbour", "a"), direct=phrase("key"))
    states("My mother gives a neighbour the key.", "Meine Mutter gibt einem Nachbarn den Schlüssel.", clause)
    clause = Clause(verb("kaufen"), PRONOUNS["she"], direct=phrase("book", "bare", "old", plural=True, number=23))
    states("She buys twenty-three old books.", "Sie kauft dreiundzwanzig alte Bücher.", clause)
    clause = Clause(verb("waschen"), PRONOUNS["I"], direct=phrase("car", owner=phrase("teacher"), quality="new"))
    states("I wash the teacher's new car.", "Ich wasche das neue Auto des Lehrers.", clause)
    clause = Clause(verb("warten"), PRONOUNS["you"], "progressive", direct=phrase("bus"), negated=True)
    states("You are not waiting for the bus.", "Sie warten nicht auf den Bus.", clause)


def test_whatever_comes_first_the_verb_is_second() -> None:
    clause = Clause(verb("aufmachen"), OLD_MAN, "perfect", direct=WINDOW, time=today())
    assert tidy(clause.english("time"), ".") == "Today the old man has opened the window."
    assert tidy(clause.german(front="time"), ".") == "Heute hat der alte Mann das Fenster aufgemacht."
    assert tidy(clause.english("direct"), ".") == "The window the old man has opened today."
    assert tidy(clause.german(front="direct"), ".") == "Das Fenster hat der alte Mann heute aufgemacht."


def test_questions() -> None:
    clause = Clause(verb("danken"), phrase("girl"), "past", direct=PRONOUNS["who"])
    assert tidy(clause.english("direct", question=True), "?") == "Who did the girl thank?"
    assert tidy(clause.german(front="direct"), "?") == "Wem hat das Mädchen gedankt?"
    clause = Clause(verb("einkaufen"), PRONOUNS["you"], time=today())
    assert tidy(clause.english(question=True), "?") == "Do you go shopping today?"
    assert tidy(clause.german("first"), "?") == "Kaufen Sie heute ein?"


def test_the_verb_ends_a_subordinate_clause_and_an_infinitive() -> None:
    open_door = partial(Clause, verb("aufmachen"), phrase("girl"), direct=phrase("door"))
    assert open_door("past").german("final") == "das Mädchen die Tür aufgemacht hat"
    assert open_door(modal=MODAL["must"]).german("final") == "das Mädchen die Tür aufmachen muss"
    assert open_door(negated=True).german("final") == "das Mädchen die Tür nicht aufmacht"
    assert open_door().german("zu") == "die Tür aufzumachen"


def test_relative_pronouns_agree() -> None:
    children = phrase("child", plural=True)
    for antecedent, gap, action, german in (
        (phrase("man"), "subject", "schlafen", "der Mann, der schläft,"),
        (phrase("letter"), "direct", "lesen", "der Brief, den ich lese,"),
        (children, "direct", "helfen", "die Kinder, denen ich helfe,"),
    ):
        pronoun = relative_pronoun(antecedent)
        parts = {"subject": pronoun} if gap == "subject" else {"subject": PRONOUNS["I"], "direct": pronoun}
        clause = Clause(verb(action), **parts)
        related = NounPhrase(antecedent.noun, plural=antecedent.plural, relative=clause, relative_gap=gap)
        assert related.german() == german


def test_endings_of_adjectives_and_nouns() -> None:
    for determiner, case, german in (
        ("the", "nom", "der alte Tisch"),
        ("a", "nom", "ein alter Tisch"),
        ("your", "dat", "Ihrem alten Tisch"),
        ("no", "acc", "keinen alten Tisch"),
    ):
        assert phrase("table", determiner, "old").german(case) == german
    assert phrase("house", "bare", "old", plural=True).german("dat") == "alten Häusern"
    assert phrase("car", "many", "expensive", plural=True).german("acc") == "viele teure Autos"
    assert phrase("dog", owner=phrase("neighbour")).german("dat") == "dem Hund des Nachbarn"
    assert phrase("apple", "a", "old").english() == "an old apple"


def test_it_takes_the_gender_of_what_it_stands_for() -> None:
    found = [pronoun_for(phrase(name)) for name in ("apple", "soup", "egg", "girl", "sister")]
    assert [pronoun.acc if pronoun else None for pronoun in found] == ["ihn", "sie", "es", None, "sie"]


def test_the_clock() -> None:
    sampler = Sampler(random.Random(0))
    clocks = {words.en: words.de for words in (sampler.clock() for _ in range(3000))}
    assert (clocks["half past seven"], clocks["one o'clock"]) == ("halb acht", "ein Uhr")


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


def test_the_same_english_is_always_the_same_german() -> None:
    sampler = Sampler(random.Random(3))
    known: dict[str, str] = {}
    for _ in range(4000):
        english, german, _ = sampler.sentence(sampler.weighted(KINDS))
        assert known.setdefault(english, german) == german


def test_tables_are_sound() -> None:
    assert len({entry.en for entry in NOUNS}) == len(NOUNS)
    heads, nouns = make_corpus.forms()
    for table in (heads, nouns):
        for word in {word for words in table.values() for word in words}:
            assert len(make_corpus.lemmas()[word]) == 1, f"{word} is a form of two words"
    assert all(entry.de_pp.startswith(entry.prefix) for entry in VERBS)
    assert {entry.aux for entry in VERBS} == {"haben", "sein"}


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


def test_the_check_finds_a_broken_promise(made: Path, tmp_path: Path) -> None:
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


def test_what_cannot_be_done_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"--test 5: .*more --train sentences"):
        make_corpus.main(["--out", str(tmp_path / "few"), "--train", "3", "--test", "5"])
    assert not (tmp_path / "few").exists()
    with pytest.raises(UserError, match=r"held_out\.tsv: no such file"):
        make_corpus.main(["--check", str(tmp_path)])
    monkeypatch.setattr(make_corpus, "KINDS", {"time_of_day": 1})
    with pytest.raises(UserError, match=r"--train 5000: no new sentence after \d+: ask for fewer"):
        make_corpus.corpus({"train": 5000, "valid": 0, "test": 0}, 1)


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
    with pytest.raises(UserError, match="would be written over the input"):
        word_for_word.main([*names, "--output", str(tmp_path / "train.de")])
    assert (tmp_path / "train.de").read_text(encoding="utf-8").startswith("Der Mann")
