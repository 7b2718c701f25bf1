"""When a fact learnt from talk is right: its subject, its thing, its value and its day, in whatever words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

SORTS = ("subject", "thing", "value", "day")
_EXTRA = 3  # content words that a value may have beside those of an accepted one
_PREFERENCES = ("like", "danger")  # their keys may name the kind alone, as `ines.allergy`


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"denying": "not"}):
    dropped: str
    denying: str
    dislike: str
    numbers: list[str]
    groups: list[str]
    usual: dict[str, str]


_WORDS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Words)
_DROPPED, _NOT = frozenset(_WORDS.dropped.split()), frozenset(_WORDS.denying.split())
_NEGATIVE = _NOT | frozenset(_WORDS.dislike.split())
_NUMBERS = {word: str(n) for names in _WORDS.numbers for n, word in enumerate(names.split())}
_GROUPS = [frozenset(group.split()) for group in _WORDS.groups]


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact that an utterance tells; each tuple holds wordings that are all right."""

    kind: str
    subject: tuple[str, ...]
    thing: tuple[str, ...]
    value: tuple[str, ...]
    promised: bool
    day: str = ""
    optional: bool = False


class Learnt(NamedTuple):
    """A fact learnt from talk, or an item that a list gained or lost."""

    key: str
    value: str
    day: str
    change: str  # `list_add` or `list_remove`; empty: no list
    said: tuple[str, ...]  # ids of the utterances that it rests on, newest first


def verdict(fact: Learnt, labels: Sequence[Label], speakers: Iterable[str], at: str) -> tuple[str, list[int]]:
    """Return `right`, `optional`, `no label`, or the first of SORTS that the nearest label has otherwise; and which labels it tells."""
    names = {fold(name) for name in speakers}
    checks = [_checks(fact, label, names, at) for label in labels]
    told = [n for n, each in enumerate(checks) if all(each)]
    if firm := [n for n in told if not labels[n].optional]:
        return "right", firm
    near = max(range(len(labels)), key=lambda n: (sum(checks[n]), not labels[n].optional), default=None)
    if near is None or not any(checks[near][1:3]):
        return "no label", []
    return "optional" if told or labels[near].optional else SORTS[checks[near].index(False)], []


def fold(text: str) -> str:
    """Return text without case, accents, apostrophes and marks, and with digits for number words."""
    plain = unicodedata.normalize("NFKD", re.sub("['’´]", "", text.casefold()))
    words = re.findall(r"[^\W_]+", "".join(mark for mark in plain if not unicodedata.combining(mark)))
    return " ".join(_NUMBERS.get(word, word) for word in words)


def _checks(fact: Learnt, label: Label, speakers: Collection[str], at: str) -> tuple[bool, bool, bool, bool]:
    """Tell whether subject, thing, value and day are those of a label."""
    first, _, rest = fact.key.partition(".")
    subjects = {fold(name) for name in label.subject}
    is_owned = fold(first) in {*subjects, *speakers, "household"}
    owner, thing = (fold(first), rest) if is_owned else ("household", fact.key)
    # Who is no speaker of the home may stand anywhere in the key: `landlord_name`.
    others = subjects - {*speakers, "household"}
    subject = owner in subjects or (
        owner == "household" and any({*_content(name)} <= {*_content(thing)} for name in others)
    )
    if label.day:  # a time may be left out
        day = fact.day.startswith(label.day) or (bool(fact.day) and label.day.startswith(fact.day))
    else:
        day = fact.day[:10] in ("", at[:10])
    usual = _WORDS.usual.get(label.kind, "")
    if label.kind == "correction":
        usual = " ".join(_WORDS.usual.values())
    direct = any(_shares(thing, other) or fold(thing) == fold(other) for other in label.thing)
    by_kind = _shares(thing, usual)
    bare = by_kind and label.kind in _PREFERENCES
    # "walnuts: allergic" says what "allergy: walnuts" does, and "appointment: dentist" on its day what "dentist: Friday" does.
    names = _tells(fact, thing, label.thing, label)
    swapped = not direct and names and (bare or any(_shares(thing, other) for other in label.value))
    carried = by_kind and any(_shares(fact.value, other) for other in label.thing)
    by_day = bool(label.day) and day and (names or label.day[:10] in fact.value)
    is_change = fact.change == (label.kind if label.kind.startswith("list") else "")
    value = swapped or by_day or _tells(fact, thing, label.value, label)
    return subject, is_change and (direct or bare or carried or swapped), value, day


def _tells(fact: Learnt, thing: str, accepted: Sequence[str], label: Label) -> bool:
    """Tell whether a value says one of some accepted, and little more, and denies what they deny."""
    learnt, key = _content(fact.value), fold(thing).split()
    denials = [_denies(wording) for wording in label.value]
    is_negative = any(map(_denies, label.thing)) or sum(denials) * 2 > len(denials)
    if label.kind == "like" and is_negative != _denies(f"{fold(thing)} {fact.value}"):
        return _denies(fact.value) and fold(fact.value) in map(fold, accepted)
    spare = [*key, *(word for text in (*label.subject, *label.thing) for word in fold(text).split())]
    for wording in accepted:
        if fold(wording) == fold(fact.value):
            return True
        wanted, rest = _content(wording), []
        if re.search(r"\d", fold(wording)) and "".join(wanted) == "".join(learnt):
            return True
        for word in learnt:
            if wanted and _alike(word, wanted[0]):
                wanted.pop(0)
            else:
                rest.append(word)
        more = [word for word in rest if not any(_alike(word, other) for other in spare)]
        if not wanted and len(more) <= _EXTRA and (is_negative or not _NOT & {*more}):
            return True
    return False


def _denies(text: str) -> bool:
    return bool(_NEGATIVE & {*fold(text).split()})


def _content(text: str) -> list[str]:
    return [word for word in fold(text).split() if word not in _DROPPED]


def _shares(thing: str, other: str) -> bool:
    """Tell whether two names of a thing share a content word, a part of a compound, or a synonym."""
    return any(
        _alike(a, b)
        or (min(len(a), len(b)) > 3 and (a in b or b in a))
        or any({a, b} <= group for group in _GROUPS)
        for a in _content(thing)
        for b in _content(other)
    )


def _alike(word: str, other: str) -> bool:
    """Tell whether two words are forms of one: all but the last two letters of the longer are the same; digits must be all the same."""
    short, long = sorted((word, other), key=len)
    if short == long or not (word + other).isalpha():
        return short == long
    return long.startswith(short[: max(4, len(long) - 2)]) and len(long) - len(short) <= (
        2 if len(short) > 3 else 1
    )
