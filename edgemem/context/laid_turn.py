"""A laid turn: what was said in one turn, what memory put before it, and what of it was heard.

It is one of a layout's: *open* while it runs, then *committed*, and from then on as it was stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from edgemem.context.grouping import repair_orphans
from edgemem.context.level import Closing, Passage, passages_of
from edgemem.context.said import UTTERANCE_BYTES, bounded, heard_in, is_part, newest_user, whole
from edgemem.context.seen import Says
from edgemem.context.shown import Shown
from edgemem.llama.template import text_of
from edgemem.records import Heard, Level, Message, Reader, Turn
from edgemem.scopes import name_key
from edgemem.store.rights import readable

INTERRUPTION = "interrupted"


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
    """What was heard in it before somebody cut the robot off; None: nobody did."""
    told: bool = False
    """Whether a model has been told that."""
    unfinished: bool = False
    """Whether its loop left it open; the loop's list may not have it."""
    listed: int | None = None
    """How many of its messages the loop's list had, where the reply came from elsewhere."""
    uncut: dict[int, Message] = msgspec.field(default_factory=dict)
    """By their numbers, messages as the loop has them, of which only what was heard stayed, or as much as is kept."""
    utterance_bytes: int = UTTERANCE_BYTES
    """As much is kept of an utterance; 0: all of it."""
    whole: list[Message] | None = None
    """Of a committed turn: its messages as every template takes them; made anew after a change."""
    says: Says | None = None
    """Of a committed turn: what it says of things that memory may tell; made anew after a change."""
    passages: list[Passage] | None = None
    """Of a committed turn: what of it a later reply may repeat; made anew after a change."""

    def carrier(self) -> int | None:
        """Return the number of the message that carries the block; the newest user message unless it was put before."""
        return self.at if self.at is not None else newest_user(self.said)

    def readable(self, reader: Reader | None) -> bool:
        """Tell whether this reader may be shown the turn."""
        return readable(reader, self.level, self.owner)

    def text(self, n: int) -> str:
        """Return the text of a message, also what nobody heard of it."""
        return text_of(self.uncut.get(n, self.said[n]))

    def unheard(self, n: int) -> str:
        """Return what nobody heard of a message; all of it where what was heard is not its beginning."""
        if n not in self.uncut or self.said[n].get("role") == "user":
            return ""
        return self.text(n).removeprefix(text_of(self.said[n]))

    def cut(self, n: int, heard: str) -> None:
        """Keep of a message what was heard."""
        message = self.uncut.pop(n, self.said[n])
        if heard != text_of(message):
            self.uncut[n] = message
            message = {**message, "content": heard}
        self.said[n] = message
        self.whole = self.says = self.passages = None

    def as_heard(self, said: Sequence[Message]) -> list[Message]:
        """Return messages that a loop has of this turn, cut where these are: it may know nothing of that, or cut elsewhere."""
        out = list(said)
        for n, uncut in self.uncut.items():
            if n < len(out) and is_part(out[n], uncut):
                out[n] = self.said[n]
        return out

    def take(self, said: Sequence[Message]) -> None:
        """Learn what has been said in it; what was cut stays so, unless the loop has put something else there.

        Of an utterance without end its beginning is what was said: all that follows is done with it, and takes as long as it is.
        """
        heard = self.as_heard(said)
        self.uncut = {n: uncut for n, uncut in self.uncut.items() if heard[n : n + 1] == self.said[n : n + 1]}
        self.said = heard
        for n, message in enumerate(heard):
            if message.get("role") == "user":
                kept = bounded(message, self.utterance_bytes)
                if kept is not message:
                    self.uncut[n], self.said[n] = message, kept

    def as_listed(self) -> list[Message]:
        """Return what was said as the loop has it, also what nobody heard, and what is too long to be kept."""
        return [self.uncut.get(n, message) for n, message in enumerate(self.said)]

    def take_reply(self, reply: str) -> None:
        """Learn the reply where the loop's list does not have it yet."""
        if self.said and self.said[-1].get("role") in ("user", "tool"):
            self.listed = len(self.said)
            self.said = [*self.said, {"role": "assistant", "content": reply}]

    def standing(self, messages: Sequence[Message], at: int) -> int:
        """Return how many messages of a list are this turn's, from a place on; 0: it does not stand there."""
        part = list(messages[at : at + len(self.said)])
        if part == self.said or (
            self.uncut and len(part) == len(self.said) and self.as_heard(part) == self.said
        ):
            return len(part)
        listed = self.without_reply
        return listed if part[:listed] == self.said[:listed] else 0

    @property
    def without_reply(self) -> int:
        """Return with how many messages the turn may stand in a list that never had its reply; 0: it had."""
        if self.listed is not None:
            return self.listed
        replied = len(self.said) > 1 and self.said[-1].get("role") == "assistant"
        return len(self.said) - 1 if self.unfinished and replied else 0

    def as_whole(self) -> list[Message]:
        """Return the messages of a committed turn as every template takes them; history is looked through once."""
        if self.whole is None:
            self.whole = whole(self.said)
        return self.whole

    def closings(self) -> list[Closing]:
        """Return who may read what was said in a committed turn, and each thing that memory showed in it."""
        return [(self.level, self.owner), *((item.level, item.owner) for item in self.shown)]

    def as_passages(self) -> list[Passage]:
        """Return the parts of a committed turn, each with who may read it."""
        if self.passages is None:
            self.passages = passages_of(self.said, (self.level, self.owner), self.block, self.shown)
        return self.passages


def interruption(cut: LaidTurn) -> str:
    """Return the id of the line which tells that a turn was cut off."""
    return f"{INTERRUPTION}:{cut.n}"


def has_told(later: LaidTurn, cut: LaidTurn) -> bool:
    """Tell of two stored turns whether the later one told that the earlier was cut off; its block may be erased."""
    ids = (interruption(cut), INTERRUPTION)  # an older edgemem did not say which turn
    return name_key(later.owner or "") == name_key(cut.owner or "") or any(
        item.id in ids for item in later.shown
    )


def as_heard(turns: Iterable[LaidTurn], messages: Sequence[Message]) -> list[Message]:
    """Return the messages that a loop has of some turns, from the first on, with only what was heard of each."""
    out, at = list(messages), 0
    for turn in turns:
        end = at + len(turn.said)
        if turn.uncut:
            out[at:end] = turn.as_heard(out[at:end])
        at = end
    return out


def resumed(turn: Turn) -> LaidTurn:
    """Return a stored turn as it stands in the prompt."""
    messages = [stored.as_message() for stored in turn.messages]
    unheard = {id(one): stored.unheard for one, stored in zip(messages, turn.messages, strict=True)}
    said = repair_orphans(messages)
    return LaidTurn(
        turn.n,
        said,
        turn.block,
        shown=tuple(_recorded(turn)),
        level=turn.level,
        owner=turn.owner,
        heard=turn.heard,
        heard_until=heard_in(said) if turn.state == "interrupted" else None,
        unfinished=turn.state in ("open", "unfinished"),
        uncut={
            n: {**message, "content": text_of(message) + rest}
            for n, message in enumerate(said)
            if (rest := unheard.get(id(message)))
        },
    )


def _recorded(turn: Turn) -> Iterable[Shown]:
    """Rebuild what a stored turn showed; the text itself stands in its block."""
    for entry in turn.shown:
        yield msgspec.json.decode(entry, type=Shown) if entry.startswith("{") else Shown(entry, "")
