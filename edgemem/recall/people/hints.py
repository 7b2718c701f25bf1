"""Hints: names and terms that a speech recogniser should expect, by what matters now.

People first; then subjects and words of the newest facts, and names in recent turns, weighed by how rare, how often and how long
ago. Common words, which every recogniser knows, are left out. A bounded number of rows is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from edgemem.languages.words import function_words
from edgemem.preload import Pattern
from edgemem.recall.text.analyse import stem
from edgemem.recall.text.lexicon import common_words
from edgemem.records import Reader
from edgemem.store.episodes import spell_out
from edgemem.store.graph import MESSAGE_LEVEL
from edgemem.store.rights import reading_rule

if TYPE_CHECKING:
    from edgemem.store.db.database import Database

SOMEBODY_HERE = Reader("somebody", frozenset({"somebody", "somebody else"}))
"""Reads what any of the household may, and nothing private: who is going to speak is not known yet."""

_DAY_S = 86400.0
_FACT_HALF_LIFE_S, _TURN_HALF_LIFE_S = 30 * _DAY_S, 3 * _DAY_S
_LOOKED_AT = 2000  # most rows of a table that are read to find a few hundred that the reader may read
_LONGEST_TEXT, _LONGEST_WORD = 400, 40

# Added to a score by an occurrence.
_PERSON, _SUBJECT, _NAME, _NAME_SPOKEN, _RARE = 20.0, 2.5, 2.0, 1.5, 1.0
_FIRST_WORD, _KEY = 0.5, 0.5

# One step in the index of (scope, key) reaches each scope, however many facts there are.
_PEOPLE = """
  with recursive people (scope) as (
    select min(scope) from fact_keys where scope > 'user:' and scope < 'user;'
    union all
    select (select min(scope) from fact_keys where scope > people.scope and scope < 'user;') from people
      where scope is not null
    limit 256)
  select substr(p.scope, 6) from people p where p.scope is not null and exists (
    select 1 from (select id from fact_keys where scope = p.scope limit 64) k
      cross join facts f on f.key_id = k.id and f.known_to is null where f.value is not null and {rule})
"""
_FACTS = """
  select k.key, f.value, f.speaker, f.origin / 1e6 from (select * from facts order by id desc limit :rows) f
    cross join fact_keys k on k.id = f.key_id
  where f.known_to is null and f.value is not null and f.valid_from <= :now
    and coalesce(f.valid_to, 9e999) > :now and {rule}
  limit 300
"""
_TURNS = """
  select m.content, t.speaker, m.id / 1e6 from (select * from messages order by id desc limit :rows) m
    cross join turns t on t.session_id = m.session_id and t.n = m.turn
  where m.role in ('user', 'assistant') and m.content is not null and m.dropped is null and {rule}
  limit 160
"""

# A letter with the marks behind it in Indic scripts and Thai, which are no letters themselves.
_LETTER = r"[^\W\d_][\u0300-\u036f\u0900-\u0903\u093a-\u094f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]*"
# Numbers of types, addresses, keys of a service: nobody says the letters of one as a word. ASCII only: other scripts write
# a number beside a word without a space.
_CODE = Pattern(r"(?<![!-~])(?=[!-~]*(?:@|://|[A-Za-z][0-9]|[0-9][A-Za-z]))[!-~]+")
_CODE_LIKELY = Pattern(r"[0-9@]|://")
_WORD = Pattern(rf"(?:{_LETTER})+(?:[-'’](?:{_LETTER})+)*")


def statements(reader: Reader | None) -> dict[str, tuple[str, dict[str, object]]]:
    """Return SQL with bound values that reads people, facts and turns for a reader."""
    prepared = {}
    for name, sql, prefix in (("people", _PEOPLE, "f."), ("facts", _FACTS, "f."), ("turns", _TURNS, "t.")):
        level = MESSAGE_LEVEL.format(m="m") if name == "turns" else ""
        rule, values = reading_rule(reader, prefix, level=level)
        prepared[name] = sql.format(rule=rule), values
    return prepared


def find_hints(
    truth: Database, *, reader: Reader | None, now: float, names: Iterable[str] = (), limit: int = 60
) -> list[str]:
    """Return at most `limit` names and terms, the most important first.

    Terms come only from what `reader`, who is going to speak, may read; None is the operator. `now`: seconds since the epoch;
    `names`: further people who live here.
    """
    queries = statements(reader)
    heard = Tally()
    for name in names:
        heard.add_person(name)
    for (name,) in truth.query(*queries["people"]):
        heard.add_person(name)
    rows = {"now": now, "rows": _LOOKED_AT}
    sql, values = queries["facts"]
    for key, value, speaker, at in truth.query(sql, {**values, **rows}):
        heard.add_person(speaker)
        heard.add_fact(key, value, _fresh(now - at, _FACT_HALF_LIFE_S))
    sql, values = queries["turns"]
    for content, speaker, at in truth.query(sql, {**values, **rows}):
        heard.add_person(speaker)
        heard.add_turn(content, _fresh(now - at, _TURN_HALF_LIFE_S))
    return heard.best(limit)


class Tally:
    """Sums up each word's weight, in its first spelling."""

    def __init__(self) -> None:
        self._scores: dict[str, float] = {}
        self._spelled: dict[str, str] = {}

    def add_person(self, name: str | None) -> None:
        """Add a speaker's name, if known; it counts even where it is a common word."""
        for word in _spoken(name or "")[:4]:
            self._scores[word.casefold()] = max(_PERSON, self._scores.get(word.casefold(), 0.0))
            self._spelled.setdefault(word.casefold(), word if word[0].isupper() else word.title())

    def add_fact(self, key: str, value: str, fresh: float) -> None:
        """Add subject, relation and value of a fact."""
        head, _, rest = key.removeprefix("user.").partition(".")
        is_name = bool(rest) and not any(letter.isdigit() for letter in head)  # sensor_12 is a machine's
        for word in _spoken(spell_out(head)):
            # A key of several parts mostly begins with a name, which keys write small.
            self._add(word.title() if is_name else word, (_SUBJECT if is_name else _KEY) * fresh)
        for word in _spoken(spell_out(rest)):
            self._add(word, _KEY * fresh)
        for word in _spoken(value):
            self._add(word, (_RARE if word.islower() else _NAME) * fresh)

    def add_turn(self, content: str, fresh: float) -> None:
        """Add the names in a message."""
        for word, start in _words(content):
            if not word.islower():
                self._add(word, (_FIRST_WORD if _begins(content, start) else _NAME_SPOKEN) * fresh)

    def best(self, limit: int) -> list[str]:
        """Return the words with the most weight."""
        ranked = sorted(self._scores, key=lambda word: (-self._scores[word], word))
        return [self._spelled[word] for word in ranked[: max(limit, 0)]]

    def _add(self, word: str, score: float) -> None:
        folded = word.casefold()
        if folded in self._scores or not _is_common(folded):
            self._scores[folded] = self._scores.get(folded, 0.0) + score
            self._spelled.setdefault(folded, word)


def _words(text: str) -> Iterator[tuple[str, int]]:
    text = text[:_LONGEST_TEXT]
    if _CODE_LIKELY.search(text):
        text = _CODE.sub(lambda code: " " * len(code[0]), text)
    for match in _WORD.finditer(text):
        word = match[0]
        if not word.isascii() and any(letter.isdigit() for letter in word):
            continue  # such as ², which a pattern takes for a letter
        yield word[:-2] if word[-2:] in ("'s", "’s") else word, match.start()


def _spoken(text: str) -> list[str]:
    return [word for word, _ in _words(text)]


def _begins(text: str, start: int) -> bool:
    """Tell whether a sentence begins here, where every word has a capital."""
    before = text[max(0, start - 8) : start].rstrip(" \t\"'“”«»([-")
    return not before or before[-1] in ".!?…:;\n"


@lru_cache(maxsize=4096)
def _is_common(word: str) -> bool:
    """Tell whether a recogniser needs no hint for a word: everybody's, or too short or long."""
    least = 3 if word.isascii() else 2
    bare = re.split(r"['’]", word)[0] or word
    return not least <= len(word) <= _LONGEST_WORD or {bare, stem(bare)} & _common() != set()


@lru_cache(maxsize=1)
def _common() -> frozenset[str]:
    return common_words().union(map(stem, common_words()), function_words())


def _fresh(age_s: float, half_life_s: float) -> float:
    return float(max(0.1, 0.5 ** (max(0.0, age_s) / half_life_s)))
