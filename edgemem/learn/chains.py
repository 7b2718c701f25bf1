"""Chains: what people said of one thing, in one sentence, the newest first, old values with until when.

A statement begins with a thing, or has one behind "the", "our" or "my" and no preposition: what else its clause says is the value, in its own
words. Statements of one readership whose things begin with the same rare word are of one thing, which is what all of them begin with. One that
leaves open which thing it means is left out where others do not, and so is a shed where the shed key is spoken of.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import dropwhile, groupby, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.context.block.render import Today, told_as_chain
from edgemem.languages.words import Templates, WordSet, all_words, number_words
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
"""So many messages of a readership, or so large a share, may hold a word that tells which thing is meant."""
_AT_ONCE, _MEMBERS, _SHOWN = 16, 8, 3  # messages of a step; of a chain, the newest; values in a sentence
_MOST_CHARS, _VALUE_CHARS, _LITTLE = 400, 80, 4  # of a message; of a value; words beside it that tell little
_SAID = """
  select m.id, m.content, t.level, t.owner, t.speaker, ifnull(t.event_time, t.recorded / 1e6) from messages m
  join turns t on t.session_id = m.session_id and t.n = m.turn and t.utterance = m.id
  where m.dropped is null and m.content <> '' and t.speaker is not null and ifnull(t.asr_confidence >= :doubtful, 1)
"""
_NEW = f"{_SAID} and m.id > :after order by m.id limit {_AT_ONCE}"
_WORD = re.compile(r"\d+(?:[.,:]\d+)+|\w+(?:-\w+)*|['’](?:s|re|ve|m|d|ll)\b|[,;:()]|\s[–—-]\s")


class Statement(NamedTuple):
    """What a message says of a thing, in its own words."""

    words: tuple[str, ...]
    """Those that the thing begins with, and perhaps the value after them."""
    stems: tuple[str, ...]
    is_own: bool
    """Whether its speaker calls it "my"."""
    is_thing: bool
    """Whether an article before it, or "is" behind it, tells that it is a thing."""
    is_doubtful: bool
    """Whether it may be another one than the household's, or nothing is said of it: the ladder of the neighbours, at school the piano is."""
    name_words: int
    """So many of the words are surely what it is called; those behind may be a verb."""
    before: str
    after: str
    """What is said before and behind these words: by its clause, and by its sentence."""
    modifier: str = ""
    """The stem before these words, where it begins with the second one."""

    def beginning_with(self, word: str) -> Statement | None:
        """Return it without the first of its words, where the second is this one; None: neither is."""
        if self.stems[0] == word:
            return self
        if self.stems[1:2] != (word,):
            return None
        return self._replace(
            words=self.words[1:],
            stems=self.stems[1:],
            is_thing=self.name_words == len(self.words),
            name_words=self.name_words - 1,
            modifier=self.stems[0],
        )


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
        return (" ".join(filter(None, rest)) or self.said.before).replace(" '", "'")


class _Standing(NamedTuple):
    """Words of a language by what they do in a clause."""

    definite: WordSet
    own: WordSet
    others: WordSet
    """Before what is another's, or any: your, a."""
    indefinite: WordSet
    """Those of them that a new one takes: a."""
    places: WordSet
    """Before what tells where something else is."""
    copulas: WordSet
    joins: WordSet
    """Between two clauses."""
    conditions: WordSet
    """In a clause that says nothing of what is."""
    leads: WordSet
    """Before the thing, and saying nothing of it."""
    genitives: WordSet
    """Between a thing and whose it is."""
    pronouns: WordSet
    """Before a verb, and behind one."""
    unreal: Templates
    """Phrases of what is told, made up or not so."""
    names: frozenset[str]
    """First names, in small letters."""


@preloaded
def _standing() -> dict[str, _Standing]:
    """Return the words of each language that has them, by its code."""
    return {
        code: _Standing._make(
            [
                *(WordSet(listed[name]) for name in _Standing._fields[:-2]),
                Templates(listed["unreal"]),
                words.names.first.plain(),
            ]
        )
        for code, words in all_words().items()
        if words.learning
        for listed in [words.learning["chains"]]
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
        is_condition = word.lower() in standing.conditions.words
        if is_condition or word[0] in ",;:()–—-" or word.lower() in standing.joins.words:
            yield clause, sentence[hit.start() :].strip(" ,;:()–—-.!")
            clause = [word] if is_condition else []
        else:
            clause.append(word)
    yield clause, ""


def _in_clause(clause: Sequence[str], rest: str, code: str, standing: _Standing) -> Iterator[Statement]:
    """Yield what a clause says of the thing that it begins with, and of those behind an article."""
    small, stops = [word.lower() for word in clause], stop_words(code) | standing.leads.words | number_words()
    bare = [word in stops or word.startswith("'") or not word[:1].isalpha() for word in small]
    places, others, does = standing.places.words, standing.others.words, standing.pronouns.words
    articles = standing.definite.words | others
    decisive = places | articles | does | standing.copulas.words
    unsaid = (places | others | standing.copulas.words) - standing.leads.words
    for run in [[*run] for is_bare, run in groupby(range(len(small)), bare.__getitem__) if not is_bare]:
        begin, end = run[0], run[-1] + 1
        # The word before that tells what the run is: a thing, where something is, or what somebody does.
        at = next((n for n in range(begin - 1, -1, -1) if not bare[n] or small[n] in decisive), -1)
        decides = small[at] if at >= 0 else ""
        if {*small[end : end + 1]} & (articles | does):
            end -= 1  # a verb, before its object
        is_new = end - begin > 1 and all_words()[code].changes.stand_in(small[begin])
        is_definite = decides in standing.definite.words or (is_new and decides in standing.indefinite.words)
        if at > 0 and decides == "'s" and _is_kin(small[at - 1], code):
            at -= 1  # mum's is the household's, my brother's is not
            is_definite = articles.isdisjoint(small[at - 1 : at])
        # Behind a preposition it is where something else is; "a" and "your" tell of another one.
        begins = all(bare[:begin]) and unsaid.isdisjoint(small[:begin])
        begin += is_new
        stands = is_definite and places.isdisjoint(small[at - 1 : at])
        owns = small[end : end + 1] == ["'s"] and not all(bare[end : end + 2])
        owns = owns and (small[end - 1] in standing.names or _is_kin(small[end - 1], code))
        if end == begin or decides in does or owns or not (begins or stands):
            continue
        before = clause[: at if is_definite else begin]
        after = [*dropwhile(lambda word: word.lower() in standing.copulas.words, clause[end:])]
        has_copula = len(after) < len(clause[end:])
        length = end - begin if has_copula else 1 if all_words()[code].compounds else end - begin - begins
        yield Statement(
            words=tuple(clause[begin:end]),
            stems=tuple(stem(word, code) for word in small[begin:end]),
            is_own=decides in standing.own.words,
            is_thing=is_definite or has_copula,
            is_doubtful=not standing.genitives.words.isdisjoint(small[end : end + 1])
            or (small[0] in places and not begins)
            or not (before or after or end - begin > 2 - all_words()[code].compounds),
            name_words=length,
            before=" ".join(before),
            after=", ".join(filter(None, (" ".join(after), rest)))[:_VALUE_CHARS],
        )


def _is_kin(word: str, code: str) -> bool:
    words = all_words()[code]
    people, safety = words.statements.people, words.safety
    return people.stand_in(word) or (safety is not None and safety.others.stand_in(word))


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
        db, mark = self._database, _mark(self._database)
        cursor, newest = cursor_of(db, self.name), db.query("select max(id) from messages")[0][0] or 0
        if stop() or (max(newest, mark[0]) <= cursor and mark[1] == self._mark[1]):
            return False
        if mark != self._mark:
            self._mark = mark
            self._start()
        if self._read < newest:
            rows = self._rows(db, _NEW, {"after": self._read})
            for number, text, level, owner, *_ in rows:
                self._note(number, text, Readership.from_rights(level, owner))
            self._read = rows[-1][0] if len(rows) == _AT_ONCE else newest
        elif self._changed:
            readers, word = next(iter(self._changed))
            self._mark = db.write(partial(self._put, readers=readers, word=word))
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

    def _put(self, tx: Transaction, *, readers: Readership, word: str) -> tuple[int, object]:
        """Make the chains of a word anew; return the mark, which what is dropped here moves."""
        before, held = _mark(tx), self._held[readers]
        is_rare = held[word] <= max(_RARE, _RARE_SHARE * held[""])
        ids = self._said[readers, word][-_MEMBERS:] if is_rare else []
        sql = f"{_SAID} and m.id in ({placeholders(ids)})"
        members = [
            Member(number, text, speaker, at, said)
            for number, text, level, owner, speaker, at in self._rows(tx, sql, bound(ids))
            if Readership.from_rights(level, owner) == readers
            for said in (said.beginning_with(word) for said in statements_in(text))
            if said is not None
        ]
        chains = chains_of(members)
        for name, chain in chains.items():
            put_reflection(tx, self.name, readers, self._reflection(name, chain))
        names = {word, *(f"{name_key(member.speaker)} {word}" for member in members)}
        drop_reflections(tx, [reflection_id(self.name, readers, name) for name in names - chains.keys()])
        return _mark(tx) if before == self._mark else self._mark

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


def _mark(db: Tables) -> tuple[int, object]:
    """Return what changes when something was forgotten or people were moved."""
    moved = db.query("select value from meta where key = ?", (MOVE,))
    return last_forgotten(db), moved[0][0] if moved else None


def chains_of(members: Sequence[Member]) -> dict[str, list[Member]]:
    """Return the statements of one word by the name of their thing, the newest first, one a message; one alone is no chain.

    What two people call theirs are two things, each with what its owner says.
    """
    owners = {name_key(member.speaker) for member in members if member.said.is_own}
    chains = defaultdict[str, dict[int, Member]](dict)
    for member in sorted(members, key=lambda each: (each.at, each.id, bool(each.value(1))), reverse=True):
        who = name_key(member.speaker)
        name = f"{who} {member.said.stems[0]}" if len(owners) > 1 and who in owners else member.said.stems[0]
        chains[name].setdefault(member.id, member)
    told = {name: _alike(_telling([*some.values()])) for name, some in chains.items()}
    return {name: chain for name, chain in told.items() if len(chain) > 1 and _is_thing(chain)}


def _is_thing(chain: Sequence[Member]) -> bool:
    """Tell whether statements are of a thing, and not of what things do, nor all of one with the same word before."""
    said = [member.said for member in chain]
    begun = sum(1 for each in said if not each.modifier and len(each.words) > 1)
    is_told = any(each.is_thing for each in said) or 2 * begun >= len(said)
    return is_told and (not said[0].modifier or len({each.modifier for each in said}) > 1)


def _alike(chain: list[Member]) -> list[Member]:
    """Return the members that surely mean the same thing, where several do; else all."""
    sure = [member for member in chain if not member.said.is_doubtful]
    chain = sure if len(sure) > 1 else chain
    names = Counter(member.said.stems[:2] for member in chain)
    longer = {each.said.stems[:2] for each in chain if each.said.name_words > 1 < names[each.said.stems[:2]]}
    return [member for member in chain if not longer or member.said.stems[:2] in longer]


def _telling(chain: list[Member]) -> list[Member]:
    """Return the members that say something of their thing."""
    length = _shared([member.said.stems for member in chain])
    return [each for each in chain if terms(each.value(length)) or re.search(r"\d", each.value(length))]


def _shared(runs: Sequence[tuple[str, ...]]) -> int:
    """Return how many words all of some begin with."""
    return sum(1 for _ in takewhile(lambda same: len(set(same)) == 1, zip(*runs)))  # noqa: B905 - the shortest ends it
