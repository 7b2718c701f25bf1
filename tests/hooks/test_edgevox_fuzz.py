"""Random talks with a real EdgeVox agent, against a naive account of who said what."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from edgemem.hooks import load
from edgemem.memory import Memory
from support.homes import opened
from support.loops import calls, calls_in_words, hands_over, make_agent, new_context, tool, words
from support.selection import cases

pytestmark = pytest.mark.usefixtures("patient", "edgevox")

KINDS = ("plain", "call", "call in words", "two calls in words", "handed over", "fails", "fails behind a call",
         "other fails", "cut off", "cut off while it thinks", "cut off in a tool")  # fmt: skip


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Return a memory without an embedder and without a thread for upkeep."""
    with opened(tmp_path_factory.mktemp("fuzz")) as memory:
        yield memory


class Account:
    """A talk, and the naive account of it."""

    def __init__(self, memory: Memory, chance: random.Random, session: str) -> None:
        from edgevox.agents import InterruptController

        self.chance, self.session, self.memory = chance, session, memory
        look = tool("look", lambda place: f"a cup in the {place}", place="string")
        self.cook, self.cooking = make_agent(name="cook")
        self.interrupt = InterruptController()
        walk = tool("walk", lambda: self.interrupt.trigger("user_barge_in"))
        self.agent, self.model = make_agent(handoffs=[self.cook], tools=[look, walk])
        self.ctx = new_context(interrupt=self.interrupt)
        self.at_agent = chance.random() < 0.5
        where = self.agent if self.at_agent else self.ctx.hooks
        self.ears = load("edgevox_loop").attach(where, memory, session_id=session, memory_tools=False)
        self.turns: list[tuple[str | None, str, list[str], list[str]]] = []
        self.prompts: dict[str, list[list[dict[str, Any]]]] = {}

    def say(self, n: int) -> None:
        """Have one turn, of any kind."""
        chance, model = self.chance, self.model
        speaker = chance.choice(["alice", "bob", None])
        kind = chance.choice(KINDS)
        task, reply = f"utterance {n} of {speaker}", f"reply {n}"
        if chance.random() < 0.2:  # EdgeVox's own default: a context for each run
            self.ctx = new_context(interrupt=self.interrupt, hooks=self.ctx.hooks)
        self.ears.speaker = speaker
        model.said, self.cooking.said, model.handed, state = [reply], [reply], [], "complete"
        replies = [reply]
        if kind in ("call", "call in words", "two calls in words", "fails behind a call"):
            shape = calls if kind == "call" else calls_in_words
            times = 2 if kind == "two calls in words" else 1
            model.said = [*(shape("look", place=f"place {n}") for _ in range(times)), reply]
            replies = [""] * times + [reply]
        if kind == "handed over":
            model.said = [hands_over("cook")]
        elif kind == "other fails":
            model.said, self.cooking.said = [hands_over("cook")], [OSError("gone")]
        elif kind == "fails":
            model.said = [OSError("gone")]
        elif kind == "fails behind a call":
            model.said[-1] = OSError("gone")
        elif kind == "cut off while it thinks":
            model.said = [self._cut_off(reply)]
        elif kind == "cut off in a tool":
            model.said, replies, state = [calls_in_words("walk")], [], "interrupted"
        if "fails" in kind:
            replies, state = replies[:-1], "unfinished"
        if kind == "cut off while it thinks":
            state = "interrupted"
        try:
            self.agent.run(task, self.ctx)
        except OSError:
            assert "fails" in kind
        if kind == "cut off":
            state = "interrupted"
            if chance.random() < 0.5:
                self.ears.interrupt("reply")
                replies[-1] = "reply"
            self.interrupt.trigger("user_barge_in")
        self.turns.append((speaker, state, [task], replies))
        self.prompts.setdefault(str(speaker), []).extend(model.handed)

    def _cut_off(self, reply: str) -> Any:
        def think(_: Any) -> str:
            self.interrupt.trigger("user_barge_in")
            return reply

        return think

    def check(self) -> None:
        """Compare what is stored and what the model was handed with the account."""
        self.ears.speaker, self.model.said = "alice", []
        self.agent.run("the last", self.ctx)
        self.turns.append(("alice", "complete", ["the last"], ["ok"]))
        self.memory.diagnostics.database.flush()
        stored = [
            (
                turn.heard.speaker if turn.heard else None,
                turn.state,
                [m.content for m in turn.messages if m.role == "user"],
                [m.content or "" for m in turn.messages if m.role == "assistant"],
            )
            for turn in self.memory.sessions.journal.read_turns(self.session)
        ]
        assert stored == self.turns
        assert self.ears.failures() == []
        for prompts in self.prompts.values():
            # What a barge-in cuts is the one change that is allowed; all else only grows.
            for earlier, later in pairwise(prompts):
                for was, now in zip(earlier, later, strict=False):
                    assert was == now or words(was).startswith(words(now))
                assert len(earlier) <= len(later)
        everything = str(self.prompts)
        assert "Now answer" not in everything
        assert "__interrupt__" not in everything


@pytest.mark.long
def test_random_talks_are_kept_as_they_were(memory: Memory) -> None:
    """Of 2,000 talks each turn has its speaker, its words and its end, and prompts only grow."""
    for case in range(cases(2000)):
        account = Account(memory, random.Random(case), f"talk-{case}")
        for n in range(account.chance.randrange(1, 8)):
            account.say(n)
        account.check()
