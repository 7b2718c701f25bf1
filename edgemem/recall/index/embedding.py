"""Embedding: the upkeep of one model's vectors in an index, from a file that knows nothing of the model to a whole one.

New and changed docs come first, then those from before the model, at last facts that hold no more; each newest first. Processes
may share a file: the work of another stays, and where another begins with another model, this one embeds no more.

Text longer than the window is halved until each piece fits, between sentences if possible, so that no piece is of a few words,
which are near to anything that has them. Text that fits is embedded as a whole, and by each sentence that says something, but for
episodes; merging short sentences costs messages of LoCoMo .011 of their recall among the first five. A fact's vector is the mean
of all of it and of its words about the subject ("shoe size"): to an embedder a short sentence means mostly its subject's name, so
facts about one would be alike.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from edgemem.errors import ModelError
from edgemem.llama.protocols import Encoding
from edgemem.preload import Pattern, np
from edgemem.recall.index.docs import safety_flags, set_safety_flags
from edgemem.recall.index.file import checked_value
from edgemem.recall.index.sources import EPISODE, digest_of
from edgemem.recall.index.vectors import Vectors, add_vectors, begin_model, dequeue, model_name, packed
from edgemem.recall.text.analyse import terms

if TYPE_CHECKING:
    from edgemem.llama.protocols import Embedder
    from edgemem.recall.index.file import State
    from edgemem.recall.index.sources import Doc, Originals
    from edgemem.recall.index.vectors import Vector
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

    Stop = Callable[[], bool]
    _Piece = tuple[str, ...]

CHARS = 1000
"""Characters of one vector where the embedder cannot count tokens: some 250 tokens of English."""
_LEAST_ROOM = 8  # tokens: where a prefix leaves less of the window, nothing is cut
_AROUND = 8  # most tokens that a model puts around a text: one so short is not counted

# A closing quotation mark may follow the point. Looked for from the white space, which is searched in linear time.
_SAYS = 2  # terms of a sentence that says something
_END = Pattern(r"(?:(?<=[.!?…])|(?<=[.!?…][\"'”’»)\]]))\s+|(?<=[。！？])|\n+")
_SPACE = Pattern(r"\s+")


class Window(NamedTuple):
    """The room of one vector."""

    size: int
    """In units of `tokens`."""
    tokens: Callable[[Sequence[str]], list[int]]
    sure_bytes: int
    """Texts of at most so many bytes fit uncounted."""

    def split(self, text: str, most: int) -> list[str]:
        """Return the first `most` pieces that fit; a text that fits comes first as a whole, its sentences after it."""
        if len(text.encode("utf-8", "replace")) <= self.sure_bytes:
            return sentences_of(text)[:most]
        whole, around = self.tokens([text, ""])
        if whole <= self.size or self.size - around < _LEAST_ROOM:
            return sentences_of(text)[:most]
        return self._halves(text)[:most] or [text]

    def _halves(self, text: str) -> list[str]:
        """Return pieces that fit, cut near the middle at the end of a sentence, else between words."""
        text = text.strip()
        length = len(text)
        if length < 2 or self.tokens([text])[0] <= self.size:
            return [text] if text else []
        cut = length // 2
        for pattern in (_END, _SPACE):
            ends = [match.end() for match in pattern.finditer(text, length // 4, length * 3 // 4)]
            if ends:
                cut = min(ends, key=lambda end: abs(end - length // 2))
                break
        return [*self._halves(text[:cut]), *self._halves(text[cut:])]


def sentences_of(text: str) -> list[str]:
    """Return a text, and then its sentences that say something, if there are several."""
    ends = [match.end() for match in _END.finditer(text)]
    parts = [text[first:last].strip() for first, last in itertools.pairwise([0, *ends, len(text)])]
    long_enough = [part for part in parts if len(terms(part)) >= _SAYS] if len(parts) > 1 else []
    return [text, *(part for part in dict.fromkeys(long_enough) if part != text)]


def window_of(embedder: Embedder) -> Window:
    """Return the window of an embedder."""
    if embedder.n_ctx:
        return Window(embedder.n_ctx, embedder.count_tokens, embedder.n_ctx - _AROUND)
    return Window(CHARS, lambda texts: [len(text) for text in texts], CHARS)


_log = logging.getLogger(__name__)

PIECES = 16
"""Most vectors of one text, one for each piece: 15,000 characters of English; words find the rest."""

_RELATION_CHARS = 500
_KEPT_NEW = 1024  # docs whose vectors wait in memory for the index, 1.5 KB for each sentence: twice what `UnindexedDocs` holds
_TOGETHER = 64  # docs whose vectors are in memory and go into the file in one transaction: some 20 ms
_PROBE = "Hello."


class _Row(NamedTuple):
    doc: int
    kind: int
    ref: int
    digest: int
    """Of its text."""
    past: bool


class _New(NamedTuple):
    """A text that memory has the vectors of."""

    name: tuple[int, int]
    """Kind and ref of a doc with this text."""
    pieces: list[Encoding]
    """None of one that the model cannot embed all of."""


class Embedding:
    """The vectors of one model in one index file; used by one upkeep at a time, and by any number of questions."""

    def __init__(self, database: Database, embedder: Embedder, *, originals: Originals) -> None:
        self._database = database
        self.embedder = embedder
        self._originals = originals
        self._model = model_name(embedder)
        self.vectors = Vectors(database, embedder.dimensions, self._model)
        self._began = False
        """Whether this was the newest model once: it is not made so again."""
        self._begun: dict[str, Encoding | None] = {}
        """Parts of texts that were interrupted in the middle."""
        self.new: dict[str, _New] = {}
        """Encodings of docs that are not in the file yet, by text."""
        self._aside: dict[int, int] = {}
        """Docs that cannot be embedded as they are, by their text's digest; the next process tries again."""

    def follow_removals(self) -> None:
        """Drop vectors from memory that were taken out of the file, and those of texts that the truth has no more."""
        present = {doc.text for doc in self._originals.read(new.name for new in self.new.values()).values()}
        self._begun, self.new = {}, {text: new for text, new in self.new.items() if text in present}
        self.vectors.follow_removals()

    def waiting(self, state: State) -> int:
        """Count the docs without a vector of this model."""
        table = "unembedded u join docs d on d.id = u.doc" if state.model == self._model else "docs"
        return int(self._database.query(f"select count(*) from {table}")[0][0])  # noqa: S608 - our own text

    def embed_docs(self, stop: Stop | None, limit: int) -> int:
        """Make vectors of docs; return of how many, or how many needed none.

        Those in memory go along, beside `limit`: each commit writes the last pages of the same tables.
        """
        if not self._begin():
            return 0
        rows = self._queued(limit + min(len(self.new), _TOGETHER))
        texts = self._originals.read([(row.kind, row.ref) for row in rows])
        docs = {row.doc: texts[row.kind, row.ref] for row in rows if (row.kind, row.ref) in texts}
        ready = [row for row in rows if row.doc in docs and docs[row.doc].text in self.new]
        rows = ready + [row for row in rows if row not in ready][:limit]
        # A text that the truth has changed waits for the index to take that in.
        aside = {row.doc for row in rows if row.doc in docs and digest_of(docs[row.doc].text) != row.digest}
        self._make([docs[row.doc] for row in rows if row.doc in docs and row.doc not in aside], stop)
        by_doc = {number: self.new[doc.text].pieces for number, doc in docs.items() if doc.text in self.new}
        # Where somebody began to speak, the rest stays.
        done = list(
            itertools.takewhile(lambda r: r.doc in by_doc or r.doc in aside or r.doc not in docs, rows)
        )
        if not done:
            return 0
        aside |= {number for number, vectors in by_doc.items() if not vectors}
        self._aside.update((row.doc, row.digest) for row in done if row.doc in aside)

        fingerprint = self.embedder.fingerprint
        pieces = [(n, piece.vector) for n, some in by_doc.items() for piece in some]
        # What any piece tells.
        flags = dict(sorted((n, safety_flags(docs[n], vector, fingerprint)) for n, vector in pieces))

        def store(tx: Transaction) -> None:
            if not tx.execute("select 1 from meta where key = 'model' and value = ?", (self._model,)):
                return  # another model came meanwhile
            # A doc may be gone or have another text: its vector is not kept either.
            waiting = [row for row in done if row.doc not in aside and _is_pending(tx, row)]
            set_safety_flags(tx, [(row.doc, flags[row.doc]) for row in waiting if row.doc in flags])
            add_vectors(tx, [(row.doc, row.past, by_doc.get(row.doc, ())) for row in waiting])
            dequeue(tx, [row.doc for row in waiting])

        self._database.write(store)
        # From here on it is found in the file.
        written = {docs[row.doc].text for row in done if row.doc in docs}
        self.new = {text: new for text, new in self.new.items() if text not in written}
        return len(done)

    def embed_new(self, docs: Iterable[Doc], stop: Stop | None, limit: int) -> int:
        """Make vectors, in memory, of docs that the index does not know, the newest first; return of how many.

        The file takes them with the docs: each commit wears the card.
        """
        self._begin()
        missing = {doc.text: doc for doc in itertools.islice(docs, _KEPT_NEW) if doc.text not in self.new}
        return self._make(itertools.islice(missing.values(), limit), stop)

    def near_new(self, query: Vector, docs: Mapping[int, Doc]) -> dict[int, float]:
        """Return the cosines of docs that the index does not know, from vectors in memory."""
        pairs = [(number, piece.vector) for number, pieces in self._pieces_new(docs) for piece in pieces]
        nearness: dict[int, float] = {}
        if pairs and pairs[0][1].shape == query.shape:
            cosines = np.stack([vector for _, vector in pairs]) @ query
            for (number, _), cosine in zip(pairs, cosines.tolist(), strict=True):
                nearness[number] = max(cosine, nearness.get(number, -1.0))
        return nearness

    def tokens_new(self, docs: Mapping[int, Doc]) -> dict[int, bytes]:
        """Return the token vectors, as `packed`, of docs that the index does not know, from memory."""
        return {
            number: codes
            for number, pieces in self._pieces_new(docs)
            if pieces and pieces[0].tokens is not None and (codes := packed(pieces[0].tokens))
        }

    def _pieces_new(self, docs: Mapping[int, Doc]) -> list[tuple[int, list[Encoding]]]:
        new = self.new
        return [(number, new[doc.text].pieces) for number, doc in docs.items() if doc.text in new]

    def _begin(self) -> bool:
        """Begin with the model where the file has another's vectors; tell whether it is the file's newest."""
        if not self._database.query("select 1 from meta where key = 'model' and value = ?", (self._model,)):
            if self._began:
                return False
            self._database.write(lambda tx: begin_model(tx, self.embedder))
        self._began = True
        return True

    def _queued(self, limit: int) -> list[_Row]:
        rows = self._database.query(
            """
            select d.id, d.kind, d.ref, d.digest, d.past <> 0 from unembedded u join docs d on d.id = u.doc
            order by u.urgent desc, u.doc desc limit ?
            """,
            (limit + len(self._aside),),
        )
        queued = [checked_value((*row[:4], bool(row[4])), _Row, "a doc") for row in rows]
        return [row for row in queued if self._aside.get(row.doc) != row.digest][:limit]

    def _pieces(self, doc: Doc) -> list[_Piece]:
        """Return the parts of each vector's mean: the words that the model reads at once, and those about the subject.

        A call's or event's record is embedded as a whole.
        """
        relation = (doc.relation[:_RELATION_CHARS],) if doc.relation else ()
        split = window_of(self.embedder).split(doc.text, PIECES)
        if doc.kind == EPISODE and split[0] == doc.text:
            split = split[:1]
        return [(piece, *relation) for piece in split]

    def _make(self, docs: Iterable[Doc], stop: Stop | None) -> int:
        """Make missing vectors until `stop()`; return of how many docs."""
        missing_docs = {doc.text: doc for doc in docs if doc.text not in self.new}
        pieces = {text: self._pieces(doc) for text, doc in missing_docs.items()}
        parts = list(dict.fromkeys(part for some in pieces.values() for piece in some for part in piece))
        by_text = {part: self._begun[part] for part in parts if part in self._begun}
        """None: the model cannot embed it."""
        missing = [part for part in parts if part not in by_text]
        try:
            by_text.update(zip(missing, self._rows(missing, stop), strict=False))
        except ModelError:
            self.embedder.embed_texts([_PROBE])  # raises where the model is at fault, not a text
            for text in missing:
                try:
                    by_text.update(zip([text], self._rows([text], stop), strict=False))
                except ModelError as error:  # noqa: PERF203 - an embedding takes a thousand times longer
                    _log.warning("A text cannot be embedded, and is found by its words: %s", error)
                    by_text[text] = None
        whole: dict[str, _New] = {}
        for text, some in pieces.items():
            if all(part in by_text for piece in some for part in piece):
                means = [_mean([by_text[part] for part in piece]) for piece in dict.fromkeys(some)]
                fit = [mean for mean in means if mean is not None]
                doc = missing_docs[text]
                whole[text] = _New((doc.kind, doc.ref), fit if len(fit) == len(means) else [])
        self._begun = by_text if len(whole) < len(pieces) else {}
        self.new = dict([*self.new.items(), *whole.items()][-_KEPT_NEW:])
        return len(whole)

    def _rows(self, texts: Sequence[str], stop: Stop | None) -> Sequence[Encoding]:
        return self.embedder.encode_texts(texts, stop) if texts else ()


def _mean(parts: Sequence[Encoding | None]) -> Encoding | None:
    """Return the unit vector between some, with the tokens of the first; None where one is missing."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len(known) == 1:
        return known[0] if len(parts) == 1 and known else None
    summed = np.sum([part.vector for part in known], axis=0, dtype=np.float32)
    return Encoding(summed / np.float32(max(float(np.linalg.norm(summed)), 1e-6)), known[0].tokens)


def _is_pending(tx: Transaction, row: _Row) -> bool:
    """Tell whether a doc still waits for this text's vector: no other process has made it."""
    sql = """
      select 1 from unembedded u join docs d on d.id = u.doc
      where u.urgent in (0, 1, 2) and u.doc = ? and d.kind = ? and d.ref = ? and d.digest = ? and d.past = ?
    """
    return bool(tx.execute(sql, row))
