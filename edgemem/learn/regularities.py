"""Regularities: what several episodes of one readership have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from edgemem.context.compaction.model import check_summary
from edgemem.llama.tokens.estimate import EstimateTokenizer
from edgemem.recall.text.analyse import terms
from edgemem.store.episodes import READERS

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Tables

_TAGS = 5  # the most frequent ones are looked at
_MOST_FACTS, _MOST_CHARS = 20, 500  # of an extractor; a fact is one sentence
_NEAREST = 2  # episodes that must tell of what a fact is about
_SCOPES = f"select distinct {READERS} from episodes where kind = ? and {READERS} is not null"  # noqa: S608 - our own constant


def count_regularities(episodes: Sequence[Any], least: int) -> list[str]:
    """Return which tool most successes used, and how often tasks of a tag succeed, each of at least so many episodes.

    Episodes are Cognitia's. A tool or tag counts once in each; where no longer word is in so many of them, nothing is found.
    """
    texts = [(one.summary, *one.key_decisions, *one.tags) for one in episodes]
    words = ({word.lower() for text in some for word in text.split() if len(word) > 3} for some in texts)
    if max(Counter(word for some in words for word in some).values(), default=0) < least:
        return []
    successes = [one for one in episodes if one.outcome == "success"]
    regularities = []
    tools = Counter(tool for one in successes for tool in dict.fromkeys(one.tools_used))
    for tool, count in tools.most_common(1):
        if count >= least:
            regularities.append(f"Tool '{tool}' is frequently used in successful tasks")
    tags = Counter(tag for one in episodes for tag in dict.fromkeys(one.tags))
    for tag, count in tags.most_common(_TAGS):
        done = sum(tag in one.tags for one in successes)
        if done >= least:
            regularities.append(f"Tasks tagged '{tag}' succeed {done}/{count} times")
    return regularities


def check_facts(given: Iterable[object], episodes: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Return what an extractor found, at most 20 facts, and why others are not used.

    A fact is a sentence about something that two of the episodes tell of, and has no number, date or name that none of them has.
    """
    parts = [(one.summary, *one.key_decisions, *one.tags, *one.tools_used, one.outcome) for one in episodes]
    texts = [*map(". ".join, parts)]
    counts = Counter(term for text in texts for term in set(terms(text)))
    shared = {term for term, count in counts.items() if count >= _NEAREST}
    kept, faults = list[str](), list[str]()
    for fact in given:
        if not isinstance(fact, str) or len(fact) > _MOST_CHARS or len(kept) == _MOST_FACTS:
            faults.append(f"It is no sentence, or one of more than {_MOST_FACTS}.")
        elif shared.isdisjoint(terms(fact)):
            faults += [f"No {_NEAREST} episodes tell of it."] if fact.strip() else []
        elif refusal := check_summary(fact, texts, tokenizer=EstimateTokenizer(), max_tokens=_MOST_CHARS):
            faults.append(refusal.reason)
        elif fact.strip() not in kept:
            kept.append(fact.strip())
    return kept, faults


def readers_of(db: Tables, kind: str) -> list[str]:
    """Return the scopes of those who may read episodes of a kind; none of what is the operator's alone."""
    return [scope for (scope,) in db.query(_SCOPES, (kind,))]
