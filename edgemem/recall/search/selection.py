"""Selection: the best items of each group of kinds, read from the truth until there are enough, without mere repetitions.

Echoes only repeat the question, copies another message. Who asks again wants the answer, not the memory of the first time, and
three equal messages tell one thing: neither changes the score of any other candidate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.languages.words import all_words, small
from edgemem.recall.index.docs import called_by
from edgemem.recall.index.sources import KINDS
from edgemem.recall.text.analyse import (
    MOST_ASKED,
    NOTHING,
    POINTS,
    Analysis,
    analyse,
    language_in,
    only_asks,
    read_utterance,
    sentences_of,
    terms,
    without_politeness,
)
from edgemem.recall.text.lexicon import list_words
from edgemem.store.episodes import spell_out
from edgemem.thoughts import EdgeType

if TYPE_CHECKING:
    from edgemem.recall.query import ParsedQuery
    from edgemem.recall.results import Rows
    from edgemem.recall.search.ranking import Hit, Ranking
    from edgemem.records import Kind, Recalled

_REPEATED = ("turn", "episode")  # kinds that may hold copies
EDGE_SHARE = 0.5
"""The share of its score that an item hands over an edge of weight 1. Less finds less of what hangs by an edge; more tells more beside answers
that need none (`make lab ARGS="hops --share .8"`)."""
TOLD_HERE = "told_here"
"""In the metadata of a sentence that learning made: the names of the records that say little else, so that it takes their place."""
_LEAST, _MORE = 10, 4
"""Least items read to find echoes and copies, and the growth factor while too few are left."""


class Echoes:
    """Finds the echoes of a question among messages, and copies of those and of episodes."""

    def __init__(self, query: ParsedQuery) -> None:
        self._timed = bool(query.times)
        # One recall looks at most items several times.
        self._read = cache(read_utterance)
        self._is_echo = cache(
            partial(_is_echo, read_utterance(query.whole.text).words, frozenset(query.whole.terms()))
        )

    def is_echo(self, item: Recalled) -> bool:
        """Tell whether a message only asks the same, perhaps with politeness and the name of the one addressed."""
        return item.kind == "turn" and self._is_echo(item.text)

    def wording(self, item: Recalled) -> str:
        """Return the words that a message or an episode shares with its copies; the name of an item that can have none."""
        if item.kind == "episode":
            return f"{item.kind} {item.text}"
        may_repeat = item.kind == "turn" and len(item.text) <= MOST_ASKED
        return self._read(item.text).words if may_repeat else item.name

    def copies(self, pairs: Iterable[tuple[Hit, Recalled]]) -> list[Hit]:
        """Return hits that repeat a better one: the newer, or, for a question with a time, the higher ranking.

        A text that says "I" is a copy only of the same speaker's.
        """
        alike: defaultdict[str, list[tuple[Hit, Recalled]]] = defaultdict(list)
        for hit, item in pairs:
            alike[self.wording(item)].append((hit, item))
        copies = []
        for same in alike.values():
            if len(same) > 1:
                text = same[0][1].text
                words = all_words().get(language_in(text))
                personal = words is None or words.speaks_of_itself(small(text))
                if not self._timed:
                    same.sort(key=lambda pair: pair[1].event_time or pair[1].recorded_at, reverse=True)
                best: dict[str | None, Recalled] = {}
                copies += [
                    hit
                    for hit, item in same
                    if best.setdefault(item.speaker if personal else None, item) is not item
                ]
        return copies


def _is_echo(question: str, stems: frozenset[str], text: str) -> bool:
    """Tell whether a text only asks a question, given by its words as from `read_utterance` and all its stems."""
    if len(text) > MOST_ASKED or text.rstrip()[-1:] in POINTS:
        return False
    # Most of the others end in a question, and tell something before: one sentence is read in a quarter of the time.
    if any(sentence[-1] in POINTS and terms(sentence) for sentence in sentences_of(text)):
        return False
    if read_utterance(text).words != question:
        message = analyse(text)
        own = set(message.terms())
        if own.isdisjoint(stems):
            return False
        if left := own.difference(stems):
            polite = terms(without_politeness(text, all_words().get(message.language)))
            if not left.intersection(polite) <= set(called_by(text).split()):
                return False
    return only_asks(text)


class Selection(NamedTuple):
    """The bounds of a group's items."""

    k: int
    """Besides known ones."""
    echoes: Echoes | None
    """Finds echoes and copies, which do not count for scores; None: they are items like any other."""
    least: float = 0.0
    """0 to 1."""
    exclude: frozenset[str] = frozenset()
    """Not these, as `kind:id`."""
    known: Collection[str] = ()
    """Returned beside the k others, as `kind:id`."""
    query: Analysis = NOTHING
    turns: frozenset[tuple[str | None, int | None]] = frozenset()
    """Not what was said in these, by session and number."""

    @property
    def says_list(self) -> bool:
        """Tell whether the query speaks of a list."""
        return list_words().stand_in(small(self.query.text))

    def named_lists(self, items: Iterable[Recalled]) -> frozenset[str]:
        """Return the names, `kind:id`, of the lists that the query names best; they are found however little they score."""
        asked, says_list = frozenset(self.query.terms()), self.says_list
        shares = {}
        for item in items:
            key = spell_out(item.key or (item.text.partition(":")[0] if item.kind == "note" else ""))
            stems = frozenset(terms(key))
            if (item.is_list and (says_list or stems <= asked)) or list_words().stand_in(small(key)):
                shares[item.name] = says_list + len(asked & stems)
        most = max(shares.values(), default=0)
        return frozenset(name for name, share in shares.items() if share == most > 0)


def best_of_groups(
    ranking: Ranking, groups: Sequence[Iterable[Kind]], rows: Rows, selection: Selection
) -> list[list[Recalled]]:
    """Return the best items of each group, in order; inside, messages come first: leaving out echoes changes all scores."""
    chosen = [frozenset(group) for group in groups]
    best = {
        group: _best_of_group(ranking, group, rows, selection)
        for group in sorted(set(chosen), key=lambda group: "turn" not in group)
    }
    return [best[group] for group in chosen]


def with_linked(
    groups: Sequence[Sequence[Recalled]], kinds: Sequence[Collection[Kind]], rows: Rows, selection: Selection
) -> list[list[Recalled]]:
    """Return groups of results, each with what a stored edge links to any result; `kinds` are those of each group."""
    scores = {item.thought_id: item.score for group in groups for item in group if item.score > 0}
    handed: dict[str, float] = {}
    edges = rows.edges([*scores]) if scores else []
    if not edges:
        return [[*group] for group in groups]
    for edge in edges:
        for near, far in (edge.ends, edge.ends[::-1]):
            score = EDGE_SHARE * min(edge.weight, 1.0) * scores.get(near, 0.0)
            learnt = edge.edge_type is EdgeType.CONSOLIDATED_FROM and far == edge.from_thought_id
            if score > 0 and (learnt or score >= selection.least):
                handed[far] = max(score, handed.get(far, 0.0))
    linked = {item.name: item for item in rows.shown([*handed])}
    for item in linked.values():
        # A sentence in the place of some messages is as likely to help as they are.
        told = (scores.get(name, 0.0) for name in told_here(item))
        handed[item.thought_id] = max(handed[item.thought_id], *told, 0.0)
    ranked = []
    for group, some in zip(groups, kinds, strict=True):
        items = {item.name: item for item in group}
        for name, item in linked.items():
            score, known = handed[item.thought_id], items.get(name, item)
            is_left_out = name in selection.exclude or (item.session, item.turn) in selection.turns
            if item.kind in some and score > known.score and score >= selection.least and not is_left_out:
                items[name] = msgspec.structs.replace(known, score=score, why=(*known.why, "edge"))
        best = sorted(items.values(), key=lambda item: (item.heard_badly, -item.score))
        counted = [item.name for item in best if item.name not in selection.known]
        left_out = frozenset(counted[selection.k :])
        ranked.append([item for item in best if item.name not in left_out])
    return ranked


def told_here(item: Recalled) -> Collection[str]:
    """Return the names of the records whose place an item takes."""
    names = item.metadata.get(TOLD_HERE) if item.kind == "thought" else None
    return names if isinstance(names, dict) else ()


def _best_of_group(
    ranking: Ranking, chosen: frozenset[Kind], rows: Rows, selection: Selection
) -> list[Recalled]:
    """Return the best items of some kinds; echoes and older copies do not count for the scores of the rest."""
    numbers = [number for number, kind in KINDS.items() if kind in chosen]
    echoes = None if chosen.isdisjoint(_REPEATED) else selection.echoes
    far = selection.k if echoes is None else max(selection.k, _LEAST)
    # Messages of low scores would count as echoes of the query, and change the scores of all others.
    least = 0.0 if echoes is None and selection.says_list else selection.least
    while True:
        best = _sort_ties(ranking.best(numbers, least=least), rows)
        others = (hit for hit in best if hit.name not in selection.exclude)
        pairs = _read(others, rows, far, selection.known, echoes)
        if echoes is not None:
            repeats = [hit.row for hit, item in pairs if hit.score > 0 and echoes.is_echo(item)]
            copies = [hit.row for hit in echoes.copies(pairs)]
            if repeats or copies:
                ranking.leave_out(repeats, copies)  # others take their places among as many
                continue
        selected = _select(ranking, pairs, selection)
        if len(selected) >= min(selection.k, len(pairs)) or len(pairs) < far:
            return selected
        far *= _MORE


def _sort_ties(hits: Iterable[Hit], rows: Rows) -> Iterator[Hit]:
    """Yield hits; of those with one score the more important first, then the confirmed, then as they came."""
    for score, same in groupby(hits, key=lambda hit: hit.score):
        tied = list(same)
        if score > 0 and len(tied) > 1:
            ranks = rows.importance([(hit.kind, hit.ref) for hit in tied])
            tied.sort(key=lambda hit: ranks[hit.kind, hit.ref])
        yield from tied


def _select(ranking: Ranking, pairs: Sequence[tuple[Hit, Recalled]], selection: Selection) -> list[Recalled]:
    """Return the first k items that score enough, with scores and reasons."""
    selected: list[Recalled] = []
    places = selection.k
    lists = selection.named_lists(item for _, item in pairs)
    # What was perhaps never said comes behind all that was.
    for hit, item in sorted(pairs, key=lambda pair: pair[1].heard_badly):
        if places <= 0:
            break
        named = hit.name in lists
        if hit.score < selection.least and not named:
            continue
        places -= hit.name not in selection.known
        selected.append(
            msgspec.structs.replace(item, score=hit.score, why=ranking.why(hit), named_list=named)
        )
    return selected


def _first_of(hits: Iterable[Hit], k: int, known: Collection[str]) -> Iterator[Hit]:
    """Yield the first k hits, and uncounted the known ones among them; take no more from an iterator."""
    for hit in hits:
        yield hit
        k -= hit.name not in known
        if not k:
            return


def _read(
    hits: Iterator[Hit], rows: Rows, k: int, known: Collection[str], echoes: Echoes | None
) -> list[tuple[Hit, Recalled]]:
    """Return the best hits still in the truth with their items, until k, besides known ones, echoes and copies, are there."""
    pairs: list[tuple[Hit, Recalled]] = []
    texts: set[str] = set()
    while len(texts) < k and (some := list(_first_of(hits, k, known))):
        items = rows.read([(hit.kind, hit.ref) for hit in some])
        for hit in some:
            item = items.get((hit.kind, hit.ref))
            if len(texts) == k:
                break
            if item is None:
                continue
            pairs.append((hit, item))
            if hit.name in known or (echoes is not None and hit.score > 0 and echoes.is_echo(item)):
                continue
            texts.add(hit.name if echoes is None else echoes.wording(item))
    return pairs
