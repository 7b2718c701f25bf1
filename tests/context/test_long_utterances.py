"""Utterances without end: as much is kept, shown and looked for as the profile says, and the rest is done with at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from edgemem import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Message, Session
from edgemem.session.points import AgentResult, HookRegistry, TurnContext
from support.homes import opened
from support.models import Model
from support.tokenizers import WordTokenizer

pytestmark = pytest.mark.usefixtures("patient")

LONG = "The spare key lies under the lilac. " + "and then the goose said honk " * 350_000
"""10 MB."""
MARK = "… (cut here)"
BOUND = 16_384


class Meter(WordTokenizer):
    """Counts the characters that it is given."""

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
    assert loop.run(LONG).reply == "Fine."
    assert loop.run("And now?").reply == "Fine."
    assert loop.hooks.failures() == []
    memory.idle(60)
    assert memory.diagnostics.upkeep.failures() == []
    first, _ = memory.sessions.journal.read_turns("s")
    kept = first.messages[0].content or ""
    assert len(kept.encode()) <= BOUND
    assert kept.endswith(MARK)
    assert LONG.startswith(kept.removesuffix(MARK))
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
    for question in (LONG, "And now?", LONG, "Well?"):
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
    found = memory.recall(f"{LONG} What is the name of the goose?", k=1)
    assert [item.key for item in found] == ["goose.name"]
