"""What the model must read because of memory, over all turns, and whether it is shown what a question needs.

Two loops hear the same script: one with all default hooks, and one without memory that has the same window and leaves out
its oldest turns when that is full. What is read again after a compaction, or because turns were left out, is counted.
Nobody is charged for what the model generates.

With `--dry` tokens are only counted, which takes seconds and comes to the same: else a model of random weights, with one
thread, reads the prompts. Each loop that a model reads for has a context of its own, so that it finds in its cache what it
read before; for a third, which drops one turn at a time, tokens are counted.

What is real: every prompt is rendered, tokenised and handed to llama.cpp through the same `LlamaChat` that a robot uses;
it reuses what it has in its cache, evaluates the rest, samples one token, and counts (`n_p_eval`). What is not: the reply.
The weights are random, so what is sampled means nothing and is taken back; the script's reply stands in the cache as a
model's own would: its ids as generated, all but the last of them evaluated. A real model evaluates these one by one while it
speaks, and no prompt is charged for them; here they are evaluated at once, between two prompts, and no prompt is charged
either. The last one, sampled and never evaluated, is read with the next prompt.

Evenings in a kitchen, written by hand: twenty facts, four of them change, a tool call and a note in each turn.

The seed's own scenario, in the amounts of a real robot: spoken sentences, tools that answer in JSON, and no more than
4,000 tokens that a loop without memory must read in forty turns. Every second turn asks something that needs a stored
fact, in words of its own. A fact changes because somebody says so, and the model stores it with a tool; or somewhere
else, and nobody says a word.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import edgemem
from edgemem.bench.corpus import SPEAKER, Known, known
from edgemem.bench.ground import Robot, real_embedder, real_tokenizer, scratch, store_facts, ticking, tool
from edgemem.bench.model import write_model
from edgemem.bench.report import at_least, at_most, median, report, say
from edgemem.context.compaction.planner import LOW_WATER
from edgemem.errors import InvalidInputError
from edgemem.hooks.conversation import conversation_of
from edgemem.hooks.prompt import TokenBudgetHook
from edgemem.inspect.replay import Line, ScriptedCall
from edgemem.llama import backend
from edgemem.llama.chat import LlamaChat
from edgemem.llama.tokens.log import common_prefix
from edgemem.records import REMEMBER_FACT

if TYPE_CHECKING:
    from edgemem.hooks.points import Hook
    from edgemem.llama.protocols import Prompt, Tokenizer
    from edgemem.loop.loop import LoopModel
    from edgemem.loop.toolbox import Tool
    from edgemem.memory import Memory
    from edgemem.records import Message, Reply

NOTE = "note"

TOOLS = (
    tool("timer", "Start a timer.", "minutes"),
    tool("light", "Set a light.", "room", "percent"),
    tool("list_add", "Add to the shopping list.", "item"),
    tool("look", "Look something up.", "what"),
    tool("face", "Turn the head to a voice.", "who"),
    tool(NOTE, "Write a note for later.", "text"),
    tool(REMEMBER_FACT, "Keep a fact.", "key", "value"),
)


class _Texts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `evening.toml` holds."""

    notes: list[str]
    """What the model writes down of each turn."""
    facts: list[tuple[str, str, str]]
    orders: list[tuple[str, str, str, str, str]]
    """What is said, the tool, its arguments and its result as JSON, the reply."""
    other: dict[str, str]
    """What some facts change to; in the next evening they change back."""
    tellings: dict[str, str]
    once_more: dict[str, str]


_TEXTS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Texts)
FACTS = tuple(Known(*fact) for fact in _TEXTS.facts)

SILENT = {10: "pizza.oven", 12: "jonas.shoes"}
"""What changes elsewhere, by the order after which it does."""

ANNOUNCED = {8: "bin.day", 14: "emil.fear"}
"""What the speaker says has changed, by the order in whose place that is said."""

AGAIN = {18: "bin.day"}
"""What is asked once more, by the order in whose place that is asked."""


class Moment(msgspec.Struct, frozen=True):
    """One turn, and what belongs to it."""

    line: Line
    needs: Known | None = None
    """The fact that its question needs, as it is by then."""
    changed: tuple[Known, ...] = ()
    """What is another than before once the turn is over."""

    @property
    def notes(self) -> list[str]:
        """Return what the model writes down in this turn."""
        return [str(call.arguments["text"]) for call in self.line.tools if call.name == NOTE]


def evening(turns: int = 40) -> list[Moment]:
    """Return so many turns, evening after evening of forty."""
    values = {fact.key: fact.value for fact in FACTS}
    out: list[Moment] = []
    while len(out) < turns:
        out += _moments(len(out) // 40, values)
    return out[:turns]


def _moments(number: int, values: dict[str, str]) -> list[Moment]:
    """Return the turns of one evening, and leave `values` as they are at its end."""
    facts = {fact.key: fact for fact in FACTS}
    out: list[Moment] = []
    for n, (order, fact) in enumerate(zip(_TEXTS.orders, FACTS, strict=True)):
        say, name, arguments, result, reply = order
        write = _note(2 * n, number)
        if n in ANNOUNCED:
            new = _turned(facts[ANNOUNCED[n]], values)
            keep = ScriptedCall(REMEMBER_FACT, {"key": new.key, "value": new.value}, "kept")
            line = _line(_TEXTS.tellings[new.key].format(value=new.value), reply, keep, write)
            out.append(Moment(line, changed=(new,)))
        elif n in AGAIN:
            out.append(_asked(facts[AGAIN[n]], values, _TEXTS.once_more[AGAIN[n]], write))
        else:
            call = ScriptedCall(name, json.loads(arguments), result)
            changed = (_turned(facts[SILENT[n]], values),) if n in SILENT else ()
            out.append(Moment(_line(say, reply, call, write), changed=changed))
        out.append(_asked(fact, values, fact.question, _note(2 * n + 1, number)))
    return out


def _turned(fact: Known, values: dict[str, str]) -> Known:
    """Change a fact to its other value."""
    values[fact.key] = _TEXTS.other[fact.key] if values[fact.key] == fact.value else fact.value
    return _now(fact, values)


def _asked(fact: Known, values: Mapping[str, str], question: str, write: ScriptedCall) -> Moment:
    value = values[fact.key]
    face = ScriptedCall("face", {"who": SPEAKER}, json.dumps({"who": SPEAKER, "metres": 1.4, "sees": "yes"}))
    line = _line(question, f"{value[:1].upper()}{value[1:]}.", face, write)
    return Moment(line, _now(fact, values))


def _note(n: int, evening: int) -> ScriptedCall:
    """Return the call that writes a turn's note, with a text that no other turn has."""
    text = f"{_TEXTS.notes[n]}, evening {evening + 1}"
    return ScriptedCall(NOTE, {"text": text}, json.dumps({"note": 40 * evening + n + 1, "file": "NOTES.md"}))


def _now(fact: Known, values: Mapping[str, str]) -> Known:
    return msgspec.structs.replace(fact, value=values[fact.key])


def _line(say: str, reply: str, *calls: ScriptedCall) -> Line:
    return Line(say, speaker=SPEAKER, reply=reply, tools=calls)


OURS = "with_memory"
BARE = "without_memory"
"""When the window is full it goes down to where a compaction of ours does, so that it reads again as seldom."""
ONE_BY_ONE = "without_memory_one_turn_at_a_time"
"""When the window is full it leaves out no more than it must."""
WINDOW = 4096
REPLY = 256
"""The profile's defaults: the window, and what is kept free of it for a reply."""
IDLE_S = 600.0


def run(
    *,
    turns: int = 40,
    facts: int = 10_000,
    dry: bool = False,
    model: Path | None = None,
    home: Path | None = None,
) -> dict[str, Any]:
    """Read prompts with and without memory: evenings with tool calls, notes and changes, and one with many facts.

    Args:
        turns: of each scenario.
        facts: stored before the second.
        dry: count tokens, without a model.
        model: a GGUF that reads; default: one of about 100 M random weights, written for this.
        home: where scratch files go; default: the temporary files.
    """
    real_embedder()
    with scratch(home) as folder:
        if dry:
            model = None
        elif model is None:
            say("writing a model …")
            model = write_model(folder / "model.gguf")
        say(f"{turns} turns of evenings …")
        evenings = play(folder / "evening", model, FACTS, evening(turns), TOOLS)
        say(f"storing and embedding {facts} facts …")
        stored = known(facts)
        asked = [
            Moment(Line(fact.question, speaker=SPEAKER, reply=f"It is {fact.value}."), fact)
            for fact in askable(stored, turns)
        ]
        among_many = play(folder / "many", model, stored, asked, ())
    of_evenings, many = _figures(evenings), _figures(among_many)
    bars = {
        "evening_times_without_memory": at_most(of_evenings["times_without_memory"], 1.10),
        "evening_needed_shown": at_least(of_evenings["needed_shown"], 0.95),
        "many_block_median": at_most(many["block_median"], 80),
        "many_needed_shown": at_least(many["needed_shown"], 0.95),
        "miscounted_tokens": at_most(sum(turn.miscounted for turn in [*evenings, *among_many]), 0),
    }
    figures = {
        "turns": turns,
        "facts": facts,
        "evaluated_by": "nobody, counted" if dry else "llama.cpp",
        "evening": of_evenings,
        "many": many,
    }
    return report("prefill", figures, bars)


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
    longest = max(map(len, kinds.values()), default=0)
    return [kinds[kind][i] for i in range(longest) for kind in order if i < len(kinds[kind])][:n]


def _figures(turns: Sequence[TurnCost]) -> dict[str, Any]:
    read = {name: sum(turn.read[name] for turn in turns) for name in (OURS, BARE, ONE_BY_ONE)}
    asked = [turn for turn in turns if turn.needed]
    parts: Counter[str] = Counter()
    for turn in turns:
        parts.update(turn.parts)
    return {
        "read": read,
        "times_without_memory": round(read[OURS] / read[BARE], 4),
        f"times_{ONE_BY_ONE}": round(read[OURS] / read[ONE_BY_ONE], 4),
        "block_tokens": dict(parts),
        "block_median": median(turn.block for turn in turns),
        "compactions": sum(turn.compacted for turn in turns),
        "recall_late": sum(turn.late for turn in turns),
        "asked": len(asked),
        "needed_shown": round(sum(turn.shown for turn in asked) / max(1, len(asked)), 4),
        "not_shown": [turn.needed for turn in asked if not turn.shown],
    }


class Read(NamedTuple):
    """What one call of the model had to read."""

    counted: int
    """Tokens of the prompt that are no common prefix with what the model has read and said before."""
    evaluated: int
    """What llama.cpp says that it evaluated; without a model, `counted`."""
    ids: list[int]
    """The whole prompt."""


class ReadingModel:
    """Says what `script` says; keeps a `Read` of each call until it is taken.

    Args:
        script: decides on the replies.
        tokenizer: renders what is counted; that of `chat`, if there is one.
        chat: reads each prompt; None: tokens are only counted.
    """

    def __init__(self, script: LoopModel, tokenizer: Tokenizer, chat: LlamaChat | None = None) -> None:
        self._reads: list[Read] = []
        self._script = script
        self._tokenizer = tokenizer
        self._chat = chat
        self._before: Prompt | None = None

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]],
        stop: Callable[[], bool],
        on_text: Callable[[str], None],
        now: float | None = None,
    ) -> Reply:
        """Read the prompt, and return the script's next reply."""
        prompt = self._tokenizer.render(messages, tools=tools, now=now)
        reply, ids = _reply_ids(self._before, prompt), prompt.ids
        seen = self._before.ids if self._before is not None else []
        # The newest token was sampled and is read only now.
        known = len(seen) + len(reply) - 1 if reply else common_prefix(seen, ids)
        counted = evaluated = len(ids) - known
        if self._chat is not None:
            _speak(self._chat, reply)
            for _ in self._chat.stream(messages, tools=tools or None, max_tokens=1, now=now):
                pass
            self._chat.cut("")  # takes the sampled token back
            evaluated = self._chat.last.evaluated_tokens
        self._reads.append(Read(counted, evaluated, ids))
        self._before = prompt
        return self._script.complete(messages, tools=tools, stop=stop, on_text=on_text, now=now)

    def take(self) -> list[Read]:
        """Return what was read since the last call of this."""
        reads, self._reads = self._reads, []
        return reads

    def cut(self, heard_text: str) -> None:
        """Do nothing: nobody interrupts a script."""


def _speak(chat: LlamaChat, reply: Sequence[int]) -> None:
    """Put a reply into the model's cache, as if it had generated it."""
    for token in reply:
        chat.log.append(token, chat.tokenizer.vocabulary.piece(token))
    with chat.if_quiet() as llama:
        if len(reply) > 1 and llama is not None:
            llama.eval(reply[:-1])
            # What is not waited for, llama.cpp would book with the next prompt.
            backend.llama().llama_synchronize(llama.ctx)


def _reply_ids(before: Prompt | None, prompt: Prompt) -> Sequence[int]:
    """Return the ids of the reply to one prompt as they stand in the next; none if it does not go on from there."""
    if before is None or len(before.segments) > len(prompt.segments):
        return ()
    *kept, asked = before.segments
    answered = prompt.segments[len(kept)]
    if tuple(kept) != prompt.segments[: len(kept)] or answered.ids[: len(asked.ids)] != asked.ids:
        return ()
    return answered.ids[len(asked.ids) :]


class TurnCost(NamedTuple):
    """What one turn cost, and whether it was shown what it asked for."""

    read: dict[str, int]
    """Tokens that each loop read."""
    miscounted: int
    """How far what was read is from what was counted, of all loops."""
    parts: dict[str, int]
    """Tokens of the block, by what they say."""
    compacted: bool
    late: bool
    """Whether the question was not embedded in time, and recall went by words alone."""
    needed: str
    """The key of the fact that the question needs; empty: it needs none."""
    shown: bool
    """Whether its value stands in the prompt."""

    @property
    def block(self) -> int:
        """Return the tokens of the block."""
        return sum(self.parts.values())


class Reference:
    """The reference loop, with a memory or without."""

    def __init__(
        self,
        chat: LlamaChat | None,
        tokenizer: Tokenizer,
        tools: Sequence[Tool],
        hooks: Sequence[Hook] = (),
        memory: Memory | None = None,
    ) -> None:
        self.robot = Robot(hooks, tools=tools)
        self._model = ReadingModel(self.robot.loop.model, tokenizer, chat)
        self.robot.loop.model = self._model
        self._memory = memory

    def hear(self, line: Line) -> list[Read]:
        """Play a line, and return what was read for it, call by call."""
        self.robot.turn(line)
        return self._model.take()

    def keep(self, facts: Sequence[Known], notes: Sequence[str]) -> None:
        """Remember what holds from now on, and write down notes."""
        if self._memory is not None:
            for fact in facts:
                self._memory.store.add_fact(fact.key, fact.value, scope=fact.scope, source="said")
            for note in notes:
                self._memory.notes.append(note)
            self._memory.idle(IDLE_S)


def play(
    home: Path,
    model: Path | None,
    facts: Sequence[Known],
    moments: Sequence[Moment],
    tools: Sequence[Tool],
    *,
    others: Mapping[str, Any] = MappingProxyType({}),
) -> list[TurnCost]:
    """Play the same lines with memory and without it, and through other loops; without a model, tokens are counted.

    Args:
        others: loops with the methods `hear` and `keep` of `Reference`.
    """
    with ExitStack() as stack:
        chats = [chat_of(stack, model, WINDOW) for _ in range(2)]
        tokenizer = tokenizer_of(stack, chats[0])
        memory = stack.enter_context(edgemem.open(home, tokenizer=tokenizer, clock=ticking(), worker=False))
        store_facts(memory.diagnostics.database, facts)
        memory.idle(IDLE_S)
        ours = Reference(chats[1], tokenizer, tools, memory.hooks(), memory)
        loops: dict[str, Any] = {
            BARE: Reference(chats[0], tokenizer, tools, [_dropping(tokenizer, LOW_WATER)]),
            ONE_BY_ONE: Reference(None, tokenizer, tools, [_dropping(tokenizer, 1.0)]),
            OURS: ours,
            **others,
        }
        out: list[TurnCost] = []
        for moment in moments:
            epoch = _epoch(ours.robot)
            reads: dict[str, list[Read]] = {name: loop.hear(moment.line) for name, loop in loops.items()}
            needs = moment.needs
            out.append(
                TurnCost(
                    read={name: sum(read.evaluated for read in some) for name, some in reads.items()},
                    miscounted=sum(
                        abs(read.evaluated - read.counted) for some in reads.values() for read in some
                    ),
                    parts=_block_parts(ours.robot, tokenizer),
                    compacted=_epoch(ours.robot) != epoch,
                    late=memory.diagnostics.search.last.late,
                    needed=needs.key if needs is not None else "",
                    shown=needs is None or _holds(reads[OURS][0].ids, needs.value, tokenizer),
                )
            )
            for loop in loops.values():
                loop.keep(moment.changed, moment.notes)
        ours.robot.check()
        for failure in memory.diagnostics.upkeep.failures():
            raise InvalidInputError(f"idle work {failure.step} failed: {failure.message}")
        return out


def chat_of(stack: ExitStack, model: Path | None, n_ctx: int) -> LlamaChat | None:
    """Return a model with an empty context, closed with the stack; None without a file."""
    return None if model is None else stack.enter_context(LlamaChat(model, n_ctx=n_ctx, threads=1))


def tokenizer_of(stack: ExitStack, chat: LlamaChat | None) -> Any:
    """Return what counts as a model does, or a real vocabulary of its own, closed with the stack."""
    if chat is not None:
        return chat.tokenizer
    tokenizer = real_tokenizer()
    stack.callback(tokenizer.close)
    return tokenizer


def _dropping(tokenizer: Tokenizer, low_water: float) -> TokenBudgetHook:
    """Return what leaves the oldest turns out once the window has no room for them and a reply."""
    return TokenBudgetHook(WINDOW - REPLY, low_water=low_water, tokenizer=tokenizer)


def _block_parts(robot: Robot, tokenizer: Tokenizer) -> dict[str, int]:
    """Return the tokens of the newest block by what its lines are, and of the fence with the headers."""
    turns = conversation_of(robot.loop.ctx).prompt_log.turns
    if not turns or not turns[-1].block:
        return {}
    parts: dict[str, int] = {}
    for item in turns[-1].shown:
        kind = item.id.partition(":")[0]
        parts[kind] = parts.get(kind, 0) + len(tokenizer.encode(f"{item.line}\n"))
    return {**parts, "fence": len(tokenizer.encode(turns[-1].block)) - sum(parts.values())}


def _holds(ids: Sequence[int], value: str, tokenizer: Tokenizer) -> bool:
    """Tell whether a value, as tokens, stands in a prompt."""
    spellings = [tokenizer.encode(" " + value), tokenizer.encode(value)]
    return any(
        list(ids[at : at + len(spelling)]) == spelling
        for spelling in spellings
        for at in range(len(ids) - len(spelling) + 1)
    )


def _epoch(robot: Robot) -> int:
    return conversation_of(robot.loop.ctx).prompt_log.epoch.first_turn
