"""Rendering: a line of a block, and how what was said, done and noted stands in it, with who said it and when.

Where not everything fits, a long message is told by the sentence that should answer, and goes on from there as far as there is
room, the best first; a short one is told whole or not at all.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from edgemem.context.block.excerpt import Excerpt, excerpt, whole
from edgemem.fence import BULLET, clean
from edgemem.recall.text.analyse import terms
from edgemem.scopes import Level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from edgemem.records import Recalled


RANK: dict[Level, int] = {"shared": 0, "household": 1, "private": 2}
"""How closed a level is."""

About = tuple[str, str, str]
"""The fact or preference that a line gives a value: `fact` or `preference`, its scope and its key."""

IN_A_LINE_ABOVE = "(in a line above)"
"""How a person is told of an item whose line is empty: what one person said on a day stands in one line."""

_PART = "/part"
_PAST = "/past"


def part_of(name: str) -> str:
    """Return the id of an excerpt of an item: the rest of it was not shown."""
    return name + _PART


def past_of(name: str) -> str:
    """Return the id of the line that tells of a fact that it does not hold any more."""
    return name + _PAST


class BlockLine(msgspec.Struct, frozen=True, omit_defaults=True):
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
    def item(self) -> str:
        """Return the id of the item, also where only an excerpt of it is shown, or that it is past."""
        return self.id.removesuffix(_PART).removesuffix(_PAST)

    @property
    def about(self) -> About | None:
        """Return what the model takes this for the value of; a doubt only stands beside one, and so does what is past."""
        if self.fact is None:
            return None if self.preference is None else ("preference", *self.preference)
        beside = self.id.startswith("doubt:") or self.id.endswith(_PAST)
        return None if beside else ("fact", *self.fact)


class VisibleLines(dict[str, BlockLine]):
    """The lines that a prompt holds, by item id, oldest first; never changed once it is made."""

    @cached_property
    def newest(self) -> dict[About, BlockLine]:
        """The newest line of each key."""
        return {about: item for item in self.values() if (about := item.about) is not None}

    @cached_property
    def valued(self) -> frozenset[str]:
        """The ids of lines that give a key its value."""
        return frozenset(name for name, item in self.items() if item.about is not None)

    @cached_property
    def others(self) -> frozenset[str]:
        """The ids of all other lines."""
        return frozenset(self).difference(self.valued)


LINE_CHARS = 240
"""A recalled item longer than this is cut where nobody shortens it; the whole of it stays retrievable."""

SHORT_CHARS = 160
"""A message of no more characters than this is told whole or not at all. With 120, .816 of the answers of `told_at_length.toml` stand
whole in the block, with 160 .855; with 240, LoCoMo's blocks of 80 tokens hold .479 of its answer words, with 160 .532."""

_MOST_CHARS = 2 * LINE_CHARS
"""The most characters of one item, however much room there is."""

ASIDE = " / "
"""Between things that one person said."""

_TOGETHER = 2
"""Tokens that a block and what is added to it may take less together than apart."""

FIRST = {"episode": 0.15}
"""Added to the score of an episode: it stands before a turn that scores a little more, since it is short and sure."""

_A_YEAR_S = 300 * 86_400.0
"""From then on a day is said with its year."""


def line_text(item: Recalled, *, now: float | None = None) -> str:
    """Return what a line says of a whole item, without its bullet."""
    lead = _lead(item, _day(item, now))
    text = f"{item.kind}: {item.text}" if item.kind in ("note", "summary") else item.text
    return clean(f"{lead}{text}", max_chars=LINE_CHARS)


def fitting(
    lines: Sequence[BlockLine],
    items: Mapping[str, Recalled],
    *,
    question: str,
    room: float,
    count: Callable[[Sequence[BlockLine]], int],
    now: float | None = None,
) -> list[BlockLine]:
    """Return those lines that fit, best first: long turns in an excerpt, what one person said in one line.

    Args:
        lines: of items that are not facts, best first.
        items: what they tell of, by their ids.
        question: what a turn is shortened by.
        room: tokens of the whole block.
        count: tokens of the whole block, with some lines.
    """
    recalled = [items[line.id] for line in lines]
    asked = asked_for(question, recalled)
    kept: dict[int, Excerpt] = {}
    taken = 0

    def fits(number: int, part: Excerpt) -> bool:
        nonlocal taken
        before = words_of(kept[number].text) if number in kept else 0
        if len(part.text) > _MOST_CHARS or taken + words_of(part.text) - before > room + _TOGETHER:
            return False
        some = {**kept, number: part}
        size = count(_rendered(lines, recalled, some, now))
        if size > room:
            return False
        kept[number], taken = part, size
        return True

    for n, (line, item) in enumerate(zip(lines, recalled, strict=True)):
        if item.kind != "turn":
            fits(n, whole(line.line))
        elif len(item.text) <= SHORT_CHARS:
            fits(n, whole(item.text))
        else:
            fits(n, excerpt(item.text, asked))
    for n in tuple(kept):
        while any(fits(n, longer) for longer in kept[n].longer()):
            pass
    return _rendered(lines, recalled, kept, now)


def words_of(text: str) -> int:
    """Return how many words a text has, between spaces; it has no fewer tokens, since none spans two words."""
    return len(text.split())


def as_text(lines: Iterable[BlockLine]) -> str:
    """Return lines as they stand in a block."""
    return "".join(f"{line.line}\n" for line in lines if line.line)


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


def _rendered(
    lines: Sequence[BlockLine], items: Sequence[Recalled], kept: Mapping[int, Excerpt], now: float | None
) -> list[BlockLine]:
    """Return the lines; of what one person said the first bears it all, in the order in which it was said, and the others are empty.

    Args:
        kept: what is told, by its number among the lines.
    """
    groups: dict[str, list[int]] = {}
    for n in kept:
        groups.setdefault(_group(items[n]) or str(n), []).append(n)
    out = []
    for group in groups.values():
        ordered = sorted(group, key=lambda n: items[n].recorded_at)
        line = clean(
            _joined([(items[n], kept[n].text) for n in ordered], now), max_chars=2 * _MOST_CHARS * len(group)
        )
        for n in group:
            name = lines[n].id if kept[n].whole else part_of(lines[n].id)
            out.append(BlockLine(name, line, lines[n].level, lines[n].owner))
            line = ""
    return out


def _group(item: Recalled) -> str:
    """Return what those have in common that stand in one line; empty: nothing does beside it.

    Items that other people may read stand in another line, and so do items without a day.
    """
    dated = (item.event_time or item.recorded_at) > 0
    return f"{item.level} {item.owner} {dated} {_who(item)}" if item.kind == "turn" else ""


def _joined(group: Sequence[tuple[Recalled, str]], now: float | None) -> str:
    """Return a line of what one person said, earliest first: `- Ann 7 May: one / another / 9 May: a third`."""
    out, before = "", ""
    for item, text in group:
        if item.kind != "turn":
            return text
        day = _day(item, now)
        if out:
            # Behind a full stop the sign is plain without it.
            out = f"{_without_stop(out)}{ASIDE}{f'{day}: ' if day != before else ''}{text}"
        else:
            out = f"{BULLET}{_lead(item, day)}{text}"
        before = day
    return out


def _without_stop(text: str) -> str:
    return text[:-1] if text.endswith(".") and not text.endswith("..") else text
