"""The loop's list: told apart from the views that were issued for it, and from what was left in it.

A loop hands over what was said, or keeps the view that it was given and goes on behind that. Injected text is told apart
by the very messages that were issued, never by what it looks like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import is_
from typing import NamedTuple

from edgemem.context.laid_turn import LaidTurn
from edgemem.records import Message

VIEWS = 8
"""How many turns' views are known: a loop whose model failed comes back with an older one."""


class _Issued(NamedTuple):
    """A view, without instructions."""

    turn: LaidTurn | None
    """The turn that it was made for."""
    messages: list[Message]
    before: int
    """How many messages of all committed turns there were."""
    newest: list[Message]
    """Those of the open one."""

    def is_said(self, said: Sequence[Message]) -> bool:
        """Tell whether nothing was injected or hidden: then it is the same list as what was said, and is taken as such."""
        same = len(self.messages) == self.before + len(self.newest)
        return same and self.messages == [*said[: self.before], *self.newest]

    def is_injected(self, said: Sequence[Message]) -> bool:
        """Tell whether something was injected; else a copy of it is not told apart from a copy of what was said."""
        known = set(map(id, (*said[: self.before], *self.newest)))
        return any(id(message) not in known and message not in said for message in self.messages)


class LoopList:
    """What is known of one loop's list."""

    def __init__(self) -> None:
        self._issued: deque[_Issued] = deque(maxlen=VIEWS)
        self._left: list[tuple[int, list[Message]]] = []
        """Messages of aborted turns that stand in the list all the same, and where."""

    def issue(self, view: list[Message], turn: LaidTurn | None, before: int, newest: list[Message]) -> None:
        """Note a view; the newest of each turn counts."""
        if self._issued and self._issued[-1].turn is turn:
            self._issued.pop()
        self._issued.append(_Issued(turn, view, before, newest))

    def forget_views(self) -> None:
        """Know no view any more: the turns that they were made of became other ones."""
        self._issued.clear()

    def newest_view(self, messages: Sequence[Message], said: Sequence[Message]) -> _Issued | None:
        """Return the newest view if a list begins with it, and it is not simply what was said."""
        newest = self._issued[-1] if self._issued else None
        if (
            newest is None
            or list(messages[: len(newest.messages)]) != newest.messages
            or newest.is_said(said)
        ):
            return None
        same = not newest.messages or newest.messages[0] is messages[0]
        return newest if same or newest.is_injected(said) else None

    def as_said(
        self, messages: Sequence[Message], said: Sequence[Message], turns: Sequence[LaidTurn]
    ) -> list[Message]:
        """Return a list with what was said in place of the view that it begins with, if it does."""
        newest, longest, rest = self.newest_view(messages, said), -1, list(messages)
        if newest is not None and self._may_follow(newest, messages[len(newest.messages) :], turns):
            return [*said[: newest.before], *newest.newest, *messages[len(newest.messages) :]]
        for issued in reversed(self._issued):
            past = len(issued.messages) - len(issued.newest)
            # Of a turn that was aborted or never kept, the list may still have what stood before it.
            for end, opened in ((len(issued.messages), issued.newest), (past, [])):
                # Copies are not told apart here: two views may look alike, and hide different turns.
                same = longest < end <= len(messages) and all(map(is_, messages[:end], issued.messages))
                if end == 0:  # the newest may hide all that was said
                    same = issued is self._issued[-1] and not any(each in said for each in messages)
                if (
                    same
                    and longest < end
                    and not issued.is_said(said)
                    and self._may_follow(issued, messages[end:], turns)
                ):
                    longest, rest = end, [*said[: issued.before], *opened, *messages[end:]]
        return rest

    def _may_follow(self, issued: _Issued, messages: Sequence[Message], turns: Sequence[LaidTurn]) -> bool:
        """Tell whether these may stand behind a view: of other turns only those that had no view of their own."""
        others: set[int] = set()
        at = 0
        for turn in turns:
            seen = at < issued.before or any(each.turn is turn for each in self._issued)
            if seen and turn is not issued.turn:
                others.update(map(id, (*turn.said, *turn.uncut.values())))
            at += len(turn.said)
        return others.isdisjoint(map(id, messages))

    def leave_out(self, at: int, messages: Sequence[Message]) -> None:
        """Leave messages of an aborted turn out from now on, at their place in the list."""
        if messages:
            self._left.append((at, list(messages)))

    def without(self, messages: Sequence[Message]) -> list[Message]:
        """Return a list without what was aborted."""
        out = list(messages)
        for at, left in reversed(self._left):
            if out[at : at + len(left)] == left:
                del out[at : at + len(left)]
            else:  # the loop has changed what stands before it, or a part of it
                gone = set(map(id, left))
                out = [message for message in out if id(message) not in gone]
        return out

    def look(self, messages: Sequence[Message]) -> None:
        """Forget what was aborted and stands in the list no more: the loop has taken it out."""
        there = set(map(id, messages)) if self._left else set()
        self._left = [
            (at, left)
            for at, left in self._left
            if list(messages[at : at + len(left)]) == left or not there.isdisjoint(map(id, left))
        ]
