"""Noun phrases and clauses that can be written in English and in German, with the same meaning."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lexicon import (
    CONTRACTIONS,
    DETERMINERS,
    ENDINGS,
    PRONOUNS,
    Adjective,
    Modal,
    Noun,
    Pronoun,
    Verb,
    Words,
    number,
)

# The two verbs that are also auxiliaries, in the first and third person singular and in the plural
GERMAN_AUXILIARIES = {"haben": ("habe", "hat", "haben"), "sein": ("bin", "ist", "sind")}
ENGLISH_BE = {"1": ("am", "was"), "3": ("is", "was"), "plural": ("are", "were")}
PERSONS = ("1", "3", "plural")


@dataclass(frozen=True)
class NounPhrase:
    """Determiner, number, adjective and noun; perhaps with an ``owner`` ("the teacher's dog") or a relative clause."""

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    number: int = 0
    adjective: Adjective | None = None
    owner: "NounPhrase | None" = None
    relative: "Clause | None" = None
    relative_gap: str = ""  # what the relative pronoun stands for in its clause: subject or direct

    @property
    def person(self) -> str:
        """The person that a verb agrees with."""
        return "plural" if self.plural else "3"

    @property
    def gender(self) -> str:
        """The column of the declension tables."""
        return "plural" if self.plural else self.noun.gender

    @property
    def indefinite(self) -> bool:
        """Whether *nicht* before it becomes *kein*."""
        return self.determiner in ("a", "bare") and not self.number

    def english(self) -> str:
        """Return the phrase in English."""
        if self.owner:
            words = [self.owner.english() + "'s"]
        else:
            determiner = DETERMINERS[self.determiner]
            words = [determiner.en_plural if self.plural else determiner.en]
        if self.number:
            words.append(number(self.number).en)
        if self.adjective:
            words.append(self.adjective.en)
        words.append(self.noun.en_plural if self.plural else self.noun.en)
        text = re.sub(r"^a (?=[aeiou])", "an ", " ".join(filter(None, words)))
        if self.relative:
            text += " " + self.relative.english(front=self.relative_gap)
        return text

    def german(self, case: str = "nom", negated: bool = False) -> str:
        """Return the phrase in German, in a case (``nom``, ``acc``, ``dat`` or ``gen``), with *kein* if ``negated``."""
        determiner = DETERMINERS["no" if negated and self.indefinite else self.determiner]
        words = [declined(determiner.de, determiner.endings, case, self.gender) if determiner.name != "bare" else ""]
        if self.number:
            words.append(number(self.number).de)
        if self.adjective:
            stem = self.adjective.de_stem or self.adjective.de
            words.append(declined(stem, determiner.adjective, case, self.gender))
        words.append(self.german_noun(case))
        if self.owner:
            words.append(self.owner.german("gen"))
        text = " ".join(filter(None, words))
        if self.relative:
            text += ", " + self.relative.german("final", front=self.relative_gap) + ","
        return text

    def german_noun(self, case: str) -> str:
        """Return the noun alone in a case."""
        if self.plural:
            return self.noun.de_plural + ("n" if case == "dat" and self.noun.de_plural[-1] not in "ns" else "")
        if case == "gen":
            return self.noun.de_genitive
        return (case != "nom" and self.noun.de_oblique) or self.noun.de

    def relations(self) -> Iterator[tuple[str, str]]:
        """Yield the (adjective, noun) and (verb, noun) pairs inside the phrase, in English."""
        if self.adjective:
            yield self.adjective.en, self.noun.en
        if self.owner:
            yield from self.owner.relations()
        if self.relative:
            yield self.relative.verb.en, self.noun.en
            yield from self.relative.relations()


Nominal = NounPhrase | Pronoun


def declined(stem: str, kind: str, case: str, gender: str) -> str:
    """Return the stem with its ending (for the definite article, the ending is the whole word)."""
    return stem + ENDINGS[kind, case][gender]


def relative_pronoun(antecedent: NounPhrase) -> Pronoun:
    """Return the relative pronoun that agrees with the antecedent: who, whom or that; der, die, das and so on."""
    forms = {case: declined("", "relative", case, antecedent.gender) for case in ("nom", "acc", "dat")}
    human = "person" in antecedent.noun.classes.split(",")
    subject, other = ("who", "whom") if human else ("that", "that")
    return Pronoun(en=subject, en_object=other, person=antecedent.person, **forms)


def pronoun_for(phrase: NounPhrase) -> Pronoun | None:
    """Return the personal pronoun that refers to the phrase, or None where German speakers themselves hesitate."""
    if phrase.plural:
        return PRONOUNS["they"]
    german = PRONOUNS[{"m": "he", "f": "she", "n": "it"}[phrase.gender]]
    if "person" not in phrase.noun.classes.split(","):
        return replace(german, en="it", en_object="it")
    return None if phrase.gender == "n" else german  # das Mädchen ... es or sie?


def english_nominal(nominal: Nominal, case: str = "nom") -> str:
    """Return a noun phrase or pronoun in English, as subject (``nom``) or object."""
    if isinstance(nominal, Pronoun):
        return nominal.en if case == "nom" else nominal.en_object
    return nominal.english()


def german_nominal(nominal: Nominal, case: str, negated: bool = False) -> str:
    """Return a noun phrase or pronoun in German, in a case."""
    if isinstance(nominal, Pronoun):
        return str(getattr(nominal, case))
    return nominal.german(case, negated)


def german_prepositional(preposition: str, nominal: Nominal, case: str) -> str:
    """Return preposition and object in German, contracted where this is usual: im, zur, ins."""
    text = f"{preposition} {german_nominal(nominal, case)}"
    start = " ".join(text.split(" ")[:2])
    definite = isinstance(nominal, NounPhrase) and nominal.determiner == "the"
    return CONTRACTIONS[start] + text.removeprefix(start) if definite and start in CONTRACTIONS else text


@dataclass(frozen=True)
class Phrase:
    """Fixed words in both languages; ``nouns`` are the noun phrases in them."""

    en: str
    de: str
    nouns: tuple[NounPhrase, ...] = ()


@dataclass(frozen=True)
class Clause:
    """A verb and all parts of its clause.

    ``goal`` is the part nearest to the end of the German clause: a direction, a place that the verb needs, or a
    predicate. ``quality`` is the adjective of a predicate. ``tense`` is ``present``, ``progressive``, ``past`` or
    ``perfect``; it is not used with a modal.
    """

    verb: Verb
    subject: Nominal = field(default_factory=lambda: PRONOUNS["it"])
    tense: str = "present"
    modal: Modal | None = None
    negated: bool = False
    adverb: Words | None = None
    time: Phrase | None = None
    indirect: Nominal | None = None
    direct: Nominal | None = None
    goal: Phrase | None = None
    quality: Adjective | None = None
    place: Phrase | None = None

    def english(self, front: str = "", question: bool = False, form: str = "clause") -> str:
        """Return the clause in English.

        Args:
            front: the part to begin with: subject (nothing else), time, place, direct
            question: whether subject and auxiliary change places
            form: ``clause``, ``shared`` (subject and auxiliary were said before: "... and eats it") or ``base`` (an
                infinitive or a request)
        """
        inverted = question and front != "subject"
        auxiliary, head, rest = self.english_verb(support=inverted or self.negated)
        direct = english_nominal(self.direct, "acc") if self.direct and front != "direct" else ""
        direct = f"{self.verb.prep} {direct}"
        particle_last = isinstance(self.direct, Pronoun)  # switch it on, but switch on the lamp
        if form == "base":
            words = [self.verb.en]
        else:
            subject = english_nominal(self.subject)
            words = [auxiliary, subject] if inverted else [subject, auxiliary]
            words = [] if form == "shared" else words
            words += ["not" if self.negated else "", self.adverb.en if self.adverb else "", head, rest]
        words += [
            english_nominal(self.indirect, "acc") if self.indirect else "",
            "" if particle_last else self.verb.particle,
            direct,
            self.verb.particle if particle_last else "",
            self.goal.en if self.goal else "",
            self.place.en if self.place and front != "place" else "",
            self.time.en if self.time and front != "time" else "",
        ]
        return " ".join([self.front_english(front), *words])

    def front_english(self, front: str) -> str:
        """Return the part that is moved to the front, in English."""
        part = getattr(self, front) if front not in ("", "subject") else None
        return part.en if isinstance(part, Phrase) else english_nominal(part, "acc") if part else ""

    def english_verb(self, support: bool) -> tuple[str, str, str]:
        """Return auxiliary, main verb and what follows it; with ``support`` there is an auxiliary, *do* by default."""
        person, verb, modal = self.subject.person, self.verb, self.modal
        third = person == "3"
        if modal and modal.auxiliary:
            return modal.auxiliary, modal.rest, verb.en
        if modal and modal.en_past:
            return ("did", modal.en, f"to {verb.en}") if support else ("", modal.en_past, f"to {verb.en}")
        if modal:
            form = modal.en_s if third and not support else modal.en
            return "does" * support * third or "do" * support, form, f"to {verb.en}"
        present_be, past_be = ENGLISH_BE[person]
        if self.tense == "progressive":
            return present_be, verb.en_ing, ""
        if self.tense == "perfect":
            return "has" if third else "have", verb.en_pp, ""
        if verb.en == "be":
            return present_be if self.tense == "present" else past_be, "", ""
        if self.tense == "past":
            return ("did", verb.en, "") if support else ("", verb.en_past, "")
        if support:
            return "does" if third else "do", verb.en, ""
        return "", verb.en_s if third else verb.en, ""

    def german(self, order: str = "second", front: str = "") -> str:
        """Return the clause in German.

        Args:
            order: where the finite verb goes: ``second``, ``first``, ``final`` (subordinate clauses), ``shared``
                (the subject and its auxiliary were said before) or ``zu`` (an infinitive clause)
            front: the part to begin with: subject, time, place, direct; by default, the subject
        """
        finite, tail = self.german_verb()
        prefix = "" if tail else self.verb.prefix  # the participle and the infinitive have it already
        parts = self.german_parts()
        if order == "second":
            front = front or "subject"
        begin = parts.pop(front, "")
        if order in ("shared", "zu"):
            parts.pop("subject")
        middle = [text for text in parts.values() if text]
        if order == "zu":
            infinitive = f"{self.verb.prefix}zu{self.verb.de}" if self.verb.prefix else f"zu {self.verb.de}"
            return " ".join([*middle, infinitive])
        if order == "final":
            return " ".join(filter(None, [begin, *middle, tail, prefix + finite]))
        finite = "" if order == "shared" and tail else finite
        return " ".join(filter(None, [begin, finite, *middle, tail, prefix]))

    def german_parts(self) -> dict[str, str]:
        """Return the parts around the verb in German order; parts that the clause lacks are empty."""
        case, preposition = self.verb.case, self.verb.preposition
        without = isinstance(self.direct, NounPhrase) and self.direct.indefinite and not preposition
        direct = german_nominal(self.direct, case, self.negated) if self.direct and not preposition else ""
        indirect = german_nominal(self.indirect, "dat") if self.indirect else ""
        pronoun = isinstance(self.direct, Pronoun)
        particle = self.modal.particle if self.modal else ""
        parts = {"subject": german_nominal(self.subject, "nom")}
        if pronoun:
            parts["direct"] = direct
        if isinstance(self.indirect, Pronoun):
            parts["indirect"] = indirect
        parts["time"] = self.time.de if self.time else ""
        parts["adverb"] = " ".join(filter(None, [self.adverb.de if self.adverb else "", particle]))
        parts.setdefault("indirect", indirect)
        parts.setdefault("direct", direct)
        parts["negation"] = "nicht" if self.negated and not without else ""
        parts["object"] = german_prepositional(preposition, self.direct, case) if self.direct and preposition else ""
        parts["goal"] = self.goal.de if self.goal else ""
        parts["place"] = self.place.de if self.place else ""
        return parts

    def german_verb(self) -> tuple[str, str]:
        """Return the finite verb without its prefix, and the participle or infinitive that ends the clause."""
        verb, index = self.verb, PERSONS.index(self.subject.person)
        if self.modal and self.modal.de_1:
            return (self.modal.de_1, self.modal.de_3, self.modal.de_plural)[index], verb.prefix + verb.de
        if not self.modal and self.tense in ("past", "perfect"):
            if verb.de_past and self.tense == "past":
                plural = verb.de_past + ("n" if verb.de_past.endswith("e") else "en")
                return plural if index == 2 else verb.de_past, ""
            return GERMAN_AUXILIARIES[verb.aux][index], verb.de_pp
        regular = (verb.de_1 or verb.de.removesuffix("n"), verb.de_3, verb.de)
        return GERMAN_AUXILIARIES.get(verb.de, regular)[index], ""

    def relations(self) -> Iterator[tuple[str, str]]:
        """Yield the (verb, noun) and (adjective, noun) pairs that the clause connects, in English."""
        nominals: list[Nominal | None] = [self.subject, self.direct, self.indirect]
        nominals += [phrase for part in (self.goal, self.place) if part for phrase in part.nouns]
        for phrase in nominals:
            if isinstance(phrase, NounPhrase):
                yield self.verb.en, phrase.noun.en
                yield from phrase.relations()
        if self.quality and isinstance(self.subject, NounPhrase):
            yield self.quality.en, self.subject.noun.en


def tidy(text: str, mark: str) -> str:
    """Format a sentence: spaces, commas, capital letter and end mark."""
    text = re.sub(r"\s+", " ", text).strip().replace(" ,", ",").replace(",,", ",").removesuffix(",")
    text = text.replace("can not ", "cannot ")
    return text[0].upper() + text[1:] + mark
