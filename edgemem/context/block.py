"""The block: which recalled items are said to the model, in which words, within a token budget.

Only a delta is said: what the prompt already holds is left out, and a fact that changed since it was shown is
said as a change. Every line is clean (`fence.clean`) and tells where it comes from.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from edgemem.context.layout import Shown
from edgemem.fence import clean, storable
from edgemem.records import Fact, Recalled, level_of_scope

LINE_CHARS = 240
"""A recalled item longer than this is cut; the whole of it stays retrievable."""


TOLD = {"episode": 0.15}
"""What a tool did is told ahead of a turn that scores a little more: it is short, and it is what happened."""


NEAR = 0.75
"""A fact that scores less than this share of the best one is left out; each of its tokens costs silence. Measured with
`edgemem bench prefill`, 40 questions among 10,000 facts: as many are answered as at 0.6, with blocks of 41 tokens
instead of 63 (medians)."""

_SETTLED = ("fact", "preference", "note")

_ASKS = re.compile(
    r"\?|(?:^|[.!,;] *)(?:and |so |but |then )?"
    r"(?:what|when|where|who|whose|whom|which|how|why|do|does|did|can|could|is|are|am|was|were|will|would|shall|should"
    r"|may|might|has|have|had)\b(?! be\b)",
    re.IGNORECASE,
)
"""A question mark, or a sentence that begins as questions do: recognisers leave punctuation out."""


def asks(utterance: str) -> bool:
    """Tell whether somebody asks something, in English."""
    return _ASKS.search(utterance.strip()) is not None


def worth_saying(
    recalled: Iterable[Recalled], floors: Mapping[str, float], *, asked: bool = False
) -> list[Recalled]:
    """Return what is worth its tokens: facts first, then what tools did and what was said, each best first.

    A fact says what holds now in few words, while the turn in which it was told may have been corrected since; a
    turn that only asks answers nothing.

    Args:
        floors: the least score by kind; a kind that is not named has the one of facts. `asked`: the least score of
            the best fact when something is asked.
        asked: whether the utterance is a question; a wrong fact costs a few tokens then, a missing one the answer.
    """
    settled = sorted((item for item in recalled if item.kind in _SETTLED), key=lambda item: -item.score)
    least = floors.get("asked", floors["fact"]) if asked else floors["fact"]
    worth = [item for item in settled[:1] if item.score >= least]
    if worth:
        floor = max(floors["fact"], NEAR * worth[0].score)
        worth += [item for item in settled[1:] if item.score >= floor]
    told = [
        item
        for item in recalled
        if item.kind not in _SETTLED
        and item.score >= floors.get(item.kind, floors["fact"])
        and not (item.kind == "turn" and item.text.rstrip().endswith("?"))
    ]
    return worth + sorted(told, key=lambda item: -item.score - TOLD.get(item.kind, 0.0))


def lines_for(
    recalled: Iterable[Recalled],
    *,
    visible: Mapping[str, Shown],
    visible_turns: frozenset[int],
    session: str,
) -> list[Shown]:
    """Return the lines for what was recalled and is not in the prompt already, best first."""
    before = {item.fact: item for item in visible.values() if item.fact is not None}
    out = []
    for item in recalled:
        name = f"{item.kind}:{item.id}"
        if name in visible or (item.session == session and item.turn in visible_turns):
            continue
        if item.kind == "fact":
            key, value = storable(item.key or ""), storable(item.value or "")
            out.append(
                fact_line(
                    name,
                    item.scope,
                    key,
                    value,
                    level=item.level,
                    owner=item.owner,
                    before=before.get((item.scope, key)),
                )
            )
            if item.doubt is not None:
                # The model may ask whether it heard rightly; saying it again settles it.
                line = clean(
                    f"perhaps misheard: {_subject(item.scope)}{key}: {item.doubt}", max_chars=LINE_CHARS
                )
                out.append(Shown(f"doubt:{item.id}:{item.doubt}", f"- {line}", item.level, item.owner))
            continue
        out.append(Shown(name, f"- {_told(item)}", item.level, item.owner))
    return out


def fact_line(
    name: str,
    scope: str,
    key: str,
    value: str,
    *,
    level: str,
    owner: str | None,
    before: Shown | None = None,
) -> Shown:
    """Return the line of a fact, said as a change when the prompt holds an older value."""
    told = f"{_subject(scope)}{key}: {value}"
    if before is not None and before.value != value:
        told = f"{_subject(scope)}{key}: now {value} (before: {before.value})"
    line = clean(told, max_chars=LINE_CHARS)
    return Shown(name, f"- {line}", level, owner, (scope, key), value)  # type: ignore[arg-type]  # level is a Level


def changes(
    visible: Mapping[str, Shown],
    current: Callable[[Collection[tuple[str, str]]], Mapping[tuple[str, str], tuple[bool, str | None]]],
) -> list[Shown]:
    """Return a line for each shown fact that does not hold any more.

    Args:
        current: for several (scope, key), whether the value may be read now, and if so, the value or None.
    """
    newest: dict[tuple[str, str], Shown] = {}
    for item in visible.values():
        if item.fact is not None:
            newest[item.fact] = item
    out = []
    now = current(newest) if newest else {}
    for (scope, key), item in newest.items():
        readable, found = now[scope, key]
        if not readable:
            continue  # that it changed is as private as what it changed to
        value = None if found is None else storable(found)
        if (value or "") == item.value:
            continue
        if value is None:
            line = clean(f"no longer true: {_subject(scope)}{key}: {item.value}", max_chars=LINE_CHARS)
            out.append(Shown(f"gone:{item.id}", f"- {line}", item.level, item.owner, (scope, key), ""))
        else:
            name = f"changed:{item.id}:{value}"
            out.append(fact_line(name, scope, key, value, level=item.level, owner=item.owner, before=item))
    return out


def within(
    shown: Sequence[Shown], *, tokens: int, count: Callable[[str], int], spent: int = 0
) -> list[Shown]:
    """Return the lines that fit, best first; one that is too long lets a shorter one behind it pass.

    Args:
        tokens: the budget of the whole block.
        count: tokens of a text.
        spent: tokens that the fence and other lines take already.
    """
    out = []
    for item in shown:
        cost = count(item.line + "\n")
        if spent + cost > tokens:
            continue
        spent += cost
        out.append(item)
    return out


def fact_as_recalled(fact: Fact) -> Recalled:
    """Return a fact in the form that recall returns, for stores without an index."""
    # A user's own store may know only scopes; a scope that is closed closes the fact.
    level, owner = level_of_scope(fact.scope) if fact.level == "shared" else (fact.level, fact.owner)
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


def _told(item: Recalled) -> str:
    day = day_of(item.event_time or item.recorded_at)
    if item.kind == "turn":
        who = item.speaker or ("you" if item.source == "assistant" else "somebody")
        return clean(f"{day} {who} said: {item.text}", max_chars=LINE_CHARS)
    if item.kind == "note":
        return clean(f"note: {item.text}", max_chars=LINE_CHARS)
    return clean(f"{day} {item.text}", max_chars=LINE_CHARS)


def day_of(seconds: float) -> str:
    """Return a short date such as `2 Nov`, in local time."""
    if seconds <= 0:
        return ""
    when = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc).astimezone()
    return f"{when.day} {when:%b}"
