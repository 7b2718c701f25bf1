"""What was said minutes ago in another session is found at once: also before the index knows it, and has its vector."""

import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import HandClock

import edgemem
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from support.homes import patient
from support.loops import block_before
from support.models import Model

OLDER = (
    "We had pancakes with blueberries for breakfast.",
    "The neighbours are painting their fence green this week.",
    "I watched a film about whales last night.",
)
TOLD = (
    ("The plumber comes on Thursday at nine.", "When does the plumber come?", "nine"),
    ("I put the spare batteries into the blue tin in the hall.", "Where are the spare batteries?", "blue tin"),
    ("My sister's flight from Lisbon lands at half past six.", "When does my sister's flight land?", "half past six"),
    ("The code of the bicycle lock is 4417.", "What is the code of the bicycle lock?", "4417"),
    ("Please remember that the washing machine only works on the second socket.",
     "Which socket does the washing machine work on?", "second socket"),
    ("Grandma wants lilies for her birthday, no roses.", "What does Grandma want for her birthday?", "lilies"),
)  # fmt: skip


def tell(memory: Memory, texts: Iterable[str], session: str, hand: HandClock) -> None:
    """Have Ben say something, each in a turn of one session."""
    loop = AgentLoop(
        Model(otherwise="All right."), hooks=memory.hooks(session_id=session, speaker="ben"), speaker="ben"
    )
    for text in texts:
        loop.run(text)
        hand.advance(20)
    assert loop.hooks.failures() == []


def found(memory: Memory, told: Iterable[tuple[str, str, str]], *, name: str) -> list[str]:
    """Return the answers that reach the prompt, each asked for in a session of its own."""
    asked = enumerate((question, answer) for _, question, answer in told)
    return [
        answer
        for n, (question, answer) in asked
        if answer in block_before(memory, question, "ben", f"{name} {n}")
    ]


@pytest.fixture
def memory(tmp_path: Path, hand: HandClock, minilm: Path):
    """Return a memory with the shipped embedder, three older turns that are indexed, and no worker."""
    with edgemem.open(tmp_path, profile=patient(), clock=hand.clock, worker=False) as memory:
        tell(memory, OLDER, "breakfast", hand)
        hand.advance(3 * 86400)
        memory.idle(60)
        yield memory


def test_what_waits_for_its_vector_is_found_like_what_has_one(memory: Memory, hand: HandClock) -> None:
    """Of six things that were just told in another session at most one reaches the prompt only when the index knows it."""
    tell(memory, [text for text, _, _ in TOLD], "errands", hand)
    hand.advance(600)
    before = found(memory, TOLD, name="before")
    memory.idle(60)
    after = found(memory, TOLD, name="after")
    assert len(after) >= 5
    assert len(before) >= len(after) - 1


def test_the_newest_of_what_is_alike_is_found_without_its_vector(memory: Memory, hand: HandClock) -> None:
    """A code that was told after five others is told at once to whoever asks for it."""
    for n in range(10, 16):
        tell(memory, [f"The code is K{n}."], f"code {n}", hand)
        hand.advance(86400)
    memory.idle(60)
    tell(memory, ["The code is K16."], "new code", hand)
    hand.advance(600)
    assert "K16" in block_before(memory, "What is the code?", "ben", "asking")


def test_new_text_has_a_vector_after_two_quiet_seconds(tmp_path: Path, hand: HandClock, minilm: Path) -> None:
    """The worker embeds what was just said though the index file takes it in later, so it is found by what it means."""
    with edgemem.open(tmp_path, profile=patient(), clock=hand.clock) as memory:
        tell(memory, OLDER, "breakfast", hand)
        memory.idle(60)
        tell(memory, ["Our cat has to see the animal doctor on Friday."], "errands", hand)
        until = time.monotonic() + 60
        found = ""
        while "Friday" not in found and time.monotonic() < until:
            time.sleep(1)
            found = block_before(memory, "When is the kitty's vet appointment?", "ben", f"asking {until}")
        assert "Friday" in found
        assert memory.diagnostics.search.pending()["text"], "the index file has taken it in already"
