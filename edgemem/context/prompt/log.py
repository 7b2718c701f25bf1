"""The prompt log: what the model sees of one session, as an epoch that only grows.

    [system, frozen] [summary + first turn] [turn] … [turn] [<memory> delta + the newest utterance]

Within an epoch nothing that was shown changes: a turn keeps its `<memory>` block byte for byte where it was
put, and new memory stands only in the newest user message, so the model's cache of the prefix stays valid. A
turn is *prepared* while it runs, and becomes *committed* at its end; a discarded one was never shown.

What a person may not read is not in that person's prompt: turns are filtered by the reader (law 7), which is
a function of the turn and the reader alone, so that the same listener always gets the same prefix back.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from edgemem.config import Settings
from edgemem.context.block.delta import carried_by, head_of
from edgemem.context.block.render import VisibleLines
from edgemem.context.messages import heard_in, newest_user, prefixed, split_instructions, with_prompt
from edgemem.context.prompt.turn import INTERRUPTION, Dedupe, PromptTurn, interruption, turn_of
from edgemem.fence import fence
from edgemem.preload import Pattern
from edgemem.recall.text.analyse import Analysis, analyse
from edgemem.records import BlockLine, Epoch, Heard, Message, Reader, Turn, text_of
from edgemem.scopes import RANK, Level, most_private, name_key
from edgemem.store.rights import readable

_SPELLED = Pattern(r"\b[a-zA-Z0-9](?:[\W_]+[a-zA-Z0-9]\b)+")
"""Letters and digits that were said one by one."""
_BETWEEN = re.compile(r"[\W_]+")


class BlockSection(NamedTuple):
    """What one hook put into a block."""

    header: str
    shown: tuple[BlockLine, ...]
    tokens: int = 0

    @property
    def lines(self) -> list[str]:
        """Return its lines, the header before them; a header alone is none."""
        lines = [item.line for item in self.shown]
        return [self.header, *lines] if self.header and lines else lines


class Committed(NamedTuple):
    """The committed part of the present reader's prompt, made once a turn: at 160 turns that saves a hook 0.3 ms each time."""

    cache_key: tuple[Any, ...]
    """The values that it was made from: epoch, reader, changes of turns, and how many there are."""
    turns: list[PromptTurn]
    """Of each, what the reader sees."""
    carried: tuple[BlockLine, ...]
    """What of memory stands in the head that the reader is shown."""
    visible: VisibleLines
    """What the prompt already holds, by item id, in its head and its turns."""
    numbers: frozenset[int]
    """The numbers of its turns."""
    seen: Dedupe
    """What its turns say already."""
    level: Level
    """Of its most private part."""
    messages: list[Message]
    head: str
    """What is left of the block at the epoch's head, which no user message carries yet."""

    @property
    def cut_off(self) -> PromptTurn | None:
        """Return the newest of its turns in which somebody cut the robot off; None once a model knows.

        The line that tells the model belongs to the running turn, and is the same each time that turn is prepared.
        """
        cut = (turn for turn in reversed(self.turns) if turn.heard_until is not None)
        return next((turn for turn in cut if not turn.reported), None)


class PromptLog:
    """The prompt of one session; not thread-safe, it belongs to the loop's thread."""

    def __init__(self, session: str = "", *, settings: Settings | None = None, prompt: str = "") -> None:
        """Begin a prompt.

        Args:
            prompt: follows the loop's instructions.
        """
        self.session = session
        self._prompt = prompt
        self._settings = settings or Settings()
        self.epoch = Epoch(session=session, first_turn=0)
        self.reader: Reader | None = None
        self.system: Sequence[Message] = with_prompt([], prompt)
        """The system messages of the newest prompt."""
        self._turns: list[PromptTurn] = []
        """The committed turns, oldest first."""
        self._messages: list[Message] = []
        """The messages of all turns, one after the other."""
        self._changes = 0
        """How often turns became other ones."""
        self._has_aborted = False
        """Whether a turn was aborted, whose words a loop's list may still have."""
        self.running: PromptTurn | None = None
        """The turn that is prepared."""
        self.sections: dict[str, BlockSection] = {}
        """What its block is made of, in the order in which it came in."""
        self._outer: PromptLog | None = None
        """Of the agent whose tool runs this one."""
        self._newest: Committed | None = None

    # -- what was said -------------------------------------------------------------------------------

    def resume(self, turns: Iterable[Turn], epoch: Epoch | None) -> None:
        """Take up a stored session: its turns from the epoch's first on, with their blocks as shown.

        A turn that was cut off between a tool call and its result is mended, or no template would take it.
        """
        if epoch is not None:
            self.epoch = epoch
        placed = [turn_of(turn) for turn in turns if turn.messages]
        for n, cut in enumerate(placed):
            if cut.heard_until is not None:
                # Its block may be erased; an older edgemem did not say which turn was cut off.
                ids, speaker = (interruption(cut), INTERRUPTION), name_key(cut.owner or "")
                cut.reported = any(
                    name_key(later.owner or "") == speaker or any(item.id in ids for item in later.shown)
                    for later in placed[n + 1 :]
                )
        self._replace(placed)

    def recognise(self, turns: Iterable[Turn], messages: Sequence[Message]) -> None:
        """Take up those turns of a stored session that stand in a list that a loop has from elsewhere."""
        placed = [turn_of(turn) for turn in turns if turn.messages]
        known = any(message in turn.messages for turn in placed for message in messages)
        self._replace(placed if known else [])

    def adopt(self, messages: Sequence[Message]) -> list[PromptTurn]:
        """Take the history up that a loop brings from elsewhere before the first turn; return the turn that it is.

        Its words are nobody's, and as open as the utterance of the open turn.
        """
        current, brought = self._opened(), split_instructions(messages)[1]
        if self._turns or self._has_aborted or not any(message.get("role") == "user" for message in brought):
            return []
        owner = current.owner if current.level == "private" else None
        turn = PromptTurn(current.n, brought, level=current.level, owner=owner)
        self._add(turn)
        current.n = self.next_n
        return [turn]

    def _add(self, turn: PromptTurn) -> None:
        self._messages += turn.messages
        self._turns.append(turn)  # last: idle time must not find a prompt that has the turn and not its words

    def _replace(self, turns: list[PromptTurn]) -> None:
        """Take these turns in place of all, or the same ones, which have changed."""
        self._turns = turns
        self._changes += 1
        self._messages = [message for turn in turns for message in turn.messages]

    @property
    def default_level(self) -> Level:
        """Return who may read what is said, unless it says otherwise: `[memory] default_level`."""
        return self._settings.now.memory.default_level

    @property
    def turns(self) -> Sequence[PromptTurn]:
        """Return the committed turns, oldest first."""
        return self._turns

    @property
    def messages(self) -> list[Message]:
        """Return the committed messages as they were said, without anything injected."""
        return list(self._messages)

    @property
    def next_n(self) -> int:
        """Return the number of the turn that runs now or comes next."""
        return self._turns[-1].n + 1 if self._turns else self.epoch.first_turn

    def begin(
        self,
        reader: Reader | None = None,
        heard: Heard | None = None,
        *,
        level: Level | None = None,
        outer: PromptLog | None = None,
    ) -> PromptTurn:
        """Open a turn for a reader and return it; one that is still open is discarded.

        Words of an unknown voice are shared: all who can hear a stranger may also hear what the stranger said.

        Args:
            heard: how it was heard; None: nobody said it.
            level: who may read the utterance; None: as for all that is said.
            outer: of the agent whose tool begins the turn, which is nobody's words then and as private as the answer of that
                agent; that becomes as private as this one.
        """
        self.discard()
        around = (
            None if outer is None or outer is self else outer.running or next(reversed(outer.turns), None)
        )
        self.reader, self._outer = reader, None if around is None else outer
        speaker = reader.speaker if reader is not None else None
        if level is None:
            level = self.default_level if speaker is not None or reader is None else "shared"
        turn = self.running = PromptTurn(self.next_n, [], level=level, owner=speaker, heard=heard)
        if outer is not None and around is not None:
            turn.close(outer.answer if outer.running is not None else around.answer, utterance=True)
            turn.owner, turn.heard = around.owner, None
        return turn

    def instruct(self, system: Sequence[Message]) -> None:
        """Take the instructions that the next prompt begins with."""
        self.system = with_prompt(list(system), self._prompt)

    def _opened(self) -> PromptTurn:
        """Return the open turn; a loop that never said that one begins gets it here."""
        return self.running if self.running is not None else self.begin(self.reader)

    # -- what memory adds ----------------------------------------------------------------------------

    @property
    def utterance(self) -> str:
        """Return the text of the newest user message."""
        messages = self.running.messages if self.running else []
        newest = newest_user(messages)
        return "" if newest is None else text_of(messages[newest])

    @property
    def answer(self) -> Level:
        """Return who may read the open turn but for its utterance: as many as may read all that its prompt and tools told."""
        current = self._opened()
        return most_private(current.answer, self.committed().level, *(item.level for item in current.shown))

    def close(self, level: Level, *, utterance: bool = False) -> None:
        """Close the open turn as `PromptTurn.close` does: a tool was told something, or keeps it for the speaker alone."""
        self._opened().close(level, utterance=utterance)
        if self._outer is not None and self._outer.running is not None:
            self._outer.close(level)

    def level_of_write(self, level: Level, *texts: str) -> Level:
        """Return the level at which a tool may write in the open turn: the one that it was asked to, or the answer's.

        It writes more openly than the answer only what whoever reads at that level knows: from the utterance, and from what
        they see of this prompt.

        Args:
            texts: what it writes, the value last.
        """
        answer = self.answer
        if RANK[answer] <= RANK[level] or _repeats(texts, self._seen_at(level)):
            return level
        return answer

    def _seen_at(self, level: Level) -> Iterator[str]:
        """Yield the texts of the present prompt that somebody sees who reads no more than a level."""
        current = self._opened()
        # Within a tool it is what another agent asks, and nobody's words; what is private is told to nobody else.
        if current.utterance is not None and self._outer is None and current.level != "private":
            yield current.text(current.utterance)
        if self.reader is not None:
            yield " ".join((self.reader.speaker or "", *self.reader.audience))
        yield from map(text_of, self.system)
        yield from (item.line for item in current.shown if RANK[item.level] <= RANK[level])
        if RANK[self.epoch.level] <= RANK[level]:
            yield self._head_now(self.epoch)
        for turn in self.committed().turns:
            part = turn.seen_at(level)
            if part is not None:
                yield from (text_of(message) for message in part.messages)
                yield part.block

    def put(self, section: str, shown: Sequence[BlockLine], *, header: str = "", tokens: int = 0) -> str:
        """Put lines of one section into the open turn's block, and return that; sections stand in the order they came in.

        Args:
            tokens: what they take, as far as whoever puts them knows.
        """
        current = self._opened()
        self.sections[section] = BlockSection(header, tuple(shown), tokens)
        sections = self.sections.values()
        lines = [line for part in sections for line in part.lines]
        current.block_tokens = sum(part.tokens for part in sections)
        current.shown = tuple(item for part in sections for item in part.shown)
        current.block = fence(lines) if lines else ""
        return current.block

    def committed(self) -> Committed:
        """Return what the present reader's prompt holds before the open turn."""
        key = self.epoch, self.reader, self._changes, len(self._turns)
        if self._newest is None or self._newest.cache_key != key:
            turns = [part for turn in self.epoch_turns() if (part := turn.seen_by(self.reader)) is not None]
            reads_head = readable(self.reader, self.epoch.level, None)
            carried, head = (carried_by(self.epoch), head_of(self.epoch)) if reads_head else ((), "")
            shown = [*carried, *(item for turn in turns for item in turn.shown)]
            visible = VisibleLines({item.id: item for item in shown})
            numbers = frozenset(turn.n for turn in turns)
            level = most_private(*(turn.answer for turn in turns), *([self.epoch.level] if head else []))
            shown_now = self._messages_of(turns, head)
            self._newest = Committed(key, turns, carried, visible, numbers, Dedupe(turns), level, *shown_now)
        return self._newest

    def epoch_turns(self, epoch: Epoch | None = None) -> list[PromptTurn]:
        """Return the committed turns that stand word for word in the prompt of an epoch (None: this one), whoever reads it."""
        turns, first = self._turns, (epoch or self.epoch).first_turn
        return turns[bisect_left(turns, first, key=lambda turn: turn.n) :]

    # -- what the model sees -------------------------------------------------------------------------

    def view(self) -> list[Message]:
        """Return the messages for the model: the system's, then the visible turns with their blocks."""
        committed, current = self.committed(), self.running
        running = [current] if current is not None and current.messages else []
        messages = [*self.system, *committed.messages, *self._messages_of(running, committed.head)[0]]
        if current is not None:  # what the prompt holds is told
            self.close(self.answer)
        return messages

    def view_in(self, epoch: Epoch) -> list[Message]:
        """Return what stands before the next utterance once another epoch has begun; may be asked in idle time."""
        # Copies: a barge-in may cut the newest turn at this moment, and what is kept of it must not be the older one.
        copies = map(copy, self.epoch_turns(epoch))
        turns = [part for turn in copies if (part := turn.seen_by(self.reader)) is not None]
        return [*self.system, *self._messages_of(turns, self._head_now(epoch))[0]]

    def _messages_of(self, turns: Iterable[PromptTurn], head: str) -> tuple[list[Message], str]:
        """Return the messages of some turns, and what is left of a block that stands before the first user's."""
        shown = [pair for turn in turns for pair in turn.as_shown(committed=turn is not self.running)]
        out: list[Message] = []
        for message, lead in shown:
            if head and message.get("role") == "user":
                lead, head = head + lead, ""  # noqa: PLW2901
            out.append(prefixed(message, lead) if lead else message)
        return out, head

    def _head_now(self, epoch: Epoch) -> str:
        """Return the block at an epoch's head, as far as the present reader is shown it."""
        return head_of(epoch) if readable(self.reader, epoch.level, None) else ""

    # -- how a turn ends -----------------------------------------------------------------------------

    def commit(self, *, unfinished: bool = False) -> PromptTurn | None:
        """Make the prepared turn history; what it showed has been shown.

        Args:
            unfinished: its loop has left it open.
        """
        turn = self.running
        self.sections = {}
        if turn is None or not turn.messages:
            self.running = None
            return None
        turn.unfinished = unfinished
        ids, reported = {item.id for item in turn.shown if item.id.startswith(INTERRUPTION)}, False
        for earlier in reversed(self.committed().turns if ids else ()):
            # A model that was told of one turn that was cut off is not told of older ones.
            reported = earlier.reported = earlier.reported or reported or interruption(earlier) in ids
        self._add(turn)
        # Last: idle time must not find a prompt between two turns that lacks the newer one.
        self.running = None
        return turn

    def discard(self) -> None:
        """Throw the prepared turn away: what it had shown was never shown."""
        self.running = None
        self.sections = {}

    def abort(self) -> None:
        """Throw the prepared turn away, and what its loop may have kept of it."""
        self._has_aborted = self._has_aborted or self.running is not None
        self.discard()

    def cut_replies(self, turn: PromptTurn, heard: Mapping[int, str]) -> PromptTurn | None:
        """Keep of messages of the running or a committed turn only what was heard; return it if it was committed.

        Args:
            heard: what was heard of each, by its number in the turn.
        """
        for n, text in heard.items():
            turn.cut(n, text)
        turn.heard_until = heard_in(turn.messages)
        turn.reported = False
        if turn is self.running:
            return None
        self._replace(self._turns)
        return turn

    def switch(self, epoch: Epoch) -> None:
        """Begin a new epoch: turns before its first live on in the summary and in recall only.

        They stay known here, because the loop's own list still begins with them.
        """
        if self.running is not None:  # its prompt held them
            self.close(self.answer)
        self.epoch = epoch if epoch.head else msgspec.structs.replace(epoch, head=self.epoch.head)


def _repeats(texts: Sequence[str], others: Iterable[str]) -> bool:
    """Tell whether each content word and number of some texts is in other texts, and the last of them has one.

    A name that was spelled counts as one word, as does a number that was said digit by digit.
    """
    written = [_analysis(text) for text in texts]
    if not written[-1].tokens:
        return False
    known = [_analysis(text) for text in others]
    words = frozenset(word for text in known for word, _ in text.tokens if word)
    terms = frozenset(term for text in known for term in text.terms())
    tokens = chain.from_iterable(text.tokens for text in written)
    return all(word in words or terms.issuperset(stems) for word, stems in tokens)


def _analysis(text: str) -> Analysis:
    """Return what a text is found by, with the signs side by side as what they spell."""
    return analyse(_SPELLED.sub(lambda match: _BETWEEN.sub("", match[0]), text))
