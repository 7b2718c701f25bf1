"""Alignment: which committed turns still stand in a list that a loop has changed, and what stands in place of the others.

A message stays with the turn that it was said in, and what replaces messages is as closed as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from edgemem.context.laid_turn import LaidTurn
from edgemem.context.shown import RANK
from edgemem.records import Level, Message


def closed_as(turns: Iterable[tuple[Level, str | None]]) -> tuple[Level, str | None]:
    """Return the level and owner of a text that may repeat any of these; private texts of two people are nobody's."""
    closed = list(turns)
    level = max((level for level, _ in closed), key=RANK.__getitem__)
    owners = {owner for each, owner in closed if each == level}
    return level, owners.pop() if len(owners) == 1 else None


def unknown_turns(
    messages: Sequence[Message],
    *,
    n: int,
    before: LaidTurn | None,
    level: tuple[Level, str | None] | None = None,
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
            closed = before.level, before.owner
        turns.append(LaidTurn(n, list(messages[begin:end]), level=closed[0], owner=closed[1]))
    return turns


def aligned(
    turns: Sequence[LaidTurn], messages: Sequence[Message], limit: int
) -> tuple[list[LaidTurn], list[Message]]:
    """Return the turns as a changed list has them, and what stands behind them.

    A turn that a loop left open may be missing: the loop never kept it.

    Args:
        limit: where the messages of the running turn begin.
    """
    laid: list[LaidTurn] = []
    missing: list[LaidTurn] = []
    at = 0
    for turn, place in zip(turns, _places(turns, messages[:limit]), strict=True):
        if place is None:
            missing.append(turn)
            continue
        laid += _replaced(missing, messages[at:place], laid)
        laid.append(turn)
        missing, at = [], place + len(turn.said)
    if all(turn.unfinished for turn in missing):
        return [*laid, *missing], list(messages[at:])
    laid += _replaced(missing, messages[at:limit], laid)
    return laid, list(messages[limit:])


def standing(turns: Sequence[LaidTurn], messages: Sequence[Message]) -> bool:
    """Tell whether any of these turns stands in a list."""
    return any(place is not None for place in _places(turns, messages))


def _replaced(missing: list[LaidTurn], messages: Sequence[Message], laid: list[LaidTurn]) -> list[LaidTurn]:
    """Return what stands between two turns of a changed list, in place of those that are missing there."""
    kept = [turn for turn in missing if turn.unfinished]
    if not messages:
        return kept
    before = [*laid, *kept][-1:]
    n = max([turn.n for turn in (*before, *missing[:1])], default=0)
    closed = closed_as((turn.level, turn.owner) for turn in missing) if missing else None
    return [*kept, *unknown_turns(messages, n=n, before=next(iter(before), None), level=closed)]


def _places(turns: Sequence[LaidTurn], messages: Sequence[Message]) -> list[int | None]:
    """Return where each turn stands in a list, in their order; None: nowhere.

    The same objects tell first: what was said twice may be of two people. A list of copies is told by its content.
    """
    places: list[int | None] = [None] * len(turns)
    owners = {id(message): k for k, turn in enumerate(turns) for message in _objects(turn)}
    index: dict[int, int] = {}
    for i, message in enumerate(messages):
        index.setdefault(id(message), i)
    at = 0
    for k, turn in enumerate(turns):
        i = next((index[id(each)] for each in _firsts(turn) if id(each) in index), -1)
        if i >= at and _stands(turn, messages, i):
            places[k], at = i, i + len(turn.said)
    ends = [k for k, place in enumerate(places) if place is not None]
    for before, behind in pairwise([-1, *ends, len(turns)]):
        lo = 0 if before < 0 else (places[before] or 0) + len(turns[before].said)
        hi = len(messages) if behind == len(turns) else places[behind] or 0
        _fill(places, turns, messages, (before + 1, behind), (lo, hi), owners)
    return places


def _fill(
    places: list[int | None],
    turns: Sequence[LaidTurn],
    messages: Sequence[Message],
    gap: tuple[int, int],
    span: tuple[int, int],
    owners: dict[int, int],
) -> None:
    """Find turns by what they say, between two that were found already.

    Args:
        gap: which turns these are.
        span: where in the list they may stand.
        owners: by the id of a message, the turn that it is known to be of.
    """

    def fits(k: int, i: int) -> bool:
        size = len(turns[k].said)
        if i < span[0] or i + size > span[1] or not _stands(turns[k], messages, i):
            return False
        return all(owners.get(id(message), k) == k for message in messages[i : i + size])

    ahead: dict[int, int] = {}
    at = span[0]
    for k in range(*gap):
        if fits(k, at):
            ahead[k] = at
            at += len(turns[k].said)
        elif not turns[k].unfinished:
            break
    back: dict[int, int] = {}
    end = span[1]
    for k in reversed(range(*gap)):
        if fits(k, end - len(turns[k].said)):
            end -= len(turns[k].said)
            back[k] = end
        elif not turns[k].unfinished:
            break
    # Loops cut old turns off: then the newest stand one behind the other up to the end.
    first, second = (back, ahead) if len(back) > len(ahead) else (ahead, back)
    found = dict(first)
    for k, i in second.items():
        if k not in found and _fits_between(found, turns, k, i):
            found[k] = i
    for k in range(*gap):
        if k not in found:
            place = next(
                (i for i in range(*span) if fits(k, i) and _fits_between(found, turns, k, i)),
                None,
            )
            if place is not None:
                found[k] = place
    for k, i in found.items():
        places[k] = i


def _fits_between(found: dict[int, int], turns: Sequence[LaidTurn], k: int, i: int) -> bool:
    """Tell whether a turn at a place keeps the order of those that were found."""
    size = len(turns[k].said)
    return all(other + len(turns[j].said) <= i if j < k else i + size <= other for j, other in found.items())


def _stands(turn: LaidTurn, messages: Sequence[Message], at: int) -> bool:
    part = list(messages[at : at + len(turn.said)])
    return part == turn.said or (
        bool(turn.uncut) and len(part) == len(turn.said) and turn.as_heard(part) == turn.said
    )


def _firsts(turn: LaidTurn) -> list[Message]:
    return [turn.said[0], *(uncut for n, uncut in turn.uncut.items() if n == 0)]


def _objects(turn: LaidTurn) -> list[Message]:
    return [*turn.said, *turn.uncut.values()]
