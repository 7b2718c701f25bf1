"""The prompt of one session: turns that the model sees, as an epoch that only grows.

    [system, frozen] [summary + first turn] [turn] … [turn] [<memory> delta + the newest utterance]

Within an epoch nothing that was shown changes, so the model's cache of the prefix stays valid: a turn keeps its `<memory>`
block byte for byte, and new memory is only in the newest user message. A turn is *open* while it is prepared, and
*committed* at its end; a discarded one was never shown. Turns are filtered by the reader (law 7), as a function of the turn
and the reader alone, so that the same listener always gets the same prefix back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from edgemem.config import Settings
from edgemem.context.bargein import INTERRUPTION, interruption
from edgemem.context.block.delta import carried_by, head_of
from edgemem.context.block.render import VisibleLines
from edgemem.context.block.select import repeats
from edgemem.context.messages import (
    UTTERANCE_BYTES,
    answered_ids,
    bounded,
    call_arguments,
    call_name,
    completed,
    fenced,
    heard_in,
    newest_user,
    prefixed,
    repair_orphans,
    split_instructions,
    tool_calls,
    with_prompt,
)
from edgemem.fence import fence
from edgemem.records import REMEMBER_FACT, BlockLine, Epoch, Heard, Message, Reader, Recalled, Turn, text_of
from edgemem.scopes import RANK, Level, name_key
from edgemem.store.episodes import episode_text
from edgemem.store.rights import readable
from edgemem.store.thoughts import NeverAloud

DELETED = "messages deleted"
"""Why an epoch began that has no summary."""

CLOSED = "(This answer was private.)"
"""Replaces all but the utterance of a turn for those who may not read its answer."""


class PromptTurn(msgspec.Struct):
    """One turn of the prompt."""

    n: int
    messages: list[Message]
    block: str = ""
    block_tokens: int = 0
    shown: tuple[BlockLine, ...] = ()
    level: Level = "household"
    """Who may read the utterance."""
    owner: str | None = None
    answer: Level = "shared"
    """Who may read all else; at least as closed as `level`."""
    heard: Heard | None = None
    utterance: int | None = None
    """The number of the message that was said to the robot and carries the block; None: the newest user message."""
    heard_until: str | None = None
    """The text that was heard before somebody cut the robot off; None: nobody did."""
    reported: bool = False
    """Whether a model has been told of that."""
    unfinished: bool = False
    """Whether its loop left it open; the loop's list may not have it."""
    erased: bool = False
    """Whether it was erased: no prompt has it any more, but a loop's list may."""
    unkept: bool = False
    """Whether it is off the record: in this process's memory alone, until its epoch ends."""
    full_messages: dict[int, Message] = msgspec.field(default_factory=dict)
    """Messages as the loop has them, by number, of which only a part is kept: what was heard, or what is in bounds."""
    completed_messages: list[Message] | None = None
    """The messages of a committed turn as every template takes them; made anew after a change."""
    late: tuple[str, ...] = ()
    """The ids of calls whose results came after the turn: a later one holds these."""
    tick: int | None = None
    """Tells it from all other turns of its file, whatever number it gets there; None: it has the number that it was read with."""
    part: PromptTurn | None = None
    """The utterance of a committed turn and the line `CLOSED`; made anew after a change."""
    asked: Message | None = None
    """What the model reads in place of the utterance while the turn is open: its loop has put more around the words."""
    display: list[str] = msgspec.field(default_factory=list)
    """Lines with values that are never aloud, as a screen may show them."""

    def __post_init__(self) -> None:
        self.close(self.level)
        if self.utterance is None and self.messages:
            self.utterance = newest_user(self.messages)

    def close(self, level: Level, *, utterance: bool = False) -> None:
        """Make the answer, and with `utterance` that too, at least as private as a level."""
        if RANK[level] > RANK[self.answer]:
            self.answer = level
        if utterance and RANK[level] > RANK[self.level]:
            self.level = level

    def seen_by(self, reader: Reader | None) -> PromptTurn | None:
        """Return the part of a committed turn that a reader sees, if any."""
        if readable(reader, self.answer, self.owner):
            return self
        return self._utterance_alone() if readable(reader, self.level, self.owner) else None

    def seen_at(self, level: Level) -> PromptTurn | None:
        """Return the part of a committed turn that is readable at a level, if any."""
        if RANK[self.answer] <= RANK[level]:
            return self
        return self._utterance_alone() if RANK[self.level] <= RANK[level] else None

    def _utterance_alone(self) -> PromptTurn | None:
        place = self.utterance
        if self.part is None and place is not None:
            messages: list[Message] = [self.messages[place], {"role": "assistant", "content": CLOSED}]
            self.part = PromptTurn(self.n, messages, level=self.level, owner=self.owner, heard=self.heard)
        return self.part

    def text(self, n: int) -> str:
        """Return the text of a message, also what nobody heard of it."""
        return text_of(self.full_messages.get(n, self.messages[n]))

    def unheard(self, n: int) -> str:
        """Return the unheard part of a message; all of it where the heard text is not its beginning."""
        if n not in self.full_messages or self.messages[n].get("role") == "user":
            return ""
        return self.text(n).removeprefix(text_of(self.messages[n]))

    def cut(self, n: int, heard: str) -> None:
        """Keep only the heard part of a message."""
        message = self.full_messages.pop(n, self.messages[n])
        if heard != text_of(message):
            self.full_messages[n] = message
            message = {**message, "content": heard}
        self.messages[n] = message
        self.completed_messages = self.part = None

    def append(self, message: Message) -> None:
        """Add the next message; of an endless utterance only the beginning is kept."""
        n = len(self.messages)
        if message.get("role") == "user":
            kept = bounded(message, UTTERANCE_BYTES)
            if kept is not message:
                self.full_messages[n], message = message, kept
            if self.utterance is None:
                self.utterance = n
        self.messages = [*self.messages, message]

    def precede(self, messages: Sequence[Message]) -> None:
        """Put messages in front."""
        self.messages, count = [*messages, *self.messages], len(messages)
        self.full_messages = {n + count: full for n, full in self.full_messages.items()}
        self.utterance = None if self.utterance is None else self.utterance + count

    def as_shown(self, *, committed: bool) -> Iterator[tuple[Message, str]]:
        """Yield its messages as every template takes them, results of tools fenced, with the block before the one that carries it."""
        messages = self.messages
        spoken = None if self.utterance is None else messages[self.utterance]
        if committed:  # history is looked through once
            self.completed_messages = messages = self.completed_messages or list(
                map(fenced, completed(messages))
            )
        for message in messages:
            asked = self.asked if message is spoken and not committed else None
            yield (
                asked or (message if committed else fenced(message)),
                self.block if message is spoken else "",
            )

    def calls(self) -> Iterator[tuple[str, dict[str, Any], Message | None]]:
        """Yield the calls of tools: name, arguments, and the tool's answer."""
        answers = {message["tool_call_id"]: message for message in self.messages if "tool_call_id" in message}
        calling = (message for message in self.messages if message.get("tool_calls"))
        for call in (call for message in calling for call in tool_calls(message)):
            answer = answers.get(call["id"]) if call.get("id") else None
            yield call_name(call), call_arguments(call), answer

    def outcomes(self) -> Iterator[str]:
        """Yield what each tool did, as an episode tells it."""
        for name, arguments, answer in self.calls():
            if answer is not None:
                done = {"name": name, "args": arguments, "result": text_of(answer)}
                yield episode_text("tool_call", done, "ok")

    def call(self, call_id: str) -> dict[str, Any] | None:
        """Return the newest call of an id, if the turn has one."""
        calls = (call for message in reversed(self.messages) for call in reversed(tool_calls(message)))
        return next((call for call in calls if call.get("id") == call_id), None)

    def awaits(self, call_id: str, *, at_its_end: bool = False) -> bool:
        """Tell whether a call of an id has no result, or had none `at_its_end`; some models number their calls anew each time."""
        calls = [call.get("id") for message in self.messages for call in tool_calls(message)]
        answers = [id_ for message in self.messages for id_ in answered_ids(message)]
        late = 0 if at_its_end else self.late.count(call_id)
        return calls.count(call_id) > answers.count(call_id) + late


def turn_of(turn: Turn) -> PromptTurn:
    """Return a stored turn as a prompt turn, without instructions at its head; its block holds the shown text."""
    kept = [stored for n, stored in enumerate(turn.messages) if stored.role != "system" or n or turn.n]
    messages = [stored.as_prompted() for stored in kept]
    sources = {id(message): stored for message, stored in zip(messages, kept, strict=True)}
    repaired = [(message, sources.get(id(message))) for message in repair_orphans(messages)]
    utterance = None if turn.utterance is None else turn.messages[turn.utterance]
    known = {id(message) for message, _ in repaired}
    return PromptTurn(
        turn.n,
        [message for message, _ in repaired],
        turn.block,
        shown=tuple(map(BlockLine.parse, turn.shown)),
        level=turn.level,
        owner=turn.owner,
        answer=turn.answer or turn.level,
        heard=turn.heard,
        utterance=next((n for n, (_, stored) in enumerate(repaired) if stored and stored is utterance), None),
        heard_until=heard_in(messages) if turn.state == "interrupted" else None,
        unfinished=turn.state in ("open", "unfinished"),
        full_messages={
            n: {**message, "content": text_of(message) + stored.unheard}
            for n, (message, stored) in enumerate(repaired)
            if stored and stored.unheard
        },
        late=tuple(
            call_id for message in messages if id(message) not in known for call_id in answered_ids(message)
        ),
    )


class BlockSection(NamedTuple):
    """What one hook put into a block."""

    header: str
    shown: tuple[BlockLine, ...]
    tokens: int = 0

    @property
    def lines(self) -> list[str]:
        """Return the header and the lines; a header alone is none."""
        lines = [item.line for item in self.shown]
        return [self.header, *lines] if self.header and lines else lines


class Committed:
    """The committed part of the present reader's prompt, made once a turn.

    It tells what memory need not repeat: items in the blocks, and, read from the messages at the first question, notes and facts
    that the model wrote with a tool, and outcomes of tools.
    """

    def __init__(
        self,
        turns: list[PromptTurn],
        carried: tuple[BlockLine, ...] = (),
        level: Level = "shared",
        messages: Sequence[Message] = (),
        head: str = "",
    ) -> None:
        self.turns = turns
        shown = chain(carried, *(turn.shown for turn in turns))
        self.visible = VisibleLines({item.id: item for item in shown})
        """What the prompt already holds, by item id, in its head and its turns."""
        self.numbers = frozenset(turn.n for turn in turns)
        self.level = level
        """Of its most private part."""
        self.messages = messages
        self.head = head
        """The rest of the block at the epoch's head that no user message carries yet."""

    @property
    def cut_off(self) -> PromptTurn | None:
        """Return the newest turn that was cut off, unless a model knows; the running turn tells it whenever prepared."""
        cut = (turn for turn in reversed(self.turns) if turn.heard_until is not None)
        return next((turn for turn in cut if not turn.reported), None)

    def holds(self, item: Recalled) -> bool:
        """Tell whether these turns hold a recalled fact, note or outcome of a tool."""
        if item.kind == "fact":
            return item.doubt is None and self.holds_fact(item.key or "", item.value or "")
        if item.kind == "note":
            return all(self.holds_note(line) for line in item.text.splitlines() if line.strip())
        return item.kind == "episode" and item.text in self._outcomes

    def holds_note(self, line: str) -> bool:
        """Tell whether a line of the notes was shown, or written by the model itself in a tool call."""
        return line.strip() in self._lines

    def holds_fact(self, key: str, value: str) -> bool:
        """Tell whether the newest value of a fact here is the model's own call that set this one."""
        return key in self._given and bool(self._given[key] == value)

    @cached_property
    def _given(self) -> dict[str, object]:
        """The values that the model itself gave to facts, where no later block says anything of the key."""
        given: dict[str, object] = {}
        for turn in self.turns:
            for item in turn.shown:
                if item.subject is not None:
                    given.pop(item.subject[2], None)
            given.update(
                (str(arguments.get("key")), arguments.get("value"))
                for name, arguments, _ in turn.calls()
                if name == REMEMBER_FACT
            )
        return given

    @cached_property
    def _lines(self) -> set[str]:
        """The lines of the blocks, and of the arguments of tools."""
        lines = {line.strip().removeprefix("- ") for turn in self.turns for line in turn.block.splitlines()}
        written = (text for turn in self.turns for _, given, _ in turn.calls() for text in given.values())
        return lines.union(
            line.strip() for text in written if isinstance(text, str) for line in text.splitlines()
        )

    @cached_property
    def _outcomes(self) -> set[str]:
        """What each tool did, as an episode tells it."""
        return {text for turn in self.turns for text in turn.outcomes()}


class PromptLog:
    """The prompt of one session, in the loop's thread alone; `prompt` follows the loop's instructions."""

    def __init__(self, session: str = "", *, settings: Settings | None = None, prompt: str = "") -> None:
        self.session = session
        self._prompt = prompt
        self._settings = settings or Settings()
        self.epoch = Epoch(session=session, first_turn=0)
        self.reader: Reader | None = None
        self.system: Sequence[Message] = with_prompt([], prompt)
        self.turns: list[PromptTurn] = []
        self._changes = 0
        """How often committed turns changed."""
        self.has_begun = False
        """Whether the session has begun: what a loop's list has of it comes from nowhere else."""
        self.running: PromptTurn | None = None
        self.sections: dict[str, BlockSection] = {}
        """The parts of the open turn's block, in the order in which they came in."""
        self._outer: PromptLog | None = None
        """The log of the agent whose tool runs this one."""
        self._around: PromptTurn | None = None
        """The turn of that agent."""
        self._newest: tuple[Any, Committed] | None = None
        """The newest `Committed`, behind what it was made from."""
        self.never_aloud: Callable[[], NeverAloud] = NeverAloud  # returns the values that no line may hold

    def resume(self, turns: Iterable[Turn], epoch: Epoch | None) -> None:
        """Take up a stored session from the epoch's first turn on; a call without a result is mended for templates."""
        if epoch is not None:
            self.epoch = epoch
        placed = [turn_of(turn) for turn in turns if turn.messages]
        for n, cut in enumerate(placed):
            line, speaker, later = interruption(cut.n), name_key(cut.owner or ""), placed[n + 1 :]
            cut.reported = any(name_key(turn.owner or "") == speaker for turn in later) or any(
                item.id == line for turn in later for item in turn.shown
            )
        self.turns, self._changes = placed, self._changes + 1

    def recognise(self, turns: Iterable[Turn], messages: Sequence[Message]) -> None:
        """Take up the turns of a stored session that a loop's own list has."""
        placed = [turn_of(turn) for turn in turns if turn.messages]
        known = any(message in turn.messages for turn in placed for message in messages)
        self.turns, self._changes = placed if known else [], self._changes + 1

    def adopt(self, messages: Sequence[Message]) -> PromptTurn | None:
        """Take up, as one turn, a history that a loop brings: nobody's words, as open as the open utterance."""
        current, brought = self._opened(), split_instructions(messages)[1]
        if self.turns or self.has_begun or not any(message.get("role") == "user" for message in brought):
            return None
        owner = current.owner if current.level == "private" else None
        turn = PromptTurn(current.n, brought, level=current.level, owner=owner)
        self.turns.append(turn)
        current.n = self.next_n
        return turn

    @property
    def default_level(self) -> Level:
        """Return `[memory] default_level`."""
        return self._settings.now.memory.default_level

    @property
    def messages(self) -> list[Message]:
        """Return the committed messages as they were said, without anything injected."""
        return [message for turn in self.turns if not turn.erased for message in turn.messages]

    @property
    def next_n(self) -> int:
        """Return the number of the open turn, or the next."""
        return self.turns[-1].n + 1 if self.turns else self.epoch.first_turn

    def begin(
        self,
        reader: Reader | None = None,
        heard: Heard | None = None,
        *,
        level: Level | None = None,
        outer: PromptLog | None = None,
        around: PromptTurn | None = None,
    ) -> PromptTurn:
        """Open a turn for a reader and return it; one that is still open is discarded.

        Words of an unknown voice are shared: all who can hear a stranger may also hear what the stranger said.

        Args:
            heard: None: nobody said it.
            level: who may read the utterance; None: the default.
            outer: the log of the agent whose tool begins the turn.
            around: the turn of that tool: this one is nobody's words then and as private as that answer, which becomes as
                private as this one while it is open.
        """
        self.discard()
        self.reader, self._outer, self._around = reader, outer, around
        speaker = reader.speaker if reader is not None else None
        if level is None:
            level = self.default_level if speaker is not None or reader is None else "shared"
        turn = self.running = PromptTurn(self.next_n, [], level=level, owner=speaker, heard=heard)
        if outer is not None and around is not None:
            turn.close(outer.answer if outer.running is around else around.answer, utterance=True)
            turn.owner, turn.heard = around.owner, None
        return turn

    def instruct(self, system: Sequence[Message]) -> None:
        """Set the instructions of the next prompt."""
        self.system = with_prompt(list(system), self._prompt) if self._prompt else list(system)

    def _opened(self) -> PromptTurn:
        """Return the open turn; begin one for a loop that never did."""
        return self.running if self.running is not None else self.begin(self.reader)

    @property
    def utterance(self) -> str:
        """Return the utterance of the open turn, as far as it is kept."""
        turn = self.running
        return "" if turn is None or turn.utterance is None else text_of(turn.messages[turn.utterance])

    @property
    def answer(self) -> Level:
        """Return who may read the open turn but for its utterance: those who may read all that its prompt and tools told."""
        current = self._opened()
        levels = current.answer, self.committed().level, *(item.level for item in current.shown)
        return max(levels, key=RANK.__getitem__)

    def close(self, level: Level, *, utterance: bool = False) -> None:
        """Close the open turn as `PromptTurn.close` does: a tool was told something, or keeps it for the speaker alone."""
        self._opened().close(level, utterance=utterance)
        outer, around = self._outer, self._around
        if outer is not None and around is outer.running:
            outer.close(level)
        elif outer is not None and around is not None and RANK[level] > RANK[around.answer]:
            # It has ended; what its tool answers later is as private as what that has read.
            around.close(level)
            outer._changes += 1

    def level_of_write(self, level: Level, *texts: str) -> Level:
        """Return the level at which a tool may write `texts`, the value last: the one that it asks for, or the answer's.

        More openly than the answer it writes only what a reader at that level knows from the utterance and this prompt.
        """
        answer = self.answer
        return level if RANK[answer] <= RANK[level] or repeats(texts, self._seen_at(level)) else answer

    def _seen_at(self, level: Level) -> Iterator[str]:
        """Yield the texts of the present prompt that are readable at a level."""
        current = self._opened()
        # Within a tool the utterance is another agent's, nobody's words; a private one is told to nobody else.
        if current.utterance is not None and self._around is None and current.level != "private":
            yield current.text(current.utterance)
        if self.reader is not None:
            yield " ".join((self.reader.speaker or "", *self.reader.audience))
        yield from map(text_of, self.system)
        yield from (item.line for item in current.shown if RANK[item.level] <= RANK[level])
        if RANK[self.epoch.level] <= RANK[level]:
            yield self._head_now(self.epoch)
        for turn in self.committed().turns:
            if (part := turn.seen_at(level)) is not None:
                yield from (*map(text_of, part.messages), part.block)

    def put(self, section: str, shown: Sequence[BlockLine], *, header: str = "", tokens: int = 0) -> str:
        """Put one section into the open turn's block, and return the block; sections stand in the order in which they came in."""
        current = self._opened()
        self.sections[section] = BlockSection(header, tuple(self.redacted(shown)), tokens)
        sections = self.sections.values()
        lines = [line for part in sections for line in part.lines]
        current.block_tokens = sum(part.tokens for part in sections)
        current.shown = tuple(item for part in sections for item in part.shown)
        current.block = fence(lines) if lines else ""
        return current.block

    def redacted(self, shown: Iterable[BlockLine]) -> list[BlockLine]:
        """Return lines for the open turn's listeners without what is never aloud, which its display has."""
        return self.never_aloud().redact_all(shown, self.reader, self._opened().display)

    def committed(self) -> Committed:
        """Return the present reader's prompt before the open turn."""
        key = self.epoch, self.reader, self._changes, len(self.turns)
        if self._newest is None or self._newest[0] != key:
            turns = [part for turn in self.epoch_turns() if (part := turn.seen_by(self.reader)) is not None]
            reads_head = readable(self.reader, self.epoch.level, None)
            carried, head = (carried_by(self.epoch), head_of(self.epoch)) if reads_head else ((), "")
            levels = *(turn.answer for turn in turns), self.epoch.level if head else "shared"
            level = max(levels, key=RANK.__getitem__)
            self._newest = key, Committed(turns, carried, level, *self._messages_of(turns, head))
        return self._newest[1]

    def holds(self, item: Recalled) -> bool:
        """Tell whether the present prompt holds a recalled item; its running turn reads late results."""
        late = item.kind == "episode" and self.running is not None and item.text in self.running.outcomes()
        return late or self.has_turn(item) or self.committed().holds(item)

    def has_turn(self, item: Recalled) -> bool:
        """Tell whether a recalled item is a turn of the present prompt, or a summary of its session."""
        if item.session != self.session:
            return False
        return item.kind == "summary" or item.turn == self.next_n or item.turn in self.committed().numbers

    def epoch_turns(self, epoch: Epoch | None = None) -> list[PromptTurn]:
        """Return the committed turns of an epoch (None: this one) that its prompt has word for word, whoever reads it."""
        turns, first, is_now = self.turns, (epoch or self.epoch).first_turn, epoch in (None, self.epoch)
        turns = turns[bisect_left(turns, first, key=lambda t: t.n) :]
        return [turn for turn in turns if not turn.erased and (is_now or not turn.unkept)]

    def view(self) -> list[Message]:
        """Return the messages for the model: the system's, then the visible turns with their blocks."""
        committed, current = self.committed(), self.running
        running = [current] if current is not None and current.messages else []
        messages = [*self.system, *committed.messages, *self._messages_of(running, committed.head)[0]]
        if current is not None:  # what the prompt holds is told
            self.close(self.answer)
        return messages

    def view_in(self, epoch: Epoch) -> list[Message]:
        """Return the messages before the next utterance once another epoch has begun; for idle time too."""
        # Copies: a barge-in may cut the newest turn at this moment, and the uncut one must not be kept.
        copies = map(copy, self.epoch_turns(epoch))
        turns = [part for turn in copies if (part := turn.seen_by(self.reader)) is not None]
        return [*self.system, *self._messages_of(turns, self._head_now(epoch))[0]]

    def _messages_of(self, turns: Iterable[PromptTurn], head: str) -> tuple[list[Message], str]:
        """Return the messages of some turns, and what is left of a block that belongs before the first user message."""
        shown = [pair for turn in turns for pair in turn.as_shown(committed=turn is not self.running)]
        out: list[Message] = []
        for message, lead in shown:
            if head and message.get("role") == "user":
                lead, head = head + lead, ""  # noqa: PLW2901
            out.append(prefixed(message, lead) if lead else message)
        return out, head

    def _head_now(self, epoch: Epoch) -> str:
        """Return the block at an epoch's head if the present reader may see it."""
        return head_of(epoch) if readable(self.reader, epoch.level, None) else ""

    def commit(self, *, unfinished: bool = False) -> None:
        """Make the prepared turn history; `unfinished`: its loop left it open."""
        turn = self._opened()
        turn.unfinished, turn.asked = unfinished, None
        ids, reported = {item.id for item in turn.shown if item.id.startswith(INTERRUPTION)}, False
        for earlier in reversed(self.committed().turns if ids else ()):
            # A model that was told of one cut turn is not told of older ones.
            reported = earlier.reported = earlier.reported or reported or interruption(earlier.n) in ids
        self.turns.append(turn)
        # Last: idle time must not find a prompt between two turns that lacks the newer one.
        self.discard()

    def discard(self) -> None:
        """Drop the open turn; it was never shown."""
        self.running, self.sections = None, {}

    def abort(self) -> None:
        """Drop the open turn, and what its loop may have kept of it."""
        self.has_begun = self.has_begun or self.running is not None
        self.discard()

    def cut_replies(self, turn: PromptTurn, heard: Mapping[int, str]) -> PromptTurn | None:
        """Keep only the heard text of messages, by number in the running or a committed turn; return a committed one."""
        for n, text in heard.items():
            turn.cut(n, text)
        turn.heard_until, turn.reported = heard_in(turn.messages), False
        if turn is self.running:
            return None
        self._changes += 1
        return turn

    def switch(self, epoch: Epoch) -> None:
        """Begin a new epoch; turns before it stay known, because the loop's own list still begins with them."""
        if self.running is not None:  # its prompt held them
            self.close(self.answer)
        self.epoch = epoch if epoch.head else msgspec.structs.replace(epoch, head=self.epoch.head)
