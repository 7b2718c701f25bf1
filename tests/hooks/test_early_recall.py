"""Early recall: what was found while somebody spoke is used only if it is what would be found now."""

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import HandClock

import edgemem
from edgemem.clock import Clock
from edgemem.config import Profile
from edgemem.errors import ClosedError, InvalidInputError
from edgemem.hooks.builtin import part_of
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from support.embedders import HashEmbedder
from support.homes import eventually
from support.models import Model

QUESTION = "What is the colour of the boat?"


class Talk:
    """A conversation, and what of it is looked at."""

    def __init__(self, memory: Memory, session: str = "kitchen", speaker: str | None = "alice") -> None:
        hooks = memory.hooks(session_id=session, speaker=speaker)
        self.memory = memory
        self.loop = AgentLoop(Model(otherwise="I see."), hooks=hooks, speaker=speaker)
        self.early = part_of(hooks, "prefetch")

    def hear(self, *texts: str, **who: Any) -> None:
        """Hear a sentence grow, and wait until the newest text has been recalled for."""
        for text in texts:
            self.loop.partial(text, **who)
        eventually(lambda: self.memory.diagnostics.prefetch.idle)

    def ask(self, text: str = QUESTION, **who: Any) -> tuple[str, str]:
        """Return how recall was found at the end of a sentence, and what memory put before the model; nothing is kept."""
        result = self.loop.prepare(text, **who)
        content: str = result.handed[0][-1]["content"]
        self.loop.abort()
        return self.early.last.outcome, content.removesuffix(text)

    def check(self) -> None:
        assert self.loop.hooks.failures() == []


def opened(home: Path, **how: Any) -> Memory:
    """Open a home in which nothing happens by itself, and each partial begins a recall."""
    how = {"profile": Profile(), "embedder": HashEmbedder(), "worker": False, **how}
    memory = edgemem.open(home, **how)
    memory.diagnostics.prefetch.settle_s = 0.0
    return memory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path / "home") as memory:
        memory.store.add_fact("boat.colour", "green")
        memory.store.add_fact("boat.secret", "a hole", scope="user:alice")
        memory.idle(20)
        yield memory


@pytest.fixture
def talk(memory: Memory) -> Talk:
    return Talk(memory)


def test_what_was_found_while_somebody_spoke_is_used(memory: Memory, talk: Talk) -> None:
    """The block is that of the whole sentence, and nothing is embedded or looked up at its end."""
    whole = talk.ask()
    assert whole[0] == "unheard"
    assert "boat.colour: green" in whole[1]
    talk.loop.speech_start()
    talk.hear("What is the", "What is the colour of", QUESTION)
    embedded = len(memory.diagnostics.embedder.embedded)  # type: ignore[union-attr]
    newest = memory.diagnostics.search.last
    assert talk.ask() == ("ready", whole[1])
    assert len(memory.diagnostics.embedder.embedded) == embedded  # type: ignore[union-attr]
    assert memory.diagnostics.search.last is newest
    talk.check()


def other_process(memory: Memory) -> None:
    with opened(memory.home) as other:
        other.store.add_fact("boat.colour", "red")


WRITES: list[Callable[[Memory], object]] = [
    lambda memory: memory.store.add_fact("boat.colour", "red"),
    lambda memory: memory.store.add_fact("boat.colour", "green", level="private", owner="bob"),
    lambda memory: memory.store.set_preference("boat", "a colour that is bright"),
    lambda memory: Talk(memory, "hall", "bob").loop.run("The colour of the boat is ugly."),
    lambda memory: memory.forget("boat.colour"),
    lambda memory: memory.forget(person="alice"),
    other_process,
    lambda memory: memory.notes.path.write_text("# Boat\n\nThe colour of the boat was changed.\n"),
]


@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_meanwhile_counts(memory: Memory, talk: Talk, write: Callable[[Memory], Any]) -> None:
    """A fact that is new, erased or made private, also by another process, a turn or a note: recall looks again."""
    talk.hear(QUESTION)
    write(memory)
    outcome, block = talk.ask()
    assert outcome == "stale"
    assert block == talk.ask()[1]
    talk.check()


def test_a_fact_that_ends_meanwhile_is_not_told(tmp_path: Path, clock: Clock, hand: HandClock) -> None:
    """Time alone changes what holds."""
    with opened(tmp_path, clock=clock) as memory:
        memory.store.add_fact("boat.colour", "green", valid_to=clock.now() + 60)
        talk = Talk(memory)
        talk.hear(QUESTION)
        hand.advance(120)
        outcome, block = talk.ask()
        assert (outcome, "green" in block) == ("stale", False)


@pytest.mark.parametrize("who", [{"speaker": "bob"}, {"audience": ["bob"]}, {"audience": [""]}])
def test_what_was_found_for_one_reader_is_not_told_to_another(talk: Talk, who: dict[str, Any]) -> None:
    """Not to another voice, and not where somebody else turns out to listen."""
    question = "What is the secret of the boat?"
    talk.hear(question, speaker="alice")
    assert "a hole" in talk.ask(question)[1]
    talk.hear(question, speaker="alice")
    outcome, block = talk.ask(question, **who)
    assert outcome == "stale"
    assert "a hole" not in block


@pytest.mark.parametrize("text", ["", "?!", "x" * 5_000_000, "a " * 2000, None, b"boat", ["boat"]])
def test_what_is_no_sentence_is_left_alone(memory: Memory, talk: Talk, text: Any) -> None:
    """Nothing, noise and a text of megabytes start nothing; an argument that is no text is refused."""
    with nullcontext() if isinstance(text, str) else pytest.raises(InvalidInputError):
        talk.loop.partial(text)
    assert memory.diagnostics.prefetch.counts.begun == 0
    assert talk.ask()[0] in ("unheard", "missed")
    talk.check()


class Broken(HashEmbedder):
    """An embedder that fails and quotes what it was given."""

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> Any:
        raise RuntimeError(f"cannot embed {text}")


def test_a_failure_is_counted_and_quotes_nothing(tmp_path: Path) -> None:
    """An early recall that fails is counted as its hook's, without a word of a sentence that may never be a turn."""
    with opened(tmp_path, embedder=Broken()) as memory:
        memory.store.add_fact("boat.colour", "green")
        memory.idle(5)
        talk = Talk(memory)
        talk.hear("the zeppelin")
        talk.loop.idle(0.0)
        (failure,) = talk.loop.hooks.failures()
        assert (failure.hook, failure.count) == ("prefetch", 1)
        assert "RuntimeError" in failure.message
        talk.loop.run(QUESTION)
        assert {each.hook for each in talk.loop.hooks.failures()} == {"memory", "prefetch"}
        assert "zeppelin" not in (memory.home / "db" / "failures.json").read_text()


def test_a_sentence_without_a_turn_leaves_no_trace(memory: Memory, talk: Talk) -> None:
    """Neither in a file nor for the next turn: when it is quiet, it is as if nobody had spoken."""
    talk.loop.speech_start()
    talk.hear("Perhaps the zeppelin")
    talk.loop.idle(0.0)
    assert talk.ask("Perhaps the zeppelin")[0] == "unheard"
    talk.hear("Perhaps the zeppelin")
    talk.loop.speech_start()
    assert talk.ask("Perhaps the zeppelin")[0] == "unheard"
    talk.hear("Perhaps the zeppelin")
    memory.idle(20)
    memory.diagnostics.database.checkpoint()
    for path in memory.home.rglob("*"):
        assert not path.is_file() or b"zeppelin" not in path.read_bytes()


def test_an_aborted_turn_leaves_what_was_heard_since(talk: Talk) -> None:
    """Whoever goes on to speak while a turn is prepared finds the whole sentence's recall; the prepared one's is gone."""
    talk.hear("What is the colour")
    talk.loop.prepare("What is the colour")
    talk.hear(QUESTION)
    talk.loop.abort()
    assert talk.ask()[0] == "ready"
    assert talk.ask()[0] == "unheard"


def test_partials_from_many_threads_while_turns_run(talk: Talk) -> None:
    """A recogniser's threads and the loop's disturb each other nowhere."""
    done = threading.Event()

    def hear() -> None:
        n = 0
        while not done.is_set():
            talk.loop.partial(f"What is the colour of the boat {n % 7}?")
            n += 1

    ears = [threading.Thread(target=hear) for _ in range(3)]
    for ear in ears:
        ear.start()
    try:
        for n in range(12):
            talk.loop.run(f"What is the colour of the boat {n % 7}?")
    finally:
        done.set()
        for ear in ears:
            ear.join()
    talk.check()


def test_a_recogniser_that_marks_the_end_late_is_learnt(talk: Talk) -> None:
    """Where only whole sentences have their question mark, what is heard is recalled for as if it had it."""
    plain = QUESTION.rstrip("?")
    talk.hear(plain)
    assert talk.ask()[0] == "missed"
    talk.hear(plain)
    assert talk.ask()[0] == "ready"
    talk.hear(plain)
    assert talk.ask(plain)[0] == "missed"
    talk.hear(plain)
    assert talk.ask(plain)[0] == "ready"


class Waiting(HashEmbedder):
    """An embedder that answers a question when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()

    def talk(self, memory: Memory) -> Talk:
        """Return a conversation in which it was asked early, and has not answered."""
        memory.store.add_fact("boat.colour", "green")
        memory.idle(20)
        talk = Talk(memory)
        talk.loop.partial(QUESTION)
        assert self.asked.wait(20)
        return talk

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> Any:
        self.asked.set()
        self.go.wait(20)
        return self.vector_of(text)


def test_a_recall_that_runs_is_waited_for(tmp_path: Path) -> None:
    """A sentence that ends while it is looked up for is looked up for once."""
    plain = Profile()
    patient = msgspec.structs.replace(plain, recall=msgspec.structs.replace(plain.recall, deadline_ms=20_000))
    embedder = Waiting()
    with opened(tmp_path, embedder=embedder, profile=patient) as memory:
        talk = embedder.talk(memory)
        threading.Timer(0.05, embedder.go.set).start()
        outcome, block = talk.ask()
        assert (outcome, memory.diagnostics.prefetch.counts.begun) == ("waited", 1)
        assert "green" in block


class Stuck(Waiting):
    """An embedder that is stuck at its first question, and late for every other."""

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> Any:
        if self.asked.is_set():
            return None
        return super().embed_query(text, timeout_s=timeout_s)


def test_an_embedder_that_is_stuck_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Past the deadline the turn finds what words find."""
    embedder = Stuck()
    with opened(tmp_path, embedder=embedder) as memory:
        talk = embedder.talk(memory)
        outcome, block = talk.ask()
        assert (outcome, "green" in block) == ("missed", True)
        embedder.go.set()
        talk.check()


def test_it_closes_with_the_memory(tmp_path: Path) -> None:
    """Also in the middle of a recall, twice, and with partials that come after it; its thread is gone then."""
    embedder = Waiting()
    memory = opened(tmp_path, embedder=embedder)
    talk = embedder.talk(memory)
    threading.Timer(0.05, embedder.go.set).start()
    memory.close()
    memory.close()
    memory.diagnostics.prefetch.close()
    with pytest.raises(ClosedError):
        talk.loop.partial("What is the colour")
    assert not [each for each in threading.enumerate() if each.name == "edgemem-prefetch"]
    talk.check()
