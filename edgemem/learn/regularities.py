"""Regularities: what several episodes have in common, kept as facts of those who may read them.

Episodes of two readerships are never counted together: everybody, the household and each person have facts of their own. A fact has
an edge to each of its episodes, and goes with one that is erased (`store.erase`). What a person corrected is not learnt again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.context.compaction.model import check_summary
from edgemem.fence import storable
from edgemem.learn.learning import cursor_of, move_cursor
from edgemem.llama.tokens.estimate import EstimateTokenizer
from edgemem.recall.text.analyse import terms
from edgemem.scopes import person_of
from edgemem.store import facts
from edgemem.store.episodes import READERS, find_episodes, row_number
from edgemem.store.graph import STORED_EDGES, links_kept, put_row
from edgemem.store.rights import drop_unused
from edgemem.thoughts import EdgeRecord, EdgeType, KnowledgeSource

if TYPE_CHECKING:
    from edgemem.config import LearnerName
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Tables, Transaction

KIND = "episode"
"""The kind of what an agent stored, which tells it from what tools did."""
_COUNTED = "counted"
_LEAST, _FEWEST, _NEWEST = 2, 3, 50  # of a tool or tag; episodes; those looked at: Cognitia's defaults
_STAMP = "select coalesce(max(id), 0) + count(*) from episodes where kind = ?"
"""Changes with each episode that comes or goes."""
_TAGS = 5  # the most frequent ones are looked at
_PLAIN = re.compile(r"[a-z0-9_-]+(?: [a-z0-9_-]+){0,3}")
_MOST_FACTS, _MOST_CHARS = 20, 500  # of an extractor; a fact is one sentence
_NEAREST = 2  # episodes that must tell of what a fact is about
_KNOWN = """
  select k.key, k.id, f.id, f.value, f.source from fact_keys k join facts f on f.key_id = k.id
  where k.scope = :scope and k.key between :kind || '.' and :kind || '/' and f.id = f.origin
    and (f.value is not null or f.valid_from > -9e999) order by f.id
"""
_SCOPES = f"""
  select {READERS} from episodes where kind = :kind and {READERS} is not null
  union select scope from fact_keys where key between 'learnt.' and 'learnt/'
"""  # noqa: S608 - our own constant
_NUMBER = f"select id from episodes where (name = :name or id = :id) and {READERS} = :scope"  # noqa: S608 - our own constant
_ENDS = "select target_id from stored_edges where source_id = ?"


class Regularity(NamedTuple):
    """A sentence about some episodes, by their ids; its name stays when a count in it changes."""

    text: str
    name: str
    sources: tuple[str, ...]


class _Lived(NamedTuple):
    """An episode with Cognitia's names, as far as something is counted in it."""

    id: str
    summary: str
    key_decisions: tuple[str, ...]
    tools_used: tuple[str, ...]
    outcome: str
    tags: tuple[str, ...]


class RegularityLearner:
    """Counts tools and tags in the newest episodes of each readership whenever one came or went."""

    name: LearnerName = "regularities"

    def __init__(self, database: Database) -> None:
        self._database = database

    def step(self, stop: Callable[[], bool]) -> bool:
        """Count anew, unless nothing has changed; tell whether something had."""
        before, stamp = cursor_of(self._database, self.name), self._database.query(_STAMP, (KIND,))[0][0]
        if before == stamp:
            return False
        for scope in readers_of(self._database, KIND):
            if stop():
                return True
            rows = find_episodes(self._database, n=_NEWEST, kind=KIND, readers=scope)
            lived = [
                _Lived(row.name or row.id, row.summary, row.decisions, row.tools, row.outcome, row.tags)
                for row in rows
            ]
            found = count_regularities(lived, _LEAST) if len(lived) >= _FEWEST else []
            self._database.write(partial(keep_regularities, scope=scope, found=found, kind=_COUNTED))
        self._database.write(partial(move_cursor, learner=self.name, before=before, after=stamp))
        return True


def count_regularities(episodes: Sequence[Any], least: int) -> list[Regularity]:
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
            text = f"Tool '{tool}' is frequently used in successful tasks"
            users = tuple(one.id for one in successes if tool in one.tools_used)
            regularities.append(Regularity(text, f"tool {tool}", users))
    tags = Counter(tag for one in episodes for tag in dict.fromkeys(one.tags))
    for tag, count in tags.most_common(_TAGS):
        done = sum(tag in one.tags for one in successes)
        if done >= least:
            text = f"Tasks tagged '{tag}' succeed {done}/{count} times"
            tagged = tuple(one.id for one in episodes if tag in one.tags)
            regularities.append(Regularity(text, f"tag {tag}", tagged))
    return regularities


def check_facts(given: Iterable[object], episodes: Sequence[Any]) -> tuple[list[Regularity], list[str]]:
    """Return what an extractor found, at most 20 facts, and why others are not used.

    A fact is a sentence about something that two of the episodes tell of, and has no number, date or name that none of them has.
    """
    parts = [(one.summary, *one.key_decisions, *one.tags, *one.tools_used, one.outcome) for one in episodes]
    texts, sources = [*map(". ".join, parts)], tuple(one.id for one in episodes)
    counts = Counter(term for text in texts for term in set(terms(text)))
    shared = {term for term, count in counts.items() if count >= _NEAREST}
    kept, faults = dict[str, Regularity](), list[str]()
    for fact in given:
        if not isinstance(fact, str) or len(fact) > _MOST_CHARS or len(kept) == _MOST_FACTS:
            faults.append(f"It is no sentence, or one of more than {_MOST_FACTS}.")
        elif shared.isdisjoint(terms(fact)):
            faults += [f"No {_NEAREST} episodes tell of it."] if fact.strip() else []
        elif refusal := check_summary(fact, texts, tokenizer=EstimateTokenizer(), max_tokens=_MOST_CHARS):
            faults.append(refusal.reason)
        else:
            text = fact.strip()
            kept.setdefault(text, Regularity(text, text, sources))
    return [*kept.values()], faults


def readers_of(db: Tables, kind: str) -> list[str]:
    """Return the scopes of those who may read episodes of a kind, or for whom something was learnt."""
    return [scope for (scope,) in db.query(_SCOPES, {"kind": kind})]


def keep_regularities(tx: Transaction, scope: str, found: Iterable[Regularity], *, kind: str) -> list[str]:
    """Have a scope's facts of a kind be these alone, changed in place; return what is news. One of an episode that is gone is left out."""
    rows = tx.execute(_KNOWN, {"scope": scope, "kind": f"learnt.{kind}"})
    theirs = {key for key, *_, source in rows if source != facts.LEARNT}
    known = {key: row for key, *row, _ in rows if key not in theirs}
    news = []
    for text, name, sources in found:
        key = f"learnt.{kind}.{_key_of(name)}"
        places = [{"name": source, "id": row_number(source), "scope": scope} for source in sources]
        ends = {f"episode:{number}" for place in places for (number,) in tx.execute(_NUMBER, place)}
        if key in theirs or len(ends) != len(sources):
            continue
        key_id, number, before = known.pop(key, (None, None, None))
        if before != storable(text):
            news.append(text)
        elif ends == {end for (end,) in tx.execute(_ENDS, (f"fact:{number}",))}:
            continue
        with links_kept(tx, [f"fact:{number}"]):  # what somebody marked
            if key_id is not None:
                facts.drop_key(tx, key_id)
            stated: dict[str, Any] = {"source": facts.LEARNT, "trust": facts.INFERRED, "scope": scope}
            new = facts.new_statement(tx, key, text, valid_from=tx.recorded / 1e6, **stated)
            fact = facts.assert_version(tx, *new, doubtful_below=0.0, number=number).thought_id
        tx.execute("delete from stored_edges where source_id = ?", (fact,))
        for end in sorted(ends):
            edge = EdgeRecord(
                edge_id=f"{fact}>{end}",
                from_thought_id=fact,
                to_thought_id=end,
                edge_type=EdgeType.CONSOLIDATED_FROM,
                weight=1 / len(ends),  # its share of the evidence: a missing one is noticed
                source=KnowledgeSource.DREAMING,
            )
            put_row(tx, STORED_EDGES, edge, level=new[1].level, owner=new[1].owner)
    for key_id, *_ in known.values():
        facts.drop_key(tx, key_id)
    drop_unused(tx, [person_of(scope)])
    return news


def _key_of(name: str) -> str:
    """Return a name as the end of a key: itself where it may be one, so that people can read it."""
    return name if _PLAIN.fullmatch(name) else blake2b(storable(name).encode(), digest_size=4).hexdigest()
