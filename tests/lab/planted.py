"""What learning finds: standing things and routines that were planted in homes that talk, beside as many decoys.

Written before any learner, whose author never reads the sentences. A reflection is one of `metadata["learner"]`, its members are where its
CONSOLIDATED_FROM edges lead. Half of the homes is sealed.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.bench.ground import at_least, at_most, report
from edgemem.errors import InvalidInputError
from lab.planted_homes import Home, Kind, Planted, Reflection, path_of, read_homes, reflections_in
from lab.talk import wilson

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHARE = 2 / 3  # of its members, so that it counts as found
_MINUTES = 15
BEFORE = re.compile(r"\b(before|previously|earlier|vorher|davor|zuvor|früher)\b", re.IGNORECASE)
_CLOCK = re.compile(r"\b(\d{1,2})[:.](\d{2})\b")
_DAYS = {
    "daily": ("daily", "every day", "each day", "täglich", "jeden tag"),
    "weekdays": ("weekdays", "working days", "monday to friday", "werktags", "unter der woche", "montags bis freitags"),
    "monday": ("monday", "montag"), "tuesday": ("tuesday", "dienstag"), "wednesday": ("wednesday", "mittwoch"),
    "thursday": ("thursday", "donnerstag"), "friday": ("friday", "freitag"), "saturday": ("saturday", "samstag", "sonnabend"),
    "sunday": ("sunday", "sonntag"),
}  # fmt: skip


class Verdicts(NamedTuple):
    """What became of a home's planted things, and of the reflections that were made of it."""

    found: dict[int, Reflection]
    """Of each planted one that was found, by its number, the reflection that found it."""
    whole: set[int]
    """The planted ones of which a reflection has two thirds, whatever else it has."""
    false: list[Reflection]
    """Mostly of decoys, of small talk, of nothing that was said, or of several planted ones none of which has more than half."""
    joined: Counter[str]
    """By kind of decoy, the reflections that took one in; `other planted`: those that hold members of two."""


def run(
    *, kind: Kind | None = None, sealed: bool = False, show: bool = False, judge: bool = False
) -> dict[str, Any]:
    """Play homes, and judge what was learnt of them.

    Args:
        kind: `chains` or `routines`; left out, both.
        sealed: the sealed half.
        show: tell what was missed and what is false; of the sealed half only with `judge`.
        judge: I judge, and build nothing that this measures.
    """
    if show and sealed and not judge:
        raise InvalidInputError(
            "This half is sealed: who builds sees counts alone; leave out --show, or judge with --judge."
        )
    kinds: tuple[Kind, ...] = ("chains", "routines") if kind is None else (kind,)
    figures: dict[str, Any] = {"half": "sealed" if sealed else "looking"}
    bars = {}
    for each in kinds:
        homes = read_homes(path_of(each, sealed=sealed))
        made = [reflections_in(home, each) for home in homes]
        figures[each] = counts(each, homes, made, show=show)
        bars[f"{each}: found"] = at_least(figures[each]["found"], 0.90)
        bars[f"{each}: false"] = at_most(figures[each]["false"], 0.05)
        bars[f"{each}: of two owners"] = at_most(figures[each]["of_two_owners"], 0)
        if each == "chains":
            bars["chains: newest first"] = at_least(figures[each]["newest_first"], 0.97)
    return report("planted", figures, bars)


def counts(
    kind: Kind, homes: Sequence[Home], made: Sequence[Sequence[Reflection]], *, show: bool = False
) -> dict[str, Any]:
    """Return the figures of all homes together."""
    judged = [verdicts(home, each) for home, each in zip(homes, made, strict=True)]
    pairs = [(home.planted[n], it) for home, one in zip(homes, judged, strict=True) for n, it in one.found.items()]  # fmt: skip
    planted, reflections = sum(len(home.planted) for home in homes), sum(map(len, made))
    false = sum(len(one.false) for one in judged)
    out: dict[str, Any] = {
        "planted": planted, "reflections": reflections,
        "found": _share(len(pairs), planted), "found_interval": wilson(len(pairs), planted),
        "found_with_others": _share(sum(len(one.whole) for one in judged), planted),
        "found_by_language": {
            language: _share(
                sum(len(one.found) for home, one in zip(homes, judged, strict=True) if home.language == language),
                sum(len(home.planted) for home in homes if home.language == language),
            )
            for language in sorted({home.language for home in homes})
        },
        "false": _share(false, reflections), "false_interval": wilson(false, reflections),
        "of_two_owners": sum(is_across(home, it) for home, each in zip(homes, made, strict=True) for it in each),
        "joined": dict(sum((one.joined for one in judged), Counter[str]())),
        "decoys": dict(sum((Counter({kind: len(ids) for kind, ids in home.decoys.items()}) for home in homes), Counter[str]())),
    }  # fmt: skip
    if kind == "chains":
        out["newest_first"] = _share(sum(is_newest_first(*pair) for pair in pairs), len(pairs))
    else:
        out["time_told"] = _share(sum(is_time_told(*pair) for pair in pairs), len(pairs))
        out["days_told"] = _share(sum(are_days_told(*pair) for pair in pairs), len(pairs))
    if show:
        out["shown"] = [line for home, one in zip(homes, judged, strict=True) for line in _shown(home, one)]
    return out


def verdicts(home: Home, reflections: Sequence[Reflection]) -> Verdicts:
    """Hold a home's reflections against what was planted there."""
    decoys = {id_: kind for kind, ids in home.decoys.items() for id_ in ids}
    found, whole = dict[int, Reflection](), set[int]()
    false, joined = list[Reflection](), Counter[str]()
    for reflection in reflections:
        members = set(reflection.members)
        held = {n: len(members & {*it.members}) for n, it in enumerate(home.planted)}
        best = max(held, key=lambda n: held[n], default=-1)
        most = held.get(best, 0)
        strange = {decoys[id_] for id_ in members if id_ in decoys}
        strange |= {"other planted"} if sum(map(bool, held.values())) > 1 else set()
        joined.update(strange)
        is_held = most >= _SHARE * len(home.planted[best].members) if held else False
        if is_held:
            whole.add(best)
        if most <= len(members) / 2:
            false.append(reflection)
        elif is_held and not strange:
            found.setdefault(best, reflection)
    return Verdicts(found, whole, false, joined)


def is_across(home: Home, reflection: Reflection) -> bool:
    """Tell whether a reflection joins what somebody said in private with what another said, or what the household may read."""
    owners = {
        said.speaker if said.id in home.private else "" for said in home.said if said.id in reflection.members
    }
    return len(owners) > 1


def is_newest_first(planted: Planted, reflection: Reflection) -> bool:
    """Tell whether a sentence says a word of the newest value before it speaks of what was before, and before any old value."""
    head = re.findall(r"\w+(?:'\w+)?", BEFORE.split(reflection.essence)[0].casefold())
    newest = [n for n, word in enumerate(head) if word in planted.newest]
    old = [n for n, word in enumerate(head) if word in planted.old]
    return bool(newest) and (not old or newest[0] < old[0])


def is_time_told(planted: Planted, reflection: Reflection) -> bool:
    """Tell whether a sentence says the time of a routine, give or take a quarter of an hour."""
    return says_time(planted.time, reflection.essence)


def are_days_told(planted: Planted, reflection: Reflection) -> bool:
    """Tell whether a sentence says the days of a routine, and no others."""
    text = reflection.essence.casefold()
    several = [days for days in ("daily", "weekdays") if any(form in text for form in _DAYS[days])]
    one = [days for days in _DAYS if days not in ("daily", "weekdays") and any(form in text for form in _DAYS[days])]  # fmt: skip
    return (several or one) == [planted.days]


def _shown(home: Home, one: Verdicts) -> list[str]:
    """Return a line for each planted thing and each false reflection."""
    texts = {said.id: f"{said.at} {said.speaker or '?'}: {said.text}" for said in home.said}
    lines = []
    for n, planted in enumerate(home.planted):
        verdict = f"found: {one.found[n].essence}" if n in one.found else "missed"
        lines.append(f"{home.name}: {verdict} ({' | '.join(texts[id_] for id_ in planted.members)})")
    for reflection in one.false:
        members = " | ".join(texts.get(id_, "what nobody said") for id_ in reflection.members)
        lines.append(f"{home.name}: false: {reflection.essence} ({members})")
    return lines


def says_time(time: str, text: str) -> bool:
    """Tell whether a text has a time, HH:MM, give or take a quarter of an hour."""
    wanted = _minutes(*time.split(":"))
    told = [_minutes(*match.groups()) for match in _CLOCK.finditer(text)]
    return any(abs(minutes - wanted) <= _MINUTES for minutes in told)


def _minutes(hours: str, minutes: str) -> int:
    return 60 * int(hours) + int(minutes)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
