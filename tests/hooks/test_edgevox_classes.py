"""Hooks, stores and tools of edgemem handed straight to agents of the real EdgeVox, as its pages do with its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.memory import Memory
from support.homes import opened
from support.loops import EdgeVoxModel, calls, calls_in_words, hands_over, make_agent, new_context, tool
from support.tokenizers import WordTokenizer

pytestmark = pytest.mark.usefixtures("patient", "edgevox")


def turns(memory: Memory, session: str = "kitchen") -> list[tuple[str | None, list[tuple[str, str]]]]:
    memory.diagnostics.database.flush()
    return [
        (turn.heard.speaker if turn.heard else None, [(m.role, str(m.content)) for m in turn.messages])
        for turn in memory.sessions.journal.read_turns(session)
    ]


def agent_of(memory: Memory, *said: Any, name: str = "kitchen", **how: Any) -> tuple[Any, EdgeVoxModel]:
    """Return an agent whose hooks are those of a session of anna."""
    hooks = memory.hooks(session_id="kitchen", speaker="anna", tokenizer=WordTokenizer())
    return make_agent(*said, name=name, hooks=hooks, **how)


def test_the_typical_wiring_of_the_seeds_page_runs_as_written(tmp_path: Path) -> None:
    """With the import changed: facts reach the model, notes and calls are kept, the session comes back."""
    for n in range(2):
        store = edgemem.JSONMemoryStore(tmp_path / "kitchen.json")
        notes = edgemem.NotesFile(tmp_path / "kitchen-notes.md")
        if n == 0:
            store.add_fact("user.allergies", "peanuts")
            notes.append("The oven runs hot.")
        sessions = edgemem.SQLiteSessionStore(tmp_path / "sessions.db")
        agent, model = make_agent(
            *([calls("remember_fact", key="salt", value="on the top shelf"), calls("look")] * (n == 0)),
            tools=[*edgemem.memory_tools(store), tool("look", lambda: "a cup")],
            hooks=[
                edgemem.MemoryInjectionHook(store),
                edgemem.NotesInjectorHook(notes),
                edgemem.TokenBudgetHook(max_context_tokens=3500),
                edgemem.ContextCompactionHook(edgemem.Compactor(trigger_tokens=3000)),
                edgemem.EpisodeLoggerHook(store, agent_name="kitchen"),
                edgemem.PersistSessionHook(session_store=sessions, session_id="kitchen"),
            ],
        )
        assert agent.run("Where is the salt?").reply == "ok"
        shown = str(model.handed[0])
        found = [words in shown for words in ("on the top shelf", "peanuts", "oven runs hot")]
        assert found == [n == 1, True, True]
        store.flush()
        stored = sessions.load("kitchen")
        assert stored is not None
        asked = [message["content"] for message in stored.messages if message["role"] == "user"]
        assert asked == ["Where is the salt?"] * (n + 1)
        assert "<memory" not in str(stored.messages)
        assert [episode.payload["name"] for episode in store.recent_episodes()] == ["look"]
        sessions.close()
        store.close()


@pytest.mark.parametrize("window", [1800, 2048, 3072, 4096])
def test_no_block_is_stored_as_words_in_200_turns_with_tools(tmp_path: Path, window: int) -> None:
    """Whatever epoch begins when a tool is called, the person's words are what the person said."""
    with opened(tmp_path / "home", f"[context]\nwindow_tokens = {window}\n") as memory:
        for n in range(20):
            memory.store.add_fact(f"kitchen.thing.{n}", f"shelf {n}", scope="global")
        look = tool("look", lambda place: f"a cup in the {place}", place="string")
        agent, model = agent_of(memory, tools=[look])
        ctx, said = new_context(), []
        for n in range(200):
            call = (calls, calls_in_words)[n % 3 == 0]("look", place=f"place {n} " * 8)
            model.said = [call, f"reply {n} " * 12] if n % 4 else [call, call, f"reply {n} " * 12]
            said.append(f"utterance {n}: where is thing {n % 20} of the kitchen? " * 3)
            agent.run(said[-1], ctx)
            if n % 10 == 9:
                memory.idle(1)
        stored = turns(memory)
        assert [speaker for speaker, _ in stored] == ["anna"] * 200
        asked = [[text for role, text in messages if role == "user"] for _, messages in stored]
        assert asked == [[text] for text in said]
        assert "<memory" not in str(stored)
        assert any("<memory" in str(prompt) for prompt in model.handed)


WORKFLOWS: dict[str, tuple[list[tuple[str, ...]], Callable[[Any, list[Any]], Any]]] = {
    "Sequence": ([("It was positive.",), ("She is told.",)], lambda of, a: of.Sequence("ward", a)),
    "Loop": (
        [("One egg.", "Two eggs.", "Three eggs.")],
        lambda of, a: of.Loop("count", a[0], until=lambda _: False, max_iterations=3),
    ),
    "Parallel": ([("Yes.",), ("No.",), ("Perhaps.",)], lambda of, a: of.Parallel("all", a)),
    "Fallback": ([("",), ("Yes.",)], lambda of, a: of.Fallback("try", a)),
    "Retry": ([("", "Yes.")], lambda of, a: of.Retry(a[0])),
    "Timeout": ([("Yes.",)], lambda of, a: of.Timeout(a[0], seconds=60)),
}
"""What each agent of a workflow says, and how the workflow is made of them."""


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_is_one_turn_of_who_spoke(memory: Memory, name: str) -> None:
    """What was said is stored once; what one agent tells the next is a reply, and nobody's words."""
    from edgevox.agents import workflow

    said, make = WORKFLOWS[name]
    ctx = new_context()
    for n in range(2):
        agents = [agent_of(memory, *replies, name=f"agent {at}") for at, replies in enumerate(said)]
        run = make(workflow, [agent for agent, _ in agents])
        run.run(f"Question {n}?", ctx)
        speaker, messages = turns(memory)[-1]
        assert speaker == "anna"
        assert [text for role, text in messages if role == "user"] == [f"Question {n}?"]
        replies = [text for role, text in messages if role == "assistant" and text]
        assert sorted(replies) == sorted(text for replies in said for text in replies if text)
        if name == "Sequence":
            assert "It was positive." in str(agents[1][1].handed[0][-1]["content"])
    assert len(turns(memory)) == 2


def test_what_one_agent_asks_the_next_is_as_private_as_the_answer(memory: Memory) -> None:
    """It stays in the session of EdgeVox, and stands in nobody else's prompt."""
    from edgevox.agents import workflow

    memory.store.add_fact("door code", "4711", scope="user:anna")
    memory.idle(1)
    hooks = memory.hooks(session_id="kitchen", speaker="anna")
    replies = ("The door code is 4711.", "Hello."), ("Anna, it is 4711.", "Hello, Ben.")
    agents = [make_agent(*said, name=f"agent {n}", hooks=hooks) for n, said in enumerate(replies)]
    run, ctx = workflow.Sequence("both", [agent for agent, _ in agents]), new_context()
    run.run("What is the door code?", ctx)
    assert agents[1][1].handed[0][-1]["content"] == "The door code is 4711."
    hooks[0].adapter.conversation.speaker = "ben"  # type: ignore[attr-defined]
    run.run("Good evening.", ctx)
    assert not any("4711" in str(model.handed[-1][1:]) for _, model in agents)
    roles = ["user", "assistant", "agent", "assistant"]
    assert [[role for role, _ in said] for _, said in turns(memory)] == [roles] * 2


def test_an_orchestrators_tasks_are_nobodys_words(memory: Memory) -> None:
    """What a lead asks its workers was said by nobody."""
    from edgevox.agents.workflow import Orchestrator

    crew = Orchestrator("crew", "Plan.", "Sum up.")
    tasks = [{"objective": "Find the salt.", "tools": []}, {"objective": "Find the oil.", "tools": []}]
    model = EdgeVoxModel(calls("emit_plan", subtasks=tasks), "planned", "on the shelf", "there", "All found.")
    for agent in (vars(crew)["_lead"], vars(crew)["_synth"]):
        agent.bind_llm(model)
        for hook in memory.hooks(session_id="kitchen", speaker="anna"):
            agent.register_hook(hook)
    assert crew.run("What do we need?", new_context()).reply == "All found."
    ((speaker, messages),) = turns(memory)
    assert speaker == "anna"
    assert [text for role, text in messages if role == "user"] == ["What do we need?"]


@pytest.mark.parametrize("other_has_hooks", [False, True])
def test_a_handoff_is_one_turn(memory: Memory, other_has_hooks: bool) -> None:
    """Whichever agent answers, the utterance is its speaker's, and the reply is kept once."""
    make = agent_of if other_has_hooks else lambda _, *said, **how: make_agent(*said, **how)
    cook, _ = make(memory, "Soup, I think.", "Bread.", name="cook")
    agent, model = agent_of(memory, hands_over("cook"), handoffs=[cook])
    ctx = new_context()
    assert agent.run("What shall we eat?", ctx).reply == "Soup, I think."
    model.said = ["You are welcome."]
    agent.run("Thank you.", ctx)
    stored = turns(memory)
    assert [speaker for speaker, _ in stored] == ["anna", "anna"]
    asked = [text for _, said in stored for role, text in said if role == "user"]
    assert asked == ["What shall we eat?", "Thank you."]
    assert [m[-1] for _, m in stored] == [("assistant", "Soup, I think."), ("assistant", "You are welcome.")]


def test_tools_of_ours_run_for_who_spoke(memory: Memory) -> None:
    """`memory.tools` handed to the agent itself know who speaks in the turn that calls them."""
    agent, model = agent_of(memory, tools=memory.tools(speaker="anna"))
    ctx = new_context()
    model.said = [calls("remember_fact", key="code", value="moon", scope="me")]
    agent.run("My code is moon.", ctx)
    assert memory.store.get_fact("code", scope="user:anna") == "moon"
    model.said = [calls("recall_fact", key="code")]
    agent.run("What is my code?", ctx)
    assert "moon" in str(model.handed[-1][-1])
    assert len(turns(memory)) == 2
