"""Search: no private text has a say in what others find; what was just written, parts of compounds, and each group with its k."""

import random
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.config import LlamaSettings, Profile
from edgemem.inspect.replay import Line, Player
from edgemem.memory import Memory
from edgemem.recall.recall import Request
from edgemem.records import Heard, Reader, Recalled
from support import homes
from support.embedders import HashEmbedder
from support.homes import Robot

CLOCK = Clock(wall=lambda: 1_770_000_000.0, monotonic=lambda: 1.0)
FILLER = [f"{a} is {b}" for a in ("bread", "soup", "weather", "music") for b in ("fine", "late", "good")]


def scores(folder, secret, query, *, idle, reader=None):
    """Return what bob finds, with the score, in a session in which ann said something in private."""
    folder.mkdir()
    with closing(Robot(folder, CLOCK, HashEmbedder())) as robot:
        for n, text in enumerate(FILLER, start=1):
            robot.say(n, text, speaker="bob")
        robot.say(49, "somebody wants the cup", speaker="bob")
        robot.say(50, secret, speaker="ann", level="private", owner="ann")
        robot.say(51, "it stands in the cupboard", speaker="bob")
        robot.say(52, "the kettle is hot", speaker="bob")
        robot.say(53, "the rabbit had no hay", speaker="bob")
        if idle:
            robot.idle()
            robot.index.warm()
        found = robot.recall(query, reader=reader or Reader("bob"), k=30, kinds={"turn"})
        assert all(item.text != secret for item in found)
        return [(item.text, pytest.approx(item.score, abs=1e-6), item.why) for item in found]


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize(
    ("query", "secret"),
    [
        ("where is the kettle", "hot kettle pot"), ("where is the kettle", "kettle kettle kettle"),
        ("what does ann want", "I want ann home"), ("which pet is hungry", "my dog likes the rabbit"),
        ("wo ist mein board", " ".join(f"ca{letter}board" for letter in "abcdefghijklmnopqrst")),
    ],
)  # fmt: skip
def test_what_somebody_said_in_private_changes_nothing_for_others(tmp_path, idle, query, secret):
    """What others find, how it scores and why is the same whatever it was, also right beside it."""
    found = scores(tmp_path / "a", secret, query, idle=idle)
    assert found == scores(tmp_path / "b", "xylophones sound odd", query, idle=idle)
    assert found


@pytest.mark.parametrize("embedder", ["", "minilm"])
def test_an_exact_code_comes_before_what_is_near_in_meaning(tmp_path, request, embedder):
    """Of sixty random codes each one that is asked for is first, in a fact or in a message."""
    dice = random.Random(5)

    def code(start: str) -> str:
        return start + "".join(
            dice.choice("bcdfghjklmnpqrstvwxz0123456789") for _ in range(dice.choice((4, 9)))
        )

    model = str(request.getfixturevalue(embedder)) if embedder else ""
    codes = {code("zk"): code("zq") for _ in range(60)}
    with edgemem.open(tmp_path, profile=Profile(llama=LlamaSettings(embedder=model)), worker=False) as memory:
        for key, value in codes.items():
            memory.store.add_fact(f"code.{key}", f"value {value}", scope="household")
        memory.idle(60)
        for value in codes.values():
            for question in (value, f"What is {value}?"):
                (first, *_) = memory.recall(question, k=5)
                assert value in first.text


def test_a_fact_that_waits_for_its_vector_is_found_by_its_words(tmp_path):
    """It comes before facts that have theirs; once it has one, meaning is a reason too."""
    with closing(Robot(tmp_path, CLOCK, HashEmbedder())) as robot:
        for n, text in enumerate(FILLER):
            robot.store.add_fact(f"thing {n}", text)
        robot.idle()
        robot.store.add_fact("kettle.place", "behind the blue curtain")
        query = "where is the kettle"
        waiting = robot.recall(query, k=1)[0]
        robot.idle()
        embedded = robot.recall(query, k=1)[0]
        assert (waiting.id, waiting.key) == (embedded.id, "kettle.place")
        assert "words" in waiting.why
        assert "meaning" not in waiting.why
        assert "meaning" in embedded.why


ANYBODY = Reader("alice")


def test_kinds_apart_compete_only_among_themselves(memory: Memory) -> None:
    """Each group gets its own k, in the order of the groups, however good the others are."""
    player = Player(memory)
    for n in range(6):
        player.turn(Line(say=f"The tea is in tin {n}.", speaker="alice", session="kitchen"))
    memory.store.add_fact("tea.kind", "green")
    memory.store.add_fact("tea.price", "four euro")
    groups = (("turn",), ("fact", "preference"))
    items = memory.diagnostics.search.recall("Where is the tea?", Request(reader=ANYBODY, k=2, apart=groups))
    assert [item.kind for item in items] == ["turn", "turn", "fact", "fact"]


def test_what_is_excluded_known_or_too_poor(memory: Memory) -> None:
    """The next best replaces what is excluded; what is known comes besides the k; what is too poor does not fill up."""
    for n in range(4):
        memory.store.add_fact(f"tea.tin{n}", f"tea of sort {n}", heard=Heard("alice"))
    memory.store.add_fact("flour.tin", "nearly empty")

    def recall(**more: Any) -> list[Recalled]:
        return memory.diagnostics.search.recall("Which tea is there?", Request(reader=ANYBODY, **more))

    best, second, *_ = recall(k=3)
    assert recall(k=1, exclude=[best.name])[0].id == second.id
    items = recall(k=2, known=[best.name])
    assert (items[0].id, len(items)) == (best.id, 3)
    assert best.id in [item.id for item in recall(min_score=best.score)]
    assert recall(min_score=best.score + 1e-6) == []


def test_a_greeting_finds_nothing_where_nobody_asks(memory: Memory) -> None:
    """Who thanks or greets wants no memory, whatever it sounds like; who asks the memory gets what it holds."""
    for n in range(4):
        memory.store.add_fact(f"thank.you{n}", "a word of thanks")
    for text in ("Thank you.", "Good morning, hello!", "Danke, gute Nacht", "谢谢"):
        assert memory.recall(text, asked=False) == []
    assert memory.recall("Thank you.")
    assert memory.recall("Thank you?", asked=False)


Tell = Callable[..., None]

OTHERS = (
    "Oma kommt am Sonntag zu Besuch.",
    "Wann der Gärtner kommt, weiß Ben.",
    "Lena lernt für die Prüfung.",
)
BIN, PAPER_BIN = "Die Tonne wird am Dienstag geleert.", "Die Papiertonne wird am Dienstag geleert."


@pytest.fixture(params=["at once", "indexed"])
def tell(request: pytest.FixtureRequest, memory: Memory) -> Tell:
    def say(*texts: str) -> None:
        for text in (*texts, *OTHERS):
            homes.tell(memory, text, text, speaker="Ben")
        if request.param == "indexed":
            assert memory.idle(10)

    return say


def hits(memory: Memory, question: str) -> list[str]:
    return [hit.text for hit in memory.recall(question)]


@pytest.mark.parametrize(
    ("spoken", "question"),
    [(PAPER_BIN, "Wo steht die Tonne?"), (BIN, "Wo steht die Papiertonne?"), ("Der Müllplan hängt am Schrank.", "Wo ist der Plan?"), ("Die Stromrechnung ist bezahlt.", "Wo liegt die Rechnung?")],
)  # fmt: skip
def test_a_compound_and_its_end_are_found(memory: Memory, tell: Tell, spoken: str, question: str) -> None:
    """Whichever of the two was told and whichever is asked for, before the index knows of it and after."""
    tell(spoken)
    assert hits(memory, question)[:1] == [spoken]


@pytest.mark.parametrize(("asked", "other"), [(BIN, PAPER_BIN), (PAPER_BIN, BIN)])
def test_what_was_asked_for_counts_more(memory: Memory, tell: Tell, asked: str, other: str) -> None:
    """Where both were told, the word of the question comes first, though the other was told later."""
    tell(asked, other)
    assert hits(memory, f"Wo steht die {asked.split()[1]}?")[0] == asked


@pytest.mark.parametrize(
    ("spoken", "question"),
    [("Der Monat war schön.", "Wo ist die Nat?"), ("Das Brot liegt auf dem Brett.", "Wo ist das Rett?"), (PAPER_BIN, "Where is the tonne?")],
)  # fmt: skip
def test_what_only_ends_alike_does_not(memory: Memory, tell: Tell, spoken: str, question: str) -> None:
    """A short end, a short beginning, and the words of an English question say nothing: what was told longest ago comes last."""
    tell(spoken)
    assert hits(memory, question)[-1] == spoken


def test_a_question_that_says_nothing_finds_the_newest_that_one_may_read(memory):
    """What somebody else said in private since then takes no place among them."""
    say = memory.session("s").turn
    for n in range(12):
        with say(f"The lamp number {n} is lit.", speaker="alice") as turn:
            turn.reply("Good.")
    memory.idle(5)
    before = {item.text for item in memory.recall("what?", speaker="alice", k=50)}
    for _ in range(12):
        with say("My diary is under the bed.", speaker="bob", private=True) as turn:
            turn.reply("I will tell nobody.")
    assert {item.text for item in memory.recall("what?", speaker="alice", k=50)} == before
    memory.idle(5)
    assert {item.text for item in memory.recall("what?", speaker="alice", k=50)} == before
