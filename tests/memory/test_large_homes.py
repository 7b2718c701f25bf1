"""Homes and questions larger than anybody means them: the answer is in the turn that asks, and what no rule can read is found by its words."""

import pytest

from edgemem.inspect.replay import INSTRUCTIONS
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store.facts import assert_fact
from edgemem.store.turns import commit_turn
from support.models import Model
from support.selection import LONG

START = 1_760_000_000.0
READINGS, TURNS = (40_000, 10_000) if LONG else (3000, 3000)
ASKED = "What's the temperature in the greenhouse?"
NAMES = [
    "April", "May", "June", "Will", "Mark", "Rose", "Ann", "Anna", "Hanna", "Hannah",
    "Ben", "Benno", "Jan", "Jana", "Mina", "Nina", "Tom", "Tomas", "Zoe", "Otto",
]  # fmt: skip
FOODS = [
    "nuts", "milk", "eggs", "fish", "soy", "wheat", "sesame", "celery", "mustard", "kiwi",
    "shrimp", "honey", "lupin", "peach", "apple", "cherry", "corn", "rice", "beef", "leek",
]  # fmt: skip


def store(memory: Memory, *said: tuple[str, str], session: str = "") -> None:
    """Store who said what, a minute apart, in one session or two hundred turns each, and index it unless it is one session's."""

    def write(tx):
        for n, (who, text) in enumerate(said):
            heard = Heard(speaker=who, event_time=START + 60 * n)
            message = StoredMessage("user", text)
            commit_turn(
                tx, Turn(session or f"day {n // 200}", n % 200 if not session else n, (message,), heard=heard)
            )

    memory.diagnostics.database.write(write)
    assert session or memory.idle(600)


def block_of(memory: Memory, question: str, *, speaker: str = "Ann", session: str = "now") -> str:
    """Return what the model is shown with a question, in whose turn no hook fails."""
    loop = AgentLoop(Model(otherwise="No"), hooks=memory.hooks(session_id=session), instructions=INSTRUCTIONS)
    handed = loop.run(question, speaker=speaker).handed[0]
    assert loop.hooks.failures() == []
    return str(handed[-1]["content"])


def test_of_any_number_of_readings_the_newest_is_told(memory: Memory) -> None:
    """Whether somebody says them or a sensor writes them, and none that it replaced."""
    store(
        memory,
        *(("Ann", f"The temperature in the greenhouse is {n / 100} degrees.") for n in range(READINGS)),
    )
    newest = f"The temperature in the greenhouse is {(READINGS - 1) / 100} degrees."
    told = block_of(memory, ASKED)
    assert newest in told
    assert told.count("The temperature") == 1
    memory.diagnostics.database.write(
        lambda tx: [
            assert_fact(tx, "pond.depth", f"{n} cm", scope="global", source="sensor") for n in range(READINGS)
        ]
    )
    assert memory.idle(600)
    assert f"pond.depth: {READINGS - 1} cm</memory>" in block_of(
        memory, "How deep is the pond?", session="later"
    )


def test_a_question_of_two_thousand_words_finds_what_its_end_asks(memory: Memory) -> None:
    """Words that stand in many texts, and words that stand in none."""
    told = [("Ben", f"The box {n} stands on shelf {n + 7}.") for n in range(400)]
    store(memory, *told, ("Ben", "The ladder stands in the barn."))
    for before in ("the box stands on the shelf " * 330, "a kettle sings " * 660):
        assert "barn" in block_of(memory, f"{before}. Where does the ladder stand?", session=before[:5])


def test_a_session_of_thousands_of_turns_goes_on(memory: Memory) -> None:
    """Its prompt has room for the turn, before anything of it is indexed and after, and its first turn is found."""
    store(memory, *(("Ben", f"The parcel {n} went to the shed.") for n in range(TURNS)), session="now")
    assert block_of(memory, "Is it raining?").endswith("Is it raining?")
    assert memory.idle(600)
    assert "The parcel 5 went to the shed." in block_of(memory, "Where did parcel 5 go?")


def test_of_twenty_people_each_has_their_own(memory: Memory) -> None:
    """Whose safety it is, who said "my", and who is meant, where names are months or sound alike."""
    for name, food in zip(NAMES, FOODS, strict=True):
        n = NAMES.index(name)
        store(
            memory, (name, f"I am allergic to {food}."), (name, f"My bicycle has {n + 11} gears."),
            (NAMES[n - 1], f"{name} comes home at {n + 31}."), session=name,
        )  # fmt: skip
    assert memory.idle(60)
    for n, (name, food) in enumerate(zip(NAMES, FOODS, strict=True)):
        greeted = block_of(memory, "Hello there.", speaker=name, session=f"with {name}")
        assert {one for one in FOODS if one in greeted} == {food}, name
        asked = f"How many gears does {name}'s bicycle have?", f"When does {name} come home?"
        found = [memory.recall(question, speaker="Zoe")[0].text for question in asked]
        assert found == [f"My bicycle has {n + 11} gears.", f"{name} comes home at {n + 31}."]


@pytest.mark.parametrize(
    "odd",
    ["on the 45th of Septober", "at 25:99 on 31 February", "since year 99999", "on 0.0.0000", "by Quxmira"],
)  # fmt: skip
def test_what_is_no_time_and_nobody_is_searched_by_its_words(memory: Memory, odd: str) -> None:
    """What stands beside it is found, and so is a text that has it."""
    store(memory, ("Ben", "The ladder stands in the barn."), ("Ben", f"The rope was bought {odd}."))
    assert "The ladder stands in the barn." in [
        item.text for item in memory.recall(f"Where does the ladder stand {odd}?")
    ]
    assert memory.recall(f"What was bought {odd}?")[0].text == f"The rope was bought {odd}."
