"""Random loops: they raise, forget, abort, cut in, hand over and come back; each word stays its speaker's."""

import json
import logging
import random
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem.config import LlamaSettings, Profile, StoreSettings
from edgemem.hooks import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_ABORT,
    ON_INTERRUPT,
    ON_RUN_END,
    ON_RUN_START,
    AgentResult,
    HookRegistry,
    PersistSessionHook,
    ToolCallRequest,
    ToolCallResult,
    TurnContext,
)
from edgemem.memory import Memory
from edgemem.records import Message, Reader, Session
from edgemem.store.json.sessions import JSONSessionStore
from support.selection import cases

PEOPLE = ("anna", "ben", "cleo", None)
LISTS = ("grows", "grows early", "at the end", "is taken back", "is copied", "keeps the view")
"""How a loop keeps its list of what was said."""

TURNS = (
    *("ends", "ends", "ends", "raises", "raises", "forgets to end", "ends with an error", "ends twice"),
    *("ends before the reply is kept", "aborts", "aborts and keeps it", "is asked again", "begins only"),
    *("fails before the prompt", "calls a tool", "raises behind a tool", "is cut off", "is cut off within"),
    *("answers and dies", "aborts before the prompt", "is told wrongly", "asks an agent"),
    *("leaves a tool running", "leaves a tool running", "is taken up again"),
    *("is asked again behind an error", "is asked again behind an error"),
    *("runs an agent in a tool", "runs an agent in a tool"),
    *("another speaks before the prompt", "another speaks behind it"),
)
BETWEEN = ("cut", "edit", "drop", "hand over", "resume", "resume with its list")

LEVELS = ("shared", "household", "private")
MARK = re.compile(r"zq[b-m]{7}")


def newest(messages: list[Message]) -> str:
    """Return the newest content in a person's place: results that came late stand behind it."""
    return str([message["content"] for message in messages if message["role"] == "user"][-1])


class Word(msgspec.Struct):
    """What a naive reader of this test knows of a word: who said it, who may read it, and whether it was thrown away."""

    speaker: str | None
    level: str
    gone: bool = False
    sure: bool = True
    """Whether it must be in the prompts of who may read it: nothing was edited, and no tool may have closed it."""
    late: bool = False
    """Whether a tool told it after its turn: ids repeat, so that it may be kept with a call that is as closed."""

    def may_be_read(self, reader: Reader) -> bool:
        """Tell whether a reader may be shown it, by the law alone."""
        if self.gone:
            return False
        if self.level == "private":
            return self.speaker is not None and self.speaker == reader.speaker and not reader.audience
        known = reader.speaker is not None and "" not in reader.audience
        return self.level == "shared" or known


class Talk:
    """One session, lived through by loops of all kinds."""

    def __init__(self, memory: Memory, dice: random.Random, words: dict[str, Word], session: str) -> None:
        self.memory, self.dice, self.words, self.session = memory, dice, words, session
        self.mine: list[str] = []
        self.json = JSONSessionStore(memory.home / "json") if dice.random() < 0.1 else None
        self.full = dice.random() < 0.2
        self.joins = dice.random() < 0.2
        """Whether it joins what was said with no answer between, as some chat templates want it."""
        self.tells_time = dice.random() < 0.2
        """Whether another system message stands beside each utterance."""
        self.edited = False
        """Whether words may be missing in its prompts: the loop changed its list, or was cut off in something private."""
        self.planned = ""
        """What an agent was asked in this turn."""
        self.tools: list[tuple[str, str | None, bool]] = []
        """The ids of calls whose results have not come yet, who asked, and whether in private."""
        self.unseen: set[str] = set()
        """Words that no hook has been shown yet."""
        self.begin(Session())

    def begin(self, session: Session) -> None:
        """Come with hooks of one's own, as a new process does."""
        if self.json is not None:
            hooks: Any = [PersistSessionHook(self.json, session_id=self.session)]
        elif self.full:
            hooks = self.memory.hooks(session_id=self.session)
        else:
            hooks = [PersistSessionHook(self.memory.sessions, session_id=self.session)]
        self.hooks = HookRegistry(hooks)
        self.other = TurnContext(Session())
        """Another loop of the session, whose turns come in between."""
        self.take_over(session)

    def take_over(self, session: Session) -> None:
        """Go on with another loop, and another list."""
        self.ctx = TurnContext(session)
        self.kind = self.dice.choice(LISTS)

    @property
    def said(self) -> list[Message]:
        return self.ctx.session.messages

    def word(self, speaker: str | None, *, private: bool) -> str:
        """Return a word that nobody has said before."""
        n = len(self.words)
        mark = "zq" + "".join("bcdfghjklm"[n // 10**place % 10] for place in range(7))
        level = "private" if private else "household" if speaker is not None else "shared"
        self.words[mark] = Word(speaker, level)
        self.mine.append(mark)
        return mark

    def turn(self) -> None:
        dice, how = self.dice, self.dice.choice(TURNS)
        speaker, private = dice.choice(PEOPLE), dice.random() < 0.4
        audience = (dice.choice(PEOPLE),) if dice.random() < 0.15 else ()
        self.may = Reader(speaker, frozenset(name or "" for name in audience if name != speaker))
        mark, self.planned = self.word(speaker, private=private), ""
        same = dice.random() < 0.15 and how != "is asked again"
        if (
            same
            and how == "is asked again"
            and any(self.words[each].gone for each in MARK.findall(str(self.said)))
        ):
            how = "ends"  # between words that were said twice, nobody can know what is left of something aborted
        text = "Hello." if same else f"Now {mark}, please."
        reply = f"{mark}."
        payload = {"task": text, "speaker": speaker, "private": private, "audience": audience}
        asked: Message = {"role": "user", "content": text}
        if self.kind == "is copied":
            self.said[:] = json.loads(json.dumps(self.said))
        if how == "is told wrongly":
            payload["audience"] = "dora"
            self.may = Reader(speaker, frozenset({""}))
            self.words[mark].level = "private"
            self.words[mark].sure = False
        late = self.late_result() if self.tools and how != "is asked again" and dice.random() < 0.5 else []
        is_before = dice.random() < 0.5
        if any(self.words[each].late for each in self.mine):
            # A late result is a call in the turn that reads it, which stays closed if it is left open.
            for each in self.mine[-4:]:
                self.words[each].sure = False
        self.said.extend(late if is_before else [])
        if self.kind == "grows early":
            self.said.append(asked)
        self.hooks.fire(ON_RUN_START, self.ctx, payload)
        self.before = self.said[: len(self.said) - (self.kind == "grows early")]
        if how == "begins only":
            if self.kind == "grows early":
                self.said.pop()
            self.words[mark].sure = False
            self.words[mark].gone = True
            return
        self.messages = self.said
        if self.kind == "at the end":
            self.messages = [*self.said, asked]
        elif self.kind != "grows early":
            self.said.append(asked)
        if how == "fails before the prompt":
            self.words[mark].sure &= self.kind != "at the end" and not same
            self.unseen.add(mark)
            return
        if how == "aborts before the prompt":
            self.words[mark].gone = True
            self.hooks.fire(ON_ABORT, self.ctx, {})
            if dice.random() < 0.5:
                self.said[:] = self.before
            return
        if how.startswith("another speaks"):
            self.words[mark].sure = False
        if how == "another speaks before the prompt":
            for each in self.unseen if same else ():
                self.words[each].sure = False  # behind which of the same words an answer stands, nobody knows
            self.interject()
        self.messages += [] if is_before else late
        self.ask(mark, text)
        if how == "another speaks behind it":
            self.interject()
        if how == "is asked again behind an error":
            self.hooks.fire(ON_RUN_END, self.ctx, AgentResult("", error="OSError: gone"))
            self.ask(mark, text)
        if how == "asks an agent":
            self.planned = self.word(speaker, private=private)
            self.words[mark].sure = self.words[self.planned].sure = False
            self.messages.append({"role": "user", "content": f"Planner: {self.planned}."})
            self.ask(mark, self.planned, hop=1)
        if how == "is asked again":
            self.words[mark].sure = False
            mark = self.word(speaker, private=private)
            reply = f"{mark}."
            newest = max(n for n, message in enumerate(self.messages) if message["role"] == "user")
            self.messages[newest] = {"role": "user", "content": f"Now then {mark}."}
            self.joins = False  # whose words these are no start has told
            self.ask(mark, mark)
        if how == "is taken up again" and self.json is None:
            self.take_up(mark, text)
        if how == "runs an agent in a tool":
            self.run_agent(speaker)
        if how in ("calls a tool", "raises behind a tool", "runs an agent in a tool"):
            self.words[mark].sure = False
            self.call(mark)
        if how == "leaves a tool running":
            self.words[mark].sure = False
            call_id = dice.choice(("c", f"c{len(self.words)}"))
            self.call(mark, call_id, is_done=False)
            self.tools.append((call_id, speaker, private))
        if how.startswith("raises"):
            # Who goes back to a list without what it has shown has changed it.
            self.edited |= how.endswith("tool") and self.kind == "at the end"
            if self.kind == "is taken back":
                self.said[:] = self.before
            if same and how == "raises":
                self.words[mark].gone = True  # the word would have come with the reply
            return
        self.end(how, reply, mark)

    def run_agent(self, speaker: str | None) -> None:
        """Have an agent with the same hooks speak in a tool, beside another tool or two: it is kept nowhere."""
        planned, agent, dice = self.word(speaker, private=False), TurnContext(Session()), self.dice
        self.words[planned].gone, self.words[planned].sure = True, False
        ids = [str(n) if dice.random() < 0.7 else "" for n in range(dice.randint(1, 3))]
        for call_id in ids:
            self.hooks.fire(BEFORE_TOOL, self.ctx, ToolCallRequest("look", {}, id=call_id))
        ended = dice.randrange(len(ids))
        for call_id in ids[:ended]:
            self.hooks.fire(AFTER_TOOL, self.ctx, ToolCallResult("look", {}, "done", id=call_id))
        said: list[Message] = [{"role": "user", "content": f"Look for {planned}."}]
        self.hooks.fire(ON_RUN_START, agent, {"task": f"Look for {planned}."})
        self.hooks.fire(BEFORE_LLM, agent, {"messages": said, "hop": 0, "tools": []})
        self.hooks.fire(ON_RUN_END, agent, AgentResult("Found."))
        for call_id in ids[ended:]:
            self.hooks.fire(AFTER_TOOL, self.ctx, ToolCallResult("look", {}, "done", id=call_id))

    def take_up(self, mark: str, text: str) -> None:
        """Ask on after a restart, without a new start."""
        gone = {mark for mark in self.mine if self.words[mark].gone} | self.unseen
        kept = [each for each in self.messages if not gone & set(MARK.findall(str(each["content"])))]
        self.memory.diagnostics.database.flush()  # as a process that is killed
        self.begin(Session(json.loads(json.dumps(kept))))
        self.kind, self.messages, self.joins = "grows", self.said, False
        for each in self.mine:
            self.words[each].sure = False
        self.edited = True
        self.ask(mark, text, hop=1)

    def late_result(self) -> list[Message]:
        """Return what a tool tells now that was called in an earlier turn."""
        call_id, speaker, private = self.tools.pop(self.dice.randrange(len(self.tools)))
        mark = self.word(speaker, private=private)
        self.words[mark].sure, self.words[mark].late = False, True
        return [{"role": "tool", "tool_call_id": call_id, "name": "look", "content": f"seen {mark} late"}]

    def interject(self) -> None:
        """Have another loop of the session live a turn of somebody else's."""
        speaker, private, mine = self.dice.choice(PEOPLE), self.dice.random() < 0.4, self.may
        mark, self.may = self.word(speaker, private=private), Reader(speaker)
        self.words[mark].sure = False
        text, said = f"Now {mark}, please.", self.other.session.messages
        self.hooks.fire(ON_RUN_START, self.other, {"task": text, "speaker": speaker, "private": private})
        said.append({"role": "user", "content": text})
        asked = {"messages": list(said), "hop": 0, "tools": []}
        handed = self.hooks.fire(BEFORE_LLM, self.other, asked).payload["messages"]
        self.check(handed, mark)
        assert text in newest(handed)
        said.append({"role": "assistant", "content": f"{mark}."})
        self.hooks.fire(ON_RUN_END, self.other, AgentResult(f"{mark}."))
        self.may = mine

    def ask(self, mark: str, text: str, hop: int = 0) -> None:
        """Have the prompt made, and look at it."""
        asked = {"messages": self.shown(), "hop": hop, "tools": []}
        handed = self.hooks.fire(BEFORE_LLM, self.ctx, asked).payload["messages"]
        self.check(handed, mark)
        self.unseen.clear()
        now = self.words[mark]
        if any(
            self.words[each].level == "private" and self.words[each].speaker == now.speaker
            for each in self.mine
        ):
            now.sure &= mark in text  # only the reply has it, which may be as private as its prompt
        # What is joined to words that are closed to a listener is left out with them.
        assert text in newest(handed) or (self.joins and hop)
        if self.kind in ("at the end", "keeps the view"):
            self.messages[:] = handed

    def shown(self) -> list[Message]:
        """Return its list as the loop makes it ready for a model."""
        shown: list[Message] = []
        for message in self.messages:
            older = shown[-1] if shown else {}
            gone = any(self.words[mark].gone for mark in MARK.findall(str(older)))
            if self.joins and older.get("role") == message["role"] == "user" and not gone:
                shown[-1] = {**message, "content": f"{older['content']}\n{message['content']}"}
            else:
                shown.append(message)
        if self.tells_time:
            moment: Message = {
                "role": self.dice.choice(("system", "developer")),
                "content": f"{len(self.words)} o'clock.",
            }
            users = [n for n, message in enumerate(shown) if message["role"] == "user"]
            shown.insert(users[-1] + self.dice.randrange(2), moment)
        return shown

    def check(self, handed: list[Message], now: str) -> None:
        """Compare a prompt with what its reader may read, and with what must stand in it."""
        there = set(MARK.findall(json.dumps(handed))) - {now, self.planned}
        wrong = [mark for mark in there if not self.words[mark].may_be_read(self.may)]
        assert not wrong, (wrong, [self.words[mark] for mark in wrong], self.may)
        if not self.edited:
            must = {m for m in self.mine if self.words[m].sure and self.words[m].may_be_read(self.may)}
            assert must - {now} <= there, (must - {now} - there, self.kind)

    def call(self, mark: str, call_id: str = "c", *, is_done: bool = True) -> None:
        """Have the model call a tool, which answers now or in a later turn."""
        calls = [{"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}]
        said = {"content": "", "tool_calls": calls, "hop": 0}
        self.hooks.fire(AFTER_LLM, self.ctx, said)
        self.messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        if is_done:
            self.hooks.fire(BEFORE_TOOL, self.ctx, ToolCallRequest("look", {}))
            self.hooks.fire(AFTER_TOOL, self.ctx, ToolCallResult("look", {}, f"seen {mark}"))
            result = {"role": "tool", "tool_call_id": call_id, "name": "look", "content": f"seen {mark}"}
            self.messages.append(result)
        asked = {"messages": list(self.messages), "hop": 1, "tools": []}
        handed = self.hooks.fire(BEFORE_LLM, self.ctx, asked).payload["messages"]
        self.check(handed, mark)
        if self.kind in ("at the end", "keeps the view"):
            self.messages[:] = handed

    def end(self, how: str, reply: str, mark: str) -> None:
        if how == "is cut off within":
            self.edited = True  # who is told that is told something private
            self.hooks.fire(ON_INTERRUPT, self.ctx, {"heard_text": mark})
        if self.dice.random() < 0.5 or how == "answers and dies":
            self.hooks.fire(AFTER_LLM, self.ctx, {"content": reply, "tool_calls": [], "hop": 0})
        if how == "answers and dies":
            return
        if how in ("aborts", "aborts and keeps it"):
            self.words[mark].gone = True
            if how == "aborts":
                self.said[:] = self.before
            elif self.kind != "at the end" and self.dice.random() < 0.5:
                self.said.append({"role": "assistant", "content": reply})
            self.hooks.fire(ON_ABORT, self.ctx, {})
            return
        ended = AgentResult(reply, error="OSError: gone" if how == "ends with an error" else None)
        kept: Message = {"role": "assistant", "content": reply}
        if how == "ends before the reply is kept":
            if self.kind == "at the end":
                self.ctx.session.messages = self.messages
            self.hooks.fire(ON_RUN_END, self.ctx, ended)
            self.messages.append(kept)
            return
        self.messages.append(kept)
        if self.kind == "at the end":
            self.ctx.session.messages = self.messages
        if how == "forgets to end":
            self.unseen.add(mark)
            return
        for _ in range(2 if how == "ends twice" else 1):
            self.hooks.fire(ON_RUN_END, self.ctx, ended)
        if how == "is cut off":
            self.edited = True
            self.hooks.fire(ON_INTERRUPT, self.ctx, {"heard_text": ""})
            self.words[mark].sure = False

    def between(self) -> None:
        dice, how, said = self.dice, self.dice.choice(BETWEEN), self.said
        if how in ("cut", "drop", "edit"):
            self.edited = True
            if any(self.words[mark].gone for mark in MARK.findall(str(said))):
                return  # what is left of something aborted, and changed, nobody can know
            if how == "cut":
                del said[: dice.randrange(4)]
            elif said and how == "drop":
                del said[dice.randrange(len(said))]
            elif said:
                n = dice.randrange(len(said))
                text = str(said[n]["content"])
                said[n] = {**said[n], "content": f"{text[-40:]} as edited"}
        elif how == "hand over":
            self.take_over(Session())
        elif self.json is None or how == "resume":
            brought = []
            keeps = self.kind not in ("at the end", "keeps the view") and not self.edited
            if how == "resume with its list" and keeps:
                gone = {mark for mark in self.mine if self.words[mark].gone} | self.unseen
                known = [message for message in said if "as edited" not in str(message["content"])]
                brought = [each for each in known if not gone & set(MARK.findall(str(each["content"])))]
                self.edited = True
            for mark in self.unseen:
                self.words[mark].sure = False
            self.unseen.clear()
            self.memory.diagnostics.database.flush()  # as a process that ends
            if self.json is not None or brought:
                for mark in self.mine:
                    self.words[mark].sure = False  # what was left open is not in a JSON file yet
            self.begin(Session(json.loads(json.dumps(brought))))

    def close(self) -> None:
        """Look at what is stored: each word under the name of who said it, as private as it was said."""
        messages = [failure.message for failure in self.hooks.failures()]
        told = ("`audience` must be a list", "before its loop had its reply", "an id of its own", "is busy")
        assert [message for message in messages if not any(known in message for known in told)] == []
        if self.json is not None:
            return
        for turn in self.memory.sessions.journal.read_turns(self.session):
            for mark in MARK.findall(str([message.content for message in turn.messages])):
                word = self.words[mark]
                speaker = turn.heard.speaker if turn.heard is not None else None
                # What came from no turn is in nobody's name, and no more open than it was.
                if speaker is turn.owner is None and LEVELS.index(turn.level) >= LEVELS.index(word.level):
                    continue
                if word.late:
                    assert turn.answer is not None, turn
                    assert LEVELS.index(turn.answer) >= LEVELS.index(word.level), (mark, word, turn)
                    assert turn.answer != "private" or word.may_be_read(Reader(turn.owner)), (mark, word)
                    continue
                if speaker is None and all(message.role != "user" for message in turn.messages):
                    # What the loop put between turns in the robot's name is closed as the turn before it.
                    assert turn.owner is None or word.may_be_read(Reader(turn.owner)), (mark, word, turn)
                    continue
                assert not word.gone, (mark, word)
                assert turn.owner == word.speaker, (mark, word, turn)
                assert speaker in (None, word.speaker), (mark, word, turn)
                assert word.level != "private" or turn.level == "private", (mark, word, turn)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Return an open memory that waits for no disk."""
    profile = Profile(llama=LlamaSettings(embedder=""), store=StoreSettings(commit_wait_s=0.0))
    home = tmp_path_factory.mktemp("loops") / "home"
    with edgemem.open(home, profile=profile, worker=False) as opened:
        yield opened


@pytest.mark.long
def test_each_word_stays_its_speakers(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    """No prompt, no recall and no record has a word for who may not read it, or under another's name."""
    caplog.set_level(logging.ERROR, "edgemem")  # each of thousands of registries warns once
    words: dict[str, Word] = {}
    talks: list[Talk] = []
    for case in range(cases(10_000)):
        dice = random.Random(case)
        talk = Talk(memory, dice, words, f"talk {case}")
        for n in range(dice.randint(2, 7)):
            if n and dice.random() < 0.3:
                talk.between()
            talk.turn()
        talks.append(talk)
        if len(talks) == 50 or case + 1 == cases(10_000):
            memory.diagnostics.database.flush()
            for each in talks:
                each.close()
            talks.clear()
            look(memory, words, dice)


def look(memory: Memory, words: dict[str, Word], dice: random.Random) -> None:
    """Ask for some words, as each of the people."""
    for mark in dice.sample(list(words), 5):
        for speaker in PEOPLE:
            found = str([item.text for item in memory.recall(f"Who said {mark}?", speaker=speaker)])
            wrong = [one for one in set(MARK.findall(found)) if not words[one].may_be_read(Reader(speaker))]
            assert not wrong, (wrong, [words[each] for each in wrong], speaker)
