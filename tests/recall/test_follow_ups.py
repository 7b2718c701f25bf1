"""Follow-ups: "And when does she come?" is about whom the last exchanges named."""

from typing import Any

import pytest
from conftest import HandClock

from edgemem.clock import RELEASED
from edgemem.hooks.builtin import part_of
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.recall.query import lacks_subject, parse_query, read_question
from edgemem.records import Heard
from edgemem.session.log import log_of
from support.homes import eventually
from support.models import Model

VISITS = {"okafor.visit": "Mrs Okafor comes on Thursday at four", "brandt.visit": "Mr Brandt comes on Monday"}


HOME_SETTINGS = "[recall]\ndeadline_ms = 60000\n"


def learn(memory: Memory) -> None:
    """Learn of the visits only now, so that no block before has shown them."""
    for key, value in VISITS.items() if not memory.store.facts() else ():
        memory.store.add_fact(key, value, scope="household")


class Talk:
    """A conversation of two people in the kitchen, one of whom speaks."""

    def __init__(self, memory: Memory, reply: str = "Yes.") -> None:
        self.memory = memory
        self.hooks = memory.hooks(session_id="kitchen")
        self.loop = AgentLoop(Model(otherwise=reply), hooks=self.hooks)

    def say(self, text: str, **more: Any) -> None:
        self.loop.run(text, speaker="li", **more)

    def ask(self, text: str) -> str:
        """Return what is put before a question that both hear."""
        learn(self.memory)
        self.loop.prepare(text, speaker="li", audience=["li", "bo"])
        return " ".join(line.line for line in log_of(self.loop.ctx).prompt_log.sections["memory"].shown)


ASKED = ["And when does she come?", "When?", "when is that visit"]


@pytest.mark.parametrize("question", ASKED)
def test_whom_the_exchange_before_named_is_meant(memory: Memory, question: str) -> None:
    """The other guest's day is not told alone."""
    talk = Talk(memory)
    talk.say("I wrote to Okafor.")
    talk.say("It was cold in the garden.")
    told = talk.ask(question)
    assert "Thursday" in told
    assert "Monday" not in told or told.index("Thursday") < told.index("Monday")


TOLD = {
    "ikaika": "My gloves are size twelve.",
    "wren": "My gloves are size seven.",
    "osgood": "The spare key of the projection booth is kept in a film can on the top shelf, if anybody asks.",
    "zinnia": "The spare key of the ticket hut is kept behind the calendar.",
}
RARE = " ".join(f"a{letter}zt" for letter in "bcdfghjklmnpqrstvwxyzaeiou")


@pytest.mark.parametrize(
    ("said", "question", "answer"),
    [
        ("They sent me up to the projection booth.", "Whereabouts is the spare key kept?", "film can"),
        (
            f"{RARE}: they sent me up to the projection booth.",
            "Whereabouts is the spare key kept?",
            "film can",
        ),
        ("Ikaika has holes in both thumbs.", "Which size of gloves should I buy?", "twelve"),
    ],
)
def test_what_was_said_before_picks_one_of_what_fits_alike(
    memory: Memory, said: str, question: str, answer: str
) -> None:
    """Who was named tells of themselves; a question with words of its own may be about it too, however many words no other text has."""
    told = AgentLoop(Model(), hooks=memory.hooks(session_id="yesterday"))
    for speaker, text in TOLD.items():
        told.run(text, speaker=speaker)
    Talk(memory).say(said)
    found = memory.recall(question, speaker="li", session="kitchen")
    assert answer in found[0].text


@pytest.mark.parametrize("name", ["Ikaika", "Ikaika Moana"])
def test_one_of_two_names_means_somebody_and_not_what_they_told_of_others(memory: Memory, name: str) -> None:
    """A fact of the household is not theirs."""
    told = AgentLoop(Model(), hooks=memory.hooks(session_id="yesterday"))
    told.run("My gloves are size twelve.", speaker="ikaika moana")
    told.run("My gloves are size seven.", speaker="wren")
    for key, speaker in (("bob.hat", "ikaika moana"), ("cal.hat", "wren")):
        memory.store.add_fact(key, "green", scope="household", heard=Heard(speaker))
    Talk(memory).say(f"{name} has holes in both thumbs.")
    found = memory.recall("Which size of gloves should I buy?", speaker="li", session="kitchen")
    assert "twelve" in found[0].text
    hats = memory.recall("Which hat is green?", speaker="li", session="kitchen")
    scores = {item.key: item.score for item in hats}
    assert scores["bob.hat"] == pytest.approx(scores["cal.hat"])


def test_the_robot_may_have_said_the_name(memory: Memory) -> None:
    """Its replies count as well."""
    talk = Talk(memory, reply="That was Okafor.")
    talk.say("Somebody rang at the door.")
    assert "Thursday" in talk.ask("When does she come?")


def test_who_asks_for_somebody_else_is_told_of_them(memory: Memory) -> None:
    """A sentence with a subject is about that, be it one word that is remembered."""
    talk = Talk(memory)
    talk.say("I wrote to Okafor.")
    assert "Monday" in talk.ask("When does Brandt come?")
    talk.loop.abort()
    memory.store.add_fact("dentist", "Friday at nine", scope="household")
    alone = memory.recall("When is the dentist?", speaker="li")[0]
    for question, key in (("When does Brandt come?", "brandt.visit"), ("When is the dentist?", "dentist")):
        found = memory.recall(question, speaker="li", session="kitchen")[0]
        assert found.key == key
    assert found.score == pytest.approx(alone.score, abs=0.1)


@pytest.mark.parametrize("question", ["When is that dentist?", "wann ist dentist", "Wann ist der Dentist?"])
def test_a_determiner_before_its_noun_means_nothing_named_before(memory: Memory, question: str) -> None:
    """What somebody asks for stands behind it."""
    Talk(memory).say("I wrote to Okafor.")
    learn(memory)
    memory.store.add_fact("dentist", "Friday at nine", scope="household")
    alone = memory.recall(question, speaker="li")[0]
    found = memory.recall(question, speaker="li", session="kitchen")[0]
    assert (found.key, found.score) == ("dentist", pytest.approx(alone.score, abs=0.05))


@pytest.mark.parametrize("question", ["Wo hast du den gekauft?", "Who made that?", "¿Dónde la compraste?"])
def test_a_pronoun_before_a_verb_or_a_time_is_no_determiner(question: str) -> None:
    """Be they in some text."""
    parsed = parse_query(read_question(question, RELEASED))
    assert lacks_subject(parsed, None, dict.fromkeys(parsed.terms, 1))


def test_what_somebody_present_may_not_know_names_nobody(memory: Memory) -> None:
    """Who listens would learn from the answer whom the private words were about."""
    talk = Talk(memory)
    talk.say("I wrote to Okafor.", private=True)
    assert "Thursday" not in talk.ask("And when is that?")


def test_after_ten_minutes_nobody_is_meant(memory: Memory, hand: HandClock) -> None:
    """By then people speak of something else."""
    talk = Talk(memory)
    talk.say("I wrote to Okafor.")
    hand.advance(601.0)
    assert "Thursday" not in talk.ask("And when is that?")


def test_only_a_session_tells_whom_a_recall_means(memory: Memory) -> None:
    """Its exchanges are no answers: they stand in the conversation."""
    talk = Talk(memory)
    talk.say("I wrote to Okafor.")
    learn(memory)
    found = memory.recall("When is that?", speaker="li", session="kitchen")
    assert [item.key for item in found[:1]] == ["okafor.visit"]
    assert all(item.session != "kitchen" for item in found)
    assert all(item.key is None for item in memory.recall("When is that?", speaker="li"))


def test_early_recall_knows_it_too(memory: Memory) -> None:
    """What was found while the question was spoken is what the turn finds."""
    talk = Talk(memory)
    talk.say("I wrote to Okafor.")
    learn(memory)
    talk.loop.partial("And when does she come?", speaker="li", audience=["li", "bo"])
    eventually(lambda: memory.diagnostics.prefetch.idle)
    assert "Thursday" in talk.ask("And when does she come?")
    assert part_of(talk.hooks, "prefetch").last.outcome == "ready"
