"""Loops that own their list, against a naive account of who said what: whatever they do with it, words stay their speaker's.

A loop is drawn: its window, how it keeps and edits its list, its tools, the form of its messages, and who speaks.
"""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

import edgemem
from edgemem.config import ContextSettings, Profile, StoreSettings
from edgemem.hooks import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_RUN_END,
    ON_RUN_START,
    AgentResult,
    HookRegistry,
    ToolCallRequest,
    ToolCallResult,
    TurnContext,
)
from edgemem.memory import Memory
from edgemem.records import Message, Session
from support.homes import BY_WORDS
from support.selection import cases
from support.tokenizers import WordTokenizer

WINDOWS = (1800, 2048, 3072, 4096)
PEOPLE = ("anna", "ben", "cleo", None)
LISTS = ("of the context", "its own", "its own, handed back", "its own, copied")
"""Whose list it is, and whether the loop takes what the hooks put in its place."""
EDITS = [
    "none", "none", "none", "trimmed", "trimmed to the newest", "summarised by the user",
    "summarised by the system", "reordered", "edited", "dropped", "foreign role", "system in the middle",
    "developer in the middle", "stripped", "somebody else's words before the newest", "thought aloud",
]  # fmt: skip
TOOLS = ("none", "none", "one", "two at once", "two hops", "one, untold", "answered as a user")
FORMS = ("text", "text", "text", "parts", "one part", "parts of an answer", "parts with an image", "spoken")
BESIDE: list[dict[str, Any]] = [{}, {}, {}, {"images": ["AAAA"]}, {"name": "somebody"}]
"""What a message carries beside its words."""
MARK = re.compile(r"zq[b-m]{7}")
FILLING = "the kettle and the bread and the garden and the letter and the boat and the garage "


class Account:
    """What a naive reader knows of each word: who said it, or that nobody did, and in which turn."""

    def __init__(self) -> None:
        self.speakers: dict[str, str | None] = {}
        self.roles: dict[str, str] = {}
        """`user`, `assistant` or `tool` as it was said in a turn; `nobody`: only the list ever held it."""

    def word(self, role: str, speaker: str | None = None) -> str:
        n = len(self.roles)
        mark = "zq" + "".join("bcdfghjklm"[n // 10**place % 10] for place in range(7))
        self.roles[mark], self.speakers[mark] = role, speaker
        return mark


class Loop:
    def __init__(self, memory: Memory, dice: random.Random, account: Account, session: str) -> None:
        self.memory, self.dice, self.account, self.session = memory, dice, account, session
        self.kind = dice.choice(LISTS)
        self.ctx = TurnContext(Session())
        self.messages: list[Message] = [{"role": "system", "content": "You help at home."}]
        if dice.random() < 0.3:
            self.messages.append({"role": "developer", "content": "Be short."})
        self.said: list[tuple[str | None, str, str]] = []
        """Who said what, and what was answered, turn by turn."""
        self.hooks = HookRegistry(memory.hooks(session_id=session, tokenizer=WordTokenizer()))
        self.blocks = 0

    def turn(self) -> None:
        dice, speaker = self.dice, self.dice.choice(PEOPLE)
        asked = self.account.word("user", speaker)
        answered = self.account.word("assistant", speaker)
        text = f"{asked}, where is thing {dice.randrange(20)} of the kitchen? {FILLING * dice.randrange(6)}".strip()
        self.hooks.fire(ON_RUN_START, self.ctx, {"task": text, "speaker": speaker})
        self.messages.append({"role": "user", "content": self.form(text), **dice.choice(BESIDE)})
        behind = self.behind()
        self.messages += behind
        first = handed = self.ask(0)
        own = handed[-1 - len(behind)]
        assert str(_words(own)).endswith(text), (self.kind, own)
        assert own.get("images") == self.messages[-1 - len(behind)].get("images")
        assert handed[len(handed) - len(behind) :] == behind
        self.blocks += "<memory" in str(own["content"])
        tools, hop = dice.choice(TOOLS), 0
        for _ in range({"none": 0, "two hops": 2}.get(tools, 1)):
            hop += 1
            self.call(tools, hop)
            handed = self.ask(hop)
            if handed[: len(first)] != first:
                # The result had no room left: an epoch began, earlier turns left, and this one stays as it was read.
                assert len(handed) < len(first), "what the model has read in this turn has changed"
                before, after = (_place(text, messages) for messages in (first, handed))
                assert handed[after + 1 :][: len(first) - before - 1] == first[before + 1 :]
            first = handed
        reply = f"{answered}. {FILLING * dice.randrange(3)}"
        self.hooks.fire(AFTER_LLM, self.ctx, {"content": reply, "tool_calls": [], "hop": hop})
        self.messages.append({"role": "assistant", "content": self.answer(reply)})
        self.hooks.fire(ON_RUN_END, self.ctx, dice.choice([AgentResult(reply), reply, {"reply": reply}]))
        self.said.append((speaker, text, reply.strip()))

    def ask(self, hop: int) -> list[Message]:
        """Have the prompt made, look at it, and keep what the loop keeps of it."""
        if self.kind == "of the context":
            self.ctx.session.messages = self.messages
        copied = self.kind == "its own, copied"
        given = json.loads(json.dumps(self.messages)) if copied else list(self.messages)
        fired = self.hooks.fire(BEFORE_LLM, self.ctx, {"messages": given, "hop": hop, "tools": []})
        handed = self.handed = list(fired.payload["messages"])
        placed = [m["content"] for m in self.messages if m["role"] in ("system", "developer")]
        left = iter([m["content"] for m in handed if m["role"] in ("system", "developer")])
        assert all(any(text == other for other in left) for text in placed), "instructions are gone or moved"
        assert all(str(message.get("content")).count("<memory") <= 2 for message in handed)
        if self.kind == "its own, handed back":
            self.messages = list(handed)
        return handed

    def call(self, tools: str, hop: int) -> None:
        ids = [f"c{hop}{n}" for n in range(2 if tools == "two at once" else 1)]
        look = {"name": "look", "arguments": "{}"}
        calls = [{"id": id_, "type": "function", "function": look} for id_ in ids]
        if tools != "one, untold":
            self.hooks.fire(AFTER_LLM, self.ctx, {"content": "", "tool_calls": calls, "hop": hop - 1})
        results = [f"seen {self.account.word('tool')}" for _ in ids]
        if tools != "one, untold":
            for id_, result in zip(ids, results, strict=True):
                self.hooks.fire(BEFORE_TOOL, self.ctx, ToolCallRequest("look", {}, id=id_))
                self.hooks.fire(AFTER_TOOL, self.ctx, ToolCallResult("look", {}, result, id=id_))
        if tools == "answered as a user":
            self.messages.append({"role": "assistant", "content": "I look."})
            self.messages.append({"role": "user", "content": f"(tool results: {results[0]}. Answer now.)"})
            return
        self.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for id_, result in zip(ids, results, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": id_, "name": "look", "content": result})

    def behind(self) -> list[Message]:
        """Return what the loop puts behind an utterance, which nobody says."""
        if self.dice.random() < 0.8:
            return []
        texts = "Answer briefly.", f"Context: {self.account.word('nobody')} is in the recipe."
        return [{"role": self.dice.choice(["user", "context"]), "content": self.dice.choice(texts)}]

    def form(self, text: str) -> Any:
        part = {"type": "text", "text": text}
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        return {
            "text": text, "one part": part, "parts": [part],
            "parts of an answer": [{"type": "input_text", "text": text}],
            "parts with an image": [image, part],
            "spoken": [{"type": "input_audio", "input_audio": {"data": "AAAA"}, "transcript": text}],
        }[self.dice.choice(FORMS)]  # fmt: skip

    def answer(self, reply: str) -> Any:
        thought = f"{self.account.word('nobody')} is a thought"
        text = reply, reply, reply, reply.strip(), f"  {reply}\n", f"<think>{thought}</think>{reply}"
        parts = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": reply}]
        return self.dice.choice([*text, parts, [{"type": "output_text", "text": reply}]])

    def edit(self) -> None:
        dice, how, messages = self.dice, self.dice.choice(EDITS), self.messages
        head = sum(message["role"] in ("system", "developer") for message in messages[:2])
        n = dice.randrange(head, len(messages)) if len(messages) > head else None
        strange = f"{self.account.word('nobody')} was never said"
        if how == "trimmed":
            del messages[head : dice.randrange(head, len(messages) + 1)]
        elif how == "trimmed to the newest":
            del messages[head:-2]
        elif how.startswith("summarised") and len(messages) > head + 4:
            role = "user" if how.endswith("user") else "system"
            messages[head:-2] = [{"role": role, "content": f"So far: {strange}."}]
        elif how == "reordered" and len(messages) > head + 4:
            messages[head], messages[head + 2] = messages[head + 2], messages[head]
        elif how == "edited" and n is not None and isinstance(messages[n]["content"], str):
            messages[n] = {**messages[n], "content": f"{strange}, as edited"}
        elif how == "dropped" and n is not None:
            del messages[n]
        elif how == "stripped":
            messages[:] = [{"role": m["role"], "content": m["content"]} for m in messages if isinstance(m["content"], str) and m["role"] != "tool" and m["content"]]  # fmt: skip
        elif how == "foreign role":
            messages.append({"role": dice.choice(["critic", "function", "ipython"]), "content": strange})
        elif how == "thought aloud":
            messages.append({"role": "assistant", "content": f"<think>{strange}</think>"})
        elif how.endswith("in the middle"):
            messages.insert(n or len(messages), {"role": how.split()[0], "content": f"Note: {strange}."})
        elif how.startswith("somebody") and n is not None:
            messages.insert(n, {"role": "user", "content": strange})

    def close(self) -> None:
        """Hold what is stored against what was said."""
        assert self.hooks.failures() == [], self.hooks.failures()
        stored: list[tuple[str | None, str, str]] = []
        for turn in self.memory.sessions.journal.read_turns(self.session):
            speaker = turn.heard.speaker if turn.heard is not None else None
            for message in turn.messages:
                text = str(message.content)
                assert "<memory" not in text, "a block was stored as words"
                for mark in MARK.findall(text):
                    self.hold(mark, message.role, speaker)
            asked = [str(message.content) for message in turn.messages if message.role == "user"]
            replies = [str(message.content) for message in turn.messages if message.role == "assistant"]
            if any(self.account.roles[mark] == "user" for text in asked for mark in MARK.findall(text)):
                stored.append((speaker, asked[0], replies[-1].strip()))
        assert stored == self.said, "each utterance is stored once, as it was said, with its reply"

    def hold(self, mark: str, role: str, speaker: str | None) -> None:
        known = self.account.roles[mark]
        if known == "nobody":
            assert role != "user" or speaker is None, "nobody's words were stored as a person's"
            assert role != "assistant" or speaker is None, "a thought was stored as a reply"
        elif known == "user":
            assert (role, speaker) == ("user", self.account.speakers[mark]), (mark, role, speaker)
        else:
            assert role != "user" or speaker is None, "words of a tool or robot were stored as a person's"


@pytest.fixture(scope="module", params=WINDOWS)
def memory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Return a memory with a small window, and with things to tell of."""
    context, store = ContextSettings(window_tokens=request.param), StoreSettings(commit_wait_s=0.0)
    profile = Profile(llama=BY_WORDS.llama, store=store, context=context)
    home = tmp_path_factory.mktemp("lists") / "home"
    with edgemem.open(home, profile=profile, worker=False, watch=False) as opened:
        for n in range(20):
            opened.store.add_fact(f"kitchen.thing.{n}", f"shelf {n}", scope="global")
        opened.idle(5)
        yield opened


@pytest.mark.long
def test_whatever_a_loop_does_with_its_list_words_stay_their_speakers(memory: Memory) -> None:
    """No word stands under a wrong name, no block is stored as words, and each utterance is stored once with its reply."""
    account, blocks = Account(), 0
    for case in range(cases(2500)):
        dice = random.Random(case)
        loop = Loop(memory, dice, account, f"list {case}")
        for n in range(dice.choice([2, 4, 8, 16])):
            if n:
                loop.edit()
            loop.turn()
            if dice.random() < 0.2:
                memory.idle(1)
        memory.diagnostics.database.flush()
        loop.close()
        blocks += loop.blocks
    assert blocks > cases(2500), "memory was hardly ever put before the model"


def _place(text: str, messages: list[Message]) -> int:
    """Return where the newest message is that ends with a text."""
    return max(n for n, message in enumerate(messages) if str(_words(message)).endswith(text))


def _words(message: Message) -> Any:
    content = message["content"]
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content or {}]
    return "".join(str(part.get("text") or part.get("transcript") or "") for part in parts)
