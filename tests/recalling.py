"""A robot in tests that recalls: its truth, its index and its notes."""

from __future__ import annotations

from edgemem.recall.index.index import Index
from edgemem.recall.recall import Recall
from edgemem.records import Heard, Reader, StoredMessage, Turn
from edgemem.store import turns
from edgemem.store.db.database import Database
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile

ALICE, BOB, STRANGER = Reader("alice"), Reader("bob"), Reader(None)


class Robot:
    """A truth, its index and recall, with short names for what tests do."""

    def __init__(self, folder, clock, embedder=None) -> None:
        self.truth = Database(folder / "memory.db", clock=clock)
        self.store = SQLiteMemoryStore(self.truth)
        self.notes = NotesFile(folder / "NOTES.md", clock=clock, level="household")
        self.index = Index(folder / "index.db", self.truth, embedder=embedder, notes=self.notes)
        self.recaller = Recall(self.truth, self.index, embedder=embedder, notes=self.notes, clock=clock)

    def say(self, n, *texts, session="s", speaker="alice", **more) -> None:
        """Store one turn of user and assistant messages."""
        said = tuple(StoredMessage(("user", "assistant")[at % 2], text) for at, text in enumerate(texts))
        turn = Turn(session, n, said, heard=Heard(speaker=speaker), **more)
        self.truth.write(lambda tx: turns.commit_turn(tx, turn))

    def idle(self) -> None:
        """Do all upkeep."""
        while self.index.catch_up() + self.index.embed_pending():
            pass

    def recall(self, query, *, reader=None, **options):
        """Recall as the operator unless a reader is given."""
        return self.recaller.recall(query, reader=reader, **options)

    def texts(self, query, **options):
        """Return the texts that are recalled."""
        return [item.text for item in self.recall(query, **options)]

    def close(self) -> None:
        """Close everything."""
        self.index.close()
        self.truth.close()
