"""Alignment: which committed turns still stand in a list that a loop has changed, and what stands in place of the others.

A message stays with the turn that it was said in, and what replaces messages is as closed as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from edgemem.context.laid_turn import LaidTurn
from edgemem.context.level import Closing, joined
from edgemem.records import Message


def unknown_turns(
    messages: Sequence[Message],
    *,
    n: int,
    before: LaidTurn | None,
    level: Closing | None = None,
) -> list[LaidTurn]:
    """Return messages that no turn has brought as turns of their own, in nobody's name.

    Args:
        n: the number that they get.
        before: the turn that they stand behind; what follows it without a user message may be its reply.
        level: who may read them; None: nobody but the operator.
    """
    turns = []
    # What stands before the first user message (a greeting) belongs to the turn that follows it, unless it may be a reply.
    users = [i for i, message in enumerate(messages) if message.get("role") == "user"]
    behind = before is not None and level is None and users[:1] != [0]
    starts = [0, *(users if behind else users[1:]), len(messages)]
    for number, (begin, end) in enumerate(pairwise(starts)):
        closed = level or ("private", None)
        if before is not None and behind and number == 0:
            closed = before.level, before.owner if before.level == "private" else None
        turns.append(LaidTurn(n, list(messages[begin:end]), level=closed[0], owner=closed[1]))
    return turns


def aligned(
    turns: Sequence[LaidTurn], messages: Sequence[Message], limit: int, *, exact: bool, left: bool = False
) -> tuple[list[LaidTurn], list[Message]]:
    """Return the turns as a changed list has them, and what stands behind them.

    A turn that a loop left open may be missing: the loop never kept it.

    Args:
        limit: where the messages of the running turn begin.
        exact: no message of it stands before that; else what no turn has brought is taken for its.
        left: that turn was left open, and where it begins is not known.
    """
    laid: list[LaidTurn] = []
    missing: list[LaidTurn] = []
    at = 0
    for turn, place in zip(turns, _places(turns, messages[:limit]), strict=True):
        if place is None:
            missing.append(turn)
            continue
        laid += _replaced(missing, messages[at : place.start], laid)
        laid.append(turn)
        missing, at = [], place.stop
    rest = messages[at:limit]
    unchanged = all(turn.unfinished for turn in missing)
    if unchanged and not (rest and (missing or exact)):
        return [*laid, *missing], list(messages[at:])
    if left:  # of the open turn, or in place of an earlier one: nobody knows
        kept = [turn for turn in missing if turn.unfinished]
        n = max([turn.n for turn in (*laid[-1:], *kept)], default=0)
        return [*laid, *kept, *unknown_turns(rest, n=n, before=None)] if rest else [*laid, *kept], []
    return [*laid, *_replaced(missing, rest, laid)], list(messages[limit:])


def newest_standing(turns: Sequence[LaidTurn], messages: Sequence[Message]) -> int | None:
    """Return the number of the newest of these turns that stands in a list; None if none does."""
    places = _places(turns, messages)
    return next((k for k in range(len(turns) - 1, -1, -1) if places[k] is not None), None)


def _replaced(missing: list[LaidTurn], messages: Sequence[Message], laid: list[LaidTurn]) -> list[LaidTurn]:
    """Return what stands between two turns of a changed list, in place of those that are missing there."""
    kept = [turn for turn in missing if turn.unfinished]
    if not messages:
        return kept
    before = laid[-1] if laid and not kept else None
    n = max([turn.n for turn in (*laid[-1:], *kept, *missing[:1])], default=0)
    # A turn that was left open stays beside it, so what may be an edit of that need not be read by anybody.
    gone = len(kept) < len(missing)
    closed = joined([(turn.level, turn.owner) for turn in missing]) if gone else None
    return [*kept, *unknown_turns(messages, n=n, before=before, level=closed)]


def _places(turns: Sequence[LaidTurn], messages: Sequence[Message]) -> list[range | None]:
    """Return where each turn stands in a list, in their order; None: nowhere.

    The same objects tell first: what was said twice may be of two people. A list of copies is told by its content.
    """
    places: list[range | None] = [None] * len(turns)
    index: dict[int, int] = {}
    for i, message in enumerate(messages):
        index.setdefault(id(message), i)
    at = 0
    for k, turn in enumerate(turns):
        firsts = (turn.said[0], turn.uncut.get(0, turn.said[0]))
        i = next((index[id(each)] for each in firsts if id(each) in index), -1)
        if i >= at and (size := turn.standing(messages, i)):
            places[k] = range(i, i + size)
            at = i + size
    ends = [(k, place) for k, place in enumerate(places) if place is not None]
    behind = [*ends, (len(turns), range(len(messages), len(messages)))]
    for (before, left), (after, right) in zip([(-1, range(0)), *ends], behind, strict=True):
        if before + 1 < after and left.stop < right.start:
            gap = _Gap(turns, messages, range(before + 1, after), range(left.stop, right.start))
            for k, place in gap.places().items():
                places[k] = place
    return places


class _Gap:
    """Turns that are told by what they say alone, between two that stand in a list already."""

    def __init__(
        self, turns: Sequence[LaidTurn], messages: Sequence[Message], numbers: range, span: range
    ) -> None:
        """Look for turns.

        Args:
            numbers: of those that are looked for.
            span: where in the list they may stand.
        """
        self._turns, self._messages, self._numbers, self._span = turns, messages, numbers, span
        self._owners = {
            id(message): k for k, turn in enumerate(turns) for message in (*turn.said, *turn.uncut.values())
        }

    def places(self) -> dict[int, range]:
        """Return where those stand that do."""
        ahead, back = self._ahead(), self._back()
        # Loops cut old turns off: then the newest stand one behind the other up to the end.
        first, second = (back, ahead) if len(back) > len(ahead) else (ahead, back)
        found = dict(first)
        for k, place in second.items():
            if k not in found and self._is_between(found, k, place):
                found[k] = place
        for k in self._numbers:
            if k not in found:
                places = (self._fits(k, i) for i in self._span)
                fitting = (place for place in places if place and self._is_between(found, k, place))
                if (first_fitting := next(fitting, None)) is not None:
                    found[k] = first_fitting
        return found

    def _ahead(self) -> dict[int, range]:
        """Return the turns that stand one behind the other from the beginning."""
        found: dict[int, range] = {}
        at = self._span.start
        for k in self._numbers:
            if place := self._fits(k, at):
                found[k], at = place, place.stop
            elif not self._turns[k].unfinished:
                break
        return found

    def _back(self) -> dict[int, range]:
        """Return the turns that stand one before the other from the end."""
        found: dict[int, range] = {}
        end = self._span.stop
        for k in reversed(self._numbers):
            turn = self._turns[k]
            sizes = (len(turn.said), turn.without_reply)
            ending = (place for size in sizes if (place := self._fits(k, end - size)) and place.stop == end)
            if (found_place := next(ending, None)) is not None:
                found[k], end = found_place, found_place.start
            elif not turn.unfinished:
                break
        return found

    def _fits(self, k: int, i: int) -> range:
        """Return where a turn stands from a place on, if it does and no message there is known to be of another."""
        if i < self._span.start:
            return range(0)
        place = range(i, i + self._turns[k].standing(self._messages, i))
        known = all(self._owners.get(id(self._messages[n]), k) == k for n in place if n < self._span.stop)
        return place if known and place.stop <= self._span.stop else range(0)

    def _is_between(self, found: dict[int, range], k: int, place: range) -> bool:
        """Tell whether a turn at a place keeps the order of those that were found."""
        return all(
            other.stop <= place.start if j < k else place.stop <= other.start for j, other in found.items()
        )
