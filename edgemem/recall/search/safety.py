"""Safety: what may hurt somebody who speaks or listens, found without a word of the question.

Docs that tell of an allergy, a medicine or harm to a body have a flag in the index (see `docs`). Those about the speaker stand before the
model whenever somebody speaks; those about who else listens, and then the household's, where food, drink, medicine, plants or
cleaning agents come up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.preload import np
from edgemem.recall.index.docs import OWN, SAFETY, SURE
from edgemem.recall.index.sources import FACT, KINDS, PREFERENCE, TURN
from edgemem.recall.people.names import parsed_name
from edgemem.recall.text.analyse import only_asks, terms
from edgemem.scopes import name_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.recall.index.view import QueryView
    from edgemem.records import Reader, Recalled

    Slots = NDArray[np.intp]
    Mask = NDArray[np.bool_]

_OWN, _OTHERS, _FACTS = 6, 4, 20
"""So many messages about the speaker, and about others, have a line; of facts, which are short, more."""
_MOST = 64
"""Docs that are read, the newest of each rank."""
_SAME_TURN_S = 60.0


class SafetyDoc(NamedTuple):
    """A doc that may hurt somebody, and whom."""

    kind: int
    ref: int
    rank: int
    """0: the speaker; 1: somebody else who listens; 2: others."""
    sure: bool


def safety_docs(view: QueryView, reader: Reader | None, keys: Collection[str]) -> list[SafetyDoc]:
    """Return the docs that a question may find and that concern somebody's safety: by rank, what is near or sure first, then the newest.

    Args:
        keys: further words of such facts' keys.
    """
    rows, n = view.table.rows, view.n
    flagged, sure = (rows["flags"][:n] & SAFETY) > 0, (rows["flags"][:n] & SURE) > 0
    if keys:
        facts = np.flatnonzero(np.isin(rows["kind"][:n], (FACT, PREFERENCE)))
        for key in keys:
            called = facts[_having(view, facts, terms(key))]
            flagged[called] = sure[called] = True
    slots = np.flatnonzero(flagged & view.findable[:n])
    if not len(slots):
        return []
    who = [] if reader is None else [name_key(name or "") for name in (reader.speaker, *reader.audience)]
    ranks = np.full(len(slots), 2)
    for name in filter(None, dict.fromkeys(reversed(who))):
        ranks[_concerns(view, slots, name)] = int(name != who[0])
    near = np.where(ranks > 0, view.words[slots] + view.cosines[slots], 0.0)
    order = np.lexsort((-rows["at"][slots], ~sure[slots], -near, ranks))
    chosen = np.concatenate([order[ranks[order] == rank][:_MOST] for rank in range(3)])
    kinds, refs = rows["kind"][slots[chosen]].tolist(), rows["ref"][slots[chosen]].tolist()
    return list(map(SafetyDoc, kinds, refs, ranks[chosen].tolist(), sure[slots[chosen]].tolist()))


def _concerns(view: QueryView, slots: Slots, name: str) -> Mask:
    """Tell which docs are about a person: those that name them, what they said of themselves, and their own facts."""
    table = view.table
    codes = [code for other, code in table.codes.items() if other and name_key(other) == name]
    own = np.isin(table.rows["who"][slots], codes) & ((table.rows["flags"][slots] & OWN) > 0)
    about = (table.facts.get(slot, (None, None))[0] or name for slot in slots.tolist())
    concerned: Mask = _names(view, slots, name) | (own & [name_key(subject) == name for subject in about])
    return concerned


def _names(view: QueryView, slots: Slots, name: str) -> Mask:
    """Tell which docs speak of somebody by name, and not only to them."""
    stems = frozenset(parsed_name(name).stems)
    named, called = _having(view, slots, stems), view.table.called
    spoken_to = [stems <= called.get(slot, frozenset()) for slot in slots[named].tolist()]
    named[named] = ~np.array(spoken_to, bool)
    return named


def _having(view: QueryView, slots: Slots, stems: Iterable[str]) -> Mask:
    """Tell which docs have all of some stems, of which there is at least one."""
    wanted = frozenset(stems)
    found = [np.isin(slots, having) for _, having, _ in view.table.find(wanted)]
    return np.logical_and.reduce(found) if found and len(found) == len(wanted) else np.zeros(len(slots), bool)


def with_safety(
    results: Sequence[Recalled],
    docs: Sequence[SafetyDoc],
    items: Mapping[tuple[int, int], Recalled],
    *,
    comes_up: bool,
    asked: bool,
) -> list[Recalled]:
    """Return what was found behind what is said of safety: the speaker's own, then, where it `comes_up`, that of others.

    What is less sure to be a danger waits until one comes up. Each thing is told once; left out are questions, the robot's own words,
    and the message in which a fact was told. What shall have a line scores 1, the rest 0. What else surely concerns others counts as
    found only by a word of what is `asked`.
    """
    first: list[Recalled] = []
    told_words: list[frozenset[str]] = []
    counts = [0, 0]
    for doc in sorted(docs, key=lambda doc: (doc.rank, doc.kind == TURN)):
        item = items.get((doc.kind, doc.ref))
        of_others = doc.rank > 0
        if item is None or item.source == "assistant" or not (comes_up or (doc.sure and not of_others)):
            continue
        # Without its mark, what the speaker says of themselves is rather taken for no question.
        if only_asks(item.text) and (of_others or item.text.rstrip()[-1] in "?？"):
            continue
        has_line = counts[of_others] < ((_OWN, _OTHERS)[of_others] if doc.kind == TURN else _FACTS)
        words, pairs = frozenset(terms(item.text)), zip(first, told_words, strict=True)
        if (has_line or doc.sure) and not any(_repeats(item, words, other, said) for other, said in pairs):
            told_words.append(frozenset(terms(item.value)) if item.value else words)
            counts[of_others] += 1
            score = float(has_line)
            first.append(msgspec.structs.replace(item, safety=True, score=score, why=("safety",)))
    told = {item.name for item in first}
    others = {f"{KINDS[doc.kind]}:{doc.ref}" for doc in docs if doc.rank > 0 and doc.sure}
    rest = (item for item in results if item.name not in told)
    return first + [item for item in rest if (asked and "words" in item.why) or item.name not in others]


def _repeats(item: Recalled, words: frozenset[str], other: Recalled, known: frozenset[str]) -> bool:
    """Tell whether an item only says what another one does, each with the words that tell it."""
    if item.kind != "turn":
        return False
    told_then = abs(item.recorded_at - other.recorded_at) <= _SAME_TURN_S
    return words == known or (other.value is not None and told_then and known <= words)
