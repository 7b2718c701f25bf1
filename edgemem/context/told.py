"""Told: how what was said, done and noted stands in a line, whole or in an excerpt, with who said it and when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from edgemem.context.excerpt import GAP, excerpts
from edgemem.context.selection import ASIDE, Choice, Length, Taken, select, units
from edgemem.context.shown import Shown, part_of
from edgemem.fence import BULLET, clean
from edgemem.recall.words import terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from edgemem.records import Recalled

LINE_CHARS = 240
"""A recalled item longer than this is cut; the whole of it stays retrievable."""

FIRST = {"episode": 0.15}
"""What a tool did is told ahead of a turn that scores a little more: it is short, and it is what happened."""

_A_YEAR_S = 300 * 86_400.0
"""From then on a day is said with its year."""


def told(item: Recalled, *, now: float | None = None) -> str:
    """Return what a line says of a whole item, without its bullet."""
    lead = _lead(item, _day(item, now))
    text = f"{item.kind}: {item.text}" if item.kind in ("note", "summary") else item.text
    return clean(f"{lead}{text}", max_chars=LINE_CHARS)


def fitting(
    lines: Sequence[Shown],
    items: Mapping[str, Recalled],
    *,
    question: str,
    room: int,
    sizes: Sequence[int],
    count: Callable[[Sequence[Shown]], int],
    taken: int = 0,
    now: float | None = None,
) -> list[Shown]:
    """Return those lines that are worth most within the room: turns shortened, what one person said in one line.

    Args:
        lines: of items that are not facts, best first.
        items: what they tell of, by their ids.
        question: what goes last when a turn is shortened.
        room: tokens of the whole block.
        sizes: tokens of each line.
        count: tokens of the whole block, with some lines.
        taken: those of the block without any, about.
    """
    wanted = asked_for(question, [items[line.id] for line in lines])
    choices = [
        _choice(line, items[line.id], wanted, now)._replace(each=size / units(f"{line.line}\n"))
        for line, size in zip(lines, sizes, strict=True)
    ]

    def say(some: Sequence[Taken]) -> list[Shown]:
        return _said(lines, items, choices, some)

    return say(select(choices, room=room, spent=taken, count=lambda some: count(say(some))))


def as_text(lines: Iterable[Shown]) -> str:
    """Return lines as they stand in a block."""
    return "".join(f"{each.line}\n" for each in lines if each.line)


def asked_for(question: str, items: Sequence[Recalled]) -> frozenset[str]:
    """Return the stems of a question, without the names of those who speak in the items: each line bears one."""
    names = {stem for item in items for stem in terms(item.speaker or "")}
    return frozenset(terms(question)).difference(names)


def day_of(seconds: float, *, now: float | None = None) -> str:
    """Return a short date such as `2 Nov`, in local time; with its year where that is not plain from `now`."""
    if seconds <= 0:
        return ""
    when = time.localtime(seconds)
    day = f"{when.tm_mday} {time.strftime('%b', when)}"
    return day if now is None or abs(now - seconds) < _A_YEAR_S else f"{day} {when.tm_year}"


def _lead(item: Recalled, day: str) -> str:
    """Return who told it and when, in as few tokens as tell it: `Ann 7 May: `."""
    if item.kind == "note":
        return ""
    if item.kind != "turn":
        return f"{day} " if day else ""
    return f"{_who(item)} {day}: " if day else f"{_who(item)}: "


def _who(item: Recalled) -> str:
    return item.speaker or ("you" if item.source == "assistant" else "somebody")


def _day(item: Recalled, now: float | None) -> str:
    return day_of(item.event_time or item.recorded_at, now=now)


def _choice(line: Shown, item: Recalled, wanted: frozenset[str], now: float | None) -> Choice:
    score = item.score + FIRST.get(item.kind, 0.0)
    if item.kind != "turn":
        return Choice("", (Length(line.line),), score)
    lengths = tuple(Length(*each) for each in excerpts(item.text, wanted))
    day = _day(item, now)
    return Choice(
        f"{BULLET}{_lead(item, day)}",
        lengths,
        score,
        # What may be read by others stands in another line, and so does what has no day.
        group=f"{item.level} {item.owner} {bool(day)} {_who(item)}",
        label=f"{day}: " if day else "",
    )


def _said(
    lines: Sequence[Shown], items: Mapping[str, Recalled], choices: Sequence[Choice], taken: Sequence[Taken]
) -> list[Shown]:
    """Return the lines; of a group the first bears it all, in the order in which it was said, and the others are empty."""
    groups: dict[str, list[Taken]] = {}
    for each in taken:
        groups.setdefault(choices[each.number].group or str(each.number), []).append(each)
    out = []
    for group in groups.values():
        line = clean(_joined(group, items, lines, choices), max_chars=2 * LINE_CHARS * len(group))
        for each in group:
            shown, item = lines[each.number], items[lines[each.number].id]
            name = shown.id if each.length.text.count(GAP) <= item.text.count(GAP) else part_of(shown.id)
            out.append(Shown(name, line, shown.level, shown.owner))
            line = ""
    return out


def _joined(
    group: Sequence[Taken], items: Mapping[str, Recalled], lines: Sequence[Shown], choices: Sequence[Choice]
) -> str:
    """Return a line of what one person said, earliest first: `- Ann 7 May: one / another / 9 May: a third`."""
    text, label = "", ""
    for each in sorted(group, key=lambda one: items[lines[one.number].id].recorded_at):
        choice = choices[each.number]
        again = "" if choice.label == label else choice.label
        # Behind a full stop the sign is plain without it.
        before = f"{_without_stop(text)}{ASIDE}{again}" if text else choice.lead
        text, label = f"{before}{each.length.text}", choice.label
    return text


def _without_stop(text: str) -> str:
    return text[:-1] if text.endswith(".") and not text.endswith("..") else text
