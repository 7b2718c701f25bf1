"""Chains: what people said of one thing, in one sentence, the newest first, old values with until when.

A statement begins with a thing, or has one behind "the", "our" or "my" and no preposition: what else its clause says is the value, in its own
words. Statements of one readership whose things begin with the same rare word are of one thing, which is what all of them begin with.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.context.block.render import Today, told_as_chain
from edgemem.languages.words import Templates, WordSet, all_words
from edgemem.learn.learning import cursor_of, move_cursor
from edgemem.learn.reflections import Readership, Reflection, drop_reflections, put_reflection, reflection_id
from edgemem.preload import preloaded
from edgemem.recall.search.selection import TOLD_HERE
from edgemem.recall.text.analyse import asks, language_in, sentences_of, stem, stop_words, terms
from edgemem.scopes import name_key
from edgemem.store.db.transaction import bound, placeholders
from edgemem.store.pending_erasures import MOVE, last_forgotten

if TYPE_CHECKING:
    from edgemem.config import LearnerName, Settings
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Tables, Transaction

_RARE, _RARE_SHARE = 8, 0.005
"""So many messages of a readership, or so large a share of them, may hold a word that tells which thing is meant."""
_AT_ONCE, _MEMBERS, _SHOWN = 16, 8, 3  # messages of a step; of a chain, the newest; values in a sentence
_MOST_CHARS, _VALUE_CHARS, _LITTLE = (
    400,
    80,
    4,
)  # of a message; of a value; words beside them of what tells little
_SAID = """
  select m.id, m.content, t.level, t.owner, t.speaker, ifnull(t.event_time, t.recorded / 1e6) from messages m
  join turns t on t.session_id = m.session_id and t.n = m.turn and t.utterance = m.id
  where m.dropped is null and m.content <> '' and t.speaker is not null and ifnull(t.asr_confidence >= :doubtful, 1)
"""
_NEW = f"{_SAID} and m.id > :after order by m.id limit {_AT_ONCE}"
_WORD = re.compile(r"\w+(?:-\w+)*|['’](?:s|re|ve|m|d|ll)\b|[,;:()]|\s[–—-]\s")


class Statement(NamedTuple):
    """What a message says of a thing, in its own words."""

    words: tuple[str, ...]
    """Those that the thing begins with, and perhaps the value after them."""
    stems: tuple[str, ...]
    is_own: bool
    """Whether its speaker calls it "my"."""
    has_article: bool
    has_copula: bool
    """Either tells that it is a thing: an article before it, or "is" behind it."""
    before: str
    after: str
    """What is said before and behind these words: by its clause, and by its sentence."""

    def beginning_with(self, word: str) -> Statement | None:
        """Return it without the first of its words, where the second is this one; None: neither is."""
        if self.stems[0] == word:
            return self
        if self.stems[1:2] != (word,):
            return None
        return self._replace(words=self.words[1:], stems=self.stems[1:], has_article=False)


class Member(NamedTuple):
    """A message that says something of a thing."""

    id: int
    text: str
    speaker: str
    at: float
    said: Statement

    def value(self, length: int) -> str:
        """Return what it says of a thing of so many words."""
        rest = [*self.said.words[length:], self.said.after]
        return " ".join(filter(None, rest)) or self.said.before


class _Standing(NamedTuple):
    """Words of a language by what they do in a clause."""

    definite: WordSet
    own: WordSet
    others: WordSet
    """Before what is another's, or any: your, a."""
    places: WordSet
    """Before what tells where something else is."""
    copulas: WordSet
    joins: WordSet
    """Between two clauses."""
    conditions: WordSet
    """In a clause that says nothing of what is."""
    leads: WordSet
    """Before the thing, and saying nothing of it."""
    unreal: Templates
    """Phrases of what is told, made up or not so."""


@preloaded
def _standing() -> dict[str, _Standing]:
    """Return the words of each language that has them, by its code."""
    listed = {code: words.learning["chains"] for code, words in all_words().items() if words.learning}
    return {
        code: _Standing._make(
            [*(WordSet(words[name]) for name in _Standing._fields[:-1]), Templates(words["unreal"])]
        )
        for code, words in listed.items()
    }


def statements_in(text: str) -> list[Statement]:
    """Return what a message says of things; nothing of what it asks, supposes, quotes or tells as a story."""
    code = language_in(text)
    standing = _standing().get(code)
    if standing is None or len(text) > _MOST_CHARS:
        return []
    plain = text.replace("’", "'")
    if all_words()[code].hedges.stand_in(plain.lower()) or standing.unreal.stand_in(plain.lower()):
        return []
    return [
        statement
        for sentence in sentences_of(plain)
        if not asks(sentence)
        for clause, rest in _clauses(sentence, standing)
        if standing.conditions.words.isdisjoint(map(str.lower, clause))
        for statement in _in_clause(clause, rest, code, standing)
    ]


def _clauses(sentence: str, standing: _Standing) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each clause, and what its sentence says behind it."""
    clause: list[str] = []
    for hit in _WORD.finditer(sentence):
        word = hit[0].strip()
        if re.fullmatch(r"[,;:()–—-]", word) or word.lower() in standing.joins.words:
            yield clause, sentence[hit.end() :].strip(" .!")
            clause = []
        else:
            clause.append(word)
    yield clause, ""


def _in_clause(clause: Sequence[str], rest: str, code: str, standing: _Standing) -> Iterator[Statement]:
    """Yield what a clause says of the thing that it begins with, and of those behind an article."""
    small, stops = [word.lower() for word in clause], stop_words(code) | standing.leads.words
    bare = [word in stops or word.startswith("'") or not word[:1].isalpha() for word in small]
    at = 0
    while at < len(small):
        if bare[at]:
            at += 1
            continue
        end = at + sum(1 for _ in takewhile(lambda is_bare: not is_bare, bare[at:]))
        left = small[:at]
        article = left[-1:] and left[-1] in standing.definite.words
        # Behind a preposition it is where something else is; "a" and "your" tell of another one.
        begins = all(bare[:at]) and not any(
            word in standing.others.words | standing.places.words for word in left
        )
        stands = article and not (left[-2:-1] and left[-2] in standing.places.words)
        owned = small[end : end + 1] == ["'s"] and _is_person(small[end - 1], code)
        after = clause[end:]
        has_copula = bool(after) and after[0].lower() in standing.copulas.words
        while after and after[0].lower() in standing.copulas.words:
            after = after[1:]
        if (begins or stands) and not owned:
            yield Statement(
                tuple(clause[at:end]),
                tuple(stem(word, code) for word in small[at:end]),
                bool(left[-1:] and left[-1] in standing.own.words),
                bool(article),
                has_copula,
                " ".join(clause[: at - bool(article)]),
                ", ".join(filter(None, (" ".join(after), rest)))[:_VALUE_CHARS],
            )
        at = end


def _is_person(word: str, code: str) -> bool:
    words = all_words()[code]
    return bool(words.statements.people.stand_in(word)) or word in words.names.first.plain()


class ChainLearner:
    """Makes chains of what people say, some messages at a time.

    Which messages say something of which thing, within a readership, is kept in memory alone, and read anew when something was forgotten or
    people were moved. The cursor is the tick until which all chains are made; a kill before it was moved is as if none of them was.
    """

    name: LearnerName = "chains"

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings
        self._mark: tuple[int, object] = (-1, None)
        self._start()

    def _start(self) -> None:
        self._read = 0
        self._said = defaultdict[tuple[Readership, str], list[int]](list)
        self._held = defaultdict[Readership, Counter[str]](Counter)
        self._changed: dict[tuple[Readership, str], None] = {}

    def step(self, stop: Callable[[], bool]) -> bool:
        """Read some messages, or make the chains of a word; tell whether there was any."""
        db = self._database
        moved = db.query("select value from meta where key = ?", (MOVE,))
        mark = last_forgotten(db), moved[0][0] if moved else None
        cursor, newest = cursor_of(db, self.name), db.query("select max(id) from messages")[0][0] or 0
        if stop() or (max(newest, mark[0]) <= cursor and mark[1] == self._mark[1]):
            return False
        if mark != self._mark:
            self._mark = mark
            self._start()
        if self._read < newest:
            rows = self._rows(db, _NEW, {"after": self._read})
            for number, text, level, owner, *_ in rows:
                self._note(number, text, Readership.of(level, owner))
            self._read = rows[-1][0] if len(rows) == _AT_ONCE else newest
        elif self._changed:
            readers, word = next(iter(self._changed))
            db.write(partial(self._put, readers=readers, word=word))
            del self._changed[readers, word]
        else:
            db.write(partial(move_cursor, learner=self.name, before=cursor, after=max(newest, mark[0])))
        return True

    def _note(self, number: int, text: str, readers: Readership) -> None:
        code = language_in(text)
        words = {stem(word.lower(), code) for word in _WORD.findall(text)}
        self._held[readers].update({"", *words})
        for word in {word for said in statements_in(text) for word in said.stems[:2]}:
            self._said[readers, word].append(number)
        for word in words:
            if len(self._said.get((readers, word), ())) > 1:
                self._changed[readers, word] = None

    def _rows(self, db: Tables, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        return db.query(sql, {**values, "doubtful": self._settings.now.memory.doubtful_below})

    def _put(self, tx: Transaction, *, readers: Readership, word: str) -> None:
        held = self._held[readers]
        is_rare = held[word] <= max(_RARE, _RARE_SHARE * held[""])
        ids = self._said[readers, word][-_MEMBERS:] if is_rare else []
        sql = f"{_SAID} and m.id in ({placeholders(ids)})"
        members = [
            Member(number, text, speaker, at, said)
            for number, text, level, owner, speaker, at in self._rows(tx, sql, bound(ids))
            if Readership.of(level, owner) == readers
            for said in (said.beginning_with(word) for said in statements_in(text))
            if said is not None
        ]
        chains = chains_of(members)
        known = [
            reflection_id(self.name, readers, name)
            for name in (word, *(f"{who} {word}" for who in _speakers(members)))
        ]
        for name, chain in chains.items():
            put_reflection(tx, self.name, readers, self._reflection(name, chain))
            known.remove(reflection_id(self.name, readers, name))
        drop_reflections(tx, known)

    def _reflection(self, name: str, chain: list[Member]) -> Reflection:
        length = _shared([member.said.stems for member in chain])
        values = [(member.value(length), member.at) for member in reversed(chain)]
        same = groupby(values, key=lambda value: set(terms(value[0])) or value[0])
        runs = [first for _, run in same for first in [next(run)]][: -_SHOWN - 1 : -1]
        own = next((f"{member.speaker}'s " for member in chain if member.said.is_own), "")
        thing = " ".join(chain[0].said.words[:length])
        today = Today(runs[0][1], self._settings.now.time.tzinfo())
        brief = {
            f"turn:{member.id}": True
            for member in chain
            if len(terms(member.text)) <= len(terms(f"{thing} {member.value(length)}")) + _LITTLE
        }
        sources = tuple(f"turn:{member.id}" for member in chain)
        return Reflection(
            name, told_as_chain(f"{own}{thing}", runs, today), sources, chain[-1].at, {TOLD_HERE: brief}
        )


def chains_of(members: Sequence[Member]) -> dict[str, list[Member]]:
    """Return the statements of one word by the name of their thing, the newest first, one a message; one alone is no chain.

    What two people call theirs are two things, each with what its owner says.
    """
    owners = {name_key(member.speaker) for member in members if member.said.is_own}
    chains = defaultdict[str, dict[int, Member]](dict)
    for member in sorted(members, key=lambda member: (member.at, member.id), reverse=True):
        who = name_key(member.speaker)
        name = f"{who} {member.said.stems[0]}" if len(owners) > 1 and who in owners else member.said.stems[0]
        chains[name].setdefault(member.id, member)
    told = {name: _telling([*some.values()]) for name, some in chains.items()}
    return {
        name: chain
        for name, chain in told.items()
        if len(chain) > 1 and any(member.said.has_article or member.said.has_copula for member in chain)
    }


def _telling(chain: list[Member]) -> list[Member]:
    """Return the members that say something of their thing."""
    length = _shared([member.said.stems for member in chain])
    return [
        member for member in chain if terms(member.value(length)) or re.search(r"\d", member.value(length))
    ]


def _speakers(members: Sequence[Member]) -> set[str]:
    return {name_key(member.speaker) for member in members}


def _shared(runs: Sequence[tuple[str, ...]]) -> int:
    """Return how many words all of some begin with."""
    return sum(1 for _ in takewhile(lambda same: len(set(same)) == 1, zip(*runs)))  # noqa: B905 - the shortest ends it
