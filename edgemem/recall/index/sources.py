"""Sources: the tables and files that can be recalled, and the text of each record.

Facts are taken as somebody said them (a row that is its own origin), not by the pieces into which corrections split them; talk by
the message, and by each session's newest summary; NOTES.md by the line, under its heading; the bank by the section.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.languages.words import small
from edgemem.recall.index.file import checked_value
from edgemem.recall.text.analyse import terms
from edgemem.recall.text.lexicon import list_words
from edgemem.records import Kind
from edgemem.store.db.transaction import bound, in_batches, placeholders
from edgemem.store.episodes import spell_out, text_of
from edgemem.store.graph import MESSAGE_LEVEL, SPEAKER, SUMMARIES
from edgemem.store.kinds import EPOCHS, FACTS, MESSAGES, PREFERENCES
from edgemem.store.kinds import KINDS as STORED
from edgemem.store.notes import MOST_CHARS, read_sections
from edgemem.store.rights import LEVELS
from edgemem.thoughts import traits_of

if TYPE_CHECKING:
    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.bank.rules import BankFile
    from edgemem.store.db.database import Database
    from edgemem.store.declaration import Kind as StoredKind
    from edgemem.store.notes import NotesFile

    T = TypeVar("T")

Stamp = tuple[int, int]

FACT, PREFERENCE, EPISODE, TURN, NOTE, SUMMARY, _, GOAL, BANK, THOUGHT = range(10)
KINDS: dict[int, Kind] = dict(enumerate(get_args(Kind)))
"""The kinds of docs by their numbers in the index."""

MAX_CHARS = 8000
_KIND_OF = {kind.table: kind for kind in STORED}


def checked_kinds(kinds: Collection[Kind] | None) -> Collection[Kind] | None:
    """Return the kinds to look for; raise InvalidInputError where one does not exist."""
    if kinds is None:
        return None
    known = ", ".join(KINDS.values())
    if isinstance(kinds, str) or not isinstance(kinds, Collection):
        raise InvalidInputError(f"kinds must be a set of some of {known}; write {{'fact'}}.")
    for kind in kinds:
        if kind not in KINDS.values():
            raise InvalidInputError(f"kinds has no {repr(kind)[:40]}; take some of {known}.")
    return kinds


_NOW_OR_LATER = """
  exists (select 1 from (
      select b.origin, b.valid_to from facts b where b.key_id = f.key_id and b.known_to is null
      order by b.valid_from desc limit 8) b
    where b.origin = f.id and coalesce(b.valid_to, 9e999) > :now)
"""
# Only the last eight intervals of each key: the others are over.

OVER = f"""
  select f.id from facts f where not {_NOW_OR_LATER} and f.id in (
    select g.origin from index_queue q join facts g on g.id = q.ref where q.kind = 'facts' and q.id > :after)
"""  # noqa: S608 - our own constant
"""The statements that are over now, among those behind a row of the index's queue."""

_FACTS = f"""
  k.scope, k.key, f.value, f.level, f.owner, f.speaker, f.event_time, not {_NOW_OR_LATER}
  from facts f join fact_keys k on k.id = f.key_id
  where f.id = f.origin and f.value is not null and
"""
_PREFERENCES = """
  f.scope, f.key, f.value, f.level, f.owner, f.recorded from preferences f where
"""
_MESSAGES = f"""
  f.session_id, f.turn, f.role, f.content, f.extra, {MESSAGE_LEVEL.format(m="f")}, t.owner,
    {SPEAKER.format(m="f")}, t.event_time
  from messages f join turns t on t.session_id = f.session_id and t.n = f.turn
  where f.role in ('user', 'assistant') and trim(f.content) <> '' and f.dropped is null and
"""
_SUMMARIES = f"""
  f.summary, f.level, f.owner, null, null from {SUMMARIES} f where not f.done and
"""


def _select(kind: StoredKind) -> str:
    """Return the select of a kind's docs: metadata, its own or its mark's, id, text columns, level, owner, person and time."""
    person = "f.speaker" if "speaker" in kind.names else "f.owner" if kind.doc != "summary" else "null"
    words = ", ".join(f"f.{column}" for column in kind.found_by)
    rest = f"{words}, f.level, f.owner, {person}, {kind.time('f')} from {kind.table} f where"
    marked = f"(select metadata from marks where subject = '{kind.doc}:' || f.id)"  # noqa: S608 - ours
    metadata = "f.metadata" if "metadata" in kind.names else marked
    return f"select {metadata}, f.id, {_READ.get(kind.table, rest)}"


class Doc(NamedTuple):
    """One thing that can be recalled."""

    kind: int
    ref: int
    """The id of its row in the truth; of a note, its text's hash."""
    text: str
    level: int
    owner: str | None
    who: str | None
    """The speaker, or the owner."""
    session_id: int | None = None
    turn: int | None = None
    at: float = 0.0
    """When it happened, or else was recorded; seconds since the epoch."""
    past: bool = False
    subject: str | None = None
    """Stems of the first part of a fact's key, if there are several,"""
    relation: str | None = None
    """and the words after it."""
    metadata: str | None = None
    """The traits of its metadata, one a line."""


class Source(NamedTuple):
    """A table of the truth that is recalled."""

    kind: int
    table: str
    select: str


_READ = {
    FACTS.table: _FACTS, PREFERENCES.table: _PREFERENCES, MESSAGES.table: _MESSAGES, EPOCHS.table: _SUMMARIES,
}  # fmt: skip
NUMBERS = {doc: number for number, doc in KINDS.items()}
SOURCES = tuple(Source(NUMBERS[kind.doc], kind.table, _select(kind)) for kind in STORED if kind.doc)

FACT_SOURCE = SOURCES[:1]


def newest_id(truth: Database, source: Source) -> int:
    """Return the highest id of a source; 0 if it is empty."""
    return int(truth.query(f"select coalesce(max(id), 0) from {source.table}")[0][0])  # noqa: S608 - ours


def read_between(truth: Database, source: Source, after: int, last: int, limit: int, now: float) -> list[Doc]:
    """Return the docs of rows after one id and up to another, oldest first."""
    sql = f"{source.select} f.id > :after and f.id <= :last order by f.id limit :limit"
    rows = truth.query(sql, {"after": after, "last": last, "limit": limit, "now": now})
    return [_doc(source, *row) for row in rows]


def read_newest(truth: Database, source: Source, after: int, limit: int, now: float) -> list[Doc]:
    """Return the docs of the newest rows after an id, oldest first."""
    sql = f"{source.select} f.id > :after order by f.id desc limit :limit"
    rows = truth.query(sql, {"after": after, "limit": limit, "now": now})
    return [_doc(source, *row) for row in reversed(rows)]


def read_docs(truth: Database, source: Source, refs: Iterable[int], now: float) -> dict[int, Doc]:
    """Return the docs of those rows that are still there, by id."""
    docs: dict[int, Doc] = {}
    for some in in_batches(sorted(refs)):
        rows = truth.query(f"{source.select} f.id in ({placeholders(some)})", {**bound(some), "now": now})
        docs.update((row[1], _doc(source, *row)) for row in rows)
    return docs


def fact_text(key: str, value: str) -> str:
    """Return a fact as people read it; `user.` before a key only repeats its scope."""
    return f"{spell_out(key.removeprefix('user.')) or key}: {value}"


def split_key(key: str) -> tuple[str | None, str | None]:
    """Return a fact's subject (as stems) and what it says of that: `helene.shoe_size` -> `helen`, `shoe size`; else None, None.

    A key of one part says all by itself, and one of stop words alone is about nothing that a question can name.
    """
    head, _, rest = key.removeprefix("user.").partition(".")
    stems, relation = terms(spell_out(head)), spell_out(rest)
    # Two numbers side by side are read as one ("0.0"): who asks for the first would not find the fact.
    if not stems or not relation or not set(stems) <= set(terms(f"{spell_out(head)} {relation}")):
        return None, None
    return " ".join(stems), relation


def speaker_of(role: str, speaker: str | None, extra: str | None) -> str | None:
    """Return the speaker of the turn, or the name that a message carries."""
    if extra and '"name"' in extra:
        name = msgspec.json.decode(extra).get("name")
        if isinstance(name, str):
            return name
    return speaker if role == "user" else None


def _doc(source: Source, given: str | None, *row: Any) -> Doc:
    kind = source.kind
    metadata = None if given is None else "\n".join(sorted(traits_of(msgspec.json.decode(given))))
    if kind in (FACT, PREFERENCE):
        if kind == FACT:
            ref, scope, key, value, level, owner, speaker, at, past = row
            who = owner or (scope[len("user:") :] if scope.startswith("user:") else speaker)
        else:
            ref, _scope, key, value, level, owner, recorded = row
            who, at, past = owner, recorded / 1e6, 0
        subject, relation = split_key(key)
        text = fact_text(key, value)[:MAX_CHARS]
        return Doc(
            kind, ref, text, level, owner, who, at=at or ref / 1e6, past=bool(past), subject=subject, relation=relation,
            metadata=metadata,
        )  # fmt: skip
    if kind == TURN:
        ref, session_id, turn, role, content, extra, level, owner, speaker, at = row
        who = speaker_of(role, speaker, extra)
        text, at = content[:MAX_CHARS], at or ref / 1e6
        return Doc(kind, ref, text, level, owner, who, session_id, turn, at, metadata=metadata)
    # A summary is of no session: its turns already have its words, which would count twice.
    ref, *words, level, owner, who, at = row
    text = text_of(_KIND_OF[source.table], words)
    return Doc(kind, ref, text[:MAX_CHARS], level, owner, who, at=at or ref / 1e6, metadata=metadata)


def notes_stamp(notes: NotesFile) -> Stamp:
    """Return the file's size (0: it may not be read) and time, which change whenever it does."""
    try:
        status = notes.path.stat()
    except OSError:
        return 0, 0
    return status.st_size if notes.tail(1) else 0, status.st_mtime_ns


def read_paragraphs(notes: NotesFile) -> Mapping[int, Doc]:
    """Return the lines within the notes' bound by their text's hash, with the heading that they are about."""
    text = notes.tail(notes.max_size_chars or MOST_CHARS)
    return _paragraphs(text, notes_stamp(notes)[1] / 1e9, LEVELS.index(notes.level), notes.zone)


@functools.lru_cache(maxsize=1)  # read with every recalled note, and seldom changed
def _paragraphs(notes: str, modified: float, level: int, zone: tzinfo | None) -> Mapping[int, Doc]:
    docs: dict[int, Doc] = {}
    for section in read_sections(notes):
        at = modified if section.written is None else _moment(section.written, modified, zone)
        texts = [line.strip().lstrip("-*+> ").strip() for line in section.lines]
        texts = [text for text in texts if text.strip("`~#=_")]
        if texts and list_words().stand_in(small(section.heading)):
            texts = [", ".join(texts)]  # who adds an item must know the others
        for item in texts:
            # "milk" alone would not say that it is to be bought.
            text = (f"{section.heading}: {item}" if section.heading else item)[:MAX_CHARS]
            # A line is recognised wherever it moved under its heading.
            ref = digest_of(text)
            docs[ref] = Doc(NOTE, ref, text, level, None, None, at=at)
    return docs


def _moment(written: str, otherwise: float, zone: tzinfo | None) -> float:
    try:
        return datetime.strptime(written, "%Y-%m-%d %H:%M").replace(tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        return otherwise  # a date written by hand, such as the 31st of February


class BankSections:
    """The bank's files by the section, as docs, which the readers of a file may read."""

    def __init__(self, bank: MemoryBank) -> None:
        self._bank = bank
        self._stamp = ""
        self._read: tuple[str, dict[int, tuple[Doc, BankFile]]] = ("", {})

    def stamp(self) -> str:
        """Return a stamp that changes with any file; empty where there is none."""
        self._stamp = self._bank.stamp()
        return self._stamp

    def docs(self) -> Mapping[int, Doc]:
        """Return them by the hashes of their texts and readers."""
        return {ref: doc for ref, (doc, _) in self.placed().items()}

    def placed(self) -> Mapping[int, tuple[Doc, BankFile]]:
        """Return them with their files, as of the newest stamp, which each recall takes as it begins."""
        stamp = self._stamp or self.stamp()
        if stamp != self._read[0]:
            placed: dict[int, tuple[Doc, BankFile]] = {}
            most = self._bank.limits().max_file_size_bytes
            for file, owner, text in self._bank.texts() if stamp else ():
                level = 2 if owner is not None else LEVELS.index(file.scope)
                for piece in _pieces(text[:most]):
                    words = f"{file.path}: {piece}"[:MAX_CHARS]
                    ref = digest_of(f"{owner or file.scope}\n{words}")
                    placed[ref] = Doc(BANK, ref, words, level, owner, owner, at=file.modified), file
            self._read = stamp, placed
        return self._read[1]


_PIECE_CHARS = 1200
"""Characters behind which a section's next paragraph begins another doc: about as many as one vector takes."""


def _pieces(text: str) -> Iterator[str]:
    """Yield a text's sections under their headings; long ones by paragraphs."""
    for section in read_sections(text):
        lead, held = f"{section.heading}: " if section.heading else "", ""
        for paragraph in section.text.split("\n\n"):
            if held and len(held) + len(paragraph) > _PIECE_CHARS:
                yield lead + held
                held = ""
            held = f"{held}\n\n{paragraph}" if held else paragraph.strip("\n")
        if held.strip() or section.heading:
            yield lead + held


class Written(NamedTuple):
    """Texts that are no rows of the truth, read again in whole where any has changed."""

    kind: int
    stamped_as: str
    """The index's name for their stamp."""
    stamp: Callable[[], str]
    docs: Callable[[], Mapping[int, Doc]]


def written(notes: NotesFile | None, sections: BankSections | None) -> tuple[Written, ...]:
    """Return those of NOTES.md and the bank that are given."""
    texts = []
    if notes is not None:
        texts.append(
            Written(
                NOTE, "notes", lambda: "{}:{}".format(*notes_stamp(notes)), lambda: read_paragraphs(notes)
            )
        )
    if sections is not None:
        texts.append(Written(BANK, "bank", sections.stamp, sections.docs))
    return tuple(texts)


class Originals:
    """Reads the records that docs were made from.

    Args:
        texts: those that are no rows.
    """

    def __init__(self, truth: Database, texts: Sequence[Written]) -> None:
        self._truth = truth
        self._texts = texts

    def read(self, names: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Doc]:
        """Return the docs of those (kind, ref) that are still there."""
        refs: dict[int, list[int]] = defaultdict(list)
        for kind, ref in checked_value(list(names), list[tuple[int, int]], "a doc"):
            refs[kind].append(ref)
        now = self._truth.clock.now()
        docs = {
            (source.kind, ref): doc
            for source in SOURCES
            if source.kind in refs
            for ref, doc in read_docs(self._truth, source, refs[source.kind], now).items()
        }
        for texts in self._texts:
            if texts.kind in refs:
                present = texts.docs()
                docs |= {(texts.kind, ref): present[ref] for ref in refs[texts.kind] if ref in present}
        return docs


def digest_of(text: str) -> int:
    """Return a digest of a text, whose vector is right while this is the same."""
    hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(hashed.digest(), "big", signed=True)
