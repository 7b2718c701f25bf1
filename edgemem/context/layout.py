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
from typing import NamedTuple

import msgspec

from edgemem.context.grouping import repair_orphans, tool_calls
from edgemem.context.seen import Seen
from edgemem.fence import fence
from edgemem.llama.template import text_of
from edgemem.records import Epoch, Heard, Level, Message, Reader, Turn
from edgemem.store.reading import readable

UNANSWERED: Message = {"role": "assistant", "content": "…"}
"""Stands in the prompt where a turn never got its answer."""

SUMMARY_HEADER = "Earlier in this conversation:"

_RANK: dict[Level, int] = {"shared": 0, "household": 1, "private": 2}

About = tuple[str, str, str]
"""What a line gives the value of: `fact` or `preference`, scope and key."""


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a block: which item it is, and who may read it."""

    id: str
    line: str
    level: Level = "household"
    owner: str | None = None
    fact: tuple[str, str] | None = None
    """Scope and key, when the item is of a fact."""
    value: str = ""
    preference: tuple[str, str] | None = None
    """Scope and key, when the item is of a preference."""
    passing: bool = False
    """Whether it is said now and stored nowhere: it tells that something was erased."""

    @property
    def about(self) -> About | None:
        """Return what the model takes this for the value of; a doubt only stands beside one."""
        if self.preference is not None:
            return ("preference", *self.preference)
        return None if self.fact is None or self.id.startswith("doubt:") else ("fact", *self.fact)


class Section(NamedTuple):
    """What one hook put into a block."""

    header: str
    shown: tuple[Shown, ...]
    tokens: int = 0


class LaidTurn(msgspec.Struct):
    """One turn as it stands in the prompt."""

    n: int
    said: list[Message]
    block: str = ""
    block_tokens: int = 0
    """As whoever put the lines counted them."""
    shown: tuple[Shown, ...] = ()
    level: Level = "household"
    owner: str | None = None
    heard: Heard | None = None
    at: int | None = None
    """Which message carries the block: the newest user message when it was put there."""
    heard_until: str | None = None
    """What was heard of its reply before somebody cut it off; None: nobody did."""
    unheard: str = ""
    """The rest of that reply."""
    whole: list[Message] | None = None
    """Of a committed turn: its messages as every template takes them; made anew after a change."""

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
        self._system: list[Message] = []
        self._turns: list[LaidTurn] = []
        self._said: list[Message] = []
        """The messages of all turns, one after the other."""
        self._open: LaidTurn | None = None
        self._sections: dict[str, Section] = {}
        self._fenced = ("", "")
        """A summary, and the block that it makes."""
        # The newest view and what of it was said, both without instructions.
        self._issued: list[Message] = []
        self._issued_said: tuple[int, list[Message]] = (0, [])
        """How many messages of all turns that was, and those of the open one."""
        self._past = 0
        """How many messages of the turns stand before the epoch."""

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
                shown=tuple(_recorded(turn)),
                level=turn.level,
                owner=turn.owner,
                heard=turn.heard,
                heard_until=_heard_until(turn),
                unheard=turn.messages[-1].unheard or "",
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
        what it looks like. If the past was changed, the turns up to the change keep their place. What stands before the
        epoch is not looked at as long as the rest has its place: a turn costs what its epoch holds, not all that was said.
        """
        current = self._opened()
        start = 0
        while start < len(messages) and messages[start].get("role") == "system":
            start += 1
        if start:  # the list that a loop ends a turn with may come without its instructions
            self._system = list(messages[:start])
        known = len(self._said)
        if self._is_issued(messages[start : start + len(self._issued)]):
            before, newest = self._issued_said
            rest = [*self._said[:before], *newest, *messages[start + len(self._issued) :]]
        # Comparing lists is quick while the messages are the very same objects, as in a loop that only appends.
        elif len(messages) >= start + known and (
            messages[start + self._past : start + known] == self._said[self._past :]
        ):
            current.n = self.next_n
            current.said = list(messages[start + known :])
            return
        else:
            rest = list(messages[start:])
        if rest[:known] != self._said:
            self._rewind(rest)
        current.n = self.next_n
        current.said = rest[len(self._said) :]

    def _is_issued(self, head: Sequence[Message]) -> bool:
        """Tell whether a list begins with the newest view, and not only with what was said."""
        if list(head) != self._issued:
            return False
        # A view without anything injected is the same list as what was said, and is taken as such.
        before, newest = self._issued_said
        return len(self._issued) != before + len(newest) or self._issued != [*self._said[:before], *newest]

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
        self._count_past()

    def _count_past(self) -> None:
        first = bisect_left(self._turns, self.epoch.first_turn, key=lambda turn: turn.n)
        self._past = sum(len(turn.said) for turn in self._turns[:first])

    # -- what memory adds ----------------------------------------------------------------------------

    @property
    def utterance(self) -> str:
        """Return the text of the newest user message."""
        for message in reversed(self._open.said if self._open else []):
            if message.get("role") == "user":
                return text_of(message)
        return ""

    def put(self, section: str, shown: Sequence[Shown], *, header: str = "", tokens: int = 0) -> None:
        """Put lines of one section into the open turn's block; sections stand in the order they came in.

        Args:
            tokens: what they take, as far as whoever puts them knows.
        """
        current = self._opened()
        self._sections[section] = Section(header, tuple(shown), tokens)
        lines: list[str] = []
        everything: list[Shown] = []
        for title, items, _ in self._sections.values():
            if items and title:
                lines.append(title)
            lines.extend(item.line for item in items)
            everything.extend(items)
        current.block = fence(lines) if lines else ""
        current.block_tokens = sum(each.tokens for each in self._sections.values())
        # A list that was never laid out before may bring its history along as part of this turn.
        if current.at is None:
            current.at = _newest_user(current.said)
        current.shown = tuple(everything)

    @property
    def sections(self) -> dict[str, Section]:
        """Return what the open turn's block is made of, in its order."""
        return dict(self._sections)

    def visible(self) -> dict[str, Shown]:
        """Return what the present reader's prompt already holds, by item id, from the turns before."""
        return {item.id: item for turn in self._in_prompt() for item in turn.shown}

    def visible_turns(self) -> frozenset[int]:
        """Return the numbers of the turns that stand in the present reader's prompt."""
        return frozenset(turn.n for turn in self._in_prompt())

    def seen(self) -> Seen:
        """Return what the present reader's prompt says already, in the turns before."""
        return Seen(self._in_prompt())

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
            carried = turn.said[carrier] if carrier is not None else None
            for message in turn.said if turn is self._open else _as_whole(turn):
                lead = ""
                if head and message.get("role") == "user":
                    lead, head = head, ""
                if message is carried:
                    lead += turn.block
                out.append(_prefixed(message, lead) if lead else message)
        self._issued = out[len(self._system) :]
        self._issued_said = len(self._said), list(self._open.said) if self._open is not None else []
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

    @property
    def interrupted_after(self) -> str | None:
        """Return what was heard of the newest committed reply before somebody cut it off; None: nobody did.

        It is a part of that turn, so the model is told in the one that follows, however often that is prepared.
        """
        return self._turns[-1].heard_until if self._turns else None

    @property
    def reply(self) -> str:
        """Return the reply of the running turn, or else of the newest, also what nobody heard; empty if there is none."""
        turn = self._newest()
        at = _newest_reply(turn.said) if turn is not None else None
        return "" if turn is None or at is None else text_of(turn.said[at]) + turn.unheard

    def interrupt(self, heard_text: str) -> LaidTurn | None:
        """Keep only what was heard of the newest reply; return the turn that changed, if it was committed."""
        turn, reply = self._newest(), self.reply
        if turn is None:
            return None
        turn.heard_until = heard_text
        at = _newest_reply(turn.said)
        if at is None:
            return None
        # A loop may know only roughly what was heard: then nothing of what was said is lost either.
        turn.unheard = reply.removeprefix(heard_text)
        turn.said[at] = {**turn.said[at], "content": heard_text}
        turn.whole = None
        self._flatten()
        return None if turn is self._open else turn

    def _newest(self) -> LaidTurn | None:
        return self._open or (self._turns[-1] if self._turns else None)

    def switch(self, epoch: Epoch) -> None:
        """Begin a new epoch: turns before its first live on in the summary and in recall only.

        They stay known here, because the loop's own list still begins with them.
        """
        self.epoch = epoch
        self._count_past()


def _newest_user(said: Sequence[Message]) -> int | None:
    return next((n for n in range(len(said) - 1, -1, -1) if said[n].get("role") == "user"), None)


def _newest_reply(said: Sequence[Message]) -> int | None:
    """Return the number of the newest message that was spoken to the end of the turn, not before a tool ran."""
    last = range(len(said) - 1, -1, -1)
    return next(
        (n for n in last if said[n].get("role") == "assistant" and not said[n].get("tool_calls")), None
    )


def _heard_until(turn: Turn) -> str | None:
    """Return what was heard of a stored turn that was cut off."""
    if turn.state != "interrupted":
        return None
    last = turn.messages[-1]
    return (last.content or "") if last.role == "assistant" else ""


def _as_whole(turn: LaidTurn) -> list[Message]:
    # Every prompt has all turns of the epoch, several times a turn; history is looked through once.
    if turn.whole is None:
        turn.whole = _whole(turn.said)
    return turn.whole


def _whole(said: Sequence[Message]) -> list[Message]:
    """Return a turn as every template takes it, however it was cut off.

    Strict ones refuse a call without a result, two user messages in a row, and a reply without a word.
    """
    tools = any(message.get("role") == "tool" or tool_calls(message) for message in said)
    out = repair_orphans(said) if tools else list(said)
    out = [{**message, **UNANSWERED} if _is_mute(message) else message for message in out]
    return out if out[-1].get("role") == "assistant" else [*out, dict(UNANSWERED)]


def _is_mute(message: Message) -> bool:
    return message.get("role") == "assistant" and not tool_calls(message) and not text_of(message).strip()


def _prefixed(message: Message, lead: str) -> Message:
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": lead}, *content]}
    return {**message, "content": lead + (content or "")}


def _recorded(turn: Turn) -> Iterable[Shown]:
    """Rebuild what a stored turn showed; the text itself stands in its block."""
    for entry in turn.shown:
        yield msgspec.json.decode(entry, type=Shown) if entry.startswith("{") else Shown(entry, "")
