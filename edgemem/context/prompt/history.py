"""The history: the committed turns of a session, and which messages of a loop's list are theirs.

A message belongs to the turn that it was said in, whatever list it comes back in. The loop's list is either what was said, or
the view that was issued before with something behind it; a view is told apart by the very messages that were issued, never by
what it looks like. If the past was changed, the turns that still stand keep their place, and what replaces messages is as
closed as they were.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from operator import is_
from typing import NamedTuple

from edgemem.context.messages import newest_user
from edgemem.context.prompt.turn import PromptTurn
from edgemem.records import Message, text_of
from edgemem.scopes import Level, most_private, name_key


def unknown_turns(
    messages: Sequence[Message],
    *,
    n: int,
    before: PromptTurn | None,
    level: Level | None = None,
    owner: str | None = None,
) -> list[PromptTurn]:
    """Return messages that no turn has brought as turns of their own, in nobody's name.

    Args:
        n: the number that they get.
        before: the turn that they come after; what follows it without a user message may be its reply.
        level: who may read them; None: nobody but the operator.
        owner: whose they are where that is private.
    """
    turns = []
    # What stands before the first user message (a greeting) belongs to the turn that follows it, unless it may be a reply.
    users = [i for i, message in enumerate(messages) if message.get("role") == "user"]
    behind = before is not None and level is None and users[:1] != [0]
    starts = [0, *(users if behind else users[1:]), len(messages)]
    for number, (begin, end) in enumerate(pairwise(starts)):
        closed, whose = level or "private", owner
        if before is not None and behind and number == 0:
            closed, whose = before.answer, before.owner if before.answer == "private" else None
        turns.append(PromptTurn(n, list(messages[begin:end]), level=closed, owner=whose))
    return turns


def aligned(
    turns: Sequence[PromptTurn], messages: Sequence[Message], limit: int, *, exact: bool, left: bool = False
) -> tuple[list[PromptTurn], list[Message]]:
    """Return the turns as a changed list has them, and what stands behind them.

    A turn that a loop left open may be missing: the loop never kept it.

    Args:
        limit: where the messages of the running turn begin.
        exact: no message of it stands before that; else what no turn has brought is taken for its.
        left: that turn was left open, and where it begins is not known.
    """
    placed: list[PromptTurn] = []
    missing: list[PromptTurn] = []
    at = 0
    for turn, place in zip(turns, _places(turns, messages[:limit]), strict=True):
        if place is None:
            missing.append(turn)
            continue
        placed += _replaced(missing, messages[at : place.start], placed)
        placed.append(turn)
        missing, at = [], place.stop
    rest = messages[at:limit]
    kept = [turn for turn in missing if turn.unfinished]
    if len(kept) == len(missing) and not (rest and (missing or exact)):
        return [*placed, *missing], list(messages[at:])
    if left:  # of the open turn, or in place of an earlier one: nobody knows
        n = max([turn.n for turn in (*placed[-1:], *kept)], default=0)
        return [*placed, *kept, *(unknown_turns(rest, n=n, before=None) if rest else ())], []
    return [*placed, *_replaced(missing, rest, placed)], list(messages[limit:])


def _replaced(
    missing: list[PromptTurn], messages: Sequence[Message], placed: list[PromptTurn]
) -> list[PromptTurn]:
    """Return what stands between two turns of a changed list, in place of those that are missing there."""
    kept = [turn for turn in missing if turn.unfinished]
    if not messages:
        return kept
    before = placed[-1] if placed and not kept else None
    n = max([turn.n for turn in (*placed[-1:], *kept, *missing[:1])], default=0)
    # A turn that was left open stays beside it, so what may be an edit of that need not be read by anybody.
    gone = len(kept) < len(missing)
    level = most_private(*(turn.answer for turn in missing)) if gone else None
    owners = {name_key(turn.owner or ""): turn.owner for turn in missing if turn.answer == "private"}
    owner = next(iter(owners.values())) if len(owners) == 1 else None
    return [*kept, *unknown_turns(messages, n=n, before=before, level=level, owner=owner)]


def _places(turns: Sequence[PromptTurn], messages: Sequence[Message]) -> list[range | None]:
    """Return where each turn stands in a list, in their order; None: nowhere.

    The same objects tell first: what was said twice may be of two people. A list of copies is told by its content.
    """
    places: list[range | None] = [None] * len(turns)
    index: dict[int, int] = {}
    for i, message in enumerate(messages):
        index.setdefault(id(message), i)
    at = 0
    for k, turn in enumerate(turns):
        firsts = (turn.messages[0], turn.full_messages.get(0, turn.messages[0]))
        i = next((index[id(message)] for message in firsts if id(message) in index), -1)
        if i >= at and (size := turn.standing(messages, i)):
            places[k] = range(i, i + size)
            at = i + size
    known = [(k, place) for k, place in enumerate(places) if place is not None]
    ends = [(-1, range(0)), *known, (len(turns), range(len(messages), len(messages)))]
    for (before, left), (after, right) in pairwise(ends):
        if before + 1 < after and left.stop < right.start:
            gap = _placed(turns, messages, range(before + 1, after), range(left.stop, right.start))
            for k, place in gap.items():
                places[k] = place
    return places


def _placed(
    turns: Sequence[PromptTurn], messages: Sequence[Message], numbers: range, span: range
) -> dict[int, range]:
    """Return where turns stand that are told by what they say alone, between two that stand in a list already.

    Args:
        numbers: of the turns that are looked for.
        span: where in the list they may stand.
    """
    owners = {id(message): k for k, turn in enumerate(turns) for message in turn.all_messages()}

    def fits(k: int, i: int) -> range:
        """Return where a turn stands from a place on, if it does and no message there is known to be of another."""
        place = range(i, i + turns[k].standing(messages, i)) if i >= span.start else range(0)
        is_own = all(owners.get(id(messages[n]), k) == k for n in place if n < span.stop)
        return place if is_own and place.stop <= span.stop else range(0)

    ahead: dict[int, range] = {}  # those that stand one behind the other from the beginning
    at = span.start
    for k in numbers:
        if place := fits(k, at):
            ahead[k], at = place, place.stop
        elif not turns[k].unfinished:
            break
    back: dict[int, range] = {}  # those that stand one before the other from the end
    end = span.stop
    for k in reversed(numbers):
        sizes = (len(turns[k].messages), turns[k].without_reply)
        ending = (place for size in sizes if (place := fits(k, end - size)) and place.stop == end)
        if (last := next(ending, None)) is not None:
            back[k], end = last, last.start
        elif not turns[k].unfinished:
            break
    # Loops cut old turns off: then the newest stand one behind the other up to the end.
    placed, others = (back, ahead) if len(back) > len(ahead) else (ahead, back)
    for k, only in (*others.items(), *((k, None) for k in numbers)):
        if k not in placed:
            low = max((place.stop for j, place in placed.items() if j < k), default=span.start)
            high = min((place.start for j, place in placed.items() if j > k), default=span.stop)
            places = (fits(k, i) for i in span) if only is None else iter([only])
            between = (place for place in places if place and low <= place.start and place.stop <= high)
            if (first := next(between, None)) is not None:
                placed[k] = first
    return placed


VIEWS = 8
"""How many turns' views are known: a loop whose model failed comes back with an older one."""


class _Issued(NamedTuple):
    """A view, without instructions."""

    turn: PromptTurn | None
    """The turn that it was made for."""
    messages: list[Message]
    before: int
    """How many messages of all committed turns there were."""
    newest: list[Message]
    """The messages of the open turn."""

    def is_said(self, committed: Sequence[Message]) -> bool:
        """Tell whether nothing was injected or hidden, so that the prompt is the very list of what was said."""
        same = len(self.messages) == self.before + len(self.newest)
        return same and self.messages == [*committed[: self.before], *self.newest]

    def is_injected(self, committed: Sequence[Message]) -> bool:
        """Tell whether something was injected; else a copy of it is not told apart from a copy of what was said."""
        known = set(map(id, (*committed[: self.before], *self.newest)))
        return any(id(message) not in known and message not in committed for message in self.messages)


class LoopList:
    """Knows the message list of one loop: the views that were issued to it, and messages of aborted turns that it kept."""

    def __init__(self) -> None:
        self.issued: deque[_Issued] = deque(maxlen=VIEWS)
        self._left: list[tuple[int, list[Message]]] = []
        """Messages of aborted turns that stand in the list all the same, and where."""

    def issue(self, view: list[Message], turn: PromptTurn | None, before: int, newest: list[Message]) -> None:
        """Note a view; the newest of each turn counts."""
        if self.issued and self.issued[-1].turn is turn:
            self.issued.pop()
        self.issued.append(_Issued(turn, view, before, newest))

    def newest_view(self, messages: Sequence[Message], committed: Sequence[Message]) -> _Issued | None:
        """Return the newest view if a list begins with it, and it is not simply what was said."""
        newest = self.issued[-1] if self.issued else None
        if (
            newest is None
            or list(messages[: len(newest.messages)]) != newest.messages
            or newest.is_said(committed)
        ):
            return None
        same = not newest.messages or newest.messages[0] is messages[0]
        return newest if same or newest.is_injected(committed) else None

    def as_said(
        self, messages: Sequence[Message], committed: Sequence[Message], turns: Sequence[PromptTurn]
    ) -> list[Message]:
        """Return a list with what was said in place of the view that it begins with, if it does."""
        newest, longest, rest = self.newest_view(messages, committed), -1, list(messages)
        if newest is not None and self._may_follow(newest, messages[len(newest.messages) :], turns):
            return [*committed[: newest.before], *newest.newest, *messages[len(newest.messages) :]]
        for issued in reversed(self.issued):
            past = len(issued.messages) - len(issued.newest)
            # Of a turn that was aborted or never kept, the list may still have what stood before it.
            for end, opened in ((len(issued.messages), issued.newest), (past, [])):
                # Copies are not told apart here: two views may look alike, and hide different turns.
                same = longest < end <= len(messages) and all(map(is_, messages[:end], issued.messages))
                if end == 0:  # the newest may hide all that was said
                    same = issued is self.issued[-1] and not any(message in committed for message in messages)
                if (
                    same
                    and longest < end
                    and not issued.is_said(committed)
                    and self._may_follow(issued, messages[end:], turns)
                ):
                    longest, rest = end, [*committed[: issued.before], *opened, *messages[end:]]
        return rest

    def _may_follow(self, issued: _Issued, messages: Sequence[Message], turns: Sequence[PromptTurn]) -> bool:
        """Tell whether these may stand behind a view: of other turns only those that had no view of their own."""
        others: set[int] = set()
        at = 0
        for turn in turns:
            seen = at < issued.before or any(view.turn is turn for view in self.issued)
            if seen and turn is not issued.turn:
                others.update(map(id, turn.all_messages()))
            at += len(turn.messages)
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
        """Forget aborted messages that the loop has taken out of its list."""
        present = set(map(id, messages)) if self._left else set()
        self._left = [
            (at, left)
            for at, left in self._left
            if list(messages[at : at + len(left)]) == left or not present.isdisjoint(map(id, left))
        ]


class History:
    """The committed turns, oldest first; not thread-safe."""

    def __init__(self) -> None:
        self.turns: list[PromptTurn] = []
        self.messages: list[Message] = []
        """The messages of all turns, one after the other."""
        self.changes = 0
        """How often turns became other ones."""
        self.list = LoopList()
        self._first = 0
        """The number of the epoch's first turn."""
        self._epoch = self._past = 0
        """How many turns stand before the epoch, and how many messages."""
        self._opened_at: tuple[int, Message | None] | None = None
        """Where in the newest list the open turn began, and behind what."""

    def add(self, turn: PromptTurn) -> None:
        """Add the newest turn."""
        self._opened_at = None
        self.messages += turn.messages
        self.turns.append(turn)  # last: idle time must not find a prompt that has the turn and not its words

    def replace(self, turns: list[PromptTurn]) -> None:
        """Take these turns in place of all, or the same ones, which have changed."""
        self.turns = turns
        self.changes += 1
        self.messages = [message for turn in turns for message in turn.messages]
        self.begin_at(self._first)

    def begin_at(self, first_turn: int) -> None:
        """Begin an epoch with this turn: a list is compared from there on."""
        self._first = first_turn
        self._epoch = bisect_left(self.turns, first_turn, key=lambda turn: turn.n)
        self._past = sum(len(turn.messages) for turn in self.turns[: self._epoch])

    def as_heard(self, messages: Sequence[Message], first: int = 0) -> list[Message]:
        """Return what a loop has of the turns, without instructions, with only what was heard of those that were cut off.

        Args:
            first: the turn that the messages begin with.
        """
        out, at = list(messages), 0
        for turn in self.turns[first:]:
            end = at + len(turn.messages)
            if turn.full_messages:
                out[at:end] = turn.as_heard(out[at:end])
            at = end
        return out

    def before(
        self, listed: Sequence[Message], task: str | None, known: Sequence[Message] = ()
    ) -> list[Message]:
        """Return a list without the utterance of the turn that begins, which may stand at its end.

        Args:
            known: what was said in a turn that is not committed.
        """
        newest = listed[-1] if listed else {}
        is_early = task is not None and newest.get("role") == "user" and text_of(newest) == task
        if is_early and not any(message is newest for message in (*known, *self.messages)):
            return list(listed[:-1])
        return list(listed)

    def asked_again(self, listed: Sequence[Message]) -> list[Message]:
        """Return an utterance that repeats the one of a turn which was left open, and which the loop has not kept."""
        newest, before = listed[-1] if listed else {}, self.turns[-1] if self.turns else None
        if before is None or not before.unfinished or newest.get("role") != "user":
            return []
        is_kept = any(newest is message for message in before.messages)
        return [newest] if newest in before.messages and not is_kept else []

    def beyond(
        self,
        listed: Sequence[Message],
        opened: Sequence[Message],
        *,
        early: bool = False,
        left: bool = False,
    ) -> list[Message]:
        """Return what a list without instructions holds behind the committed turns; edited ones are made anew.

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
        known = len(self.messages)
        issued = self.list.newest_view(messages, self.messages)
        # A view that is shorter than what was said, because its reader may read little of that, can be how what was said
        # begins. The rest would then be taken for new: said by this reader, and open to whoever hears this one.
        # Comparing lists is quick while the messages are the very same objects, as in a loop that only appends.
        is_view = issued is not None and (
            len(issued.messages) > known
            or any(message is opening for opening in opened[:1] for message in messages[:known])
        )
        if not is_view and len(messages) >= known:
            past, committed = messages[self._past : known], self.messages[self._past :]
            if past == committed or self.as_heard(past, self._epoch) == committed:
                return messages, messages[known:]
        rest = self.list.as_said(messages, self.messages, self.turns)
        if rest[:known] != self.messages:
            rest = self.as_heard(rest)
        if rest[:known] == self.messages:
            return rest, rest[known:]
        limit, exact = (len(rest), False) if early else self._begins(rest, opened, left=left)
        turns, new = aligned(self.turns, rest, limit, exact=exact, left=left and not exact)
        if len(turns) != len(self.turns) or not all(map(is_, turns, self.turns)):
            self.list.issued.clear()  # the turns that the views were made of became other ones
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
            known = set(map(id, self.messages))
            copies = (i for i in places if id(messages[i]) not in known)
            place = next((i for i in copies if opened and messages[i] == opened[0]), None)
            if not opened and at <= len(messages) and (at == 0 or messages[at - 1] == before):
                place = at
            return (len(messages), False) if place is None else (place, True)
        if at < len(messages) and (at == 0 or messages[at - 1] == before):
            return at, True  # said anew in the same place
        newest = newest_user(messages)
        if newest is None:
            return len(messages), False
        # A list that the open turn does not stand in yet ends with an older utterance, or with a copy of it.
        copied = bool(opened) and messages[newest] != opened[0]
        is_known = any(
            message is messages[newest] or (copied and message == messages[newest])
            for message in self.messages
        )
        return (len(messages), True) if is_known else (newest, False)
