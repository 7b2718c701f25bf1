"""Told: who said what and when, in a line."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.context.block.delta import lines_for
from edgemem.context.block.render import GAP, MOST_CHARS, VisibleLines, day_of, excerpt, line_text
from edgemem.context.block.select import fit_lines
from edgemem.fence import clean
from edgemem.loop.loop import AgentLoop
from edgemem.recall.text.analyse import analyse, terms
from edgemem.records import BlockLine, Recalled
from edgemem.scopes import Level
from edgemem.session.log import log_of
from support.homes import opened
from support.models import Model
from support.tokenizers import WordTokenizer

MAY_7 = time.mktime((2023, 5, 7, 12, 0, 0, 0, 0, -1))
DAY = 86_400.0


def count(text: str) -> int:
    return len(text.split())


def turn(
    number: str,
    text: str,
    score: float = 0.8,
    *,
    speaker: str | None = "Ann",
    level: Level = "household",
    owner: str | None = None,
    at: float = MAY_7,
) -> Recalled:
    who = {"speaker": speaker, "level": level, "owner": owner}
    return Recalled("turn", number, text, score, **who, event_time=at, recorded_at=at)


def block(
    *items: Recalled, tokens: float, question: str = "", visible: dict[str, BlockLine] | None = None
) -> list[BlockLine]:
    asked = analyse(question)
    lines = lines_for(items, visible=VisibleLines(visible or {}), question=asked)
    fits = fit_lines(lines, tokens=tokens + 3, count=count, header="Known:", recalled=items, question=asked)
    return fits.lines


def test_a_line_begins_with_who_and_when() -> None:
    """A person, the robot and an unknown voice are told apart, and the day is absolute."""
    assert line_text(turn("1", "I like tea")) == "Ann 7 May: I like tea"
    assert line_text(turn("1", "I like tea", speaker=None)) == "somebody 7 May: I like tea"
    mine = Recalled("turn", "1", "You like tea", 0.5, source="assistant")
    assert line_text(mine) == "you: You like tea"


def test_a_year_is_said_where_it_is_not_plain() -> None:
    """Within some months a day is enough; later its year is told, too."""
    assert day_of(MAY_7, now=MAY_7 + 90 * DAY) == "7 May"
    assert day_of(MAY_7, now=MAY_7 + 400 * DAY) == "7 May 2023"
    assert day_of(MAY_7) == "7 May"
    assert day_of(0.0) == ""


FILMS = "We walked along the river and talked about old films. " * 5
KEY = "The cellar key hangs behind the boiler."
RAIN = "The green tent lets the rain in, so we dry it in the cellar first. The pegs are in the blue bag."


def test_a_short_message_is_not_shortened() -> None:
    """A short message is told whole or not at all; of a long one what answers, marked, and as much as has room."""
    short, long = turn("1", RAIN), turn("2", f"{FILMS}{KEY}", 0.7, speaker="Bob")
    seen = set()
    for tokens in range(5, 110):
        lines = block(short, long, tokens=tokens, question="where does the green cellar key hang")
        text = " ".join(line.line for line in lines)
        assert count(text) <= tokens
        assert ("rain" in text) is (RAIN in text) is any(line.id == "turn:1" for line in lines)
        assert (KEY in text) is any(line.item == "turn:2" for line in lines)
        assert (GAP in text) is any(line.id == "turn:2/part" for line in lines)
        seen.update(line.id for line in lines)
    assert seen == {"turn:1", "turn:2", "turn:2/part"}


@given(st.lists(st.text(max_size=200), min_size=1, max_size=5), st.integers(0, 60), st.text(max_size=40))
def test_a_block_keeps_its_budget_and_stays_clean(texts: list[str], tokens: int, question: str) -> None:
    """Whatever was said, the lines fit, and each is one safe line."""
    items = [turn(str(n), text, 0.9 - n / 10) for n, text in enumerate(texts)]
    lines = block(*items, tokens=tokens, question=question)
    assert count("".join(f"{line.line}\n" for line in lines)) <= max(tokens, 0)
    for line in lines:
        assert clean(line.line, max_chars=10_000) == line.line


def test_one_persons_days_stand_in_one_line() -> None:
    """What one person said on several days shares the name, earliest first, each day named before what was said then."""
    first = turn("1", "The green paint stands in the cellar beside the old stove.", 0.9, at=MAY_7 + DAY)
    second = turn("2", "The red paint stands in the attic behind the mirror.", 0.8, at=MAY_7)
    third = turn("3", "The blue paint is gone since Easter.", 0.7, at=MAY_7 + 60)
    long = turn("4", "The paint shop closes early. " * 6, 0.2, speaker="Bob")
    lines = block(first, second, third, long, tokens=36, question="where is the paint")
    assert lines[0].line == (
        "- Ann 7 May: The red paint stands in the attic behind the mirror / The blue paint is gone since Easter"
        " / 8 May: The green paint stands in the cellar beside the old stove."
    )
    assert [line.line for line in lines[1:3]] == ["", ""]


def test_what_is_private_never_shares_a_line() -> None:
    """A line has one level: what is for one person stands apart from what the household may read."""
    green = "The green paint stands in the cellar beside the old stove."
    mine = turn("1", green, level="private", owner="Ann")
    ours = turn("2", "The red paint stands in the attic behind the mirror.", 0.7)
    long = turn("3", "The paint shop closes early. " * 6, 0.1, speaker="Bob")
    lines = block(mine, ours, long, tokens=30, question="where is the paint")
    private = [line for line in lines if line.level == "private"]
    assert [line.item for line in private] == ["turn:1"]
    assert all("red paint" not in line.line for line in private)
    open_lines = [line for line in lines if line.item == "turn:2" and line.owner is None]
    assert any("red paint" in line.line for line in open_lines)


def test_a_turn_reaches_the_prompt_in_parts_as_they_are_asked_for(tmp_path: Path) -> None:
    """A conversation is told the part that a question asks for, the rest when that is asked for, and nothing twice."""
    said = (
        "We planted nine cherry trees behind the old mill on Saturday with both uncles. The harvester stands at Karlsen's"
        " place until its gearbox is repaired by the mechanic from Hamar. Grandmother sold her silver spoons to a dealer"
        " in Lund. The children learn to swim at the quarry every second Thursday with their teacher."
    )
    more = "[recall]\ndeadline_ms = 60000\n[context]\nblock_tokens = 45\n"
    with opened(tmp_path / "home", more, tokenizer=WordTokenizer()) as memory:
        told_to = AgentLoop(Model(otherwise="Fine."), hooks=memory.hooks(session_id="hall", speaker="ann"))
        told_to.run(said)
        memory.idle(10.0)
        loop = AgentLoop(Model(otherwise="Fine."), hooks=memory.hooks(session_id="kitchen", speaker="ann"))
        blocks = []
        for question in (
            "Where did we plant nine cherry trees behind the mill?",
            "Behind what did we plant the cherry trees?",
            "On which day do the children learn to swim at the quarry with their teacher?",
        ):
            loop.run(question)
            prompt_log = log_of(loop.ctx).prompt_log
            blocks.append(prompt_log.turns[-1].block)
        assert "cherry trees" in blocks[0]
        assert GAP in blocks[0]
        assert "quarry" not in blocks[0]
        assert blocks[1] == ""
        assert "quarry" in blocks[2]
        # As long as the turn is remembered, its blocks stand in the file; with it they go.
        memory.forget(session="hall")
        kept = memory.diagnostics.database.query("select block from turns where block is not null")
        assert "cherry trees" not in str(kept)


def test_what_a_recogniser_wrote_without_an_end_is_told_where_it_answers(tmp_path: Path) -> None:
    """A message of one endless sentence, longer than a line, is told from the words of the question on."""
    said = (
        "so yesterday we were at the market and met the old neighbours and we talked for ages about their new house and the"
        " garden and the dog and then my mother called and i had to go home early but anyway the spare key for the shed hangs"
        " behind the rain gauge now so please do not look for it under the pot again and tell the others"
    )
    with opened(tmp_path, "[recall]\ndeadline_ms = 60000\n") as memory:
        AgentLoop(Model(otherwise="Fine."), hooks=memory.hooks(session_id="hall", speaker="ann")).run(said)
        memory.idle(10.0)
        loop = AgentLoop(Model(otherwise="Fine."), hooks=memory.hooks(session_id="kitchen", speaker="ann"))
        loop.run("Where is the spare key for the shed?")
        assert "behind the rain gauge" in log_of(loop.ctx).prompt_log.turns[-1].block


_SOME = """
the a really so and but if because not never I we she Ann 7 1,200 yesterday went garden code is was which it's don't wow, Hey
really, — ; . ! ? … 日本。 für "quoted" (aside) [x] peanuts tea 2,5 twice day
"""
WORDS = st.sampled_from([*_SOME.split(), "\n"])
TEXTS = st.lists(WORDS, max_size=60).map(" ".join) | st.text(max_size=300)


def shortened(text: str, question: str) -> str:
    return excerpt(text, frozenset(terms(question))).text


@given(TEXTS, st.lists(WORDS, max_size=4))
def test_an_excerpt_is_a_part_of_the_text(text: str, asked: list[str]) -> None:
    """It is what stands there, byte for byte, and grows until it is the whole text."""
    part = excerpt(text, frozenset(terms(" ".join(asked))))
    while not part.is_whole:
        assert GAP in part.text
        assert part.text.removeprefix(GAP).removesuffix(GAP) in text
        part = next(part.longer())
    assert part.text == text[:MOST_CHARS]
    assert not list(part.longer())


@pytest.mark.parametrize(
    "said",
    [
        "We will go to the lake on Sunday if Tom repairs the car. Bring the big towels and the dog.",
        "I like the green sofa from the market, but Anna finds it ugly and cheap. We bought the red one.",
        "I said that Tom broke the vase and that Mia saw nothing. The glue is in the drawer.",
        "I booked the flight to Rome on Monday and cancelled it on Friday evening. We take the train.",
        "The boat is stuck between the old harbour and the new bridge. Nobody was hurt.",
        "Ich habe an der Tür so lange auf den Mann gewartet. Der Schlüssel liegt jetzt unter dem Topf.",
    ],
)
def test_nothing_is_cut_out_of_a_sentence(said: str) -> None:
    """What turns a statement round, frames or completes it stands with it, in whatever language."""
    first, _, second = said.partition(". ")
    assert shortened(said, first) == f"{first}.{GAP}"
    assert shortened(said, second) == f"{GAP}{second}"
