"""The delta: lines for recalled items that the prompt does not hold yet, and for items in it that hold no more.

A fact that changed since it was shown is told as a change. Every line is clean (`fence.clean`).

The head of an epoch replaces the turns before it: a summary, and the values that memory told in those turns. A value that was
asked for is likely to be asked for again; in the head no later turn tells it anew with a fence of its own. Only facts that the
whole household may know are carried, with the values that hold then, in the summary's share of the window.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from edgemem.context.block.render import (
    BADLY,
    HERE,
    LINE_CHARS,
    LIST_CHARS,
    MOST_CHARS,
    Today,
    VisibleLines,
    asked_for,
    day_of,
    line_text,
    with_days,
)
from edgemem.context.budget import estimate
from edgemem.fence import BULLET, clean, fence, storable
from edgemem.recall.text.analyse import NOTHING, Analysis, plain_words, terms
from edgemem.records import (
    ENDED_SUFFIX,
    EXCERPT_SUFFIX,
    BlockLine,
    Epoch,
    Fact,
    Held,
    Preference,
    Recalled,
    Subject,
)
from edgemem.scopes import RANK, Level, level_of_scope

ERASED = "something private above is no longer known"
"""The line for the owner of a private value that was erased and that the prompt still holds."""

_CHANGE = re.compile(r"changed:(.*):(\d+)")

VALUES = ("fact", "preference")


def lines_for(
    recalled: Iterable[Recalled],
    *,
    visible: VisibleLines,
    kept: Callable[[BlockLine], bool] = lambda _: True,
    is_in_conversation: Callable[[Recalled], bool] = lambda _: False,
    question: Analysis = NOTHING,
    today: Today = HERE,
) -> list[BlockLine]:
    """Return lines for the recalled items that the prompt does not hold, best first.

    Args:
        kept: whether the shown value was not erased since, so that it may be said once more.
        question: may be answered by the part of a turn that was not shown.
        today: of which the lines are.
    """
    before = visible.newest
    out = []
    for item in recalled:
        name = item.name
        about = (item.kind, item.scope, storable(item.key or ""))
        shown = visible.get(name)
        # What stands under the former name of somebody is told under the new one.
        if shown is not None and shown.subject not in (None, about):
            name = _change_of(shown, visible)
        elif shown is not None or is_in_conversation(item):
            continue
        if item.past:
            out.append(_line_of_past(name, item, today))
            continue
        if item.kind not in VALUES:
            if name + EXCERPT_SUFFIX not in visible or _asks_for_the_rest(item, question, visible):
                out.append(BlockLine(name, f"{BULLET}{line_text(item, today)}", item.level, item.owner))
            continue
        value = storable(item.value or "")
        seen = before.get(about)
        # A change is told under another id, and once.
        if seen is None or seen.value != value:
            own = item.level, item.owner
            who = own if seen is None else stricter(own, (seen.level, seen.owner))
            said = with_days(value, item.event_time or item.recorded_at, today)
            is_list = item.is_list or item.named_list
            text = _value_text(about, said, _before(seen, kept), is_list) + _told_by(item, today)
            out.append(_line_of(name, about, value, *who, text=text, is_list=is_list))
        if item.doubt is not None:
            # The model may ask whether it heard rightly; saying it again settles it.
            doubt = storable(item.doubt)
            text = f"perhaps misheard: {_named(about)}: {doubt}"
            if item.disbelieved is not None:
                text = f"not believed: {_named(about)}: {doubt} ({item.disbelieved})"
            heard = clean(text, max_chars=LINE_CHARS)
            known = [line for line in visible.values() if line.id.startswith(f"doubt:{item.id}:")]
            if all(line.value != doubt for line in known):
                name = f"doubt:{item.id}:{len(known)}"
                out.append(BlockLine(name, f"- {heard}", item.level, item.owner, about[1:], doubt))
    return [line for line in out if line.id not in visible]


def _told_by(item: Recalled, today: Today) -> str:
    """Return who told a value and when, where it is not their own, and whether it was heard badly."""
    told = item.speaker is not None and item.speaker.casefold() not in f"{item.scope} {item.key}".casefold()
    who = f"{item.speaker} {day_of(item.event_time or item.recorded_at, today, text=item.text)}".strip()
    return f"{f' ({who})' if told else ''}{BADLY if item.heard_badly else ''}"


def _line_of_past(name: str, item: Recalled, today: Today) -> BlockLine:
    """Return the line of a fact that does not hold any more; it gives its key no value."""
    about = ("fact", item.scope, storable(item.key or ""))
    until = f"until {day_of(item.valid_to, today, text=item.text)}" if item.valid_to else "not any more"
    text = clean(f"before: {_named(about)}: {storable(item.value or '')}", max_chars=LINE_CHARS)
    return BlockLine(name + ENDED_SUFFIX, f"- {text} ({until})", item.level, item.owner, about[1:])


def _asks_for_the_rest(item: Recalled, question: Analysis, visible: Mapping[str, BlockLine]) -> bool:
    """Tell whether a question has words of an item that no excerpt shows."""
    asked = asked_for(question, [item]).intersection(terms(item.text[:MOST_CHARS]))
    return bool(asked.difference(*(terms(line.line) for line in visible.values() if line.item != line.id)))


def changes(
    visible: VisibleLines,
    current: Callable[[Collection[Subject]], Mapping[Subject, Held]],
    *,
    kept: Callable[[BlockLine], bool] = lambda _: True,
) -> list[BlockLine]:
    """Return a line for each shown fact and preference that does not hold any more; `kept` as for `lines_for`."""
    out = []
    now = current(visible.newest) if visible.newest else {}
    for about, item in visible.newest.items():
        held, value = now[about], storable(now[about].value or "")
        if not held.readable or value == item.value:
            continue  # that it changed is as private as what it changed to
        before = _before(item, kept)
        if held.value is not None:
            who = stricter((item.level, item.owner), (held.level, held.owner))
            name = _change_of(item, visible)
            text = _value_text(about, value, before, held.is_list)
            out.append(_line_of(name, about, value, *who, text=text, is_list=held.is_list))
        elif before:
            text = f"no longer true: {_named(about)}: {before}"
            out.append(_line_of(f"gone:{item.id}", about, "", item.level, item.owner, text=text))
        else:
            # The model is asked not to use the value that its prompt still holds. Of a person, not even the name is said.
            text = ERASED if item.level == "private" else f"{_named(about)} is no longer known"
            line = _line_of(f"erased:{item.id}", about, "", item.level, item.owner, text=text)
            again = any(line.line == other.line for other in out)
            out.append(msgspec.structs.replace(line, line="" if again else line.line, is_transient=True))
    return out


def line_of_value(shown: BlockLine, about: Subject, held: Held) -> BlockLine:
    """Return the plain line of a shown value, perhaps told as a change, or of the one that holds instead."""
    value = storable(held.value or "")
    name = shown.id if value == shown.value else _change_of(shown, {})
    text = _value_text(about, value, None, held.is_list)
    return _line_of(name, about, value, held.level, held.owner, text=text, is_list=held.is_list)


def stricter(first: tuple[Level, str | None], other: tuple[Level, str | None]) -> tuple[Level, str | None]:
    """Return the level and owner of a line that tells of both."""
    return other if RANK[other[0]] > RANK[first[0]] else first


def _change_of(item: BlockLine, visible: Mapping[str, BlockLine]) -> str:
    """Return a counted id for a change of a shown item: no id may hold a value that is forgotten some day."""
    root = _CHANGE.sub(r"\1", item.id)
    before = [
        int(match[2])
        for name in (item.id, *visible)
        if (match := _CHANGE.fullmatch(name)) and match[1] == root
    ]
    return f"changed:{root}:{max(before, default=0) + 1}"


def _before(seen: BlockLine | None, kept: Callable[[BlockLine], bool]) -> str | None:
    """Return the value that the prompt holds; empty if there is none, or it was erased; None: nothing was shown."""
    return None if seen is None else seen.value if seen.value and kept(seen) else ""


def _line_of(
    name: str,
    about: Subject,
    value: str,
    level: Level,
    owner: str | None,
    *,
    text: str,
    is_list: bool = False,
) -> BlockLine:
    """Return the line of a value; a list is told whole."""
    line = f"- {clean(text, max_chars=LIST_CHARS if is_list else LINE_CHARS)}"
    kind, *pair = about
    fact, preference = ((pair[0], pair[1]), None) if kind == "fact" else (None, (pair[0], pair[1]))
    return BlockLine(name, line, level, owner, fact, value, preference)


def _value_text(about: Subject, value: str, before: str | None, is_list: bool) -> str:
    """Return a value in words, as a change when the prompt holds an older one."""
    text = f"{_named(about)}: {value if before is None else f'now {value}'}"
    # Of a list most items stay.
    return f"{text} (before: {before})" if before and not is_list else text


def _named(about: Subject) -> str:
    kind, _, name = about[1].partition(":")
    owner = plain_words(name)
    if owner and plain_words(about[2])[: len(owner)] == owner:
        return about[2]
    return f"{name}'s {about[2]}" if kind == "user" and name else f"{name}, {about[2]}" if name else about[2]


def closed_to(of: Fact | Preference) -> tuple[Level, str | None]:
    """Return who may read a fact or a preference; in a store of scopes alone, a closed scope closes it."""
    return level_of_scope(of.scope) if of.level == "shared" else (of.level, of.owner)


def value_as_recalled(of: Fact | Preference) -> Recalled:
    """Return a fact or a preference as recall does, for stores without an index."""
    level, owner = closed_to(of)
    name, at = f"{of.scope}/{of.key}", of.updated_at
    since: dict[str, Any] = {}
    if isinstance(of, Fact):
        name, at = of.id or name, of.recorded_at or at
        since = {"valid_from": of.valid_from, "source": of.source}
    return Recalled(
        "fact" if since else "preference",
        name,
        f"{of.key}: {of.value}",
        0.5,
        ("listed",),
        recorded_at=at,
        scope=of.scope,
        level=level,
        owner=owner,
        key=of.key,
        value=of.value,
        **since,
    )


SUMMARY_HEADER = "Earlier in this conversation:"

CARRIED_SHARE = 0.5
"""Share of the summary's tokens for values: a shorter summary says too little of the turns."""

Current = Callable[[Collection[Subject]], Mapping[Subject, Held]]
"""Returns what holds now, as far as the whole household may know it."""


def head_of(epoch: Epoch) -> str:
    """Return the block before an epoch's first utterance; empty if nothing came before it."""
    summary = [SUMMARY_HEADER, *epoch.summary.splitlines()] if epoch.summary.strip() else []
    lines = [*(item.line for item in carried_by(epoch)), *summary]
    return fence(lines) if lines else ""


def carried_by(epoch: Epoch) -> tuple[BlockLine, ...]:
    """Return the lines of memory in an epoch's head."""
    return tuple(filter(_is_carried, map(BlockLine.parse, epoch.carried)))


def _is_carried(item: BlockLine) -> bool:
    return item.fact is not None and bool(item.value) and item.level != "private" and not item.is_transient


def carrying(epoch: Epoch, items: Iterable[BlockLine]) -> Epoch:
    """Return an epoch with other values in its head."""
    return msgspec.structs.replace(epoch, carried=tuple(item.entry for item in items))


def to_carry(shown: Iterable[BlockLine], stays: Collection[Subject]) -> list[BlockLine]:
    """Return, newest first, the values in lines (oldest first) that may be carried, but those whose key `stays`."""
    newest: dict[Subject, BlockLine] = {}
    for item in shown:
        if item.subject is not None:
            newest.pop(item.subject, None)
            newest[item.subject] = item
    return [item for about, item in reversed(newest.items()) if _is_carried(item) and about not in stays]


def up_to_date(items: Iterable[BlockLine], current: Current) -> list[BlockLine]:
    """Return lines of facts with the values that hold now, without facts that are gone or private by now."""
    shown = {item.subject: item for item in items if item.subject is not None}
    now = current(shown.keys())
    out = []
    for about, item in shown.items():
        held = now.get(about)
        if held is not None and held.readable and held.value and held.level != "private":
            out.append(line_of_value(item, about, held))
    return out


def still_holding(epoch: Epoch, current: Current) -> Epoch:
    """Return an epoch without the carried values that are gone or private by now."""
    items = carried_by(epoch)
    if not items:
        return epoch
    left = {item.subject for item in up_to_date(items, current)}
    kept = [item for item in items if item.subject in left]
    return epoch if len(kept) == len(items) else carrying(epoch, kept)


def fitting(items: Iterable[BlockLine], *, tokens: float) -> list[BlockLine]:
    """Return in reverse the lines that take about so many tokens together; one that is too long lets a shorter one pass."""
    out: list[BlockLine] = []
    for item in items:
        size = estimate(item.line) + 1
        if size <= tokens:
            tokens -= size
            out.append(item)
    return out[::-1]
