"""Date ranges: two phrases that tell from when to when, and one that tells since when or until when.

"Between Monday and Wednesday" is one time from the begin of its first end to the end of its last one. Which Monday and
which Wednesday is meant they tell together: the second one comes after the first, and what is told of one ("last week")
holds for the other. Only a question is open at one side: who says "since Monday" speaks of Monday, who asks so does not.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.provisions import provided
from edgemem.recall.date_readings import listed_of, readings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.recall.date_clusters import Cluster
    from edgemem.recall.date_pieces import Piece
    from edgemem.recall.date_spans import Reading, Today
    from edgemem.recall.date_words import Lexicon

EVER = 0.0
"""Where all begins that is over before a time: a robot remembers nothing that is older."""

_GAP = 3
"""Words that may stand beside those which bind a range."""
_BETWEEN_GAP = 12
"""Pieces from "between" to its "and"."""
_ABSOLUTE = ("day", "date", "span", "year", "period", "shift")
"""Parts that tell by themselves which one is meant."""
_MOVED = (
    r"\b(?:mov(?:e|ed|es|ing)|chang\w+|shift\w*|re-?schedul\w+|postpon\w+|swapp?\w*|switch\w*|put off|push\w*|brought|delay\w*|convert\w*"
    r"|verschob\w*|verschieb\w*|verleg\w*|(?:um)?(?:ge)?änder\w*|umgestellt|umgezogen|vorgezogen|wechsel\w*|gewechselt"
    r"|movi\w+|mover\w*|muev\w+|cambi\w+|aplaz\w+|pospu\w+|pospon\w+|traslad\w+|adelant\w+"
    r"|dời|chuyển|đổi|hoãn|lùi)\b|改|推迟|推到|推後|提前|挪|移|换|換|调|調"
)
"""From Monday to Wednesday is then a way, and no time."""


class Range(NamedTuple):
    """A time that has its ends told."""

    kind: str
    """`span`, or what tells its one end: `since`, `until`, `before`, `after`."""
    ends: tuple[Cluster, ...]
    begin: int
    end: int


@provided
def _moved() -> re.Pattern[str]:
    """Return what tells that something is moved, put together when it is first asked for."""
    return re.compile(_MOVED)


def part_at_and(pieces: Sequence[Piece]) -> None:
    """Have no phrase go on across the "and" of "between … and …"."""
    opened = closing = -1
    for at in range(len(pieces) - 1, -1, -1):  # in Chinese it is said behind both
        if pieces[at].label.get("closes") == "between":
            closing = at
        if _joins(pieces[at], "and") and 0 <= closing - at <= _BETWEEN_GAP:
            pieces[at].label.pop("small", None)
    for at, piece in enumerate(pieces):
        if piece.label.get("opens") == "between":
            opened = at
        elif "stop" in piece.label:
            opened = -1
        elif _joins(piece, "and") and 0 <= opened < at <= opened + _BETWEEN_GAP:
            piece.label.pop("small", None)


def ranges_in(
    written: str, pieces: Sequence[Piece], clusters: Sequence[Cluster], *, asked: bool
) -> list[Range]:
    """Return the ranges that a text tells, in their order; no phrase is an end of two.

    Args:
        written: the text in small letters.
        asked: whether one end is enough.
    """
    found: list[Range] = []
    moved: bool | None = None
    at = 0
    while at < len(clusters):
        cluster = clusters[at]
        opened, opener = _opener(pieces, cluster)
        begin = cluster.begin if opened is None else pieces[opened].begin
        if at + 1 < len(clusters):
            other = clusters[at + 1]
            closed, closer = _closer(pieces, other)
            joined = _joiner(pieces[cluster.last + 1 : other.first])
            spans = {
                "and": opener == "between" or closer == "between",
                "to": opener in {"", "from", "since", "after"},
                "weak": opener in {"from", "since"},
            }.get(joined, False)
            if spans and joined != "and":
                moved = _moved().search(written) is not None if moved is None else moved
                spans = not moved
            if spans and _is_time(cluster, other, opener):
                end = pieces[closed].end if closed is not None and closer == "between" else other.end
                found.append(Range("span", (cluster, other), begin, end))
                at += 2
                continue
        if asked and (kind := _one_end(written, pieces, cluster, opened, opener)):
            closed, closer = _closer(pieces, cluster)
            behind = closed is not None and closer == kind
            end = pieces[closed].end if behind and closed is not None else cluster.end
            found.append(Range(kind, (cluster,), cluster.begin if behind else begin, end))
        at += 1
    return found


def range_readings(one: Range, lexicon: Lexicon, day: Today, *, past: bool | None) -> Iterator[Reading]:
    """Yield what a range may mean, the likeliest first."""
    if one.kind == "span":
        yield from _spanned(one.ends[0].parts, one.ends[1].parts, lexicon, day, past=past)
        return
    told = one.ends[0].parts
    seen = list(readings_of(told, lexicon, day, past=True if one.kind == "since" else past))
    if one.kind == "since":
        seen = [each for each in seen if each[0] < day.now] or seen
    midnight = day.reading((day.day, day.day + timedelta(1)), 1.0)[1]
    for begin, end, sure in seen:
        if one.kind in {"since", "after"}:
            first = begin if one.kind == "since" else end
            # What is to come after a day has no end, and then the day itself is looked for.
            yield (first, midnight, sure) if first < min(day.now, midnight) else (begin, end, sure)
        else:
            last = end if one.kind == "until" else begin
            yield (EVER if last <= midnight else day.now, last, sure)


def _spanned(
    first: dict[str, Any], last: dict[str, Any], lexicon: Lexicon, day: Today, *, past: bool | None
) -> Iterator[Reading]:
    first, last = _completed(first, last)
    free, follows = _comes_round(first, lexicon, day), _comes_round(last, lexicon, day)
    if free and not follows:
        for told in readings_of(last, lexicon, day, past=past):
            if (start := _before(first, told[0], lexicon, day)) is not None:
                yield start[0], told[1], told[2]
        return
    for told in readings_of(first, lexicon, day, past=past):
        if not follows:
            ends = (end for end in readings_of(last, lexicon, day, past=past) if end[0] > told[0])
            yield from ((told[0], end[1], min(told[2], end[2])) for end in ends)
            continue
        begin: Reading | None = told
        end = _after(last, told[0], lexicon, day)
        if past and free and told[0] < day.now and end is not None and end[0] > day.now:
            # All of it is over: from Wednesday to Friday, asked on a Thursday.
            begin = _before(first, told[0], lexicon, day)
            end = None if begin is None else _after(last, begin[0], lexicon, day)
        if begin is not None and end is not None:
            yield begin[0], end[1], told[2]


def _completed(first: dict[str, Any], last: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both ends, each with what is told of the other alone: the 3rd to the 5th of May, March and May 2023."""
    if first.keys() <= {"number", "month_day"} and "month" in last:
        first = {"month": last["month"], **first}
    if last.keys() <= {"number", "month_day"} and "month" in first:
        last = {"month": first["month"], **last}
    whole: dict[str, Any] = {kind: last[kind] for kind in ("year", "period") if kind in last}
    if whole and len(last) > len(whole) and first.keys().isdisjoint(_ABSOLUTE):
        first = {**first, **whole}
    return first, last


def _comes_round(parts: dict[str, Any], lexicon: Lexicon, day: Today) -> bool:
    """Tell whether an end may be one of many: Monday, but not last Monday."""
    return parts.keys().isdisjoint(_ABSOLUTE) and listed_of(parts, day.day, lexicon) is not None


def _near(parts: dict[str, Any], at: float, lexicon: Lexicon, day: Today) -> list[Reading]:
    """Return all that an end may be around a moment, in order of time."""
    around = datetime.fromtimestamp(at, day.zone).date()
    listed = listed_of(parts, around, lexicon) or []
    return [day.reading(days, 1.0, parts.get("part")) for days in sorted(listed)]


def _before(parts: dict[str, Any], at: float, lexicon: Lexicon, day: Today) -> Reading | None:
    return next((each for each in _near(parts, at, lexicon, day)[::-1] if each[0] < at), None)


def _after(parts: dict[str, Any], at: float, lexicon: Lexicon, day: Today) -> Reading | None:
    return next((each for each in _near(parts, at, lexicon, day) if each[0] > at), None)


def _is_time(first: Cluster, last: Cluster, opener: str) -> bool:
    """Tell whether two ends are times, and not numbers or names that may be months."""
    both = (first, last)
    if all(each.parts.keys() == {"number"} for each in both):
        return False
    return bool(opener) or not any(each.doubtful for each in both)


def _one_end(written: str, pieces: Sequence[Piece], cluster: Cluster, opened: int | None, opener: str) -> str:
    """Return of what kind a range with this one end is; empty: none."""
    if cluster.parts.keys() == {"number"}:
        return ""
    closed, closer = _closer(pieces, cluster)
    if closed is not None and closer in {"since", "until", "before", "after"}:
        return closer
    # After Monday's meeting is on Monday; the day before Christmas is one day.
    owned = written[cluster.end - 2 : cluster.end] in {"'s", "’s"}
    if opened is None or owned or (opened and "unit" in pieces[opened - 1].label):
        return ""
    return opener if opener in {"since", "until", "before", "after"} else ""


def _opener(pieces: Sequence[Piece], cluster: Cluster) -> tuple[int | None, str]:
    """Return the place of the word that opens a range before a phrase, and what it says."""
    for at in range(cluster.first - 1, max(cluster.first - 2 - _GAP, -1), -1):
        label = pieces[at].label
        if "opens" in label:
            return at, str(label["opens"])
        if label.keys().isdisjoint({"small", "before"}):
            break
    return None, ""


def _closer(pieces: Sequence[Piece], cluster: Cluster) -> tuple[int | None, str]:
    """Return the place of the word that tells behind a phrase what range it ends, and what it says."""
    for at in range(cluster.last + 1, min(cluster.last + 2, len(pieces))):
        if "closes" in pieces[at].label:
            return at, str(pieces[at].label["closes"])
    return None, ""


def _joiner(between: Sequence[Piece]) -> str:
    """Return what binds two phrases, given what stands between them: `to`, `and`, `weak`, or nothing."""
    said = [str(piece.label["joins"]) for piece in between if "joins" in piece.label]
    others = (piece.label for piece in between if "joins" not in piece.label)
    if len(between) > _GAP + 1 or any(label.keys().isdisjoint({"small", "before"}) for label in others):
        return ""
    return next((kind for kind in ("to", "and", "weak") if kind in said), "")


def _joins(piece: Piece, kind: str) -> bool:
    return piece.label.get("joins") == kind
