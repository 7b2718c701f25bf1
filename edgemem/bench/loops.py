"""Loops that hear the same script: without memory, with it, and with memory where EdgeVox puts it.

Each has a model's context of its own, so that each finds in its cache what it read before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import edgemem
from edgemem.bench.evaluated import Read, ReadingModel
from edgemem.bench.ground import Robot, real_tokenizer, store_facts, ticking
from edgemem.bench.seed_layout import SeedLayoutHook
from edgemem.errors import InvalidInputError
from edgemem.hooks.conversation import conversation_of
from edgemem.llama.chat import LlamaChat
from edgemem.llama.http import HttpLlama

if TYPE_CHECKING:
    from edgemem.bench.corpus import Known
    from edgemem.bench.evening import Moment
    from edgemem.hooks.points import Hook
    from edgemem.llama.protocols import ChatModel, Tokenizer
    from edgemem.memory import Memory
    from edgemem.script import Line
    from edgemem.toolbox import Tool

IDLE_S = 600.0
SEED_TURNS = 40
"""EdgeVox's layout reads the whole conversation in each turn; more of that tells nothing new."""
WINDOW = 4096
LONG_WINDOW = 8192
"""Room for what grows without bound; at its end that loop begins a new conversation."""
ROOM = 512
"""For a turn with its tool results."""


class Told(msgspec.Struct):
    """What one turn cost, and whether it was shown what it asked for."""

    kind: str
    bare: int
    """Tokens that the loop without memory read."""
    evaluated: int
    """Tokens that the loop with memory read."""
    miscounted: int
    """How far what was read is from what was counted, of all loops."""
    parts: dict[str, int]
    """Tokens of the block, by what they say."""
    compacted: bool
    first_ms: float
    """From the end of the utterance to the first token, with memory."""
    late: bool = False
    """Whether the question was not embedded in time, and recall went by words alone."""
    seed: int = 0
    seed_first_ms: float = 0.0
    needed: str = ""
    shown: bool = True

    @property
    def block(self) -> int:
        """Return the tokens of the block."""
        return sum(self.parts.values())


class Readers:
    """Makes what reads the prompts of a loop.

    Args:
        model: a GGUF file, for a model in this process.
        server: the address of a llama-server, with a slot for each of three loops. With neither, tokens are only counted.
    """

    def __init__(self, model: Path | None = None, server: str = "") -> None:
        self._model = model
        self._server = server

    def chat(self, stack: ExitStack, n_ctx: int) -> ChatModel | None:
        """Return a model with an empty context, closed with the stack."""
        if self._server:
            return stack.enter_context(HttpLlama(self._server))
        if self._model is None:
            return None
        return stack.enter_context(LlamaChat(self._model, n_ctx=n_ctx, threads=1))


class Listener:
    """A robot, and what its model had to read."""

    def __init__(
        self, chat: ChatModel | None, tokenizer: Tokenizer, tools: Sequence[Tool], hooks: Sequence[Hook] = ()
    ) -> None:
        self._tools, self._hooks = tools, hooks
        self._window = min(LONG_WINDOW, chat.n_ctx if chat is not None else LONG_WINDOW)
        self.hooks_ms = 0.0
        self.robot = Robot(self._hooks, tools=self._tools)
        self._model = ReadingModel(self.robot.loop.model, tokenizer, chat)
        self.robot.loop.model = self._model

    def _begin_anew(self) -> None:
        """Begin a new conversation with the same model, which still holds the instructions."""
        self.robot = Robot(self._hooks, tools=self._tools)
        self._model.script = self.robot.loop.model
        self.robot.loop.model = self._model

    def turn(self, line: Line) -> list[Read]:
        """Play a line and return what was read for it, call by call."""
        if not self._hooks and self._model.reads and len(self._model.reads[-1].ids) > self._window - ROOM:
            self._begin_anew()
        before = len(self._model.reads)
        self.hooks_ms = self.robot.turn(line).hooks_ms
        return self._model.reads[before:]


def play(
    home: Path,
    readers: Readers,
    facts: Sequence[Known],
    moments: Sequence[Moment],
    tools: Sequence[Tool],
    *,
    seed: bool = False,
) -> list[Told]:
    """Play the same lines without memory, with it, and in the seed's way."""
    with ExitStack() as stack:
        chats = [readers.chat(stack, n_ctx) for n_ctx in (LONG_WINDOW, WINDOW, *[LONG_WINDOW] * seed)]
        tokenizer: Any = chats[0].tokenizer if chats[0] is not None else None
        if tokenizer is None:
            tokenizer = real_tokenizer()
            stack.callback(tokenizer.close)
        memory = stack.enter_context(edgemem.open(home, tokenizer=tokenizer, clock=ticking(), worker=False))
        store_facts(memory, facts)
        memory.idle(IDLE_S)
        bare = Listener(chats[0], tokenizer, tools)
        with_memory = Listener(chats[1], tokenizer, tools, memory.hooks())
        hook = stack.enter_context(SeedLayoutHook(home, facts)) if seed else None
        in_system = Listener(chats[2], tokenizer, tools, [hook]) if hook is not None else None
        out: list[Told] = []
        for moment in moments:
            epoch = _epoch(with_memory.robot)
            reads = [bare.turn(moment.line), with_memory.turn(moment.line)]
            told = Told(
                kind=moment.kind,
                bare=_sum(reads[0]),
                evaluated=_sum(reads[1]),
                miscounted=0,
                parts=_block_parts(with_memory.robot, tokenizer),
                compacted=_epoch(with_memory.robot) != epoch,
                first_ms=with_memory.hooks_ms + reads[1][0].first_ms,
                late=memory.last_recall().late,
            )
            if in_system is not None and len(out) < SEED_TURNS:
                reads.append(in_system.turn(moment.line))
                told.seed = _sum(reads[2])
                told.seed_first_ms = in_system.hooks_ms + reads[2][0].first_ms
            told.miscounted = sum(abs(read.evaluated - read.counted) for some in reads for read in some)
            if moment.needs is not None:
                told.needed = moment.needs.key
                told.shown = _holds(reads[1][0].ids, moment.needs.value, tokenizer)
            out.append(told)
            _keep(moment, memory, hook)
            memory.idle(IDLE_S)
        with_memory.robot.check()
        _check_idle(memory)
        return out


def _keep(moment: Moment, memory: Memory, seed: SeedLayoutHook | None) -> None:
    """Write down what a turn changes, in both memories."""
    for fact in moment.changed:
        memory.store.add_fact(fact.key, fact.value, scope=fact.scope, source="said")
        if seed is not None:
            seed.change(fact)
    for note in moment.notes:
        memory.notes.append(note)
        if seed is not None:
            seed.notes.append(note)


def _block_parts(robot: Robot, tokenizer: Tokenizer) -> dict[str, int]:
    """Return the tokens of the newest block by what its lines are, and of the fence with the headers."""
    turns = conversation_of(robot.loop.ctx).layout.turns
    if not turns or not turns[-1].block:
        return {}
    parts: dict[str, int] = {}
    for item in turns[-1].shown:
        kind = item.id.partition(":")[0]
        parts[kind] = parts.get(kind, 0) + len(tokenizer.encode(f"{item.line}\n"))
    return {**parts, "fence": len(tokenizer.encode(turns[-1].block)) - sum(parts.values())}


def _sum(reads: Sequence[Read]) -> int:
    return sum(read.evaluated for read in reads)


def _holds(ids: Sequence[int], value: str, tokenizer: Tokenizer) -> bool:
    """Tell whether a value, as tokens, stands in a prompt."""
    spellings = [tokenizer.encode(" " + value), tokenizer.encode(value)]
    return any(
        list(ids[at : at + len(wanted)]) == wanted
        for wanted in spellings
        for at in range(len(ids) - len(wanted) + 1)
    )


def _epoch(robot: Robot) -> int:
    return conversation_of(robot.loop.ctx).layout.epoch.first_turn


def _check_idle(memory: Memory) -> None:
    for failure in memory.idle_failures():
        raise InvalidInputError(f"idle work {failure.step} failed: {failure.message}")
