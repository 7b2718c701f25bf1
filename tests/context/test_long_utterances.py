"""Utterances of megabytes, cut and still understood, and sessions of thousands of turns, in which a turn costs the same."""

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edgemem import AgentLoop
from edgemem.context.prompt import PromptLog
from edgemem.memory import Memory
from edgemem.records import Epoch, Message, Session
from edgemem.session.log import log_of
from edgemem.session.points import AgentResult, HookRegistry, TurnContext
from support.homes import opened
from support.models import Model
from support.selection import LONG
from support.tokenizers import WordTokenizer

pytestmark = pytest.mark.usefixtures("patient")

SPEECH = "The spare key lies under the lilac. " + "and then the goose said honk " * 350_000
"""10 MB."""
MARK = "… (cut here)"
BOUND = 16_384


class Meter(WordTokenizer):
    def __init__(self) -> None:
        super().__init__()
        self.characters = 0

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        self.characters += len(text)
        return super().encode(text, special=special)


HOME_SETTINGS = "[context]\nwindow_tokens = 20000\n"


def texts(messages: Sequence[Message]) -> list[str]:
    return [str(message["content"]) for message in messages]


def sizes(home: Path) -> int:
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def test_what_is_longer_is_cut_and_says_so(memory: Memory) -> None:
    """The beginning is said to the model, kept and found; nobody counts, stores or indexes the rest."""
    meter, model = Meter(), Model(otherwise="Fine.")
    loop = AgentLoop(model, hooks=memory.hooks(session_id="s", tokenizer=meter), speaker="ann")
    assert loop.run(SPEECH).reply == "Fine."
    assert loop.run("And now?").reply == "Fine."
    assert loop.hooks.failures() == []
    memory.idle(60)
    assert memory.diagnostics.upkeep.failures() == []
    first, _ = memory.sessions.journal.read_turns("s")
    kept = first.messages[0].content or ""
    assert len(kept.encode()) <= BOUND
    assert kept.endswith(MARK)
    assert SPEECH.startswith(kept.removesuffix(MARK))
    assert first.messages[0].unheard is None
    assert texts(model.handed[0]) == [kept]
    assert texts(model.handed[1])[:2] == [kept, "Fine."]
    assert meter.characters < 20 * BOUND
    assert sizes(memory.home) < 40 * BOUND
    (found, *_) = memory.recall("Where is the spare key?", kinds={"turn"})
    assert "lilac" in found.text


@pytest.mark.parametrize("keeps_view", [False, True])
def test_a_loop_that_keeps_all_of_it_is_understood(memory: Memory, keeps_view: bool) -> None:
    """Its own list has the whole utterance, or what hooks returned; turns stay apart, and the prompt only grows."""
    hooks, ctx = HookRegistry(memory.hooks(session_id="s")), TurnContext(Session(), speaker="ann")
    prompts: list[list[Message]] = []
    for question in (SPEECH, "And now?", SPEECH, "Well?"):
        hooks.fire("on_run_start", ctx, {"task": question})
        ctx.session.messages.append({"role": "user", "content": question})
        fired = hooks.fire("before_llm", ctx, {"messages": list(ctx.session.messages), "hop": 0, "tools": []})
        prompts.append(list(fired.payload["messages"]))
        if keeps_view:
            ctx.session.messages[:] = prompts[-1]
        ctx.session.messages.append({"role": "assistant", "content": "Fine."})
        hooks.fire("on_run_end", ctx, AgentResult("Fine.", 1))
    assert hooks.failures() == []
    memory.diagnostics.database.flush()
    turns = memory.sessions.journal.read_turns("s")
    said = [turn.messages[0].content or "" for turn in turns]
    assert [text.endswith(MARK) for text in said] == [True, False, True, False]
    assert [turn.state for turn in turns] == ["complete"] * 4
    assert [len(turn.messages) for turn in turns] == [2] * 4
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before
    assert max(len(text.encode()) for prompt in prompts for text in texts(prompt)) <= BOUND + 1000


def test_the_bound_is_kept_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never within a character."""
    for bound, length in ((300, 120), (300, 100), (300, 101), (30_000, 10_000)):
        monkeypatch.setattr("edgemem.context.prompt.UTTERANCE_BYTES", bound)
        home = tmp_path / f"{bound}-{length}"
        with opened(home, "[context]\nwindow_tokens = 90000\n") as memory:
            loop = AgentLoop(Model(otherwise="Fine."), hooks=memory.hooks(session_id="s"))
            loop.run("語" * length)
            memory.diagnostics.database.flush()
            (turn,) = memory.sessions.journal.read_turns("s")
            kept = turn.messages[0].content or ""
        if 3 * length > bound:
            assert kept == "語" * ((bound - len(MARK.encode())) // 3) + MARK
        else:
            assert kept == "語" * length


def test_recall_of_such_a_question_reads_its_end(memory: Memory) -> None:
    """A query of 10 MB is answered from what it ends with, as any long one is."""
    memory.store.add_fact("goose.name", "Berta")
    found = memory.recall(f"{SPEECH} What is the name of the goose?", k=1)
    assert [item.key for item in found] == ["goose.name"]


def live(loop: AgentLoop, prompt_log: PromptLog, turns: int) -> None:
    """Put turns straight into the loop and its prompt log, as a process that has lived through them holds them."""
    for n in range(turns):
        said: list[Message] = [
            {"role": "user", "content": f"hello number {n}"},
            {"role": "assistant", "content": f"hello yourself, number {n}"},
        ]
        loop.session.messages += said
        prompt_log.begin().messages = list(said)
        prompt_log.commit()


def calls_of(work: Callable[[], Any]) -> int:
    """Return how many functions are called while some work is done in this thread, of C too."""
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.long
def test_a_turn_costs_the_same_after_ten_thousand(tmp_path: Path) -> None:
    """All hooks together do as much in a turn after 10,000 turns (700 if it must be quick) as after 100."""
    with opened(tmp_path / "home") as memory:
        model = Model(otherwise="It stands on the second shelf, I think.")
        hooks = memory.hooks(session_id="s")
        loop = AgentLoop(model, hooks=hooks, instructions="You are Pip.", speaker="alice")
        loop.run("hello")
        prompt_log = log_of(loop.ctx).prompt_log
        costs, prompts = [], []
        many = 9_900 if LONG else 600
        for turns in (100, many):
            live(loop, prompt_log, turns)
            prompt_log.switch(Epoch("s", prompt_log.next_n - 3, started_at=1.0))
            for _ in range(3):
                loop.run("hello")
            memory.idle(10)
            costs.append(min(calls_of(lambda: loop.run("hello")) for _ in range(3)))
            prompts.append(len(model.handed[-1]))
        assert loop.hooks.failures() == []
    assert len(loop.session.messages) > 2 * many
    assert prompts[0] == prompts[1]
    # recall looks at some more turns; each message would be some thousands
    assert costs[1] < 2 * costs[0], costs
