"""Docs: the rows of the index, one for each thing that can be recalled, with the words and traits of its text.

Vectors, of the text and not of its words, come from a queue, and stay unless the text changes. What tells of a danger is flagged
by its words, or by its vector when that is stored; `make lab ARGS=safety` learns both, and writes `safety.toml`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.languages.words import (
    Exact,
    all_words,
    endangers_speaker,
    in_any,
    is_safety_key,
    small,
    tells_of_safety,
)
from edgemem.preload import Pattern, np, preloaded
from edgemem.recall.index.file import FIRST_OTHER, get_meta, note_removals, set_meta
from edgemem.recall.index.sources import FACT, PREFERENCE, TURN, Doc, digest_of
from edgemem.recall.index.table import Row, Span
from edgemem.recall.index.vectors import dequeue, enqueue, move_vectors, remove_vectors
from edgemem.recall.people.names import called_in, names_in, people_in
from edgemem.recall.text.analyse import asks, language_in, plain_words, sentences_of, terms
from edgemem.recall.text.calendar import LIKELY
from edgemem.recall.text.phrases import mentions

if TYPE_CHECKING:
    from edgemem.recall.index.vectors import Vector
    from edgemem.store.db.transaction import Transaction

ASKS, SAYS_I, SAFETY, COUNTS, OWN, CHANGES, SUPPOSES, GREETS, SURE = 1, 2, 4, 8, 16, 32, 64, 128, 256
"""The text asks; says "I"; tells of safety; holds a number; what it tells of safety may be its speaker's or owner's; says that something is otherwise than before; only supposes what it tells; only greets; surely tells of safety."""
_OF_SAFETY = SAFETY | OWN | SURE

LEAST = {"things": 0.3, "danger": -1.5}
"""From these log odds on a text concerns safety; `tests/lab/tuning.md` tells what other values cost."""
_SURE = 1.5  # log odds beyond the least
_MOST_WORDS = 24
MOST_TIMES = 4
_ANNOTATED_CHARS = 2000
_GREETING_CHARS = 60
_DIGIT, _COMMA = re.compile(r"\d"), re.compile("[,;，；]")


class Annotations(NamedTuple):
    """The flags of a text, whom it speaks to, and its times."""

    flags: int = 0
    called: str = ""
    """Stems of those it speaks to by name, joined by spaces."""
    times: tuple[Span, ...] = ()


def annotate(text: str, at: float, zone: tzinfo | None = None) -> Annotations:
    """Find the traits of a text said at a time, seconds since the epoch, in a zone; None: this machine's."""
    text = text[:_ANNOTATED_CHARS]
    words = set(plain_words(text))
    known = _known()
    flags = ASKS * asks(text)
    flags |= SAYS_I * (not words.isdisjoint(known.speaker))
    flags |= CHANGES * known.changes.stand_in(small(text))
    flags |= SUPPOSES * _only_supposes(text)
    flags |= COUNTS * (bool(_DIGIT.search(text)) or not words.isdisjoint(known.counting))
    flags |= GREETS * bool(len(text) <= _GREETING_CHARS and known.greeting.fullmatch(small(text)))
    return Annotations(int(flags), called_by(text), _times(text, at, zone))


def _times(text: str, at: float, zone: tzinfo | None) -> tuple[Span, ...]:
    spans = mentions(text[:_ANNOTATED_CHARS], at, zone)[:MOST_TIMES]
    # The likeliest reading counts in full, as it does of a question.
    return tuple((span.begin, span.end, min(1.0, span.sure / LIKELY), span.every) for span in spans)


def _only_supposes(text: str) -> bool:
    """Tell whether what a text tells is supposed: a clause is but a hedge, or the first of each sentence has one, and no change is sure."""
    known, firsts = _known(), set()
    hedge, text = known.hedges.pattern, known.certain.pattern.sub(" ", small(text))
    for sentence in sentences_of(text) if hedge.search(text) else ():
        parts = _COMMA.split(sentence)
        clauses = [(bool(hedge.search(part)), len(terms(hedge.sub(" ", part)))) for part in parts]
        if (True, 0) in clauses:
            return True
        firsts.add(next((hedged for hedged, told in clauses if hedged or told > 1), None))
        firsts |= {False for part in parts if known.changes.stand_in(part) and not hedge.search(part)}
    return firsts.difference([None]) == {True}


def only_greets(text: str) -> bool:
    """Tell whether a text only greets, thanks, or says yes or no."""
    return len(text) <= _GREETING_CHARS and "?" not in text and _known().greetings.make_up(small(text))


class _Known(NamedTuple):
    changes: Exact
    hedges: Exact
    certain: Exact
    speaker: frozenset[str]
    counting: frozenset[str]
    greetings: Exact
    greeting: Pattern
    """Greetings, and perhaps to whom, in one word."""
    called: Pattern
    """A name at an end of a clause, set off by signs or after a greeting: called, not spoken about."""


@preloaded
def _known() -> _Known:
    languages = all_words().values()
    hails = in_any(lambda words: words.hails).items
    greetings = Exact(",".join((*hails, *in_any(lambda words: words.greetings).items)))
    greets = "|".join(map(re.escape, sorted(greetings.items, key=len, reverse=True)))
    named = (words.names.titles.plain() | words.names.kin.plain() for words in languages)
    titles = "|".join(sorted(frozenset().union(*named)))
    return _Known(
        in_any(lambda words: words.changes),
        in_any(lambda words: words.hedges),
        in_any(lambda words: words.certain),
        frozenset().union(*(words.speaker.plain() for words in languages)),
        frozenset().union(*(words.counting.plain() for words in languages)),
        greetings,
        Pattern(rf"\W*(?:(?:{greets})(?!\w)\W*)+(?:\w+\W*)?"),
        Pattern(
            rf"(?:^|[.!?,;]\s*|\b(?:{'|'.join(map(re.escape, hails))})[,!]?\s+)((?:(?:{titles})\.?\s)?[^\W\d_][\w'’-]*)\s*(?=[,.!?]|$)",
            flags=re.IGNORECASE,
        ),
    )


def called_by(text: str) -> str:
    """Return the stems of those whom a text speaks to by name and names nowhere else, joined by spaces."""
    called = [stem for name in _known().called.findall(text[:_ANNOTATED_CHARS]) for stem in terms(name)]
    if not called:
        return ""
    rest = set(terms(_known().called.sub(" ", text[:_ANNOTATED_CHARS])))
    return " ".join(dict.fromkeys(stem for stem in called if stem not in rest))


def add_rows(tx: Transaction, rows: Sequence[Row]) -> None:
    """Take docs in, under the next numbers of their kind; they were read before, so that no other writer of this file waits for that."""
    message, other = get_meta(tx, "last_message"), get_meta(tx, "last_other", FIRST_OTHER - 1)
    messages = [row for row in rows if row.kind == TURN]
    others = [row for row in rows if row.kind != TURN]
    numbered = [*enumerate(messages, message + 1), *enumerate(others, other + 1)]
    _add(tx, [row._replace(id=number) for number, row in numbered])
    set_meta(tx, "last_message", message + len(messages))
    set_meta(tx, "last_other", other + len(others))


def remove_doc(tx: Transaction, kind: int, ref: int) -> int | None:
    """Take a doc out with its words and vectors; return its number, if it was there."""
    rows = tx.execute("delete from docs where ref = ? and kind = ? returning id", (ref, kind))
    if not rows:
        return None
    number = int(rows[0][0])
    note_removals(tx, [number])
    dequeue(tx, [number])
    remove_vectors(tx, [number])
    return number


def replace_doc(tx: Transaction, doc: Doc, zone: tzinfo | None = None) -> None:
    """Take a changed doc in under its old number."""
    same = tx.execute(
        """
        select id, past, metadata from docs where ref = ? and kind = ? and level = ? and owner is ? and who is ? and digest = ?
        """,
        (doc.ref, doc.kind, doc.level, doc.owner, doc.who, digest_of(doc.text)),
    )
    if not same:
        number = remove_doc(tx, doc.kind, doc.ref)
        if number is None:
            add_rows(tx, [read_row(0, doc, zone)])
        else:
            _add(tx, [read_row(number, doc, zone)])
        return
    number, past, metadata = same[0]
    if metadata != doc.metadata:
        tx.execute("update docs set metadata = ? where id = ?", (doc.metadata, number))
        note_removals(tx, [number])
    if bool(past) == doc.past:
        return
    tx.execute("update docs set past = ? where id = ?", (int(doc.past), number))
    note_removals(tx, [number])
    # Its vectors stay, on the side where they do not crowd out facts that hold now.
    dequeue(tx, [number])
    if not move_vectors(tx, number, past=doc.past):
        enqueue(tx, [(number, doc.past)])


def read_row(number: int, doc: Doc, zone: tzinfo | None = None) -> Row:
    """Return the columns of a doc under a number; to find them takes .3 ms for a message of LoCoMo (one x86-64 core)."""
    if doc.kind == TURN:
        flags, called, times = annotate(doc.text, doc.at, zone)
    else:
        flags, called, times = 0, "", _times(doc.text, doc.at, zone)
    flags |= safety_flags(doc)
    names = names_in(doc.text)
    names |= {name for name in (doc.who, doc.subject and called_in(doc.text, doc.subject)) if name}
    return Row(
        number, doc.kind, doc.ref, doc.level, doc.owner, doc.who, doc.session_id, doc.turn, doc.at, int(doc.past), doc.subject,
        doc.relation, flags, called or None, msgspec.json.encode(times).decode() if times else None,
        msgspec.json.encode(sorted(names)).decode() if names else None, " ".join(terms(doc.text)), digest_of(doc.text),
        doc.metadata,
    )  # fmt: skip


class SafetyModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of features by name, `de:koch` for a word of German, and of the numbers of a vector; others weigh 0."""

    bias: float
    weights: dict[str, float]
    vector: tuple[float, ...] = ()
    languages: tuple[str, ...] = ()
    """Where the vector counts; in any other the words alone do."""

    def odds(self, features: Mapping[str, float], vector: Vector | None = None) -> float:
        """Return the log odds."""
        odds = self.bias + sum(self.weights.get(name, 0.0) * value for name, value in features.items())
        return odds if vector is None else odds + float((vector * np.array(self.vector, np.float32)).sum())


@preloaded
def _safety_models() -> dict[str, dict[str, SafetyModel]]:
    return msgspec.toml.decode(
        Path(__file__).with_name("safety.toml").read_text("utf-8"), type=dict[str, dict[str, SafetyModel]]
    )


def safety_odds(topic: str, text: str, vector: Vector | None = None, embedder: str = "") -> float:
    """Return the log odds, beyond the least, that a text concerns somebody's safety.

    Args:
        topic: `things`: food, drink, medicine, plants or cleaning agents come up; `danger`: it tells of harm to somebody's body.
        vector: the text's, of the embedder with this fingerprint.
    """
    if tells_of_safety(text):
        return math.inf
    models, features = _safety_models()[topic], safety_features(text)
    model = models.get(embedder.partition(":")[0], models["words"])
    if vector is None or len(model.vector) != len(vector) or language_in(text) not in model.languages:
        model, vector = models["words"], None
    return model.odds(features, vector) - LEAST[topic]


def safety_features(text: str) -> dict[str, float]:
    """Return a text's features by name: counts of its language's words of safety, whether it asks, its length, and its words."""
    language, written = language_in(text), small(text)
    known = all_words().get(language)
    lists = msgspec.structs.asdict(known.safety) if known and known.safety else {}
    if lists:  # what hurts nobody tells nothing
        written = lists["none"].pattern.sub(" ", written)
    words = plain_words(written)
    counts = {
        name: min(len({hit[0] for hit in lists[name].pattern.finditer(written)}), 2) if lists else 0
        for name in ("things", "acts", "harms", "tells", "speaker", "others")
    }
    return {
        "any": float(counts["things"] + counts["acts"] > 0), **counts, "asks": float(asks(text)),
        "length": min(len(words), _MOST_WORDS) / _MOST_WORDS, **{f"{language}:{word}": 1.0 for word in words},
    }  # fmt: skip


def safety_flags(doc: Doc, vector: Vector | None = None, embedder: str = "") -> int:
    """Return the flags of what a message or a fact tells of safety, by its vector of an embedder, or else by its words."""
    text, is_fact = doc.text[:_ANNOTATED_CHARS], doc.kind in (FACT, PREFERENCE)
    if not (is_fact or doc.kind == TURN):
        return 0
    keyed = is_fact and is_safety_key(text.partition(":")[0])
    odds = math.inf if keyed else safety_odds("danger", text, vector, embedder)
    if odds < 0:
        return 0
    own = not (doc.owner is None and doc.subject) if is_fact else endangers_speaker(text, language_in(text))
    if own is None:  # who names nobody tells of themselves, as Spanish and Chinese do
        own = not people_in(text)
    return SAFETY | OWN * own | SURE * (odds >= _SURE)


def set_safety_flags(tx: Transaction, flags: Iterable[tuple[int, int]]) -> None:
    """Let docs, by their numbers, have the flags of what their vectors tell of safety, in place of those by words or another embedder."""
    for number, bits in flags:
        tx.execute(
            "update docs set flags = flags & ~? | ? where id = ? and flags & ? <> ?",
            (_OF_SAFETY, bits, number, _OF_SAFETY, bits),
        )
        if tx.changes:
            note_removals(tx, [number])


def _add(tx: Transaction, rows: Sequence[Row]) -> None:
    columns, marks = ", ".join(Row._fields), ", ".join("?" * len(Row._fields))
    tx.executemany(f"insert into docs ({columns}) values ({marks})", rows)  # noqa: S608 - ours
    enqueue(tx, [(row.id, bool(row.past)) for row in rows])
