"""The block: which recalled items are said to the model, in which words, within a token budget.

Only a delta is said: what the prompt already holds is left out, and a fact that changed since it was shown is
said as a change. Every line is clean (`fence.clean`) and tells where it comes from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from edgemem.context.excerpt import MOST_CHARS, tells
from edgemem.context.repeated import adds
from edgemem.context.sentences import split_sentences
from edgemem.context.shown import RANK, About, Shown, Visible, part_of, past_of
from edgemem.context.told import FIRST, LINE_CHARS, as_text, asked_for, day_of, fitting, told
from edgemem.fence import BULLET, clean, fence, storable
from edgemem.recall import echoes
from edgemem.recall.words import plain_words, terms
from edgemem.records import Fact, Held, Level, Preference, Recalled
from edgemem.scopes import level_of_scope

NEAR, NEAR_TOLD, BESIDE = 0.4, 0.25, 0.6
"""A fact that scores less than this share of the best item that tells anything is left out, and so is what was said or done: each
token costs silence. Where the best is a fact, what is said beside it must come nearer: a fact says in few words what holds now. On
three households that the gate is learnt on facts from .4 on leave .1 more of the answers that were said in the block than from .25 on,
and turns from .25 or from .6 on the same; on our own corpus, where many say the same, .11 of the answers need .25."""

_CHARS_A_TOKEN = 3
"""Where letters are Latin a token has more; where they are not, lines are counted that need not be."""

ERASED = "something private above is no longer known"
"""What is said, to that person only, when a private value was erased which the prompt still holds."""

_CHANGE = re.compile(r"changed:(.*):(\d+)")

VALUES = ("fact", "preference")
"""Kinds that give a key its value: they say what holds now."""


class Floors(NamedTuple):
    """From which score on something is said."""

    any: float = 0.0
    """Of the best item: less, and nothing helps; see `edgemem.recall.gate`."""
    safety: float = 0.0
    """Of a fact that concerns somebody's safety."""

    @property
    def lowest(self) -> float:
        """Return the score below which nothing is ever said."""
        return min(NEAR_TOLD * self.any, self.safety)


def worth_saying(recalled: Sequence[Recalled], floors: Floors, *, utterance: str = "") -> list[Recalled]:
    """Return what is worth its tokens: facts first, then what tools did and what was said, each best first.

    A fact says what holds now in few words, while the turn in which it was told may have been corrected since; a
    turn that only asks answers nothing, and one that says again what the speaker has just said tells nothing.
    """
    least = least_scores(recalled, floors)
    worth = [item for item in recalled if not only_asks(item) and item.score >= least.of(item)]
    settled = sorted((item for item in worth if item.kind in VALUES), key=lambda item: -item.score)
    told = [item for item in worth if item.kind not in VALUES]
    return settled + _each_once(
        sorted(told, key=lambda item: -item.score - FIRST.get(item.kind, 0.0)), settled, utterance
    )


class Least(NamedTuple):
    """From which score on an item is worth its tokens, beside others."""

    best: float
    """What the best item that tells anything scores; without end where nothing helps."""
    beside: bool
    """Whether that is a fact or a preference."""
    safety: float

    def of(self, item: Recalled) -> float:
        """Return it for one item."""
        least = self.best * self.share(item)
        return min(least, self.safety) if item.safety else least

    def share(self, item: Recalled) -> float:
        """Return the share of the best that an item must score."""
        return NEAR if item.kind in VALUES else BESIDE if self.beside else NEAR_TOLD


def least_scores(recalled: Iterable[Recalled], floors: Floors) -> Least:
    """Return the score from which on each of some items is worth its tokens.

    How likely it is that any helps, the best of all tells, also if it only asks; what is near, the best that tells anything.
    """
    best, telling, beside = 0.0, 0.0, False
    for item in sorted((item for item in recalled if not item.safety), key=lambda item: -item.score):
        best = max(best, item.score)
        if not only_asks(item):
            telling, beside = item.score, item.kind in VALUES
            break
    return Least(telling if best >= floors.any else math.inf, beside, floors.safety)


def only_asks(item: Recalled) -> bool:
    """Tell whether an item is a turn that asks something and answers nothing: beside the question it says small talk, if anything."""
    if item.kind != "turn" or len(item.text) > echoes.MOST_CHARS:
        return False
    return echoes.only_asks(item.text) or (
        echoes.asks(item.text)
        and not any(tells(each) for each in split_sentences(item.text) if not echoes.only_asks(each))
    )


def _each_once(told: Iterable[Recalled], settled: Sequence[Recalled], utterance: str) -> list[Recalled]:
    """Return what somebody told, without what the utterance or a line before it says.

    A turn that holds the whole value of a fact is where the fact comes from, and says it at length. Of everything else
    little words count, since "not" is one of them; and what two people said stands for both.
    """
    values = [words for item in settled if len(words := frozenset(plain_words(item.value or ""))) > 1]
    said: list[tuple[str | None, frozenset[str]]] = [
        (None, frozenset(plain_words(item.text))) for item in settled
    ]
    out = []
    for item in told:
        words, who = frozenset(plain_words(item.text)), item.speaker
        if item.kind == "turn" and (
            not adds(item.text, utterance) or any(value <= words for value in values)
        ):
            continue
        if any(words <= other and by in (None, who) for by, other in said):
            continue
        said.append((who, words))
        out.append(item)
    return out


def lines_for(
    recalled: Iterable[Recalled],
    *,
    visible: Mapping[str, Shown],
    visible_turns: frozenset[int],
    session: str,
    kept: Callable[[Shown], bool] = lambda _: True,
    stands: Callable[[Recalled], bool] = lambda _: False,
    question: str = "",
    now: float | None = None,
) -> list[Shown]:
    """Return the lines for what was recalled and is not in the prompt already, best first.

    Args:
        kept: whether the value that was shown was not erased since, so that it may be said once more.
        stands: whether an item stands in the conversation itself.
        question: what may be answered by that part of a turn which was not shown.
        now: seconds since the epoch; a day of another year is said with it.
    """
    before = newest_values(visible)
    out = []
    for item in recalled:
        name = f"{item.kind}:{item.id}"
        if name in visible or (item.session == session and item.turn in visible_turns) or stands(item):
            continue
        if item.kind == "summary" and item.session == session:
            continue  # it stands at the head of the prompt, or what it was made from does
        if item.past:
            out.append(_line_of_past(name, item, now=now))
            continue
        if item.kind not in VALUES:
            if part_of(name) not in visible or _asks_for_the_rest(item, question, visible):
                out.append(Shown(name, f"{BULLET}{told(item, now=now)}", item.level, item.owner))
            continue
        about = (item.kind, item.scope, storable(item.key or ""))
        value = storable(item.value or "")
        seen = before.get(about)
        # A change is told under another id, and once.
        if seen is None or seen.value != value:
            who = item.level, item.owner
            if seen is not None:
                who = stricter(who, (seen.level, seen.owner))
            out.append(_line_of(name, about, value, *who, before=_before(seen, kept)))
        if item.doubt is not None:
            # The model may ask whether it heard rightly; saying it again settles it.
            doubt = storable(item.doubt)
            heard = clean(f"perhaps misheard: {_named(about)}: {doubt}", max_chars=LINE_CHARS)
            known = [one for one in visible.values() if one.id.startswith(f"doubt:{item.id}:")]
            if all(one.value != doubt for one in known):
                name = f"doubt:{item.id}:{len(known)}"
                out.append(Shown(name, f"- {heard}", item.level, item.owner, about[1:], doubt))
    return [line for line in out if line.id not in visible]


def _line_of_past(name: str, item: Recalled, *, now: float | None) -> Shown:
    """Return the line of a fact that does not hold any more; it gives its key no value."""
    about = ("fact", item.scope, storable(item.key or ""))
    until = f"until {day_of(item.valid_to, now=now)}" if item.valid_to else "not any more"
    told = clean(f"before: {_named(about)}: {storable(item.value or '')}", max_chars=LINE_CHARS)
    return Shown(past_of(name), f"- {told} ({until})", item.level, item.owner, about[1:])


def _asks_for_the_rest(item: Recalled, question: str, visible: Mapping[str, Shown]) -> bool:
    """Tell whether a question has words of an item that no excerpt shows."""
    wanted = asked_for(question, [item]).intersection(terms(item.text[:MOST_CHARS]))
    return bool(wanted.difference(*(terms(line.line) for line in visible.values() if line.item != line.id)))


def newest_values(visible: Mapping[str, Shown]) -> dict[About, Shown]:
    """Return of what the prompt holds what it says last of each key."""
    return (visible if isinstance(visible, Visible) else Visible(visible)).newest


def changes(
    visible: Mapping[str, Shown],
    current: Callable[[Collection[About]], Mapping[About, Held]],
    *,
    kept: Callable[[Shown], bool] = lambda _: True,
) -> list[Shown]:
    """Return a line for each shown fact and preference that does not hold any more.

    Args:
        current: for several of them, whether the value may be read now, and if so, the value or None, and who may.
        kept: whether the value that was shown was not erased since, so that it may be said once more.
    """
    newest = newest_values(visible)
    out = []
    now = current(newest) if newest else {}
    for about, item in newest.items():
        held = now[about]
        if not held.readable:
            continue  # that it changed is as private as what it changed to
        value = None if held.value is None else storable(held.value)
        if (value or "") == item.value:
            continue
        before = _before(item, kept)
        if value is not None:
            who = stricter((item.level, item.owner), (held.level, held.owner))
            out.append(_line_of(_change_of(item, visible), about, value, *who, before=before))
        elif before:
            told = f"no longer true: {_named(about)}: {before}"
            out.append(_line_of(f"gone:{item.id}", about, "", item.level, item.owner, told=told))
        else:
            # The value still stands above, so the model is asked not to use it. Of a person, not even the name is said.
            told = ERASED if item.level == "private" else f"{_named(about)} is no longer known"
            line = _line_of(f"erased:{item.id}", about, "", item.level, item.owner, told=told)
            again = any(line.line == other.line for other in out)
            out.append(msgspec.structs.replace(line, line="" if again else line.line, passing=True))
    return out


def line_of_value(shown: Shown, about: About, held: Held) -> Shown:
    """Return the plain line of a value that was shown before, perhaps as a change, or of the one that holds instead."""
    value = storable(held.value or "")
    name = shown.id if value == shown.value else _change_of(shown, {})
    return _line_of(name, about, value, held.level, held.owner)


def stricter(one: tuple[Level, str | None], other: tuple[Level, str | None]) -> tuple[Level, str | None]:
    """Return the level and owner of a line that tells of both."""
    return other if RANK[other[0]] > RANK[one[0]] else one


def _change_of(item: Shown, visible: Mapping[str, Shown]) -> str:
    """Return an id for a change of an item that was shown: counted, since no id may hold a value that is forgotten some day."""
    root = _CHANGE.sub(r"\1", item.id)
    before = [
        int(found[2])
        for name in (item.id, *visible)
        if (found := _CHANGE.fullmatch(name)) and found[1] == root
    ]
    return f"changed:{root}:{max(before, default=0) + 1}"


def _before(seen: Shown | None, kept: Callable[[Shown], bool]) -> str | None:
    """Return the value that the prompt holds; empty if there is none, or it was erased; None: nothing was shown."""
    if seen is None:
        return None
    return seen.value if seen.value and kept(seen) else ""


def _line_of(
    name: str,
    about: About,
    value: str,
    level: Level,
    owner: str | None,
    *,
    before: str | None = None,
    told: str = "",
) -> Shown:
    """Return the line of a value, said as a change when the prompt holds an older one."""
    if not told:
        told = f"{_named(about)}: {value if before is None else f'now {value}'}"
        told += f" (before: {before})" if before else ""
    line = f"- {clean(told, max_chars=LINE_CHARS)}"
    kind, *pair = about
    fact, preference = ((pair[0], pair[1]), None) if kind == "fact" else (None, (pair[0], pair[1]))
    return Shown(name, line, level, owner, fact, value, preference)


def _named(about: About) -> str:
    return f"{_subject(about[1])}{about[2]}"


class Within(NamedTuple):
    """The lines of a block that fit its budget."""

    lines: list[Shown]
    tokens: int
    """Of them, and of what was spent before."""


def within(
    shown: Sequence[Shown],
    *,
    tokens: float,
    count: Callable[[str], int],
    spent: int = 0,
    alone: bool = False,
    recalled: Iterable[Recalled] = (),
    question: str = "",
    now: float | None = None,
) -> Within:
    """Return the lines that fit, best first; one that is too long lets a shorter one behind it pass.

    Where they do not all fit, facts come first, and what was said is shortened, so that more of it may be told.

    Args:
        tokens: the budget of the whole block.
        count: tokens of a text.
        spent: tokens that the fence and other lines take already.
        alone: whether they stand in a fence of their own, in which a single line takes less (`fence`).
        recalled: what the lines tell of; a line of anything else stands as it is or not at all.
        question: by what a turn is shortened.
        now: as for `lines_for`.
    """
    count = cache(count)  # a block that was tried is the one that is said
    items = {
        name: item for item in recalled if item.kind not in VALUES and (name := f"{item.kind}:{item.id}")
    }
    # Most often all of them fit; where a text is cut, it had better be shortened.
    cut = any(len(items[line.id].text) > LINE_CHARS for line in shown if line.id in items)
    may_fit = bool(shown) and not (cut and math.isfinite(tokens))
    if may_fit:
        whole = _size(shown, count, spent, alone=alone, most=tokens)
        if whole <= tokens:
            return Within(list(shown), whole)
    sizes = [count(f"{line.line}\n") for line in shown]
    out: list[Shown] = []
    taken = spent
    for item, size in zip(shown, sizes, strict=True):
        if item.id not in items and taken + size <= tokens:
            taken += size
            out.append(item)
    told_of = [(item, size) for item, size in zip(shown, sizes, strict=True) if item.id in items]
    if told_of:
        out += fitting(
            [item for item, _ in told_of],
            items,
            question=question,
            room=int(tokens),
            sizes=[size for _, size in told_of],
            count=lambda some: _size([*out, *some], count, spent, alone=alone, most=tokens),
            taken=taken,
            now=now,
        )
    return Within(out, _size(out, count, spent, alone=alone) if out else 0)


def _size(
    shown: Sequence[Shown], count: Callable[[str], int], spent: int, *, alone: bool, most: float = math.inf
) -> int:
    """Return what a block of some lines takes, where the fence of several lines takes `spent`; about, if it is more than `most`."""
    lines = [each.line for each in shown if each.line]
    if alone and len(lines) == 1:
        return count(fence(lines))
    text = as_text(shown)
    # What is short fits for sure. A few tokens go where two lines meet, so what seems too long by as many is counted as a whole.
    if len(text) >= _CHARS_A_TOKEN * (most - spent):
        about = spent + sum(count(f"{line}\n") for line in lines) - len(lines)
        if about > most:
            return about
    return spent + count(text)


def value_as_recalled(of: Fact | Preference) -> Recalled:
    """Return a fact or a preference in the form that recall returns, for stores without an index."""
    # A user's own store may know only scopes; a scope that is closed closes what is in it.
    level, owner = level_of_scope(of.scope) if of.level == "shared" else (of.level, of.owner)
    if isinstance(of, Preference):
        return Recalled(
            "preference",
            f"{of.scope}/{of.key}",
            f"{of.key}: {of.value}",
            0.5,
            ("listed",),
            recorded_at=of.updated_at,
            scope=of.scope,
            level=level,
            owner=owner,
            key=of.key,
            value=of.value,
        )
    fact = of
    return Recalled(
        "fact",
        fact.id or f"{fact.scope}/{fact.key}",
        f"{fact.key}: {fact.value}",
        0.5,
        ("listed",),
        recorded_at=fact.recorded_at or fact.updated_at,
        valid_from=fact.valid_from,
        source=fact.source,
        scope=fact.scope,
        level=level,
        owner=owner,
        key=fact.key,
        value=fact.value,
    )


def _subject(scope: str) -> str:
    kind, _, name = scope.partition(":")
    return f"{name}'s " if kind == "user" and name else f"{name}, " if name else ""
