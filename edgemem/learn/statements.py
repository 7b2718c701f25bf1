"""Statements: facts that people tell by the way, found by extractors of the user's own.

Each new utterance of a recognised person is read by every extractor; without one nothing is read. What is learnt has its message as
evidence, by an edge with the span, the subject that the statement is about, the level of its turn, and less trust than what was stored on
purpose; the speaker of the old value corrects it. What a model kept of an utterance is enough: nothing more is learnt of that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.clock import local
from edgemem.errors import InvalidInputError
from edgemem.languages.words import all_words, small
from edgemem.learn.extraction import LISTS, MOST_CHARS, Statement, checked_statements
from edgemem.learn.learning import UNDONE, cursor_of, move_cursor
from edgemem.learn.lists import ListChange
from edgemem.recall.people.names import spelled, subject_of
from edgemem.recall.text.analyse import asks, language_in, plain_words, stop_words, terms
from edgemem.recall.text.phrases import mentions
from edgemem.records import Heard
from edgemem.scopes import name_key, scope_of
from edgemem.store.edges import put_edge
from edgemem.store.facts import INFERRED, TALK, assert_fact
from edgemem.store.rights import LEVELS
from edgemem.store.thoughts import put_mark, read_thoughts
from edgemem.thoughts import EdgeRecord, EdgeType

if TYPE_CHECKING:
    from edgemem.config import Settings
    from edgemem.learn.extraction import Extractor
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Tables, Transaction

_log = logging.getLogger(__name__)

_AT_ONCE = 6  # utterances of one step, of about 2 ms each
_DAY_S = 90_000.0  # the longest day
_LATELY = 120_000_000  # ticks of a second's millionth: an older line is no context
_RECENT_S = 7200.0  # a correction that names nothing corrects a time that was told since
_DEADLINE_S = 2.0  # of an extractor of the user's own
_SEVERAL = frozenset({"name", "like", "dislike", "danger", "goal"})
"""Kinds of which one person has many: another value gets a key of its own."""
_USUAL = {
    "en": {"like": "likes", "dislike": "dislikes", "danger": "danger", "allergy": "allergy", "goal": "goal", "list": "shopping list"},
    "de": {"like": "mag", "dislike": "mag nicht", "danger": "gesundheit", "allergy": "allergie", "goal": "ziel", "list": "einkaufsliste"},
}  # fmt: skip
"""What a fact of a kind is called where the words do not say."""
_BARE_LISTS = frozenset({"list", "liste", "zettel", "shopping", "einkauf"})
_SPEAKERS = frozenset({"like", "dislike", "danger"})
"""Kinds that are of the speaker, where nobody else is named."""
_WHOLE = frozenset(
    {"name", "like", "dislike", "danger", *LISTS}
)  # their values are names of things or people
_NAMED = ("place", "code", "appointment", "recurring", "correction")  # the line before may name their thing
_MOST_ASKED, _MOST_WORDS = 4, 6  # words of a question that names a thing, and of a thing
_ROW = """
  select m.id, m.content, t.speaker, t.level, t.owner, ifnull(t.event_time, t.recorded / 1e6), t.asr_confidence,
    exists (select 1 from facts f where f.id between t.recorded and t.first_message and f.source = 'llm' and f.speaker is t.speaker),
    (select p.content from messages p join turns b on b.session_id = p.session_id and b.n = p.turn
      where p.session_id = m.session_id and p.id < m.id and p.id > m.id - :lately and p.role in ('user', 'assistant')
        and b.level <= t.level and (b.owner is null or b.owner is t.owner) order by p.id desc limit 1)
  from messages m join turns t on t.session_id = m.session_id and t.n = m.turn and t.utterance = m.id
  where m.dropped is null and
"""
_HELD = """
  select f.id, k.key, f.value, f.json, f.speaker, f.trust, f.origin, f.valid_from, f.source from fact_keys k join facts f on f.key_id = k.id
  where k.scope = :scope and f.known_to is null and f.value is not null and f.valid_from <= :now and coalesce(f.valid_to, 9e999) > :now
    and f.level <= :level
"""
_SAME_VALUE = "select f.id from fact_keys k join facts f on f.key_id = k.id where k.scope = :scope and k.key = :key and f.value = :value and f.id = f.origin"


class _Utterance(NamedTuple):
    id: int
    text: str
    speaker: str | None
    level: int
    owner: str | None
    at: float
    confidence: float | None
    is_kept: bool
    """Whether a model has kept something of it."""
    before: str | None
    """The words just before, to the same people or to more."""

    @property
    def scope(self) -> str:
        """Return the scope of what it tells."""
        level = LEVELS[self.level]
        shared = {"shared": "global", "household": "household"}.get(level)
        return shared or scope_of(self.owner or name_key(self.speaker or ""))


class _Held(NamedTuple):
    """A fact that holds."""

    id: int
    key: str
    value: str
    json: str | None
    speaker: str | None
    trust: int
    origin: int
    since: float
    source: str


class StatementLearner:
    """Learns from what people say of themselves, their own and the household's."""

    name = "statements"

    def __init__(self, database: Database, settings: Settings, extractors: list[Extractor]) -> None:
        self._database, self._settings, self._extractors = database, settings, extractors

    def step(self, stop: Callable[[], bool]) -> bool:
        """Read the next utterances; tell whether there was any."""
        if not self._extractors:
            return False
        before = cursor_of(self._database, self.name)
        bound = {"after": before, "most": _AT_ONCE, "lately": _LATELY}
        rows = self._database.query(f"{_ROW} m.id > :after order by m.id limit :most", bound)
        for said in map(_Utterance._make, rows):
            if stop():
                break
            told = self._told(said)
            work = partial(self._learn, said=said, told=told, before=before)
            if not self._database.write(work):
                break  # another process is at it
            before = said.id
        return bool(rows)

    def _told(self, said: _Utterance) -> list[Statement]:
        """Return what an utterance states, of which something may be learnt."""
        certain = said.confidence is None or said.confidence >= self._settings.now.memory.doubtful_below
        if not said.speaker or not certain or said.is_kept or len(said.text) > MOST_CHARS:
            return []
        language, is_asked = language_in(said.text), asks(said.text)
        told = [one for other in [*self._extractors] for one in self._found_by(other, said.text, language)]
        return [one for one in told if one.kind in LISTS or not is_asked]

    def _found_by(self, extractor: Extractor, text: str, language: str) -> list[Statement]:
        try:
            return checked_statements(_in_time(extractor, text, language), text)
        except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
            _log.warning("%s found nothing: %s", type(extractor).__name__, error)
            if isinstance(error, TimeoutError):
                self._extractors.remove(extractor)
            return []

    def _learn(self, tx: Transaction, *, said: _Utterance, told: Sequence[Statement], before: int) -> bool:
        if not move_cursor(tx, self.name, before=before, after=said.id):
            return False
        # A person may have been forgotten, or renamed, since it was read.
        bound = {"id": said.id, "lately": _LATELY}
        for row in tx.query(f"{_ROW} m.id = :id", bound) if told else ():
            for one in told:
                self._keep(tx, _Utterance._make(row), one)
        return True

    def _keep(self, tx: Transaction, said: _Utterance, told: Statement) -> None:
        try:
            self._state(tx, said, told)
        except InvalidInputError as error:  # a key that is too long, a list that is none
            _log.warning("Nothing is learnt of message %d: %s", said.id, error)

    def _state(self, tx: Transaction, said: _Utterance, told: Statement) -> None:
        speaker = name_key(said.speaker or "")
        if not speaker:
            return
        held = _held(tx, said)
        day = self._day_of(told, said)
        if told.kind == "correction":
            old = _corrected(told, said, held)
            key = old.key if old else _key_of(told, said, speaker)
            day = day or (str(_metadata(tx, old).get("at", "")) if old and told.time else "")
        else:
            key = _known_spelling(_key_of(told, said, speaker), held)
            if told.kind in _SEVERAL:
                key = _free_key(key, told.value, held)
            old = next((one for one in held if one.key == key), None)
        if not key:
            return
        value: Any = told.value
        if told.kind in LISTS:
            value = _changed(old, told)
            if value is None:
                return
        if _was_undone(tx, said.scope, key, value):
            return
        # The speaker of the old value has its trust in correcting it.
        own = old.trust if old and name_key(old.speaker or "") == speaker else INFERRED
        outcome = assert_fact(
            tx,
            key,
            value,
            scope=said.scope,
            source=TALK,
            valid_from=None if old else said.at,
            trust=max(own, INFERRED),
            heard=Heard(said.speaker, asr_confidence=said.confidence, event_time=said.at),
        )
        if not outcome.thought_id or not outcome.is_news:
            return
        if day:
            put_mark(tx, outcome.thought_id, metadata={"at": day})
        put_edge(
            tx,
            EdgeRecord(
                edge_id=f"learnt {outcome.thought_id} {said.id}",
                from_thought_id=outcome.thought_id,
                to_thought_id=f"turn:{said.id}",
                edge_type=EdgeType.DERIVED_FROM,
                metadata={"begin": told.begin, "end": told.end},
            ),
        )

    def _day_of(self, told: Statement, said: _Utterance) -> str:
        """Return the one coming day that a statement names; empty: none, or it comes again."""
        if told.kind not in ("appointment", "correction", "goal"):
            return ""
        zone = self._settings.now.time.tzinfo()
        words = small(told.time or told.value)
        spans = [
            span for span in mentions(said.text, said.at, zone) if span.text and small(span.text) in words
        ]
        for span in sorted(spans, key=lambda span: -span.sure):
            day = local(span.begin, zone)
            if span.every or span.end - span.begin > _DAY_S or day.date() < local(said.at, zone).date():
                continue
            return f"{day:%Y-%m-%d}"
        return ""


def _held(db: Tables, said: _Utterance) -> list[_Held]:
    """Return the facts that hold for those who may read an utterance, the newest first."""
    bound = {"scope": said.scope, "now": said.at, "level": said.level}
    return sorted(map(_Held._make, db.query(_HELD, bound)), key=lambda one: -one.id)


def _metadata(db: Tables, held: _Held) -> dict[str, Any]:
    name = f"fact:{held.origin}"
    thought = read_thoughts(db, [name]).get(name)
    return thought.metadata if thought else {}


def _key_of(told: Statement, said: _Utterance, speaker: str) -> str:
    """Return the key of a statement: whose it is, and what; empty: it does not say."""
    language, before = language_in(said.text), said.before or ""
    usual = _USUAL.get(language, _USUAL["en"])
    thing = _bare_words(told.thing, language)
    is_answer = not thing and told.kind in _NAMED
    if told.kind in LISTS and not _is_cut(told.value, language):
        return "_".join(usual["list"].split() if not thing or {*thing} <= _BARE_LISTS else thing)
    if is_answer and asks(before):
        asked = [word for word in _bare_words(before, language) if word not in stop_words(language)]
        thing = asked if len(asked) <= _MOST_ASKED else []
    elif told.kind == "danger" and "allerg" in small(said.text):
        thing = [usual["allergy"]]
    elif told.kind in usual and (told.kind != "like" or not thing):
        thing = usual[told.kind].split()
    if not thing or (told.kind in _WHOLE and _is_cut(told.value, language)):
        return ""
    whose = _whose(told, language, speaker, before if is_answer else said.text)
    words = all_words().get(language, all_words()["en"])
    if told.owner and words.others.make_up(small(told.owner)):
        return ""  # nobody knows who that is
    if told.kind in _SPEAKERS and not told.owner and not words.speaks_of_itself(small(said.text)):
        about = subject_of(said.text, "_".join(thing), told.value, speaker)
        if about.about == "other" and not about.name:
            return ""  # the extractor has overlooked whose it is
        whose = (about.name,) if about.about == "other" and about.name else whose
    return ".".join((*whose[:1], "_".join((*whose[1:], *thing))))


def _is_cut(value: str, language: str) -> bool:
    """Tell whether a value ends before what it names: two tins of."""
    return not (words := plain_words(value)) or words[-1] in stop_words(language)


def _bare_words(text: str, language: str) -> list[str]:
    """Return the words of a thing, without an article or whose it is before it."""
    words = [word.strip(".,;:!?\"'“”„’") for word in small(text).split()]
    words = [word.removesuffix("'s").removesuffix("’s") for word in words if word]
    while words and words[0] in stop_words(language):
        words = words[1:]
    return words[:_MOST_WORDS]


def _whose(told: Statement, language: str, speaker: str, text: str) -> tuple[str, ...]:
    """Return the name, and perhaps the relation, of whom a statement is about, by the words that name the thing; none: of the household."""
    words = all_words().get(language, all_words()["en"])
    own, my = (speaker.replace(" ", "_"),), {*words.my.items}
    if told.owner:
        first, *rest = small(told.owner).removesuffix("'s").split()
        if first in my:
            return (*own, "_".join(rest)) if rest else own
        named = [word for word in (first, *rest) if word not in _words_before_names(language)] or [first]
        return ("_".join(named),)
    text = small(text)
    at = text.find(small(told.thing)) if told.thing else -1
    around = {*small(told.thing).split(), *(text[:at].split()[-2:] if at > 0 else ())}
    if told.kind in _SPEAKERS or around & my:
        return own
    if (
        not told.thing
        and told.kind in _NAMED
        and any(word.startswith(words.you.items) for word in text.split())
    ):
        return own  # said before: your viva is at two
    is_plan = told.kind in ("appointment", "recurring", "goal") and words.speaks_of_itself(text)
    return own if is_plan and not (told.kind == "goal" and words.we.stand_in(text)) else ()


def _words_before_names(language: str) -> frozenset[str]:
    """Return words that may stand before a name and are none: Mrs, the."""
    words = all_words().get(language, all_words()["en"])
    return frozenset(
        (*words.names.titles.words, *words.names.other_titles.words, *words.determiners.items, "the")
    )


def _known_spelling(key: str, held: Iterable[_Held]) -> str:
    """Return the key under which the same thing of the same person is known."""
    return next((one.key for one in held if spelled(one.key) == spelled(key)), key)


def _free_key(key: str, value: str, held: Sequence[_Held]) -> str:
    """Return a key that has this value, or else none."""
    taken = {one.key: one.value for one in held}
    keys = [key, *(f"{key}_{n}" for n in range(2, 100))]
    return next((one for one in keys if small(taken.get(one, value)) == small(value)), key)


def _corrected(told: Statement, said: _Utterance, held: Sequence[_Held]) -> _Held | None:
    """Return the fact that a correction is about: of its thing, of the line before, or the newest time that was told."""
    for words in (told.thing, said.before or ""):
        named = {*terms(words)}
        shared = [(len(named & {*terms(one.key.replace("_", " ").replace(".", " "))}), one) for one in held]
        most = max((count for count, _ in shared), default=0)
        if named and most:
            return next(one for count, one in shared if count == most)
    if told.thing or not told.time:
        return None
    return next((one for one in held if one.source == TALK and said.at - one.since < _RECENT_S), None)


def _was_undone(db: Tables, scope: str, key: str, value: Any) -> bool:
    """Tell whether somebody took this back."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    rows = db.query(_SAME_VALUE, {"scope": scope, "key": key, "value": text})
    known = read_thoughts(db, [f"fact:{number}" for (number,) in rows])
    return any(thought.metadata.get(UNDONE) for thought in known.values())


def _changed(held: _Held | None, told: Statement) -> list[str] | None:
    """Return the items of a list after a change; None: it stays as it is."""
    items = [told.value]
    change = ListChange(add=items) if told.kind == "list_add" else ListChange(remove=items)
    changed = change(
        None if held is None else held.value if held.json is None else msgspec.json.decode(held.json)
    )
    return None if change.present or change.missing else changed


def _in_time(extractor: Extractor, text: str, language: str) -> object:
    """Return what an extractor finds; raise what it raises, and TimeoutError where it hangs."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((extractor.extract(text, language), None))
        except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
            found.append((None, error))

    thread = threading.Thread(target=run, daemon=True, name="edgemem extractor")
    thread.start()
    thread.join(_DEADLINE_S)
    if not found:
        raise TimeoutError(f"it took more than {_DEADLINE_S:g} s; it is not asked again")
    result, error = found[0]
    if error is not None:
        raise error
    return result
