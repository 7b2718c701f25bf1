"""Tokens that the model must read because of memory, over all turns, and whether the fact that a question needs is shown.

Two loops hear the same script: one with all default hooks, and one without memory that has the same window and leaves out its
oldest turns when that is full; a third drops one turn at a time. The real vocabulary counts each token behind the common prefix
with the prompt and reply before, which llama.cpp evaluates; generated text is charged to nobody.

The evenings are written by hand in the amounts of a real robot: twenty facts (`evening.toml`), four of which change, a tool
call in JSON and a note in each turn (`evening.jsonl`), at most 4,000 tokens for a loop without memory in forty turns. Every
second turn asks for a stored fact in words of its own.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import cycle, islice, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import edgemem
from edgemem.bench import ground
from edgemem.bench.corpus import SPEAKER, Known, household_facts
from edgemem.context.compaction.planner import LOW_WATER
from edgemem.errors import InvalidInputError
from edgemem.hooks.builtin import TokenBudgetHook
from edgemem.inspect.replay import Line, ScriptedCall
from edgemem.llama.protocols import common_prefix
from edgemem.records import REMEMBER_FACT
from edgemem.session.log import log_of

if TYPE_CHECKING:
    from edgemem.llama.protocols import Prompt, Tokenizer
    from edgemem.loop.loop import LoopModel
    from edgemem.memory import Memory
    from edgemem.records import Message, Reply
    from edgemem.session.points import Hook
    from edgemem.session.tools import Tool

OURS, BARE, ONE_BY_ONE = "with_memory", "without_memory", "without_memory_one_turn_at_a_time"
"""A full window of the second shrinks as far as a compaction of ours does, of the third by as few turns as it can."""
WINDOW, REPLY = 4096, 256
IDLE_S = 600.0
NOTE = "note"
TURNS = 40
TOOLS = (
    ground.tool("timer", "Start a timer.", "minutes"), ground.tool("light", "Set a light.", "room", "percent"),
    ground.tool("list_add", "Add to the shopping list.", "item"), ground.tool("look", "Look something up.", "what"),
    ground.tool("face", "Turn the head to a voice.", "who"), ground.tool(NOTE, "Write a note for later.", "text"),
    ground.tool(REMEMBER_FACT, "Keep a fact.", "key", "value"),
)  # fmt: skip
_FOLDER = Path(__file__).parent
_DAY = re.compile(r" \[\d[^\]]*\]")
"""The day behind the words for it: Friday [4 December]."""
FACTS = tuple(Known(*fact) for fact in msgspec.toml.decode((_FOLDER / "evening.toml").read_bytes())["facts"])


def run(*, turns: int = 40, facts: int = 10_000, home: Path | None = None) -> dict[str, Any]:
    """Count prompt tokens with and without memory: evenings with tool calls, notes and changes, and one with many facts."""
    ground.real_embedder()
    with ground.scratch(home) as folder:
        ground.say(f"{turns} turns of evenings …")
        evenings = play(folder / "evening", FACTS, evening(turns), TOOLS)
        ground.say(f"storing and embedding {facts} facts …")
        stored = household_facts(facts)
        asked = [
            Moment(Line(fact.question, speaker=SPEAKER, reply=f"It is {fact.value}."), fact)
            for fact in askable(stored, turns)
        ]
        among_many = play(folder / "many", stored, asked, ())
    of_evenings, many = _figures(evenings), _figures(among_many)
    bars = {
        "evening_times_without_memory": ground.at_most(of_evenings["times_without_memory"], 1.10),
        "evening_needed_shown": ground.at_least(of_evenings["needed_shown"], 0.95),
        "many_block_median": ground.at_most(many["block_median"], 80),
        "many_needed_shown": ground.at_least(many["needed_shown"], 0.95),
    }
    return ground.report(
        "prefill", {"turns": turns, "facts": facts, "evening": of_evenings, "many": many}, bars
    )


class Moment(msgspec.Struct, frozen=True):
    """One turn, and the facts around it."""

    line: Line
    needs: Known | None = None
    """The fact that its question needs, as it is by then."""
    changed: tuple[Known, ...] = ()
    """Facts with another value once the turn is over."""

    @property
    def notes(self) -> list[str]:
        """Return the notes of the model in this turn."""
        return [str(call.arguments["text"]) for call in self.line.tools if call.name == NOTE]


class _Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    say: str
    reply: str
    tools: list[tuple[str, dict[str, Any], str]]
    note: str
    needs: tuple[str, str] | None = None
    changed: list[tuple[str, str]] = []


def evening(turns: int = TURNS) -> list[Moment]:
    """Return so many turns, evening after evening; facts that change in one change back in the next."""
    written = msgspec.json.Decoder(_Turn).decode_lines((_FOLDER / "evening.jsonl").read_bytes())
    return [_moment(n, turn) for n, turn in enumerate(islice(cycle(written), turns))]


def _moment(n: int, turn: _Turn) -> Moment:
    calls = [ScriptedCall(*call) for call in turn.tools]
    note = {"text": f"{turn.note}, evening {n // TURNS + 1}"}
    calls.append(ScriptedCall(NOTE, note, json.dumps({"note": n + 1, "file": "NOTES.md"})))
    line = Line(turn.say, speaker=SPEAKER, reply=turn.reply, tools=tuple(calls))
    needs = None if turn.needs is None else Known(*turn.needs, turn.say)
    return Moment(line, needs, tuple(Known(key, value, "") for key, value in turn.changed))


def askable(facts: Sequence[Known], n: int) -> list[Known]:
    """Return facts of all kinds in turn whose value no other fact has: finding it means finding the fact."""
    values = Counter(fact.value for fact in facts)
    kinds: defaultdict[str, list[Known]] = defaultdict(list)
    for fact in facts:
        if values[fact.value] == 1:
            kinds[fact.key.partition(".")[2]].append(fact)
    rng = random.Random(2)
    for some in kinds.values():
        rng.shuffle(some)
    order = sorted(kinds)
    rng.shuffle(order)
    rounds = zip_longest(*(kinds[kind] for kind in order))
    return [fact for facts in rounds for fact in facts if fact is not None][:n]


def _figures(turns: Sequence[TurnCost]) -> dict[str, Any]:
    read = {name: sum(turn.read[name] for turn in turns) for name in (OURS, BARE, ONE_BY_ONE)}
    asked = [turn for turn in turns if turn.needed]
    return {
        "read": read,
        "times_without_memory": round(read[OURS] / read[BARE], 4),
        f"times_{ONE_BY_ONE}": round(read[OURS] / read[ONE_BY_ONE], 4),
        "block_tokens": sum(turn.block for turn in turns),
        "block_median": ground.median(turn.block for turn in turns),
        "compactions": sum(turn.compacted for turn in turns),
        "asked": len(asked),
        "needed_shown": round(sum(turn.shown for turn in asked) / max(1, len(asked)), 4),
        "not_shown": [turn.needed for turn in asked if not turn.shown],
    }


class Read(NamedTuple):
    """The prompt of one call of the model."""

    new: int
    """Tokens behind the common prefix with the prompt and reply before."""
    text: str


class CountingModel:
    """Gives the replies of a script, and counts the new tokens of each prompt."""

    def __init__(self, script: LoopModel, tokenizer: Tokenizer) -> None:
        self._reads: list[Read] = []
        self._script = script
        self._tokenizer = tokenizer
        self._before: Prompt | None = None

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]],
        now: float | None = None,
        **rest: Any,
    ) -> Reply:
        """Count the prompt, and return the script's next reply."""
        prompt = self._tokenizer.render(messages, tools=tools, now=now)
        reply, ids = _reply_ids(self._before, prompt), prompt.ids
        before = self._before.ids if self._before is not None else []
        # The newest token was sampled and is read only now.
        cached = len(before) + len(reply) - 1 if reply else common_prefix(before, ids)
        self._reads.append(Read(len(ids) - cached, prompt.text))
        self._before = prompt
        return self._script.complete(messages, tools=tools, now=now, **rest)

    def pop_reads(self) -> list[Read]:
        """Return the prompts since the last call."""
        reads, self._reads = self._reads, []
        return reads

    def cut(self, heard_text: str) -> None:
        """Do nothing: nobody interrupts a script."""


def _reply_ids(before: Prompt | None, prompt: Prompt) -> Sequence[int]:
    """Return the ids of the reply to a prompt within the next; none if that does not continue it."""
    if before is None or len(before.segments) > len(prompt.segments):
        return ()
    *kept, asked = before.segments
    answered = prompt.segments[len(kept)]
    if tuple(kept) != prompt.segments[: len(kept)] or answered.ids[: len(asked.ids)] != asked.ids:
        return ()
    return answered.ids[len(asked.ids) :]


class TurnCost(NamedTuple):
    """One turn's new tokens of each loop, tokens of its block, and whether the needed fact was shown."""

    read: dict[str, int]
    block: int
    compacted: bool
    needed: str
    """Key of the fact; empty: none."""
    shown: bool
    """Whether the prompt has its value."""


class Reference:
    """The reference loop, with a memory or without."""

    def __init__(
        self, tokenizer: Tokenizer, tools: Sequence[Tool], hooks: Sequence[Hook], memory: Memory | None = None
    ) -> None:
        self.robot = ground.Robot(hooks, tools=tools)
        self._model = CountingModel(self.robot.loop.model, tokenizer)
        self.robot.loop.model = self._model
        self._memory = memory

    def play(self, line: Line) -> list[Read]:
        """Play a line, and return its prompts, call by call."""
        self.robot.turn(line)
        return self._model.pop_reads()

    def keep(self, facts: Sequence[Known], notes: Sequence[str]) -> None:
        """Store facts that hold from now on, and notes."""
        if self._memory is not None:
            for fact in facts:
                self._memory.store.add_fact(fact.key, fact.value, scope=fact.scope, source="said")
            for note in notes:
                self._memory.notes.append(note)
            self._memory.idle(IDLE_S)


def play(
    home: Path,
    facts: Sequence[Known],
    moments: Sequence[Moment],
    tools: Sequence[Tool],
    *,
    others: Mapping[str, Any] = MappingProxyType({}),
) -> list[TurnCost]:
    """Play the same lines with memory, without it, and through others, which have `play` and `keep` of `Reference`."""
    with (
        closing(ground.real_tokenizer()) as tokenizer,
        edgemem.open(home, tokenizer=tokenizer, clock=ground.ticking(), worker=False) as memory,
    ):
        ground.store_facts(memory.diagnostics.database, facts)
        memory.idle(IDLE_S)
        ours = Reference(tokenizer, tools, memory.hooks(), memory)
        loops: dict[str, Any] = {
            BARE: Reference(tokenizer, tools, [_dropping(tokenizer, LOW_WATER)]),
            ONE_BY_ONE: Reference(tokenizer, tools, [_dropping(tokenizer, 1.0)]),
            OURS: ours,
            **others,
        }
        out: list[TurnCost] = []
        for moment in moments:
            epoch = _epoch(ours.robot)
            reads: dict[str, list[Read]] = {name: loop.play(moment.line) for name, loop in loops.items()}
            needs = moment.needs
            out.append(
                TurnCost(
                    read={name: sum(read.new for read in prompts) for name, prompts in reads.items()},
                    block=_block_tokens(ours.robot, tokenizer),
                    compacted=_epoch(ours.robot) != epoch,
                    needed=needs.key if needs is not None else "",
                    shown=needs is None or needs.value in _DAY.sub("", reads[OURS][0].text),
                )
            )
            for loop in loops.values():
                loop.keep(moment.changed, moment.notes)
        ours.robot.check()
        for failure in memory.diagnostics.upkeep.failures():
            raise InvalidInputError(f"idle work {failure.step} failed: {failure.message}")
        return out


def _dropping(tokenizer: Tokenizer, low_water: float) -> TokenBudgetHook:
    return TokenBudgetHook(WINDOW - REPLY, low_water=low_water, tokenizer=tokenizer)


def _block_tokens(robot: ground.Robot, tokenizer: Tokenizer) -> int:
    turns = log_of(robot.loop.ctx).prompt_log.turns
    return len(tokenizer.encode(turns[-1].block)) if turns and turns[-1].block else 0


def _epoch(robot: ground.Robot) -> int:
    return log_of(robot.loop.ctx).prompt_log.epoch.first_turn
