"""The index: a second file with full text and vectors, made from the truth in idle time.

It may be deleted at any moment. It remembers how far into each table of the truth it has come (ids there are in
the order of writing), and takes what changed or vanished from the queue that the truth keeps. It is not synced to
disk: after a power cut it may be older than it was, and then simply catches up again; a damaged one, one of another
truth or of older rules for words is thrown away.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import CorruptError, EdgememError, NewerSchemaError
from edgemem.recall.docs import State, add_docs, get_meta, remove_doc, replace_doc, set_meta
from edgemem.recall.paragraphs import notes_stamp, read_paragraphs
from edgemem.recall.sources import KINDS, NOTE, SOURCES, Doc, Source, newest_id, read_between, read_docs
from edgemem.recall.vectors import BitVectors, VectorIndex, open_vectors
from edgemem.recall.words import WORDS_VERSION
from edgemem.store.database import Database
from edgemem.store.migrations import INDEX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from types import TracebackType

    from edgemem.llama.protocols import Embedder
    from edgemem.store.database import Transaction
    from edgemem.store.notes import NotesFile

_log = logging.getLogger(__name__)

_SLICE = 200  # docs in one transaction: few enough for 20 ms, enough to keep the bytes of a commit down
_EMBED_AT_ONCE = 4
_EMBED_CHARS = 2000  # more than any default context holds
_KEEP_QUEUE_US = 7 * 86400 * 1_000_000  # a power cut may take the index back by a while; a week is plenty


class Index:
    """The index file of one truth; a context manager, safe to use from several threads and processes.

    Args:
        path: made when missing, thrown away when damaged.
        truth: what it is made from; closed by its owner, after this.
        embedder: for vectors; None: full text only.
        notes: recalled line by line; None: there are none.
    """

    def __init__(
        self,
        path: str | Path,
        truth: Database,
        *,
        embedder: Embedder | None = None,
        notes: NotesFile | None = None,
    ) -> None:
        self.path = Path(path).expanduser().absolute()
        self.truth = truth
        self.notes = notes
        self.embedder = embedder
        self._upkeep = threading.Lock()
        self._damaged = False
        self._checked_bits = False
        self.database = self._open()
        self.vectors: VectorIndex | None = self._open_vectors()

    # Reading

    @property
    def damaged(self) -> bool:
        """Tell whether the file was found broken; the next upkeep makes it again."""
        return self._damaged

    @property
    def vec_version(self) -> str | None:
        """Return the version of sqlite-vec; None where it cannot be loaded."""
        return self.database.vec_version

    def report_damage(self, error: EdgememError) -> None:
        """Have the file made again with the next upkeep."""
        _log.warning("The index is damaged and will be made again: %s", error)
        self._damaged = True

    def state(self) -> State:
        """Return how far the index has come."""
        return msgspec.convert(dict(self.database.query("select key, value from meta")), State)

    def space(self, state: State) -> VectorIndex | None:
        """Return the vectors if they were made by the embedder that is in use."""
        return (
            self.vectors
            if self.embedder is not None and state.embedder == self.embedder.fingerprint
            else None
        )

    def pending(self) -> dict[str, int]:
        """Return how many rows of the truth wait for full text, and how many docs for a vector."""
        state = self.state()
        waiting = 0
        for source in SOURCES:
            waiting += self.truth.query(
                f"select count(*) from {source.table} where id > ?",  # noqa: S608 - our own constants
                (state.reached(source),),
            )[0][0]
        changed = self.truth.query("select count(*) from index_queue where id > ?", (state.queue,))[0][0]
        vectors = 0
        if self.embedder is not None:
            vectors = self.database.query(
                "select count(*) from docs"
                if self.space(state) is None
                else "select count(*) from unembedded"
            )[0][0]
        return {"text": waiting, "changes": changed, "vectors": vectors}

    # Upkeep

    def catch_up(self, limit: int = 1000, *, stop: Callable[[], bool] | None = None) -> int:
        """Take up to `limit` changes and rows of the truth into full text; return how many.

        What was erased there is erased here first. Between steps of some milliseconds `stop` is asked.
        """
        with self._upkeep:
            self._mend()
            done = 0
            for step in (self._apply_changes, *(self._taker(source) for source in SOURCES), self._take_notes):
                while done < limit and not (stop and stop()):
                    taken = step(min(_SLICE, limit - done))
                    done += taken
                    if not taken:
                        break
            return done

    def embed_pending(self, limit: int = 64, *, stop: Callable[[], bool] | None = None) -> int:
        """Make up to `limit` vectors, the newest docs first; return how many docs were dealt with."""
        if self.embedder is None or self.vectors is None:
            return 0
        with self._upkeep:
            self._mend()
            if self.space(self.state()) is None:
                self._begin_space(self.embedder.fingerprint)
            elif not self._checked_bits and isinstance(self.vectors, BitVectors):
                self.database.write(self.vectors.repair)
            self._checked_bits = True
            done = 0
            while done < limit and not (stop and stop()):
                taken = self._embed(self.embedder, self.vectors, min(_EMBED_AT_ONCE, limit - done))
                done += taken
                if not taken:
                    break
            return done

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self.database.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Full text

    def _taker(self, source: Source) -> Callable[[int], int]:
        def take(limit: int) -> int:
            reached = self.state().reached(source)
            last = newest_id(self.truth, source)
            if last <= reached:
                return 0
            docs = read_between(self.truth, source, reached, last, limit, self.truth.clock.now())
            upto = docs[-1].ref if len(docs) == limit else last
            self.database.write(lambda tx: self._advance(tx, source, reached, upto, docs))
            # Rows that are not recalled (tool results, pieces of facts) count as one, so that upkeep ends.
            return len(docs) or (1 if upto < last else 0)

        return take

    def _advance(self, tx: Transaction, source: Source, reached: int, upto: int, docs: Sequence[Doc]) -> None:
        if get_meta(tx, source.table) == reached:  # or else another process was faster
            add_docs(tx, docs)
            set_meta(tx, source.table, upto)

    def _apply_changes(self, limit: int) -> int:
        state = self.state()
        rows = self.truth.query(
            "select id, kind, ref from index_queue where id > ? order by id limit ?", (state.queue, limit)
        )
        if not rows:
            return 0
        erased: list[tuple[int, int]] = []
        changed: list[Doc] = []
        for source in SOURCES:
            refs = {ref for _, kind, ref in rows if kind == source.queued_as and ref <= state.reached(source)}
            if source.table == "facts":
                refs |= self._origins(refs)
            there = read_docs(self.truth, source, refs, self.truth.clock.now())
            changed += there.values()
            erased += [(source.kind, ref) for ref in refs - there.keys()]
        secret = any(KINDS[kind] != "episode" for kind, _ in erased)
        self.database.write(lambda tx: self._change(tx, rows[-1][0], erased, changed, secret=secret))
        if secret:
            self.database.checkpoint()
        self._shorten_queue(rows[-1][0])
        return len(rows)

    def _origins(self, refs: Collection[int]) -> set[int]:
        """Return the statements that pieces of facts belong to."""
        return {
            origin
            for ref in refs
            for (origin,) in self.truth.query("select origin from facts where id = ?", (ref,))
        }

    def _change(
        self,
        tx: Transaction,
        upto: int,
        erased: Sequence[tuple[int, int]],
        changed: Iterable[Doc],
        *,
        secret: bool,
    ) -> None:
        if get_meta(tx, "queue") >= upto:
            return
        if secret:
            # Else what was erased would stay readable in pages that are free.
            tx.execute("pragma secure_delete = on")
        for kind, ref in erased:
            remove_doc(tx, kind, ref, self.vectors)
        for doc in changed:
            replace_doc(tx, doc, self.vectors)
        if secret:
            tx.execute("delete from people where name not in (select who from docs where who is not null)")
            # FTS5 only marks what is deleted, until the segments are merged.
            tx.execute("insert into words (words) values ('optimize')")
        set_meta(tx, "queue", upto)

    def _shorten_queue(self, upto: int) -> None:
        old = min(upto, int(self.truth.clock.now() * 1e6) - _KEEP_QUEUE_US)
        if self.truth.query("select 1 from index_queue where id <= ? limit 1", (old,)):
            self.truth.submit(
                lambda tx: tx.execute("delete from index_queue where id <= ?", (old,)), durable=False
            )

    def _take_notes(self, _limit: int) -> int:
        if self.notes is None:
            return 0
        stamp = "{}:{}".format(*notes_stamp(self.notes))
        if self.state().notes == stamp:
            return 0
        there = read_paragraphs(self.notes)

        def work(tx: Transaction) -> int:
            known = {ref for (ref,) in tx.execute("select ref from docs where kind = ?", (NOTE,))}
            gone = known - there.keys()
            if gone:
                self._change_notes(tx, gone)
            new = [doc for ref, doc in there.items() if ref not in known]
            add_docs(tx, new)
            set_meta(tx, "notes", stamp)
            return len(gone) + len(new)

        return self.database.write(work)

    def _change_notes(self, tx: Transaction, gone: Iterable[int]) -> None:
        tx.execute("pragma secure_delete = on")
        for ref in gone:
            remove_doc(tx, NOTE, ref, self.vectors)
        tx.execute("insert into words (words) values ('optimize')")

    # Vectors

    def _begin_space(self, fingerprint: str) -> None:
        vectors = self.vectors

        def work(tx: Transaction) -> None:
            if vectors is not None:
                vectors.clear(tx)
            tx.execute("insert or ignore into unembedded (doc) select id from docs where past = 0")
            set_meta(tx, "embedder", fingerprint)

        self.database.write(work)

    def _embed(self, embedder: Embedder, vectors: VectorIndex, limit: int) -> int:
        rows = self.database.query(
            "select u.doc, d.kind, d.ref from unembedded u left join docs d on d.id = u.doc order by u.doc desc limit ?",
            (limit,),
        )
        if not rows:
            return 0
        texts = self._texts(rows)
        made: list[tuple[int, Any]] = []
        if texts:
            made = list(
                zip(
                    texts, embedder.embed_texts([text[:_EMBED_CHARS] for text in texts.values()]), strict=True
                )
            )

        def work(tx: Transaction) -> None:
            still = {row[0] for row in rows if tx.execute("select 1 from docs where id = ?", (row[0],))}
            vectors.add(tx, [(id_, vector) for id_, vector in made if id_ in still])
            tx.executemany("delete from unembedded where doc = ?", [(row[0],) for row in rows])

        self.database.write(work)
        return len(rows)

    def _texts(self, rows: Sequence[tuple[int, int, int]]) -> dict[int, str]:
        """Return the text of docs by their number, as the truth has it now."""
        texts: dict[int, str] = {}
        for source in SOURCES:
            ids = {ref: id_ for id_, kind, ref in rows if kind == source.kind}
            there = read_docs(self.truth, source, ids, self.truth.clock.now()) if ids else {}
            texts.update((ids[ref], doc.text) for ref, doc in there.items())
        if self.notes is not None and any(kind == NOTE for _, kind, _ in rows):
            lines = read_paragraphs(self.notes)
            texts.update((id_, lines[ref].text) for id_, kind, ref in rows if kind == NOTE and ref in lines)
        return texts

    # The file

    def _open(self) -> Database:
        try:
            database = self._open_file()
        except (CorruptError, NewerSchemaError) as error:
            _log.warning("The index cannot be used and is made again: %s", error)
            self._delete()
            return self._open_file()
        try:
            stamp = self._stamp()
            found = dict(database.query("select key, value from meta where key in ('truth', 'words')"))
            if found == stamp:
                return database
            if not found:
                database.write(lambda tx: _stamp_file(tx, stamp))
                return database
        except CorruptError as error:
            _log.warning("The index is damaged and is made again: %s", error)
        except BaseException:
            database.close()
            raise
        database.close()
        self._delete()
        return self._open()

    def _open_file(self) -> Database:
        return Database(self.path, migrations=INDEX, clock=self.truth.clock, durable=False, load_vec=True)

    def _open_vectors(self) -> VectorIndex | None:
        return None if self.embedder is None else open_vectors(self.database, self.embedder.dimensions)

    def _stamp(self) -> dict[str, str]:
        born = self.truth.query("select min(recorded) from migrations")[0][0]
        return {"truth": str(born), "words": WORDS_VERSION}

    def _mend(self) -> None:
        if self._damaged:
            self.database.close()
            self._delete()
            self.database = self._open()
            self.vectors = self._open_vectors()
            self._damaged = False

    def _delete(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def _stamp_file(tx: Transaction, stamp: dict[str, str]) -> None:
    for key, value in stamp.items():
        set_meta(tx, key, value)
