"""Random sentences of the grammar: every method of ``Sampler`` whose name is in ``KINDS`` is one kind of sentence."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from grammar import (
    Clause,
    Nominal,
    NounPhrase,
    Phrase,
    german_prepositional,
    pronoun_for,
    relative_pronoun,
    tidy,
)
from lexicon import (
    ADVERBS,
    CLOCK,
    CONJUNCTIONS,
    DAYS,
    MODALS,
    PRONOUNS,
    RELATIONS,
    TIMES,
    Noun,
    Pronoun,
    Verb,
    Words,
    adjective,
    adjectives_for,
    nouns_of,
    number,
    overlap,
    verb,
    verbs_with,
)

Item = TypeVar("Item")

TRANSITIVE = ("acc", "dat")
PREPOSITIONAL = ("auf acc", "an acc", "mit dat", "von dat")
ACTIONS = ("", *TRANSITIVE, *PREPOSITIONAL, "dat acc", "acc on", "to", "at")
POSSESSIVES = ("my", "my", "your", "your", "our", "our", "his", "her", "their")
SPEAKERS = ("I", "you", "he", "she", "we", "they")
TIMES_OF_TENSE = {"present": "habit", "progressive": "now", "past": "past", "perfect": ""}
# Things that exist, and in which places
EXISTING = (
    ("furniture", "room"),
    ("building", "town"),
    ("plant", "outside"),
    ("animal", "outside"),
    ("device", "room"),
)
# Ages in years and prices in euros: classes of nouns, least, most
AMOUNTS = (("adult", 21, 99), ("minor,pet", 2, 19), ("food,drink", 2, 12), ("thing,device,clothes,furniture", 5, 99))
# Weights of the determiners: for an object, for a subject, where only definite ones fit, and in negated clauses
OBJECT = {"the": 9, "a": 10, "my": 4, "this": 2, "number": 3, "many": 1, "some": 1, "owner": 2}
SUBJECT = {"the": 12, "my": 4, "this": 2, "a": 1, "number": 1, "every": 1, "many": 1, "some": 1, "owner": 1}
DEFINITE = {"the": 12, "my": 4, "this": 2, "owner": 2}
NEGATED = {"the": 6, "a": 10, "my": 3, "this": 1}


class Sentence(NamedTuple):
    """A sentence in both languages and the (verb or adjective, noun) pairs that its meaning connects."""

    en: str
    de: str
    relations: frozenset[tuple[str, str]]


@dataclass
class Sampler:
    """Draws sentences; two samplers whose generators have the same seed draw the same ones.

    All chance comes from ``Random.random()``, the one method whose sequence Python promises to keep between versions.
    """

    generator: random.Random

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.generator.random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of the items, all equally likely."""
        return items[int(self.generator.random() * len(items))]

    def weighted(self, weights: dict[Item, int]) -> Item:
        """Return one of the keys, with a probability in proportion to its weight."""
        return self.pick([item for item, weight in weights.items() for _ in range(weight)])

    def sentence(self, kind: str) -> Sentence:
        """Return a sentence of this kind."""
        made: Sentence = getattr(self, kind)()
        return made

    # Noun phrases

    def noun_phrase(self, classes: str, weights: dict[str, int], plain: bool = False) -> NounPhrase:
        """A noun phrase about a noun of these classes; ``plain``: without an adjective."""
        return self.phrase_of(self.pick(nouns_of(classes)), weights, plain)

    def phrase_of(self, noun: Noun, weights: dict[str, int], plain: bool = False) -> NounPhrase:
        """A noun phrase about this noun."""
        choice = self.weighted(weights)
        kin = overlap(noun.classes, "kin")
        if kin and (choice != "the" or self.chance(0.7)):
            choice = "my"
        if choice == "my" and overlap(noun.classes, "unowned"):
            choice = "the"
        mass = not noun.en_plural
        if mass and choice in ("number", "many", "some", "every"):
            choice = "the"
        if choice == "owner" and (kin or overlap(noun.classes, "person,place,public,drink,food,plant,opening")):
            choice = "the"
        many = choice in ("number", "many", "some") or (choice != "every" and self.chance(0.25))
        plural = many and not mass and not overlap(noun.classes, "single")
        owner = self.owner() if choice == "owner" else None
        count = 0
        if choice == "number":
            count = 2 + int(self.generator.random() * (11 if self.chance(0.7) else 98))
            choice = "the" if self.chance(0.15) else "a"
        determiner = {"my": self.pick(POSSESSIVES), "owner": "the"}.get(choice, choice)
        if determiner == "a" and (plural or mass):
            determiner = "bare"
        adjectives = adjectives_for(noun)
        fitting = self.pick(adjectives) if adjectives and not plain and self.chance(0.35) else None
        return NounPhrase(noun, determiner, plural, count, fitting, owner)

    def owner(self) -> NounPhrase:
        """A person who owns something: the teacher, my brother."""
        noun = self.pick(nouns_of("person"))
        return NounPhrase(noun, self.pick(("my", "our", "your")) if overlap(noun.classes, "kin") else "the")

    def subject_for(self, action: Verb) -> Nominal:
        """A person or thing that can do this."""
        if not overlap(action.subjects, "person"):
            return self.noun_phrase(action.subjects, DEFINITE)
        return PRONOUNS[self.pick(SPEAKERS)] if self.chance(0.3) else self.noun_phrase(action.subjects, SUBJECT)

    def object_for(self, action: Verb, weights: dict[str, int], subject: Nominal) -> Nominal:
        """A person or thing that this can be done to."""
        if overlap(action.objects, "person") and self.chance(0.3):
            pronoun = PRONOUNS[self.pick(SPEAKERS)]
            said = {pronoun.en, subject.en} if isinstance(subject, Pronoun) else set()
            if len(said) != 1 and said != {"I", "we"}:  # neither "she sees her" nor "we see me"
                return pronoun
        phrase = self.noun_phrase(action.objects, weights)
        if isinstance(subject, NounPhrase) and phrase.noun == subject.noun:
            return self.object_for(action, weights, subject)
        if action.case == "dat" and phrase.determiner == "bare" and not phrase.number:
            phrase = replace(phrase, determiner="the")  # nothing shows the dative of "Frauen"
        return phrase

    # Times, places

    def clock(self) -> Words:
        """A time of the day: half past seven, halb acht."""
        pattern = self.pick(CLOCK)
        hour = 1 + int(self.generator.random() * 12)
        hour_words, next_words = number(hour), number(hour % 12 + 1)
        german = pattern.de.format(hour=hour_words.de, next=next_words.de).replace("eins Uhr", "ein Uhr")
        return Words(pattern.en.format(hour=hour_words.en, next=next_words.en), german)

    def time(self, when: str) -> Phrase:
        """A time expression about ``habit``, ``now``, ``past`` or ``future``."""
        pattern = self.pick([time for time in TIMES if overlap(time.when, when)])
        fillers = {
            "day": self.pick(DAYS),
            "clock": self.clock(),
            "number": number(2 + int(self.generator.random() * 11)),
        }
        english = {name: words.en for name, words in fillers.items()}
        german = {name: words.de for name, words in fillers.items()}
        return Phrase(pattern.en.format(**english), pattern.de.format(**german))

    def place(self, classes: str = "place", relation: str = "at") -> Phrase:
        """A place (``at``) or a direction (``to``)."""
        phrase = self.noun_phrase(
            classes, {"the": 9, "this": 1, "my": 1} if classes != "town" else {"the": 1}, plain=True
        )
        phrase = replace(phrase, plural=False)
        noun = phrase.noun
        if relation == "at":
            return Phrase(
                f"{noun.at_en} {phrase.english()}", german_prepositional(noun.at_de, phrase, "dat"), (phrase,)
            )
        case = "dat" if noun.to_de == "zu" else "acc"
        return Phrase(f"to {phrase.english()}", german_prepositional(noun.to_de, phrase, case), (phrase,))

    def beside(self, case: str = "dat", on: bool = False) -> Phrase:
        """A place on, under, behind ... furniture; German has ``dat`` for a place, ``acc`` for a direction."""
        relation = RELATIONS[0] if on else self.pick(RELATIONS)
        phrase = replace(self.noun_phrase("furniture", {"the": 1}), plural=False)
        return Phrase(f"{relation.en} {phrase.english()}", german_prepositional(relation.de, phrase, case), (phrase,))

    # Clauses

    def clause(self, actions: Sequence[Verb] = (), when: str = "", timed: bool = True, **fixed: Any) -> Clause:
        """A clause about one of the actions.

        Args:
            actions: the verbs to choose from; by default all that a person, animal or thing can do
            when: the time that it must be about: ``habit``, ``now``, ``past`` or ``future``
            timed: whether it may have a time expression
            fixed: parts that are decided already
        """
        action = self.pick(actions or verbs_with(*ACTIONS))
        lasting = overlap(action.flags, "stative")
        tense, modal = self.tense(action, when)
        negated = fixed.pop("negated", self.chance(0.15)) and (not modal or modal.negatable == "yes")
        subject = fixed.pop("subject", None) or self.subject_for(action)
        weights = NEGATED if negated else OBJECT
        if isinstance(subject, NounPhrase) and negated and subject.determiner in ("a", "bare", "every", "many", "some"):
            subject = replace(subject, determiner="the")
        parts: dict[str, Any] = {"direct": None, "indirect": None, "goal": None}
        if action.object in (*TRANSITIVE, *PREPOSITIONAL, "dat acc", "acc on"):
            people_first = action.object == "dat acc"
            if people_first:
                receiver = replace(action, objects="person")
                parts["indirect"] = self.object_for(receiver, DEFINITE, subject)
            definite = negated and action.preposition
            parts["direct"] = self.object_for(action, DEFINITE if definite else weights, subject)
        if action.object == "acc on":
            parts["goal"] = self.beside(case="acc", on=True)
        elif action.object in ("to", "at"):
            parts["goal"] = self.place(action.objects, action.object)
        elif overlap(action.flags, "place") and self.chance(0.2):
            parts["place"] = self.place()
        parts.update(fixed)
        moment = modal.when if modal else TIMES_OF_TENSE[tense]
        if timed and moment and not lasting and self.chance(0.45):
            parts.setdefault("time", self.time(moment))
        if (
            not modal
            and tense == "present"
            and not negated
            and not lasting
            and "time" not in parts
            and self.chance(0.4)
        ):
            parts["adverb"] = self.pick(ADVERBS)
        return Clause(action, subject, tense, modal, negated, **parts)

    def tense(self, action: Verb, when: str = "") -> tuple[str, Any]:
        """A tense that suits the verb, or a modal verb, about ``when``."""
        if overlap(action.flags, "stative"):
            return "present", None
        choices: list[tuple[str, Any]] = []
        choices += [("present", None)] * 4 if when in ("", "habit") else []
        choices += [("progressive", None)] * 3 if when in ("", "now") and action.en_ing else []
        told = action.en_past != action.en  # they read, they put: present or past?
        choices += [("past", None)] * 4 if when in ("", "past") and told else []
        choices += [("perfect", None)] * 2 if not when else []
        if overlap(action.subjects, "person") and not overlap(action.flags, "event"):
            modals = [modal for modal in MODALS if not when or modal.when == when]
            choices += [("present", self.pick(modals))] * 5 if modals else []
        return self.pick(choices or [("present", None)])

    def sentence_of(self, english: str, german: str, *clauses: Clause, mark: str = ".") -> Sentence:
        """Return the sentence that was made from these clauses."""
        relations = frozenset(pair for clause in clauses for pair in clause.relations())
        return Sentence(tidy(english, mark), tidy(german, mark), relations)

    # Kinds of sentences

    def statement(self) -> Sentence:
        """Return a sentence such as "Today the old man is buying a book"."""
        clause = self.clause()
        fronts = [name for name in ("time", "place") if getattr(clause, name)]
        front = self.pick(fronts) if fronts and self.chance(0.5) else ""
        return self.sentence_of(clause.english(front), clause.german(front=front), clause)

    def topic(self) -> Sentence:
        """Return a sentence such as "This letter I wrote yesterday"."""
        clause = self.clause(
            [action for action in verbs_with("acc") if not overlap(action.objects, "person")],
            subject=PRONOUNS[self.pick(SPEAKERS)],
            negated=False,
        )
        assert isinstance(clause.direct, NounPhrase)
        clause = replace(clause, direct=replace(clause.direct, determiner="this", number=0, owner=None), adverb=None)
        return self.sentence_of(clause.english("direct"), clause.german(front="direct"), clause)

    def question(self) -> Sentence:
        """Return a sentence such as "Did the boy find the key?"."""
        clause = self.clause()
        return self.sentence_of(clause.english(question=True), clause.german("first"), clause, mark="?")

    def open_question(self) -> Sentence:
        """Return a sentence such as "What did the boy find?"."""
        clause, front = self.wondered()
        return self.sentence_of(clause.english(front, question=True), clause.german(front=front), clause, mark="?")

    def wondered(self) -> tuple[Clause, str]:
        """Return a clause with a question word, and the name of the part that the question word is."""
        asked = self.pick(("who", "what", "whom", "which", "how many", "when", "where", "why"))
        if asked == "who":
            action = self.pick([action for action in verbs_with(*ACTIONS) if overlap(action.subjects, "person")])
            return self.clause([action], subject=PRONOUNS["who"], negated=False), "subject"
        if asked in ("when", "why"):
            time = Phrase("when", "wann") if asked == "when" else Phrase("why", "warum")
            actions = [each for each in verbs_with(*ACTIONS) if asked == "why" or not overlap(each.flags, "stative")]
            return self.clause(actions, time=time, negated=asked == "why" and self.chance(0.2)), "time"
        if asked == "where":
            actions = [action for action in verbs_with(*ACTIONS) if overlap(action.flags, "place")]
            return self.clause(actions, negated=False, place=Phrase("where", "wo")), "place"
        person = asked == "whom"
        actions = [
            action
            for action in verbs_with(*TRANSITIVE)
            if overlap(action.objects, "person") == person and overlap(action.subjects, "person")
        ]
        clause = self.clause(actions, negated=False)
        if asked in ("which", "how many"):
            assert isinstance(clause.direct, NounPhrase)
            noun = clause.direct.noun
            plural = asked == "how many" or clause.direct.plural
            if asked == "which" or noun.en_plural:
                phrase = NounPhrase(noun, asked, plural, adjective=clause.direct.adjective)
                return replace(clause, direct=phrase), "direct"
        return replace(clause, direct=PRONOUNS["who" if person else "what"]), "direct"

    def subordinate(self) -> Sentence:
        """Return a sentence such as "The man stays at home because it is raining"; either clause can come first."""
        conjunction = self.pick(CONJUNCTIONS)
        when = self.pick(conjunction.times.split(","))
        first = "now" not in conjunction.times and self.chance(0.5)
        main = self.clause(when=when, timed=not first)
        present = "habit" if when == "future" else when
        if conjunction.en != "before" and self.chance(0.15):
            clause = self.weather(present)
        else:
            clause = self.clause(when=present, timed=False, subject=self.again(main.subject))
        if conjunction.en == "before":
            clause = replace(clause, negated=False, adverb=None)
        english = f"{conjunction.en} {clause.english()}"
        german = f"{conjunction.de} {clause.german('final')}"
        if first:
            return self.sentence_of(f"{english}, {main.english()}", f"{german}, {main.german('first')}", main, clause)
        return self.sentence_of(f"{main.english()} {english}", f"{main.german()}, {german}", main, clause)

    def again(self, subject: Nominal) -> Nominal | None:
        """Return a pronoun for the subject of the clause before, or None: then the next clause gets a new subject."""
        pronoun = subject if isinstance(subject, Pronoun) else pronoun_for(subject)
        return pronoun if pronoun and pronoun.en != "it" and self.chance(0.6) else None

    def weather(self, when: str = "") -> Clause:
        """Return a clause such as "it is raining"."""
        if self.chance(0.5):
            quality = adjective(self.pick(("cold", "warm", "hot")))
            goal = Phrase(quality.en, quality.de)
            return Clause(verb("sein"), tense="past" if when == "past" else "present", goal=goal)
        tense = {"past": "past", "habit": "present"}.get(when, "progressive")
        return Clause(self.pick(verbs_with("weather")), tense=tense)

    def weather_report(self) -> Sentence:
        """Return a sentence such as "Yesterday it rained"."""
        when = self.pick(("now", "past"))
        clause = replace(self.weather(when), time=self.time(when))
        front = self.pick(("time", ""))
        return self.sentence_of(clause.english(front), clause.german(front=front), clause)

    def report(self) -> Sentence:
        """Return a sentence such as "The teacher says that the boy is reading the book"."""
        action = self.pick(verbs_with("dass"))
        main = replace(self.reporting(action), negated=False)
        clause = self.clause(timed=self.chance(0.5), subject=self.again(main.subject))
        german = f"{main.german()}, dass {clause.german('final')}"
        return self.sentence_of(f"{main.english()} that {clause.english()}", german, main, clause)

    def reported_question(self) -> Sentence:
        """Return a sentence such as "The teacher asks when the train is arriving"."""
        main = self.reporting(self.pick((verb("fragen"), verb("wissen"))))
        main = replace(main, negated=main.verb.en == "know")
        if self.chance(0.4):
            clause, front = self.clause(timed=self.chance(0.5)), ""
            english, german = f"whether {clause.english()}", f"ob {clause.german('final')}"
        else:
            clause, front = self.wondered()
            english, german = clause.english(front), clause.german("final", front=front)
        return self.sentence_of(f"{main.english()} {english}", f"{main.german()}, {german}", main, clause)

    def reporting(self, action: Verb) -> Clause:
        """Return the main clause of reported speech, such as "my mother knows"."""
        subject = self.subject_for(action)
        tense = "present" if action.de == "wissen" else self.pick(("present", "present", "past"))
        return Clause(action, subject, tense)

    def intention(self) -> Sentence:
        """Return a sentence such as "The boy tries to open the door"."""
        controlling = self.pick(verbs_with("zu"))
        subject = self.subject_for(controlling)
        main = Clause(controlling, subject, self.pick(("present", "past", "perfect")))
        task = self.task(subject)
        return self.sentence_of(
            f"{main.english()} to {task.english(form='base')}", f"{main.german()}, {task.german('zu')}", main, task
        )

    def purpose(self) -> Sentence:
        """Return a sentence such as "My sister is going to the market to buy apples"."""
        main = self.clause(verbs_with("to"), negated=False)
        task = self.task(main.subject)
        return self.sentence_of(
            f"{main.english()} to {task.english(form='base')}", f"{main.german()}, um {task.german('zu')}", main, task
        )

    def task(self, subject: Nominal) -> Clause:
        """Return a clause about something that a person can plan to do."""
        actions = [
            action
            for action in verbs_with("", *TRANSITIVE, "dat acc", "acc on")
            if action.en_ing and overlap(action.subjects, "person") and not overlap(action.flags, "event")
        ]
        clause = self.clause(actions, subject=subject, negated=False, timed=False)
        return replace(clause, modal=None, adverb=None, place=None)

    def request(self) -> Sentence:
        """Return a sentence such as "Please open the window"."""
        actions = [action for action in verbs_with(*TRANSITIVE, "dat acc", "acc on") if action.en_ing]
        clause = self.clause(
            [action for action in actions if overlap(action.subjects, "person")],
            subject=PRONOUNS["you"], negated=False, timed=False,
        )  # fmt: skip
        clause = replace(clause, adverb=None, modal=None, tense="present")
        return self.sentence_of(f"please {clause.english(form='base')}", f"bitte {clause.german('first')}", clause)

    def relative(self) -> Sentence:
        """Return "The man who lives in the city is helping us", "The book that you have bought is old" or similar."""
        antecedent = self.related(self.noun_phrase("person,thing,device,clothes,private,pet", {"the": 1}))
        if self.chance(0.5):
            clause = self.clause(
                [action for action in verbs_with(*ACTIONS) if overlap(action.subjects, antecedent.noun.classes)],
                subject=antecedent,
            )
        else:
            clause = self.predicate(antecedent)
        return self.sentence_of(clause.english(), clause.german(), clause)

    def related_object(self) -> Sentence:
        """Return a sentence such as "We know the man who sold the car"."""
        actions = verbs_with(*TRANSITIVE, *PREPOSITIONAL)
        action = self.pick([action for action in actions if not action.prefix and overlap(action.subjects, "person")])
        subject = self.subject_for(action)
        phrase = self.noun_phrase(action.objects, {"the": 1}, plain=self.chance(0.5))
        clause = Clause(action, subject, "present", direct=self.related(phrase))
        return self.sentence_of(clause.english(), clause.german(), clause)

    def related(self, phrase: NounPhrase) -> NounPhrase:
        """Return the noun phrase with a relative clause."""
        pronoun, classes = relative_pronoun(phrase), phrase.noun.classes
        done = [
            action
            for action in verbs_with(*TRANSITIVE)
            if overlap(action.objects, classes) and overlap(action.subjects, "person")
        ]
        doing = [action for action in verbs_with(*ACTIONS) if overlap(action.subjects, classes)]
        if (self.chance(0.5) and overlap(classes, "person,pet")) or not done:
            clause = self.clause(doing, subject=pronoun)
            return replace(phrase, relative=clause, relative_gap="subject")
        clause = self.clause(done, negated=False, direct=pronoun)
        if isinstance(clause.subject, NounPhrase) and clause.subject.noun == phrase.noun:
            clause = replace(clause, subject=PRONOUNS[self.pick(SPEAKERS)])
        return replace(phrase, relative=clause, relative_gap="direct")

    def description(self) -> Sentence:
        """Return "The new car was not expensive", "Is your sister older than the teacher?" or similar."""
        classes = "person,animal,thing,device,clothes,furniture,vehicle,private,building,town,room,text,tale,food"
        clause = self.predicate(self.noun_phrase(classes, DEFINITE, plain=True))
        if self.chance(0.25):
            return self.sentence_of(clause.english(question=True), clause.german("first"), clause, mark="?")
        return self.sentence_of(clause.english(), clause.german(), clause)

    def predicate(self, subject: NounPhrase) -> Clause:
        """Return a clause: the subject is old, older than another, or as old as another."""
        choices = [item for item in adjectives_for(subject.noun) if item != subject.adjective]
        quality = self.pick(choices)
        tense = self.pick(("present", "present", "past"))
        shared = quality.classes.split(",")
        others = [noun for noun in nouns_of(quality.classes) if noun != subject.noun]
        similar = [
            noun
            for noun in others
            if any(overlap(noun.classes, name) for name in subject.noun.classes.split(",") if name in shared)
        ]
        choice = self.chance(0.35)
        if choice and quality.en_more and similar:
            other = self.phrase_of(self.pick(similar), DEFINITE, plain=True)
            same = self.chance(0.4)
            english = f"as {quality.en} as" if same else f"{quality.en_more} than"
            german = f"so {quality.de} wie" if same else f"{quality.de_more} als"
            goal = Phrase(f"{english} {other.english()}", f"{german} {other.german()}", (other,))
        else:
            goal = Phrase(quality.en, quality.de)
        negated = self.chance(0.2)
        if negated and goal.nouns and quality.en_more and goal.en.startswith(quality.en_more):
            negated = False
        return Clause(verb("sein"), subject, tense, negated=negated, goal=goal, quality=quality)

    def amount(self) -> Sentence:
        """Return "My uncle is fifty-two years old", "The red coat costs ninety euros" or similar."""
        classes, least, most = self.pick(AMOUNTS)
        count = number(least + int(self.generator.random() * (most - least + 1)))
        subject: Nominal = self.noun_phrase(classes, DEFINITE)
        if isinstance(subject, NounPhrase) and subject.adjective in (adjective("old"), adjective("young")):
            subject = replace(subject, adjective=None)
        if overlap(classes, "person,adult,minor,pet"):
            if self.chance(0.3):
                subject = PRONOUNS[self.pick(SPEAKERS)]
            action, goal = verb("sein"), Phrase(f"{count.en} years old", f"{count.de} Jahre alt")
        else:
            action, goal = verb("kosten"), Phrase(f"{count.en} euros", f"{count.de} Euro")
        tense = self.pick(("present", "past")) if action.en == "be" else "present"  # they cost: present or past?
        clause = Clause(action, subject, tense, goal=goal)
        return self.sentence_of(clause.english(), clause.german(), clause)

    def location(self) -> Sentence:
        """Return "The keys are under the table", "Is the dog in the kitchen?" or similar."""
        subject = self.noun_phrase("thing,device,clothes,pet", DEFINITE)
        goal = self.beside() if self.chance(0.7) else self.place("room,outside")
        clause = Clause(verb("sein"), subject, self.pick(("present", "past")), negated=self.chance(0.2), goal=goal)
        if self.chance(0.3):
            return self.sentence_of(clause.english(question=True), clause.german("first"), clause, mark="?")
        return self.sentence_of(clause.english(), clause.german(), clause)

    def existence(self) -> Sentence:
        """Return a sentence such as "There is an old church in the village"."""
        things, places = self.pick(EXISTING)
        place = self.place(places)
        noun = self.pick(nouns_of(things))
        phrase = self.phrase_of(noun, {"a": 4, "number": 2, "no": 1, "many": 1})
        verb_en = "are" if phrase.plural else "is"
        english, german = f"there {verb_en} {phrase.english()} {place.en}", f"{place.de} gibt es {phrase.german('acc')}"
        made = self.sentence_of(english, german)
        return made._replace(relations=frozenset(phrase.relations()))

    def time_of_day(self) -> Sentence:
        """Return a sentence such as "It is half past seven"."""
        clock, question = self.clock(), self.chance(0.3)
        clause = Clause(verb("sein"), goal=Phrase(clock.en, clock.de))
        german = clause.german("first" if question else "second")
        return self.sentence_of(clause.english(question=question), german, clause, mark="?" if question else ".")

    def taking_up(self) -> Sentence:
        """Return a sentence such as "The girl washes an apple and eats it"."""
        first = self.pick([action for action in verbs_with("acc") if overlap(action.flags, "first")])
        phrase = self.noun_phrase(first.objects, {"the": 2, "a": 3, "my": 1})
        fitting = [
            action
            for action in verbs_with("acc")
            if overlap(action.flags, "then") and overlap(action.objects, phrase.noun.classes)
        ]
        pronoun = pronoun_for(phrase)
        if not fitting or not pronoun:
            return self.taking_up()
        main = self.clause([first], negated=False, direct=phrase, timed=False)
        modal = None if main.modal and main.modal.particle else main.modal
        main = replace(main, modal=modal, adverb=None, place=None)
        second = replace(main, verb=self.pick(fitting), direct=pronoun)
        english = second.english(form="base" if modal else "shared")
        german = second.german("shared")
        return self.sentence_of(f"{main.english()} and {english}", f"{main.german()} und {german}", main, second)

    def contrast(self) -> Sentence:
        """Return a sentence such as "The man is buying the car, but the woman is selling the house"."""
        main = self.clause()
        other = self.clause(when=self.pick(("habit", "now", "past")))
        word, german = self.pick((("but", "aber"), ("and", "und")))
        comma = "," if word == "but" else ""
        return self.sentence_of(
            f"{main.english()}{comma} {word} {other.english()}", f"{main.german()}{comma} {german} {other.german()}",
            main, other,
        )  # fmt: skip


KINDS: dict[str, int] = {
    "statement": 26,
    "topic": 2,
    "question": 8,
    "open_question": 10,
    "subordinate": 12,
    "weather_report": 1,
    "report": 6,
    "reported_question": 4,
    "intention": 5,
    "purpose": 3,
    "request": 4,
    "relative": 6,
    "related_object": 3,
    "description": 7,
    "amount": 3,
    "location": 4,
    "existence": 3,
    "time_of_day": 1,
    "taking_up": 4,
    "contrast": 3,
}
