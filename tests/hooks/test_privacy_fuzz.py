"""Nothing reaches somebody who may not read it, whatever people say and do, with a model that repeats all that it reads."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import edgemem
from edgemem import AgentLoop, Memory, Recalled
from edgemem.records import Heard, Message, Procedure, ProcedureStep, Reader, Reply, ToolCall
from edgemem.session.tools import Tool, ToolTurn
from edgemem.store.turns import last_number
from support.homes import home_of
from support.models import Unforgetting
from support.selection import cases

pytestmark = pytest.mark.usefixtures("patient")

STEPS = 5_000
PEOPLE = ("alice", "bob", "carol")
SESSIONS = ("kitchen", "hall")
PROFILE = """
[llama]
embedder = ""
[store]
commit_wait_s = 60
[tools]
write_wait_s = 60
[log]
turn = true
[context]
window_tokens = 2620
reply_tokens = 200
summary_tokens = 150
keep_last_turns = 2
[bank]
backend = "files"
"""
BANK_PATHS = [f"{head}{name}.md" for head in ("", "household/", "shared/") for name in ("MEMORY", "roses")]
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
EVERYDAY = ("the garden", "an open window", "somebody", "waters", "tall roses", "by the gate", "again")
SCOPES = (None, "me", "household", "global")


class Closing(NamedTuple):
    """Who may hear a secret."""

    level: str
    owner: str | None = None


RANK = {"shared": 0, "household": 1, "private": 2}


def may_hear(closing: Closing, speaker: str | None, audience: Iterable[str]) -> bool:
    """Tell whether somebody may be told a secret while others listen; written without the code that it judges."""
    if closing.level == "shared":
        return True
    if not speaker or "" in set(audience):
        return False
    if closing.level == "household":
        return True
    return closing.owner == speaker.lower() and {name.lower() for name in audience} <= {closing.owner}


def most_private(closings: Iterable[Closing]) -> Closing:
    """Return the closing of what was made of several texts."""
    return max(closings, key=lambda closing: RANK[closing.level])


class BrokenModelError(Exception):
    """What the model raises now and then."""


class Oracle:
    """Knows of each secret who may hear it; one that the model or a tool makes up is as private as all that its turn told."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.closings: dict[str, Closing] = {}
        self.utterance = Closing("household")
        """Of the utterance."""
        self.told: set[str] = set()
        """The secrets that prompts and tools of the running turn hold."""
        self.born: list[str] = []
        """Those that the running turn made up."""
        self.calls: list[ToolCall] = []
        """The calls of the running turn."""
        self.current: frozenset[str] = frozenset()
        """What the running utterance says: its speaker hears that in any case."""
        self.speaker: str | None = None
        self.audience: frozenset[str] = frozenset()
        self.private = False

    def fresh(self) -> str:
        """Return a word or number that nobody has ever said."""
        dice = self.dice
        while True:
            word = (
                "".join(dice.choice(CONSONANTS) + dice.choice(VOWELS) for _ in range(4))
                if dice.random() < 0.7
                else str(dice.randrange(10**8, 10**9))
            )
            if word not in self.closings:
                return word

    def begin(self) -> None:
        """Begin an answer."""
        self.told, self.born, self.calls = set(), [], []

    def answer(self) -> Closing:
        """Return who may hear what the running turn makes up, so far."""
        closings = [self.closings[secret] for secret in self.told]
        closing = most_private([self.utterance, *closings])
        return Closing("private", self.owner) if closing.level == "private" else closing

    @property
    def owner(self) -> str | None:
        """Whose the running turn is."""
        return self.speaker.lower() if self.speaker else None

    def bear(self) -> str:
        """Return a secret that the running turn makes up; until that ends, it is its speaker's."""
        secret = self.fresh()
        self.closings[secret] = Closing("private", self.owner)
        self.born.append(secret)
        return secret

    def end(self, *, failed: bool = False) -> None:
        """End an answer: all of it is as private as its most private part, and one that failed in a call is its speaker's."""
        closing = self.answer()
        for secret in self.born if not (failed and self.calls and self.owner) else ():
            self.say(secret, closing)
        self.begin()

    def write(self, texts: str, asked: Closing) -> None:
        """Have a tool write somewhere: what only the answer says no more openly than that, what was said as openly as asked."""
        closing = most_private([self.answer(), asked])
        for secret in set(self.secrets_in(texts)) & {*self.born}:
            self.say(secret, closing)
        # What its speaker says may be written where the model pleases, unless it was said in private.
        for secret in set(self.secrets_in(texts)) & self.current if not self.private else ():
            self.say(secret, asked)

    def say(self, secret: str, closing: Closing) -> None:
        """Somebody has said a secret aloud, to whom it may concern."""
        known = self.closings.get(secret)
        if known is None or RANK[closing.level] < RANK[known.level]:
            self.closings[secret] = closing

    def secrets_in(self, text: str) -> list[str]:
        """Return the secrets of a text, also where they are spelled; parts of two side by side are none."""
        text = text.lower().replace("\\n", " ")
        spelled = [re.sub("[ -]", "", run) for run in re.findall(r"\b\w(?:[ -]\w)+\b", text)]
        words = dict.fromkeys([*re.findall(r"[a-z0-9]+", text), *spelled])
        return [word for word in words if word in self.closings]

    def check(self, where: str, text: str, speaker: str | None, audience: Iterable[str] = ()) -> None:
        """Fail where a text tells somebody what is not for them."""
        for secret in self.secrets_in(text):
            closing = self.closings[secret]
            assert may_hear(closing, speaker, audience), (
                f"{where}: {speaker!r} (with {sorted(audience)}) is told {secret}, {closing}: {text[-1500:]}"
            )

    def check_prompt(self, messages: Sequence[Message]) -> None:
        """Fail where a prompt of the running turn holds what its listeners may not hear."""
        text = "\n".join(f"{message.get('content')} {message.get('tool_calls', '')}" for message in messages)
        self.told |= {*self.secrets_in(text)} - self.current - {*self.born}
        for secret in set(self.secrets_in(text)) - self.current - {*self.born}:
            closing = self.closings[secret]
            assert may_hear(closing, self.speaker, self.audience), (
                f"prompt: {self.speaker!r} (with {sorted(self.audience)}) is told {secret}, {closing}: {text[-3000:]}"
            )


def told(item: Recalled) -> str:
    """Return what of an item anybody could have said; its times and scores are numbers, too."""
    return f"{item.text} {item.key} {item.value} {item.doubt} {item.scope} {item.session}"


def without_moments(text: str) -> str:
    """Return a text without times and other measures, which may hold any digits."""
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d{10,}|\d+\.\d+", "", text)


class Parrot(Unforgetting):
    """Repeats in its replies and calls what its prompt holds: all of it, some, or nothing."""

    def __init__(self, oracle: Oracle, dice: random.Random) -> None:
        self.oracle, self.dice = oracle, dice
        self.prompts = 0
        self.newest = ""
        """The newest reply."""

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.prompts += 1
        self.oracle.check_prompt(messages)
        if self.dice.random() < 0.02:
            raise BrokenModelError
        text = "\n".join(str(message.get("content")) for message in messages)
        secrets, dice = self.oracle.secrets_in(text), self.dice
        how = dice.random()
        chosen = secrets if how < 0.3 else [s for s in secrets if dice.random() < 0.3] if how < 0.7 else []
        if messages[-1]["role"] != "tool" and dice.random() < 0.3:
            return Reply("", (self._call(chosen, secrets),))
        if chosen and dice.random() < 0.2:
            chosen = [" ".join(chosen[0]), *chosen[1:]] if dice.random() < 0.5 else ["-".join(chosen[0])]
        if dice.random() < 0.3:
            chosen = [self.oracle.bear(), *chosen]
        self.newest = f"Well, {' and '.join(chosen)} or so."
        return Reply(self.newest)

    def _call(self, chosen: list[str], secrets: list[str]) -> ToolCall:
        if self.dice.random() < 0.2:
            chosen = [self.oracle.bear(), *chosen]
        call = self._made_of(chosen, secrets)
        self.oracle.calls.append(call)
        return call

    def _made_of(self, chosen: list[str], secrets: list[str]) -> ToolCall:
        dice, oracle = self.dice, self.oracle
        name = dice.choice(
            [
                "remember_fact", "remember_fact", "recall_fact", "list_facts", "search_memory", "forget_fact",
                "notes", "note", "safe", "ask",
                *("memory_write", "memory_append", "memory_read", "memory_list", "memory_delete"),
            ]
        )  # fmt: skip
        key = dice.choice([f"thing{dice.randrange(30)}", *secrets[:1]])
        scope = dice.choice(SCOPES)
        given: dict[str, Any] = {"key": key, "scope": scope}
        if name == "remember_fact":
            given["value"] = " ".join(chosen) or "nothing"
            level = {"global": "shared", "me": "private"}.get(str(scope), "household")
            level = "shared" if scope is None and not oracle.speaker else level
            oracle.write(f"{key} {given['value']}", Closing(level, oracle.owner))
        elif name == "search_memory":
            given = {"query": " ".join(chosen) or "roses"}
        elif name == "list_facts":
            given.pop("key")
        elif name == "notes":
            given = {"action": dice.choice(["read", "write"]), "text": " ".join(chosen)}
            oracle.write(given["text"], Closing("household"))
        elif name in ("note", "ask"):
            given = {"text": " ".join(chosen) or "roses"}
        elif name in ("memory_list", "safe"):
            given = {}
        elif name.startswith("memory_"):
            given = {"path": dice.choice([*BANK_PATHS, *(f"household/{secret}.md" for secret in chosen[:1])])}
            if name in ("memory_write", "memory_append"):
                given["content"] = " ".join(chosen)
                head = given["path"].partition("/")[0]
                level = head if head in ("shared", "household") else "private"
                oracle.write(f"{given['path']} {given['content']}", Closing(level, oracle.owner))
        return ToolCall(name, {each: value for each, value in given.items() if value is not None})


def closes(call: ToolCall) -> bool:
    """Tell whether a call may keep for the speaker alone what was said, or erase it."""
    given = call.arguments
    own = call.name in ("memory_write", "memory_append") and "/" not in given["path"]
    return own or call.name == "forget_fact" or (call.name, given.get("scope")) == ("remember_fact", "me")


class House:
    """A robot that three people and strangers talk to, in two rooms."""

    def __init__(self, home: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
        self.home, self.dice, self.caplog = home_of(home, PROFILE), random.Random(seed), caplog
        self.oracle = Oracle(self.dice)
        self.parrot = Parrot(self.oracle, self.dice)
        self.aloud: list[tuple[str, str]] = []
        """Secrets that were said aloud, and in which session."""
        self.within = False
        """Whether an agent runs within a tool."""
        self.open()

    def open(self) -> None:
        """Switch the robot on; two agents share each session."""
        self.memory: Memory = edgemem.open(self.home, worker=False, watch=False)
        given = {"type": "object", "properties": {"text": {"type": "string"}}}
        tools = [
            *self.memory.tools(),
            Tool("note", "Notes.", given, lambda text: f"Noted: {text}"),
            Tool(
                "safe", "Opens.", {"type": "object", "properties": {}}, lambda: f"It holds {self.oracle.bear()}.",
            ),
            Tool("ask", "Asks.", given, self.ask, wants_turn=True),
        ]  # fmt: skip
        self.loops: dict[str, list[AgentLoop]] = {}
        for session in SESSIONS:
            hooks = self.memory.hooks(session_id=session)
            self.loops[session] = [
                AgentLoop(self.parrot, hooks=hooks, tools=tools, agent_name=name) for name in ("cook", "host")
            ]
        self.inner = AgentLoop(self.parrot, hooks=hooks, tools=tools, agent_name="maid")

    def close(self) -> None:
        """Switch it off."""
        for loops in self.loops.values():
            for loop in (*loops, self.inner):
                failures = [failure.message for failure in loop.hooks.failures()]
                # A turn whose model failed while it was prepared is left open.
                assert [text for text in failures if "The turn before" not in text] == []
        assert self.memory.diagnostics.upkeep.failures() == []
        self.memory.close()

    def __enter__(self) -> House:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self.memory.close()

    def ask(self, turn: ToolTurn, text: str) -> str:
        """Have another agent answer within a tool."""
        if self.within:
            return "Nobody is there."
        self.within = True
        try:
            oracle, reader, before = self.oracle, turn.reader, len(self.oracle.born)
            # That turn stays, at this answer's level, also where this one is thrown away or fails.
            oracle.write(text, oracle.answer())
            reply = self.inner.run(text, speaker=reader.speaker, audience=reader.audience).reply
            oracle.write(" ".join(oracle.born[before:]), oracle.answer())
            return reply
        finally:
            self.within = False

    def step(self) -> None:
        """Let something happen."""
        self.dice.choices([self.talk, self.write, self.look, self.rest, self.restart], [70, 4, 20, 5.7, 0.3])[
            0
        ]()

    def talk(self) -> None:
        """Have somebody say something, perhaps in private, perhaps while others listen."""
        dice, oracle = self.dice, self.oracle
        session = dice.choice(SESSIONS)
        loop = dice.choice(self.loops[session])
        speaker = dice.choice([*PEOPLE, *PEOPLE, "Alice", "BOB", None])
        audience = frozenset(dice.sample(["", *PEOPLE], dice.choice([0, 0, 0, 1, 2])))
        private = dice.random() < 0.25
        said = [oracle.fresh() for _ in range(dice.choice([0, 1, 1, 2]))]
        heard = [one for one, closing in oracle.closings.items() if may_hear(closing, speaker, audience)]
        if heard and dice.random() < 0.2:
            said.append(dice.choice(heard[-40:]))
        level = "private" if private else "household" if speaker else "shared"
        oracle.utterance = Closing(level, speaker.lower() if private and speaker else None)
        for secret in said:
            oracle.say(secret, oracle.utterance)
        oracle.current, oracle.speaker, oracle.audience = frozenset(said), speaker, audience
        oracle.private = private
        oracle.begin()
        words = dice.sample(EVERYDAY, 5)
        for secret in said:
            words.insert(dice.randrange(6), secret)
        text = dice.choice(["", "Forget about it. ", "Remember: "]) + " ".join(words)
        how: dict[str, Any] = {"speaker": speaker, "audience": tuple(audience), "private": private}
        if speaker and dice.random() < 0.1:
            how["heard"] = Heard(speaker, asr_confidence=0.2)
        loop.speech_start(speaker=speaker)
        loop.partial(text[: len(text) // 2], speaker=speaker, audience=audience)
        failed, kept = True, False
        with suppress(BrokenModelError):
            kept = self._have(loop, text, how)
            failed = False
        if kept and not private and not any(map(closes, oracle.calls)):
            self.aloud += [(secret, session) for secret in said]
        oracle.end(failed=failed)
        oracle.current = frozenset()

    def _have(self, loop: AgentLoop, text: str, how: dict[str, Any]) -> bool:
        """Have a turn: kept at once, or prepared, perhaps thrown away or cut off; return whether it was kept, and ended."""
        end = self.dice.random()
        if end < 0.75:
            result = loop.run(text, **how)
            self.oracle.told |= {*self.oracle.secrets_in(str(result.tools))} - {*self.oracle.born}
            if end < 0.2:
                loop.interrupt(result.reply[: self.dice.randrange(len(result.reply) + 1)])
            return True
        loop.prepare(text, **how)
        if end < 0.85:
            loop.abort()
            self.oracle.born.clear()  # and is nobody's but the speaker's
            return False
        if end < 0.92:
            self.oracle.begin()
            loop.prepare(f"{text} or so", **how)
        if end > 0.995:
            self.restart()
            return False
        loop.commit()
        return True

    def write(self) -> None:
        """Have the operator store something for somebody."""
        dice, oracle, store = self.dice, self.oracle, self.memory.store
        secret, owner = oracle.fresh(), dice.choice(PEOPLE)
        scope, closing = dice.choice(
            [
                ("global", Closing("shared")),
                ("household", Closing("household")),
                (f"user:{owner}", Closing("private", owner)),
            ]
        )
        oracle.say(secret, closing)
        kind = dice.randrange(6)
        if kind == 5:
            steps = (ProcedureStep("list_facts", {"scope": secret}),)
            trigger = f"{' '.join(dice.sample(EVERYDAY, 4))} {dice.choice([secret, ''])}"
            given = Procedure(
                f"p{dice.randrange(9)}", "", "", trigger, steps, level=closing[0], owner=closing[1]
            )
            self.memory.procedures.store(given)
        elif kind == 4:
            bank = self.memory.bank
            of = {"shared": bank.shared, "household": bank.household}.get(closing.level)
            name = dice.choice(["MEMORY.md", "roses.md"])
            (of or bank.for_person(owner, dice.choice(SESSIONS))).append_to_file(name, f"roses and {secret}")
        elif kind == 0:
            store.add_fact(f"thing{dice.randrange(30)}", secret, scope=scope)
        elif kind == 1:
            store.set_preference(f"wish{dice.randrange(9)}", secret, scope=scope)
        elif kind == 2:
            level, whose = closing
            store.add_episode("talk", {"text": f"the roses, {secret}"}, "ok", level=level, owner=whose)
        else:
            self.memory.notes.append(f"roses and {secret}")
            oracle.say(secret, Closing(self.memory.notes.level))

    def rest(self) -> None:
        """Let the robot index, and begin new epochs."""
        self.memory.idle(self.dice.choice([0.01, 0.3]))
        for loops in self.loops.values():
            if self.dice.random() < 0.5:
                loops[0].idle(1)

    def restart(self) -> None:
        """Switch it off and on."""
        self.close()
        self.open()

    def look(self) -> None:
        """Look everywhere for what somebody may not read."""
        dice, oracle, memory = self.dice, self.oracle, self.memory
        speaker = dice.choice([*PEOPLE, "Carol", ""])
        some = " ".join(dice.sample(list(oracle.closings), min(8, len(oracle.closings))))
        query = f"{some} roses thing{dice.randrange(30)}"
        options = dice.choice([{}, {"include_past": True}, {"known_at": memory.diagnostics.clock.now()}])
        for item in memory.recall(query, speaker=speaker, k=30, **options):
            oracle.check("recall", told(item), speaker)
        for found in memory.recall_sessions(query, speaker=speaker):
            oracle.check("sessions", " ".join(map(told, found.messages)), speaker)
        oracle.check("hints", " ".join(memory.hints(speaker=speaker)), speaker)
        facts = [f"{fact.key} {fact.value}" for fact in memory.store.facts(reader=Reader(speaker))]
        facts += [
            f"{episode.payload} {episode.summary}"
            for episode in memory.store.episodes(reader=Reader(speaker))
        ]
        facts += map(str, memory.procedures.suggest(query, top_k=9, reader=Reader(speaker)))
        facts += map(str, memory.procedures.list(reader=Reader(speaker)))
        oracle.check("store", "\n".join(facts), speaker)
        for level, *rows in memory.diagnostics.database.query("select level, summary, carried from epochs"):
            oracle.check("epochs", str(rows), PEOPLE[0] if level else None, PEOPLE[1:] if level else ())
        for secret, session in dice.sample(self.aloud[-20:], min(3, len(self.aloud[-20:]))):
            first = max(0, last_number(memory.diagnostics.database, session) - 60)
            reader = Reader(dice.choice(PEOPLE))
            turns = memory.sessions.journal.read_turns(session, from_n=first, reader=reader)
            heard = " ".join(str(message.content) for turn in turns for message in turn.messages)
            assert secret in oracle.secrets_in(heard), f"{secret} was said aloud, and is not found"
        if dice.random() < 0.1:
            person = dice.choice(PEOPLE)
            oracle.check("export", without_moments("\n".join(memory.export(speaker=person))), person)
        assert oracle.secrets_in(without_moments(self.caplog.text)) == [], "a secret is in the log"
        self.caplog.clear()

    def move(self, home: Path) -> None:
        """Carry all that is known into another home, and look there."""
        lines = list(self.memory.export())
        with edgemem.open(home, worker=False, watch=False) as other:
            other.import_lines(line.encode() for line in lines)
            mine, self.memory = self.memory, other
            for _ in range(20):
                self.look()
            self.memory = mine


@pytest.mark.long
@pytest.mark.timeout(900)
def test_nobody_is_told_what_is_not_for_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, record_property: Callable[[str, object], None]
) -> None:
    """Thousands of steps with people, strangers, listeners, tools, new epochs and restarts: not one secret goes astray."""
    caplog.set_level(logging.INFO, logger="edgemem.turn")
    with House(tmp_path / "home", 14, caplog) as house:
        for _ in range(cases(STEPS)):
            house.step()
        house.look()
        house.move(tmp_path / "other")
        ((turns, epochs),) = house.memory.diagnostics.database.query(
            "select (select count(*) from turns), (select count(*) from epochs)"
        )
        record_property("prompts", house.parrot.prompts)
        record_property("turns", turns)
        record_property("epochs", epochs)
        record_property("secrets", len(house.oracle.closings))
