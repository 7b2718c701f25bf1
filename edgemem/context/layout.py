"""The layout: what the model sees of one session, as an epoch that only grows.

    [system, frozen] [summary + first turn] [turn] … [turn] [<memory> delta + the newest utterance]

Within an epoch nothing that was shown changes: a turn keeps its `<memory>` block byte for byte where it was
put, and new memory stands only in the newest user message, so the model's cache of the prefix stays valid. A
turn is *prepared* while it runs, and becomes *committed* at its end; a discarded one was never shown.

What a person may not read is not in that person's prompt: turns are filtered by the reader (law 7), which is
a function of the turn and the reader alone, so that the same listener always gets the same prefix back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from edgemem.context.grouping import repair_orphans
from edgemem.fence import fence
from edgemem.llama.template import text_of
from edgemem.records import Epoch, Heard, Level, Message, Reader, Turn
from edgemem.store.reading import readable

UNANSWERED: Message = {"role": "assistant", "content": "…"}
"""Stands in the prompt where a turn never got its answer."""

SUMMARY_HEADER = "Earlier in this conversation:"

_RANK: dict[Level, int] = {"shared": 0, "household": 1, "private": 2}


class Shown(msgspec.Struct, frozen=True):
    """One line of a block: which item it is, and who may read it."""

    id: str
    line: str
    level: Level = "household"
    owner: str | None = None
    fact: tuple[str, str] | None = None
    """Scope and key, when the item is a fact."""
    value: str = ""


class LaidTurn(msgspec.Struct):
    """One turn as it stands in the prompt."""

    n: int
    said: list[Message]
    block: str = ""
    shown: tuple[Shown, ...] = ()
    level: Level = "household"
    owner: str | None = None
    heard: Heard | None = None
    at: int | None = None
    """Which message carries the block: the newest user message when it was put there."""

    def carrier(self) -> int | None:
        """Return the number of the message that carries the block; the newest user message unless it was put before."""
        return self.at if self.at is not None else _newest_user(self.said)

    def readable(self, reader: Reader | None) -> bool:
        """Tell whether this reader may be shown the turn."""
        return readable(reader, self.level, self.owner)


class Layout:
    """The prompt of one session; not thread-safe, it belongs to the loop's thread."""

    def __init__(self, session: str = "", *, default_level: Level = "household") -> None:
        self.session = session
        self.default_level = default_level
        self.epoch = Epoch(session=session, first_turn=0)
        self.reader: Reader | None = None
        self.interrupted_after: str | None = None
        """What was heard of the newest reply before somebody cut it off; said to the model once."""
        self._system: list[Message] = []
        self._turns: list[LaidTurn] = []
        self._said: list[Message] = []
        """The messages of all turns, one after the other."""
        self._open: LaidTurn | None = None
        self._sections: dict[str, tuple[str, tuple[Shown, ...]]] = {}
        self._fenced = ("", "")
        """A summary, and the block that it makes."""
        # The newest view and what of it was said, both without instructions.
        self._issued: list[Message] = []
        self._issued_said: list[Message] = []

    # -- what was said -------------------------------------------------------------------------------

    def resume(self, turns: Iterable[Turn], epoch: Epoch | None) -> None:
        """Take up a stored session: its turns from the epoch's first on, with their blocks as shown.

        A turn that was cut off between a tool call and its result is mended, or no template would take it.
        """
        if epoch is not None:
            self.epoch = epoch
        self._turns = [
            LaidTurn(
                turn.n,
                repair_orphans([message.as_message() for message in turn.messages]),
                turn.block,
                tuple(_recorded(turn)),
                turn.level,
                turn.owner,
                turn.heard,
            )
            for turn in turns
            if turn.messages
        ]
        self._flatten()

    @property
    def turns(self) -> Sequence[LaidTurn]:
        """Return the committed turns, oldest first."""
        return self._turns

    @property
    def system(self) -> Sequence[Message]:
        """Return the system messages of the newest prompt."""
        return self._system

    @property
    def said(self) -> list[Message]:
        """Return the committed messages as they were said, without anything injected."""
        return list(self._said)

    @property
    def next_n(self) -> int:
        """Return the number of the turn that runs now or comes next."""
        return self._turns[-1].n + 1 if self._turns else self.epoch.first_turn

    def begin(
        self, reader: Reader | None = None, heard: Heard | None = None, *, level: Level | None = None
    ) -> LaidTurn:
        """Open a turn for a reader and return it; one that is still open is discarded.

        What an unknown voice says is shared: whoever can hear a stranger may also hear what it said.
        """
        self.discard()
        self.reader = reader
        speaker = reader.speaker if reader is not None else None
        if level is None:
            level = self.default_level if speaker is not None or reader is None else "shared"
        turn = self._open = LaidTurn(self.next_n, [], level=level, owner=speaker, heard=heard)
        return turn

    def take(self, messages: Sequence[Message]) -> None:
        """Learn what has been said from a loop's message list.

        The list is either what was said, or (loops that keep what hooks return) the view issued before with
        something behind it. Injected text is told apart by the very messages that were issued, never by
        what it looks like. If the past was changed, the turns up to the change keep their place.
        """
        current = self._opened()
        start = 0
        while start < len(messages) and messages[start].get("role") == "system":
            start += 1
        if start:  # the list that a loop ends a turn with may come without its instructions
            self._system = list(messages[:start])
        rest = list(messages[start:])
        issued = len(self._issued)
        # A view without anything injected is the same list as what was said, and is taken as such.
        if self._issued != self._issued_said and rest[:issued] == self._issued:
            rest = [*self._issued_said, *rest[issued:]]
        # Comparing lists is quick while the messages are the very same objects, as in a loop that only appends.
        if rest[: len(self._said)] != self._said:
            self._rewind(rest)
        current.n = self.next_n
        current.said = rest[len(self._said) :]

    def _opened(self) -> LaidTurn:
        """Return the open turn; a loop that never said that one begins gets it here."""
        return self._open if self._open is not None else self.begin(self.reader)

    def _rewind(self, said: list[Message]) -> None:
        """Keep the turns that still stand word for word at the head of `said`, and lay the others anew."""
        kept, at = 0, 0
        for turn in self._turns:
            if said[at : at + len(turn.said)] != turn.said:
                break
            kept, at = kept + 1, at + len(turn.said)
        # What replaces a turn may repeat it, so it is as closed as the most private one that it replaces.
        strictest = max(self._turns[kept:], key=lambda turn: _RANK[turn.level], default=None)
        level, owner = (
            (strictest.level, strictest.owner) if strictest is not None else (self.default_level, None)
        )
        self._turns = self._turns[:kept]
        users = [i for i in range(at, len(said)) if said[i].get("role") == "user"]
        # What stands before the first user message (a greeting) belongs to the turn that follows it.
        starts = [at, *users[1:]]
        for begin, end in pairwise(starts):
            self._turns.append(LaidTurn(self.next_n, said[begin:end], level=level, owner=owner))
        self._flatten()

    def _flatten(self) -> None:
        self._said = [message for turn in self._turns for message in turn.said]

    # -- what memory adds ----------------------------------------------------------------------------

    @property
    def utterance(self) -> str:
        """Return the text of the newest user message."""
        for message in reversed(self._open.said if self._open else []):
            if message.get("role") == "user":
                return text_of(message)
        return ""

    def put(self, section: str, shown: Sequence[Shown], *, header: str = "") -> None:
        """Put lines of one section into the open turn's block; sections stand in the order they came in."""
        current = self._opened()
        self._sections[section] = (header, tuple(shown))
        lines: list[str] = []
        everything: list[Shown] = []
        for title, items in self._sections.values():
            if items and title:
                lines.append(title)
            lines.extend(item.line for item in items)
            everything.extend(items)
        current.block = fence(lines) if lines else ""
        # A list that was never laid out before may bring its history along as part of this turn.
        if current.at is None:
            current.at = _newest_user(current.said)
        current.shown = tuple(everything)

    def visible(self) -> dict[str, Shown]:
        """Return what the present reader's prompt already holds, by item id, from the turns before."""
        return {item.id: item for turn in self._in_prompt() for item in turn.shown}

    def visible_turns(self) -> frozenset[int]:
        """Return the numbers of the turns that stand in the present reader's prompt."""
        return frozenset(turn.n for turn in self._in_prompt())

    def _in_prompt(self) -> list[LaidTurn]:
        return [turn for turn in self.epoch_turns() if turn.readable(self.reader)]

    def epoch_turns(self) -> list[LaidTurn]:
        """Return the committed turns that stand in the prompt word for word, whoever reads it."""
        return self._turns[bisect_left(self._turns, self.epoch.first_turn, key=lambda turn: turn.n) :]

    # -- what the model sees -------------------------------------------------------------------------

    def view(self) -> list[Message]:
        """Return the messages for the model: the system's, then the visible turns with their blocks."""
        out = list(self._system)
        head = self._head()
        turns = self._in_prompt()
        if self._open is not None and self._open.said:
            turns.append(self._open)
        for turn in turns:
            carrier = turn.carrier() if turn.block else None
            for n, message in enumerate(turn.said):
                lead = ""
                if head and message.get("role") == "user":
                    lead, head = head, ""
                if n == carrier:
                    lead += turn.block
                out.append(_prefixed(message, lead) if lead else message)
            # A turn that was cut off before its answer: strict templates refuse two user messages in a row.
            if turn is not self._open and turn.said[-1].get("role") != "assistant":
                out.append(dict(UNANSWERED))
        self._issued = out[len(self._system) :]
        self._issued_said = [*self._said, *(self._open.said if self._open is not None else [])]
        return list(out)

    def _head(self) -> str:
        # A summary is made of what the household said; a stranger does not hear it.
        summary = self.epoch.summary
        if not summary or not readable(self.reader, "household", None):
            return ""
        if self._fenced[0] != summary:
            self._fenced = (summary, fence(summary.splitlines(), header=SUMMARY_HEADER))
        return self._fenced[1]

    # -- how a turn ends -----------------------------------------------------------------------------

    @property
    def running(self) -> LaidTurn | None:
        """Return the prepared turn, or None."""
        return self._open

    def commit(self) -> LaidTurn | None:
        """Make the prepared turn history; what it showed has been shown."""
        turn, self._open = self._open, None
        self._sections = {}
        self.interrupted_after = None
        if turn is None or not turn.said:
            return None
        turn.level, turn.owner = self.level_of(turn)
        self._turns.append(turn)
        self._said += turn.said
        return turn

    def level_of(self, turn: LaidTurn) -> tuple[Level, str | None]:
        """Return who may read a turn: what was said, and also whatever private item stood before the model.

        A reply may repeat what the block told it, so a turn is as private as the most private line in it.
        """
        level, owner = turn.level, turn.owner
        for item in turn.shown:
            if _RANK[item.level] > _RANK[level]:
                level, owner = item.level, item.owner
        return level, owner

    def discard(self) -> None:
        """Throw the prepared turn away: what it had shown was never shown."""
        self._open = None
        self._sections = {}

    def interrupt(self, heard_text: str) -> LaidTurn | None:
        """Keep only what was heard of the newest reply; return the turn that changed, if it was committed."""
        self.interrupted_after = heard_text
        turn = self._open or (self._turns[-1] if self._turns else None)
        if turn is None:
            return None
        for i in range(len(turn.said) - 1, -1, -1):
            message = turn.said[i]
            if message.get("role") == "assistant" and not message.get("tool_calls"):
                turn.said[i] = {**message, "content": heard_text}
                self._flatten()
                return None if turn is self._open else turn
        return None

    def switch(self, epoch: Epoch) -> None:
        """Begin a new epoch: turns before its first live on in the summary and in recall only.

        They stay known here, because the loop's own list still begins with them.
        """
        self.epoch = epoch


def _newest_user(said: Sequence[Message]) -> int | None:
    return next((n for n in range(len(said) - 1, -1, -1) if said[n].get("role") == "user"), None)


def _prefixed(message: Message, lead: str) -> Message:
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": lead}, *content]}
    return {**message, "content": lead + (content or "")}


def _recorded(turn: Turn) -> Iterable[Shown]:
    """Rebuild what a stored turn showed; the text itself stands in its block."""
    for entry in turn.shown:
        yield msgspec.json.decode(entry, type=Shown) if entry.startswith("{") else Shown(entry, "")
