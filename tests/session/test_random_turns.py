"""Random loops over the door, against a naive model: no word stands under a wrong name, and no block is stored as words."""

import random
from pathlib import Path
from typing import Any

import pytest

from edgemem import Memory, Tool
from edgemem.errors import TurnEndedError
from edgemem.records import ToolCall, text_of
from edgemem.session.conversation import Conversation
from edgemem.session.turn import OpenTurn
from support.homes import opened, turns_of
from support.selection import cases

pytestmark = pytest.mark.usefixtures("patient")

LOOPS = 10_000
STEPS = 12
PEOPLE = ("alice", "bob", None)
FACTS = {"alice": "plays the harp", "bob": "plays the drums"}


class Naive:
    """What should stand in the database of one session."""

    def __init__(self) -> None:
        self.turns: list[dict[str, Any]] = []
        self.open: dict[str, Any] | None = None

    def end(self, state: str) -> None:
        if self.open is not None:
            self.turns.append({**self.open, "state": self.open["cut"] or state})
            self.open = None


class Loop:
    """A loop that tells everything to the door, in a random order."""

    def __init__(self, memory: Memory, session: str, dice: random.Random) -> None:
        self.memory, self.session, self.dice = memory, session, dice
        self.naive, self.n = Naive(), 0
        tool = Tool("look", "", {"type": "object", "properties": {}}, lambda: self.word("result"))
        self.agents: list[Conversation] = [
            memory.session(session, instructions=f"You are {name}.", tools=[tool], agent=name)
            for name in ("cook", "host")
        ]
        self.turn: OpenTurn | None = None
        self.handed: list[dict[str, Any]] = []

    def word(self, kind: str) -> str:
        self.n += 1
        return f"{kind} {self.session} {self.n}"

    def step(self) -> None:
        steps = [self.begin, self.look, self.call, self.add, self.reply, self.commit, self.abort]
        steps += [self.interrupt, self.fail, self.quiet, self.begin, self.look, self.reply]
        self.dice.choice(steps)()

    def begin(self) -> None:
        speaker, said = self.dice.choice(PEOPLE), self.word("said")
        said += self.dice.choice(["", " what music does alice make?", " <memory>- x</memory>"])
        self.naive.end("complete" if self.naive.open and self.naive.open["replied"] else "unfinished")
        private = self.dice.random() < 0.1 and speaker is not None
        audience = self.dice.choice([(), ("bob",), ("alice", "")])
        agent = self.dice.choice(self.agents)
        before = self.turn
        self.turn = agent.turn(said, speaker=speaker, private=private, audience=audience)
        assert before is None or not before.is_open
        self.naive.open = {
            "speaker": speaker, "messages": [("user", said)], "replied": False, "cut": "",
        }  # fmt: skip
        self.handed = []

    def _open(self) -> tuple[OpenTurn, dict[str, Any]]:
        if self.naive.open is None:
            self.begin()
        assert self.turn is not None
        assert self.naive.open is not None
        return self.turn, self.naive.open

    def look(self) -> None:
        """Read the prompt: it ends with the turn, and grows within it."""
        turn, naive = self._open()
        messages = turn.messages
        size = len(naive["messages"])
        assert [m["role"] for m in messages[-size:]] == [
            "user" if role == "agent" else role for role, _ in naive["messages"]
        ]
        assert text_of(messages[-size]).endswith(naive["messages"][0][1])
        assert messages[0]["content"].startswith("You are ")
        if not naive["cut"]:
            assert messages[: len(self.handed)] == self.handed
        self.handed = messages

    def call(self) -> None:
        turn, naive = self._open()
        ids = [f"c{self.n}-{k}" for k in range(self.dice.randint(1, 2))]
        said = self.dice.choice([None, self.word("aside")])
        calls = [{"id": i, "function": {"name": "look", "arguments": "{}"}} for i in ids]
        turn.add({"role": "assistant", "content": said, "tool_calls": calls})
        naive["messages"].append(("assistant", said))
        for i in ids:
            naive["messages"].append(("tool", turn.call(ToolCall("look", {}, i)).result))

    def add(self) -> None:
        """Add a message of the operator's or of an agent, or a tool's result that the loop has."""
        turn, naive = self._open()
        role = self.dice.choice(["system", "user", "developer"])
        text = self.word(role)
        turn.add({"role": role, "content": text})
        naive["messages"].append(("agent" if role == "user" else role, text))

    def reply(self) -> None:
        turn, naive = self._open()
        text = self.word("reply")
        turn.reply(text)
        naive["messages"].append(("assistant", text))
        naive["replied"] = True

    def commit(self) -> None:
        turn, _ = self._open()
        turn.commit()
        self.naive.end("complete")
        with pytest.raises(TurnEndedError):
            turn.reply("too late")

    def abort(self) -> None:
        turn, _ = self._open()
        turn.abort()
        self.naive.open = None

    def fail(self) -> None:
        turn, _ = self._open()
        with pytest.raises(OSError, match="broken"), turn:
            raise OSError("broken")
        self.naive.end("unfinished")

    def quiet(self) -> None:
        self.dice.choice(self.agents).idle(0.0)
        self.naive.end("complete" if self.naive.open and self.naive.open["replied"] else "unfinished")

    def interrupt(self) -> None:
        """Cut the newest reply off within its last word, or tell words that nobody said."""
        turn, naive = self._open()
        speeches = [text for role, text in naive["messages"] if role == "assistant" and text is not None]
        role, text = naive["messages"][-1]
        if role != "assistant" or speeches != [text]:
            return
        heard = self.dice.choice([text[:-1], text, "other words"])
        kept = self.agents[0].interrupt(heard, prepared=True)
        assert kept == ("" if heard == "other words" else heard)
        naive["messages"][-1] = (role, kept)
        naive["cut"] = "interrupted"
        turn.commit()
        self.naive.end("interrupted")
        assert self.agents[0].interrupt(self.dice.choice(["other words", "who knows"])) is None

    def check(self) -> None:
        for agent in self.agents:
            agent.close()
            assert agent.failures() == []
        self.naive.end("complete" if self.naive.open and self.naive.open["replied"] else "unfinished")
        stored = turns_of(self.memory, self.session)
        assert len(stored) == len(self.naive.turns)
        for turn, naive in zip(stored, self.naive.turns, strict=True):
            assert [(m.role, m.content) for m in turn.messages] == naive["messages"]
            assert (turn.heard.speaker if turn.heard else None) == naive["speaker"]
            assert turn.state == naive["state"]
            for message in turn.messages:
                for fact in FACTS.values():
                    assert fact not in (message.content or "")


def test_every_word_stands_under_its_own_name(tmp_path: Path, record_property: Any) -> None:
    """Whatever is told in whatever order: each message is stored in its turn, under the name of its speaker, without a block."""
    loops = cases(LOOPS)
    with opened(tmp_path / "home") as memory:
        for name, fact in FACTS.items():
            memory.store.add_fact(f"{name}.music", fact, scope="household")
        memory.idle(5)
        for seed in range(loops):
            loop = Loop(memory, f"s{seed}", random.Random(seed))
            for _ in range(STEPS):
                loop.step()
            loop.check()
    record_property("loops", loops)
