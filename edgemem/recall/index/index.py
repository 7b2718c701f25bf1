"""The index: a second file with full text and vectors, made from the truth in idle time.

It remembers how far into each table it has come (ids are in the order of writing), and takes changes and erasings from the
truth's queue. Texts are read before the transaction, which holds the file for the writing alone; of several processes with the
same rows, each sees there how far the index is, and only the first writes. It is not synced: after a power cut it catches up from
where it is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.config import Settings
from edgemem.errors import CorruptError, InvalidInputError, StoreError
from edgemem.recall.index.docs import add_rows, read_row, remove_doc, replace_doc
from edgemem.recall.index.embedding import Embedding
from edgemem.recall.index.file import (
    NOT_BROKEN,
    DamagedIndexError,
    State,
    file_at,
    get_meta,
    open_index_file,
    remake_index_file,
    set_meta,
    trim_removals,
)
from edgemem.recall.index.sources import (
    SOURCES,
    BankSections,
    Doc,
    Originals,
    Source,
    Written,
    newest_id,
    read_between,
    read_docs,
    written,
)
from edgemem.recall.index.table import ResidentPostings, Row
from edgemem.store.db.files import Closable
from edgemem.store.pending_erasures import last_forgotten

if TYPE_CHECKING:
    from edgemem.errors import EdgememError
    from edgemem.llama.protocols import Embedder
    from edgemem.recall.index.vectors import Vectors
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction
    from edgemem.store.notes import NotesFile

    Stop = Callable[[], bool]
    Step = Callable[[int], int]
    ModelStep = Callable[[Embedding, int], int]

_log = logging.getLogger(__name__)

_SLICE = 200  # docs in one transaction: few enough to be written within 20 ms, enough to keep the bytes of a commit down
_EMBED_AT_ONCE = 4
_KEEP_US = 7 * 86400 * 1_000_000  # a power cut may take the index back by a while; a week is plenty


class Index(Closable):
    """The index of one truth; a context manager, safe to use from several threads and processes.

    The file at `path` is made when missing or damaged. `embedder` None: full text only. `notes` are recalled by the line, the
    bank by `sections`; `settings` has the zone. The owner closes `truth`, after this.
    """

    def __init__(
        self,
        path: str | Path,
        truth: Database,
        *,
        embedder: Embedder | None = None,
        notes: NotesFile | None = None,
        sections: BankSections | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.path = Path(path).expanduser().absolute()
        self.truth = truth
        self._texts = written(notes, sections)
        self.settings = settings or Settings()
        self.damaged = False
        """Whether the file was found broken; the next upkeep makes it again."""
        self._suspected = False
        self.originals = Originals(truth, self._texts)
        self.embedding: Embedding | None = None
        self._upkeep = threading.Lock()
        self._open(embedder)
        if truth.migrated and not self.damaged:
            self.take_changes()  # so that a step's changes are found at once

    @property
    def _zone(self) -> tzinfo | None:
        return self.settings.now.time.tzinfo()

    @property
    def embedder(self) -> Embedder | None:
        """The model in use."""
        return None if self.embedding is None else self.embedding.embedder

    def state(self) -> State:
        """Return how far the index has come."""
        self._check_file()
        try:
            return State.read(self.database)
        except msgspec.ValidationError as error:
            raise CorruptError(f"{self.path} is damaged ({error}); it is made again by itself.") from error

    def vectors(self, state: State) -> Vectors | None:
        """Return the vectors of the model in use; None while the file has none."""
        vectors = None if self.embedding is None else self.embedding.vectors
        return vectors if vectors is not None and vectors.model == state.model else None

    def pending(self) -> dict[str, int]:
        """Count the rows of the truth that wait for full text, changes to be seen, and docs without a vector."""
        try:
            state = self.state()
            vectors = 0 if self.embedding is None else self.embedding.waiting(state)
        except StoreError as error:
            if not self.mark_broken(error):
                raise
            state, vectors = State(), 0  # all of it is made again
        waiting = 0
        for source in SOURCES:
            sql = f"select count(*) from {source.table} where id > ?"  # noqa: S608 - our own constants
            waiting += self.truth.query(sql, (state.reached(source.table),))[0][0]
        changed = self.truth.query("select count(*) from index_queue where id > ?", (state.queue,))[0][0]
        return {"text": waiting, "changes": changed, "vectors": vectors}

    def mark_broken(self, error: EdgememError) -> bool:
        """Let the next upkeep make this file again if an error means that it is broken; tell whether it does."""
        # A number that SQLite cannot take was never ours.
        broken = isinstance(error, (StoreError, InvalidInputError)) and not isinstance(error, NOT_BROKEN)
        if isinstance(error, DamagedIndexError) or (broken and self.path.name in str(error)):
            _log.warning("The index cannot be read and will be made again: %s", error)
            self.damaged = True
            return True
        return False

    def suspect(self, error: Exception) -> None:
        """Let the next upkeep look whether this file is damaged: its answer cannot be right."""
        _log.warning("The index may be damaged (%s: %s); upkeep looks at it.", type(error).__name__, error)
        self._suspected = True

    def catch_up(
        self,
        limit: int = 1000,
        *,
        stop: Stop | None = None,
        least: int = 0,
        wait_s: float = 0.0,
        sources: Sequence[Source] = SOURCES,
    ) -> int:
        """Take up to `limit` changes and rows into full text; return how many.

        Erased rows are found no more; `erase` leaves no byte of them. `stop` is asked between steps of some milliseconds. Talk
        and deeds wait, at most `wait_s` seconds, until they have `least` rows, because each commit writes many pages; waiting
        rows are searched directly. Facts never wait.
        """

        def steps() -> list[Step]:
            # Each commit takes everything that waits: it writes the last pages of the same tables anyway.
            due = self._is_due(sources, least, wait_s)
            rows = [partial(self._take_rows, sources, stop)] if due else []
            return [self._take_changes, *rows, self._take_texts]

        return self._work(steps, limit, _SLICE, stop)

    def take_changes(self, stop: Stop = lambda: False) -> None:
        """Take changes and erasings at once, without waiting for a model that embeds, until `stop`.

        That is as safe as between processes: each transaction looks how far the file has come.
        """
        if self.damaged:
            self.catch_up(stop=stop)
            return
        try:
            while not stop() and self._take_changes(_SLICE):
                pass
        except StoreError as error:
            if not self.mark_broken(error):
                raise

    def erase(self, stop: Stop = lambda: False) -> bool:
        """Erase what the truth has forgotten; return whether no byte of it is left, in the log neither.

        It waits for no reader that keeps the log from being emptied.
        """
        forgotten = last_forgotten(self.truth)
        self.take_changes(stop)
        try:
            if self.state().erased >= forgotten:
                return True
            if self.damaged or stop():
                return False
            self._take_texts(0)
            self._follow_removals()
            if not self.database.wipe(wait_s=0.0, stop=stop):
                return False
            self.database.write(lambda tx: set_meta(tx, "erased", forgotten))
        except StoreError as error:
            if not self.mark_broken(error):
                raise
            return False
        return True

    def embed_pending(self, limit: int = 64, *, stop: Stop | None = None) -> int:
        """Make vectors of up to `limit` docs, new and changed first; return of how many."""
        return self._embed(lambda model, most: model.embed_docs(stop, most), limit, limit, stop)

    def embed_new(self, docs: Sequence[Doc], limit: int, *, stop: Stop | None = None) -> int:
        """Embed up to `limit` docs that the index does not hold, in memory; return how many."""
        return self._embed(lambda model, most: model.embed_new(docs, stop, most), limit, _EMBED_AT_ONCE, stop)

    def keep_new(self, limit: int) -> None:
        """Write the vectors that only memory has, with up to `limit` rows for them; nothing is embedded."""
        embedding = self.embedding
        if embedding is None or not embedding.new:
            return
        self.catch_up(limit)
        self._embed(lambda model, most: model.embed_docs(lambda: True, most), limit, 1, None)

    def warm(self, *, stop: Stop | None = None) -> bool:
        """Bring words and vectors into memory for the next question; return whether any were missing."""

        def warm(_limit: int) -> int:
            if self.embedding is not None:
                self.embedding.vectors.warm(stop)
            return int(self.postings.warm(self.state(), stop))

        return self._work(lambda: [warm], 1, 1, stop) > 0

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self.database.close()

    def _embed(self, step: ModelStep, limit: int, at_once: int, stop: Stop | None) -> int:
        """Repeat a step of the model in use, if there is one."""
        return self._work(
            lambda: [partial(step, self.embedding)] if self.embedding else [], limit, at_once, stop
        )

    def _work(self, steps: Callable[[], Sequence[Step]], limit: int, at_once: int, stop: Stop | None) -> int:
        """Repeat each step until nothing is left, in a file that is made again where it must be."""
        done = 0
        with self._upkeep:
            try:
                self._mend()
                for step in steps():
                    while done < limit and not (stop and stop()):
                        taken = step(min(at_once, limit - done))
                        done += taken
                        if not taken:
                            break
            except (StoreError, InvalidInputError) as error:
                if not self.mark_broken(error):
                    raise
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                self.suspect(error)
                raise
        return done

    def _is_due(self, sources: Sequence[Source], least: int, wait_s: float) -> bool:
        """Tell whether a fact waits, or enough else, or a row for long enough; ids are microseconds of writing."""
        if least <= 0:
            return True
        state, waiting, oldest = self.state(), 0, []
        for source in sources:
            rows = self.truth.query(
                f"select count(*), min(id) from (select id from {source.table} where id > ? order by id limit ?)",  # noqa: S608 - our own constants
                (state.reached(source.table), least),
            )
            if rows[0][0]:
                waiting += least if source.table == "facts" else rows[0][0]
                oldest.append(rows[0][1])
        late = bool(oldest) and self.truth.clock.now() - min(oldest) / 1e6 > wait_s
        return waiting >= least or late

    def _take_rows(self, sources: Sequence[Source], stop: Stop | None, limit: int) -> int:
        """Take in at most `limit` rows, or those read before `stop()`; return how many."""
        state, now = self.state(), self.truth.clock.now()
        pieces: list[tuple[Source, int, list[Row]]] = []
        for source in sources:
            reached, last = state.reached(source.table), newest_id(self.truth, source)
            if last > reached and limit > 0:
                docs = read_between(self.truth, source, reached, last, limit, now)
                read = _read_until(docs, self._zone, stop)
                cut = len(read) < len(docs)
                pieces.append((source, read[-1].ref if cut or len(docs) == limit else last, read))
                limit = 0 if cut else limit - len(docs)

        def work(tx: Transaction) -> None:
            # Another process may have been faster, or seen a change of these rows before they were in.
            if get_meta(tx, "queue") != state.queue or any(
                get_meta(tx, source.table) != state.reached(source.table) for source, _, _ in pieces
            ):
                return
            add_rows(tx, [row for _, _, read in pieces for row in read])
            for source, upto, _ in pieces:
                set_meta(tx, source.table, upto)

        # One transaction for all sources: each writes the last pages of the same tables.
        if pieces:
            self.database.write(work)
        return sum(len(read) for _, _, read in pieces)

    def _take_texts(self, _limit: int) -> int:
        """Bring the docs of texts that are no rows in line; return how many came or went."""
        taken = 0
        for texts in self._texts:
            if self.state().stamp(texts.stamped_as) != (stamp := texts.stamp()):
                gone, new = self.database.write(
                    partial(_replace_texts, texts, stamp, texts.docs(), self._zone)
                )
                if gone:
                    self.database.checkpoint()
                taken += gone + new
        if taken:
            self._follow_removals()
        return taken

    def changes(self, state: State, limit: int = -1) -> tuple[list[int], list[Doc], list[tuple[int, int]]]:
        """Return the rows that wait in the truth's queue, the docs that they name as these are now, and kind and ref of those that are gone."""
        rows = self.truth.query(
            "select id, kind, ref from index_queue where id > ? order by id limit ?", (state.queue, limit)
        )
        changed: list[Doc] = []
        erased: list[tuple[int, int]] = []
        for source in SOURCES:
            # Later rows are not indexed yet and are read as they are then.
            refs = {at for _, kind, at in rows if kind == source.table and at <= state.reached(source.table)}
            if source.table == "facts":  # the statements that pieces of facts belong to
                sql = "select origin from facts where id = ?"
                refs |= {origin for ref in refs for (origin,) in self.truth.query(sql, (ref,))}
            docs = read_docs(self.truth, source, refs, self.truth.clock.now())
            changed.extend(docs.values())
            erased.extend((source.kind, ref) for ref in refs - docs.keys())
        return [number for number, _, _ in rows], changed, erased

    def _take_changes(self, limit: int) -> int:
        """Bring the index in line with the next rows of the truth's queue; return how many."""
        rows, changed, erased = self.changes(self.state(), limit)
        if not rows:
            return 0
        upto, zone = rows[-1], self._zone

        def work(tx: Transaction) -> None:
            if get_meta(tx, "queue") >= upto:
                return  # another process was faster
            for kind, ref in erased:
                remove_doc(tx, kind, ref)
            for doc in changed:
                replace_doc(tx, doc, zone)
            trim_removals(tx)
            set_meta(tx, "queue", upto)

        self.database.write(work)
        _shorten_queue(self.truth, upto)
        if erased:
            self._follow_removals()
        return len(rows)

    def _follow_removals(self) -> None:
        self.postings.follow_removals()
        if self.embedding is not None:
            self.embedding.follow_removals()

    def _open(self, embedder: Embedder | None) -> None:
        self.database = open_index_file(self.path, self.truth, self.settings.now.time.zone)
        self._file = file_at(self.path)
        try:
            self.embedding = (
                None if embedder is None else Embedding(self.database, embedder, originals=self.originals)
            )
        except StoreError as error:
            self.database.close()
            if not self.mark_broken(error):
                raise
            remake_index_file(self.path, self._file)
            self.damaged = False
            self._open(embedder)
            return
        self.postings = ResidentPostings(self.database)

    def _check_file(self) -> None:
        """Raise if another process has made the file again: connections of new threads would open that one."""
        now = file_at(self.path)
        if now is not None and now != self._file:
            raise CorruptError(f"{self.path} was made again by another process; upkeep opens it.")

    def _mend(self) -> None:
        if self._suspected:
            self._suspected = False
            self.damaged = self.damaged or bool(self.database.quick_check())
        if self.damaged or file_at(self.path) != self._file:
            self.database.close()
            remake_index_file(self.path, self._file)
            self._open(self.embedder)
            self.damaged = False


def _read_until(docs: Iterable[Doc], zone: tzinfo | None, stop: Callable[[], bool] | None) -> list[Row]:
    """Read docs until `stop()`, and the first in any case."""
    read: list[Row] = []
    for doc in docs:
        read.append(read_row(0, doc, zone))
        if stop and stop():
            break
    return read


def _replace_texts(
    texts: Written, stamp: str, docs: Mapping[int, Doc], zone: tzinfo | None, tx: Transaction
) -> tuple[int, int]:
    """Replace the docs of texts that are no rows; return how many went, and how many came."""
    known = {ref for (ref,) in tx.execute("select ref from docs where kind = ?", (texts.kind,))}
    gone = known - docs.keys()
    for ref in gone:
        remove_doc(tx, texts.kind, ref)
    new = [doc for ref, doc in docs.items() if ref not in known]
    add_rows(tx, [read_row(0, doc, zone) for doc in new])
    set_meta(tx, texts.stamped_as, stamp)
    return len(gone), len(new)


def _shorten_queue(truth: Database, upto: int) -> None:
    """Drop old changes from the truth's queue, not waiting for it."""
    old = min(upto, int(truth.clock.now() * 1e6) - _KEEP_US)
    if truth.query("select 1 from index_queue where id <= ? limit 1", (old,)):
        truth.submit(lambda tx: tx.execute("delete from index_queue where id <= ?", (old,)))
