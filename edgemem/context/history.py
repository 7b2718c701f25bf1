"""History: the committed turns of a session, and what of a loop's list is theirs.

A message belongs to the turn that it was said in, whatever list it comes back in. The loop's list is either what was said, or
the view that was issued before with something behind it. If the past was changed, the turns that still stand keep their place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import is_

from edgemem.context.alignment import aligned, newest_standing
from edgemem.context.laid_turn import LaidTurn, as_heard
from edgemem.context.loop_list import LoopList
from edgemem.llama.template import text_of
from edgemem.records import Message


class History:
    """The committed turns, oldest first; not thread-safe."""

    def __init__(self) -> None:
        self.turns: list[LaidTurn] = []
        self.said: list[Message] = []
        """The messages of all turns, one after the other."""
        self.changes = 0
        """How often turns became other ones."""
        self.list = LoopList()
        self._first = 0
        """The number of the epoch's first turn."""
        self._past = 0
        """How many messages of the turns stand before the epoch."""
        self._opened_at: tuple[int, Message | None] | None = None
        """Where in the newest list the open turn began, and behind what."""

    def add(self, turn: LaidTurn) -> None:
        """Add the newest turn."""
        self._opened_at = None
        self.said += turn.said
        self.turns.append(turn)  # last: idle time must not find a prompt that has the turn and not its words

    def replace(self, turns: list[LaidTurn]) -> None:
        """Take these turns in place of all, or the same ones, which have changed."""
        self.turns = turns
        self.changes += 1
        self.said = [message for turn in turns for message in turn.said]
        self.begin_at(self._first)

    def begin_at(self, first_turn: int) -> None:
        """Begin an epoch with this turn: a list is compared from there on."""
        self._first = first_turn
        self._past = sum(len(turn.said) for turn in self.turns[: self._epoch()])

    def as_heard(self, messages: Sequence[Message]) -> list[Message]:
        """Return a list without instructions, with only what was heard of the turns that were cut off."""
        return as_heard(self.turns, messages)

    def since(self, listed: Sequence[Message]) -> list[Message]:
        """Return what was said behind the newest turn that stands in a list; nothing if none of what it holds is known."""
        if not listed:
            return list(self.said)
        rest = self.as_heard(self.list.as_said(self.list.without(listed), self.said, self.turns))
        if rest == self.said[: len(rest)]:
            return self.said[len(rest) :]
        newest = newest_standing(self.turns, rest)
        return (
            [] if newest is None else [message for turn in self.turns[newest + 1 :] for message in turn.said]
        )

    def is_early(self, listed: Sequence[Message], task: str | None, known: Sequence[Message]) -> bool:
        """Tell whether the newest message is the utterance of the turn that begins, and none that was said before.

        Args:
            known: what was said in a turn that is not committed.
        """
        newest = listed[-1] if listed else {}
        if task is None or newest.get("role") != "user" or text_of(newest) != task:
            return False
        return not any(message is newest for message in (*known, *self.said))

    def asked_again(self, listed: Sequence[Message]) -> list[Message]:
        """Return an utterance that repeats the one of a turn which was left open, and which the loop has not kept."""
        newest, before = listed[-1] if listed else {}, self.turns[-1] if self.turns else None
        if before is None or not before.unfinished or newest.get("role") != "user":
            return []
        return [newest] if newest in before.said and not any(newest is each for each in before.said) else []

    def beyond(
        self,
        listed: Sequence[Message],
        opened: Sequence[Message],
        *,
        early: bool = False,
        left: bool = False,
    ) -> list[Message]:
        """Return what a list without instructions holds behind the committed turns; edited ones are laid anew.

        What stands before the epoch is not looked at as long as the rest has its place: a turn costs what its epoch holds,
        not all that was said.

        Args:
            opened: what was said in the open turn until now.
            early: nothing in the list is of that.
            left: that turn was left open; the list may not have it.
        """
        rest, new = self._told_apart(self.list.without(listed), opened, early=early, left=left)
        at = len(rest) - len(new)
        self._opened_at = at, rest[at - 1] if at else None
        return new

    def _told_apart(
        self, messages: list[Message], opened: Sequence[Message], *, early: bool, left: bool
    ) -> tuple[list[Message], list[Message]]:
        """Return a list with what was said in place of what was issued, and what of that is behind the committed turns."""
        known = len(self.said)
        issued = self.list.newest_view(messages, self.said)
        # A view that is shorter than what was said, because its reader may read little of that, can be how what was said
        # begins. The rest would then be taken for new: said by this reader, and open to whoever hears this one.
        # Comparing lists is quick while the messages are the very same objects, as in a loop that only appends.
        is_view = issued is not None and (
            len(issued.messages) > known
            or any(message is each for each in opened[:1] for message in messages[:known])
        )
        if not is_view and len(messages) >= known and self._stands(messages[self._past : known]):
            return messages, messages[known:]
        rest = self.list.as_said(messages, self.said, self.turns)
        if rest[:known] != self.said:
            rest = self.as_heard(rest)
        if rest[:known] == self.said:
            return rest, rest[known:]
        limit, exact = (len(rest), False) if early else self._begins(rest, opened, left=left)
        turns, new = aligned(self.turns, rest, limit, exact=exact, left=left and not exact)
        if len(turns) != len(self.turns) or not all(map(is_, turns, self.turns)):
            self.list.forget_views()
            self.replace(turns)
        return rest, new

    def _begins(
        self, messages: Sequence[Message], opened: Sequence[Message], *, left: bool
    ) -> tuple[int, bool]:
        """Return where in a list the messages of the open turn begin, and whether none of them may stand before that."""
        places = range(len(messages) - 1, -1, -1)
        place = next((i for i in places if opened and messages[i] is opened[0]), None)
        if place is not None:
            return place, True
        at, before = self._opened_at or (len(messages) + 1, None)
        if left:
            # The loop may have changed what stands before it, and may hand over copies.
            known = set(map(id, self.said))
            copies = (i for i in places if id(messages[i]) not in known)
            place = next((i for i in copies if opened and messages[i] == opened[0]), None)
            if not opened and at <= len(messages) and (at == 0 or messages[at - 1] == before):
                place = at
            return (len(messages), False) if place is None else (place, True)
        if at < len(messages) and (at == 0 or messages[at - 1] == before):
            return at, True  # said anew in the same place
        newest = next((i for i in places if messages[i].get("role") == "user"), len(messages))
        # A list that the open turn does not stand in yet ends with an older utterance, or with a copy of it.
        copied = bool(opened) and messages[newest : newest + 1] != list(opened[:1])
        is_known = newest < len(messages) and any(
            message is messages[newest] or (copied and message == messages[newest]) for message in self.said
        )
        return (len(messages), True) if is_known else (newest, False)

    def _stands(self, past: Sequence[Message]) -> bool:
        """Tell whether these are the messages of the epoch's turns, as they were heard or as they were said."""
        said = self.said[self._past :]
        if past == said:
            return True
        turns = self.turns[self._epoch() :]
        return any(turn.uncut for turn in turns) and as_heard(turns, past) == said

    def _epoch(self) -> int:
        """Return how many turns stand before the epoch."""
        return bisect_left(self.turns, self._first, key=lambda turn: turn.n)
