"""The words of the toy corpus: the tables of ``lexicon/`` as typed rows, and functions to look them up."""

import csv
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

TABLES = Path(__file__).parent / "lexicon"
Row = TypeVar("Row")


@dataclass(frozen=True)
class Noun:
    """A noun; mass nouns have no plural, and only places have the prepositions ``at_en``, ``at_de`` and ``to_de``."""

    en: str
    en_plural: str
    de: str
    gender: str
    de_plural: str
    de_oblique: str  # accusative and dative singular where they differ from the nominative (der Junge, den Jungen)
    de_genitive: str
    at_en: str
    at_de: str
    to_de: str
    classes: str  # what the noun is; verbs and adjectives choose nouns by it


@dataclass(frozen=True)
class Verb:
    """A verb with its forms, and what it needs.

    ``object`` is the German government: ``acc``, ``dat``, ``dat acc``, ``auf acc`` (a preposition and its case),
    ``to``/``at``/``acc on`` (a direction, a place, an object laid on something), ``zu``/``dass``/``ob`` (a clause),
    ``is`` (a predicate) or ``weather``.
    """

    en: str
    en_s: str
    en_past: str
    en_pp: str
    en_ing: str  # empty: not used in the progressive
    particle: str  # switch *on*
    prep: str  # wait *for*
    prefix: str  # the separable prefix
    de: str  # infinitive without the prefix
    de_1: str  # empty: regular
    de_3: str
    de_past: str  # empty: the perfect expresses the past
    de_pp: str
    aux: str
    object: str
    subjects: str
    objects: str
    flags: str

    @property
    def preposition(self) -> str:
        """The German preposition of the object, or an empty string."""
        first = self.object.partition(" ")[0]
        return first if first in ("auf", "an", "mit", "von") else ""

    @property
    def case(self) -> str:
        """The case of the direct object."""
        return "dat" if self.object == "dat" or self.object.endswith(" dat") else "acc"


@dataclass(frozen=True)
class Adjective:
    """An adjective; ``de_stem``: what endings attach to, if not ``de``; without ``de_more`` it has no comparative."""

    en: str
    en_more: str
    de: str
    de_more: str
    de_stem: str
    classes: str


@dataclass(frozen=True)
class Determiner:
    """An article or similar word; ``endings``: the kind of its endings, ``adjective``: of an adjective after it."""

    name: str
    en: str
    en_plural: str
    de: str
    endings: str
    adjective: str


@dataclass(frozen=True)
class Pronoun:
    """A pronoun; ``person`` (``1``, ``3`` or ``plural``) is what its verb agrees with."""

    en: str
    en_object: str
    nom: str
    acc: str
    dat: str
    person: str


@dataclass(frozen=True)
class Modal:
    """An English auxiliary, or a verb with ``to``, and the German modal verb or particle (gern) that says the same."""

    en: str
    en_s: str
    en_past: str
    auxiliary: str
    rest: str
    de_1: str
    de_3: str
    de_plural: str
    particle: str
    when: str
    negatable: str


@dataclass(frozen=True)
class Time:
    """A pattern of a time expression and the times (``habit``, ``now``, ``past``, ``future``) that it can express."""

    en: str
    de: str
    when: str


@dataclass(frozen=True)
class Conjunction:
    """A subordinating conjunction and the times that it is used in."""

    en: str
    de: str
    times: str


@dataclass(frozen=True)
class Number:
    """A numeral; ``de_joined`` is its form before *und* in a larger numeral."""

    value: str
    en: str
    de: str
    de_joined: str


@dataclass(frozen=True)
class Words:
    """A word or a pattern, and its German translation."""

    en: str
    de: str


def table(name: str, row: Callable[..., Row]) -> tuple[Row, ...]:
    """Read ``lexicon/NAME.tsv``."""
    with open(TABLES / f"{name}.tsv", encoding="utf-8", newline="") as stream:
        return tuple(row(**cells) for cells in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))


NOUNS = table("nouns", Noun)
VERBS = table("verbs", Verb)
ADJECTIVES = table("adjectives", Adjective)
DETERMINERS = {row.name: row for row in table("determiners", Determiner)}
PRONOUNS = {row.en: row for row in table("pronouns", Pronoun)}
MODALS = table("modals", Modal)
TIMES = table("times", Time)
DAYS = table("days", Words)
CLOCK = table("clock", Words)
ADVERBS = table("adverbs", Words)
RELATIONS = table("relations", Words)
CONJUNCTIONS = table("conjunctions", Conjunction)
CONTRACTIONS = {row["full"]: row["short"] for row in table("contractions", dict)}
NUMBERS = {int(row.value): row for row in table("numbers", Number)}
ENDINGS = {(row["kind"], row["case"]): row for row in table("endings", dict)}
"""Endings (or whole articles) of each kind and case, by gender and for the plural."""


def overlap(one: str, other: str) -> bool:
    """Whether two comma-separated lists share an element."""
    return not set(one.split(",")).isdisjoint(other.split(","))


@functools.cache
def nouns_of(classes: str) -> tuple[Noun, ...]:
    """The nouns that belong to any of the classes."""
    return tuple(noun for noun in NOUNS if overlap(noun.classes, classes))


@functools.cache
def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that suit the noun."""
    return tuple(adjective for adjective in ADJECTIVES if overlap(adjective.classes, noun.classes))


@functools.cache
def verbs_with(*objects: str) -> tuple[Verb, ...]:
    """The verbs that take one of these objects."""
    return tuple(verb for verb in VERBS if verb.object in objects)


@functools.cache
def verb(de: str) -> Verb:
    """Return the verb with this German infinitive."""
    return next(verb for verb in VERBS if verb.prefix + verb.de == de)


@functools.cache
def adjective(en: str) -> Adjective:
    """Return the adjective with this English form."""
    return next(adjective for adjective in ADJECTIVES if adjective.en == en)


def number(value: int) -> Words:
    """Return a number from 1 to 99 in words: twenty-three, dreiundzwanzig."""
    if value in NUMBERS:
        return Words(NUMBERS[value].en, NUMBERS[value].de)
    tens, unit = NUMBERS[value - value % 10], NUMBERS[value % 10]
    return Words(f"{tens.en}-{unit.en}", f"{unit.de_joined}und{tens.de}")
