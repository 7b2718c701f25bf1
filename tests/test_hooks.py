"""The built-in hooks by themselves: with stores of a user's own, put together as in EdgeVox."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.context.compaction.compactor import Compactor
from edgemem.hooks import (
    ContextCompactionHook,
    EpisodeLoggerHook,
    HookRegistry,
    MemoryInjectionHook,
    NotesInjectorHook,
    PersistSessionHook,
    TokenBudgetHook,
)
from edgemem.hooks.points import ON_RUN_START, TurnContext
from edgemem.loop.loop import AgentLoop
from edgemem.loop.toolbox import Tool
from edgemem.records import Episode, Fact, Reply, Session, ToolCall
from edgemem.store.notes import NotesFile


class DictStore:
    """A user's own store: thirty lines over two lists."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], Fact] = {}
        self._episodes: list[Episode] = []

    def add_fact(self, key: str, value: str, *, scope: str = "global", source: str = "") -> None:
        self._facts[scope, key] = Fact(key, value, scope, source=source)

    def get_fact(self, key: str, *, scope: str = "global") -> str | None:
        found = self._facts.get((scope, key))
        return found.value if found else None

    def facts(self, *, scope: str | None = None) -> list[Fact]:
        return [fact for fact in self._facts.values() if scope in (None, fact.scope)]

    def forget_fact(self, key: str, *, scope: str = "global") -> bool:
        return self._facts.pop((scope, key), None) is not None

    def set_preference(self, key: str, value: str) -> None:
        self.add_fact(key, value, scope="preference")

    def preferences(self) -> list[Any]:
        return []

    def add_episode(self, kind: str, payload: dict[str, Any], outcome: str, *, agent: str = "") -> None:
        self._episodes.append(Episode(kind, payload, outcome, agent=agent))

    def recent_episodes(self, n: int = 5, *, kind: str | None = None) -> list[Episode]:
        return self._episodes[-n:]

    def render_for_prompt(self, *, max_facts: int = 20, max_episodes: int = 5) -> str:
        return ""


class DictSessions:
    """A user's own session store."""

    def __init__(self) -> None:
        self.kept: dict[str, Session] = {}

    def save(self, session_id: str, session: Session) -> None:
        self.kept[session_id] = Session(
            list(session.messages), {k: v for k, v in session.state.items() if k[:2] != "__"}
        )

    def load(self, session_id: str) -> Session | None:
        return self.kept.get(session_id)

    def delete(self, session_id: str) -> bool:
        return self.kept.pop(session_id, None) is not None

    def list_ids(self) -> list[str]:
        return list(self.kept)


class Echo:
    """Answers with a list of replies, and keeps what it was handed."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.handed: list[list[dict[str, Any]]] = []

    def complete(self, messages: Sequence[dict[str, Any]], **_: Any) -> Reply:
        self.handed.append(list(messages))
        return self.replies.pop(0) if self.replies else Reply("ok")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


def loop_with(*hooks: Any, model: Echo | None = None, **settings: Any) -> AgentLoop:
    return AgentLoop(model or Echo(), hooks=hooks, instructions="You are Pip.", **settings)


def newest(loop: AgentLoop) -> str:
    model: Any = loop.model
    return str(model.handed[-1][-1]["content"])


def test_memory_works_with_any_store() -> None:
    """Facts of a dict reach the newest user message, once, and never the system message or the session."""
    store = DictStore()
    store.add_fact("allergy", "peanuts", scope="env:kitchen")
    loop = loop_with(MemoryInjectionHook(store))
    loop.run("what can I eat?", speaker="alice")
    assert "peanuts" in newest(loop)
    loop.run("and tomorrow?", speaker="alice")
    assert "peanuts" not in newest(loop)
    assert loop.model.handed[-1][0] == {"role": "system", "content": "You are Pip."}  # type: ignore[attr-defined]
    assert "peanuts" not in str(loop.session.messages)


def test_a_persona_that_mentions_memory_changes_nothing() -> None:
    """There is no marker to collide with."""
    store = DictStore()
    store.add_fact("tea", "black", scope="global")
    loop = AgentLoop(
        Echo(), hooks=[MemoryInjectionHook(store)], instructions="You have a <memory> and ## Memory."
    )
    loop.run("tea?")
    assert "black" in newest(loop)


def test_private_facts_of_any_store_stay_with_their_owner() -> None:
    """The scope user:<name> is closed to everybody else."""
    store = DictStore()
    store.add_fact("pills", "blue ones", scope="user:alice")
    loop = loop_with(MemoryInjectionHook(store))
    loop.run("my pills?", speaker="bob")
    assert "blue" not in newest(loop)
    loop.run("my pills?", speaker="alice")
    assert "blue" in newest(loop)
    loop.run("what did she say?", speaker="bob")
    assert "blue" not in str(loop.model.handed[-1])  # type: ignore[attr-defined]


def test_notes_are_shown_once_and_then_only_what_is_new(tmp_path: Path, clock: Clock) -> None:
    """The tail comes with the first turn; later turns get new lines alone."""
    notes = NotesFile(tmp_path / "NOTES.md", clock=clock)
    notes.append("The oven runs hot.")
    loop = loop_with(NotesInjectorHook(notes))
    loop.run("hello", speaker="alice")
    assert "oven runs hot" in newest(loop)
    notes.append("The cat is called Miso.")
    loop.run("hello again", speaker="alice")
    assert "Miso" in newest(loop)
    assert "oven" not in newest(loop)
    loop.run("and again", speaker="alice")
    assert newest(loop) == "and again"


def test_memory_and_notes_share_one_block(tmp_path: Path, clock: Clock) -> None:
    """Two hooks that were made apart put their lines into the same fence."""
    store = DictStore()
    store.add_fact("tea", "black")
    notes = NotesFile(tmp_path / "NOTES.md", clock=clock)
    notes.append("The oven runs hot.")
    loop = loop_with(NotesInjectorHook(notes), MemoryInjectionHook(store))
    loop.run("tea?", speaker="alice")
    assert newest(loop).count("<memory>") == 1
    assert newest(loop).endswith("tea?")


def test_outcomes_of_tools_become_episodes() -> None:
    """Successes and failures are kept with their arguments; memory's own tools are not."""
    store = DictStore()
    calls = Reply(
        "", (ToolCall("timer", {"minutes": 6}), ToolCall("oven", {}), ToolCall("remember_fact", {}))
    )
    tools = [Tool("timer", "", {}, lambda minutes: "set")]
    loop = loop_with(EpisodeLoggerHook(store, "pip"), model=Echo(calls), tools=tools)
    loop.run("go")
    assert [(e.payload["name"], e.outcome, e.agent) for e in store._episodes] == [
        ("timer", "ok", "pip"),
        ("oven", "failed", "pip"),
    ]


def test_a_session_resumes_with_any_store() -> None:
    """The next process goes on where the last one stopped, and nothing injected was kept."""
    sessions, store = DictSessions(), DictStore()
    store.add_fact("tea", "black")
    hooks = [PersistSessionHook(sessions, session_id="kitchen"), MemoryInjectionHook(store)]
    loop_with(*hooks).run("tea?", speaker="alice")
    assert sessions.kept["kitchen"].messages == [
        {"role": "user", "content": "tea?"},
        {"role": "assistant", "content": "ok"},
    ]
    again = loop_with(PersistSessionHook(sessions, session_id="kitchen"))
    again.run("still there?", speaker="alice")
    assert [m["content"] for m in again.session.messages] == ["tea?", "ok", "still there?", "ok"]


def test_an_interruption_reaches_the_kept_session() -> None:
    """What nobody heard is not history in the store either, and the model is told."""
    sessions, store = DictSessions(), DictStore()
    loop = loop_with(
        PersistSessionHook(sessions, session_id="s"),
        MemoryInjectionHook(store),
        model=Echo(Reply("one two three")),
    )
    loop.run("count", speaker="alice")
    loop.interrupt("one two")
    assert sessions.kept["s"].messages[-1]["content"] == "one two"
    loop.run("why did you stop?", speaker="alice")
    assert "you were interrupted after: one two" in newest(loop)


def test_the_budget_always_ends_and_keeps_what_was_asked() -> None:
    """With a budget smaller than the system message, system and question are sent and it says so."""
    hook = TokenBudgetHook(max_context_tokens=5)
    loop = loop_with(hook)
    for i in range(4):
        loop.run(f"question number {i} of many")
    handed = loop.model.handed[-1]  # type: ignore[attr-defined]
    assert [m["role"] for m in handed] == ["system", "user"]
    assert handed[1]["content"] == "question number 3 of many"
    assert hook.note
    assert len(loop.session.messages) == 8


def test_compaction_in_the_seeds_way_leaves_the_session_alone() -> None:
    """What is sent is compacted; what was said stays."""
    loop = loop_with(
        ContextCompactionHook(Compactor(trigger_tokens=120, keep_last_turns=1, summary_max_tokens=40))
    )
    for i in range(12):
        loop.run(f"my favourite number is {i}, please remember that")
    handed = loop.model.handed[-1]  # type: ignore[attr-defined]
    assert len(handed) < 10
    assert len(loop.session.messages) == 24
    assert handed[0]["role"] == "system"
    assert handed[1]["role"] == "user"


def test_hooks_of_another_framework_get_their_context() -> None:
    """A hook needs of a context only what EdgeVox gives it: a session and a place for state."""

    class Foreign:
        def __init__(self) -> None:
            self.session = Session()
            self.hook_state: dict[Any, Any] = {}

    store = DictStore()
    store.add_fact("tea", "black")
    registry = HookRegistry([MemoryInjectionHook(store)])
    ctx = Foreign()
    registry.fire(ON_RUN_START, ctx, {"task": "tea?"})
    fired = registry.fire(
        "before_llm", ctx, {"messages": [{"role": "user", "content": "tea?"}], "hop": 0, "tools": []}
    )
    assert "black" in fired.payload["messages"][0]["content"]
    assert registry.failures() == []


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\x00\x01\x02", "\ud800 lone", "\u202eright to left"])
def test_odd_utterances_do_not_break_a_hook(text: str, tmp_path: Path, clock: Clock) -> None:
    """Long, binary and broken text passes through all hooks without a failure."""
    store = DictStore()
    store.add_fact("tea", text[:200])
    hooks = HookRegistry(
        [
            MemoryInjectionHook(store),
            NotesInjectorHook(NotesFile(tmp_path / "NOTES.md", clock=clock)),
            TokenBudgetHook(500),
            EpisodeLoggerHook(store),
            PersistSessionHook(DictSessions(), session_id="s"),
        ]
    )
    loop = AgentLoop(Echo(), hooks=hooks)
    loop.run(text, speaker="alice")
    assert hooks.failures() == []
    assert isinstance(loop.ctx, TurnContext)


def test_a_worse_fact_is_not_said_because_the_best_stands_there_already(tmp_path: Path) -> None:
    """Asked twice for the same, the model has the answer; the next best fact is another answer, and a wrong one."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n[recall]\ndeadline_ms = 60000\n')
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("cat.food", "salmon twice a day")
        memory.store.add_fact("dog.food", "dry and often")
        for number in range(30):
            memory.store.add_fact(f"thing{number}.place", f"drawer {number} of the shelf")
        memory.idle(10.0)
        loop = loop_with(*memory.hooks(session_id="kitchen", speaker="ann"))
        shown = [
            loop.run(asked) and newest(loop)
            for asked in ("What food does the cat get?", "Which food does the cat get, once more?")
        ]
        assert shown == [
            "<memory>cat.food: salmon twice a day</memory>\nWhat food does the cat get?",
            "Which food does the cat get, once more?",
        ]
        loop.run("What food does the dog get?")
        assert "dry and often" in newest(loop)
