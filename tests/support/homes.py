"""Homes of tests: profiles that find by words, memories and indexes that are filled by hand, and what must hold of their files."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.config import LlamaSettings, Profile, RecallSettings, TimeSettings
from edgemem.memory import Memory
from edgemem.recall.index.index import Index
from edgemem.recall.recall import Recall, Request
from edgemem.recall.text import analyse as words
from edgemem.records import Check, Heard, Message, Reader, StoredMessage, Turn
from edgemem.store import turns
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile

BY_WORDS = Profile(llama=LlamaSettings(embedder=""), time=TimeSettings(line=False))
PROFILE = '[store]\ncommit_wait_s = {wait}\n[llama]\nembedder = ""\n[time]\nline = false\n'
WORDS_ONLY = (
    '[time]\nline = false\n[llama]\nembedder = ""\n[store]\ncommit_wait_s = 60\n[tools]\nwrite_wait_s = 60\n'
)
"""No embedder, and as long for the disk as it takes: a test's disk may be busy."""
ALICE, BOB, STRANGER = Reader("alice"), Reader("bob"), Reader(None)


def patient(**recall: Any) -> Profile:
    """Return the default profile, with time for the embedder on a busy machine."""
    return Profile(recall=RecallSettings(deadline_ms=20_000.0, query_embed_ms=20_000.0, **recall))


def at_day(text: str) -> float:
    """Return a moment of the local calendar, given as 2026-03-14."""
    return datetime.strptime(text, "%Y-%m-%d").astimezone().timestamp()


def home_of(home: Path, profile: str) -> Path:
    """Return a home that has a profile and may have been made before."""
    home.mkdir(exist_ok=True)
    (home / "edgemem.toml").write_text(profile, encoding="utf-8")
    return home


def home_with(home: Path, *, wait: float) -> Path:
    """Make a home whose turns wait so many seconds for the disk."""
    return home_of(home, PROFILE.format(wait=wait))


@contextmanager
def time_zone(name: str) -> Iterator[None]:
    """Have local time be that of a zone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        try:
            yield
        finally:
            patch.undo()
            time.tzset()


@contextmanager
def snapshot(file: Path) -> Iterator[None]:
    """Read a database as another program does, with a snapshot that stays."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)) as other:
        other.execute("begin")
        other.execute("select count(*) from sqlite_master").fetchone()
        yield


def turns_of(memory: Memory, session: str = "kitchen") -> list[Turn]:
    return memory.sessions.journal.read_turns(session)


def told(turn: Turn) -> list[tuple[str, str | None]]:
    return [(message.role, message.content) for message in turn.messages]


def conversation(turns: int) -> list[Message]:
    """Return a conversation with a tool call in each turn."""
    said: list[Message] = [{"role": "system", "content": "You help."}]
    for n in range(turns):
        call = {"id": str(n), "type": "function", "function": {"name": "look", "arguments": "{}"}}
        said += [
            {"role": "user", "content": f"question {n}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": f"result {n}", "tool_call_id": str(n)},
            {"role": "assistant", "content": f"answer {n} ✓"},
        ]
    return said


def files_with(folder: Path, word: str) -> list[str]:
    """Return the names of the files below a folder in which a word stands."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in files if word.encode() in path.read_bytes())


def check_of(memory: Memory, name: str) -> Check:
    """Return the row of that name in `edgemem check`."""
    (row,) = [check for check in memory.check() if check.name == name]
    return row


def warning_of(memory: Memory, name: str) -> str:
    """Return what `edgemem check` warns of under that name."""
    row = check_of(memory, name)
    assert row.state == "warn"
    return row.detail


def opened(home: Path, more: str = "", **options: Any) -> Memory:
    """Open a home that finds by words, without a thread of its own; `more` stands in its profile too."""
    return edgemem.open(home_of(home, WORDS_ONLY + more), **{"worker": False, "watch": False, **options})


def eventually(true: Callable[[], object]) -> None:
    """Wait until something holds; a minute is far more than it takes."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


class Robot:
    """A truth, its index and recall, with short names for what tests do."""

    def __init__(self, folder, clock, embedder=None) -> None:
        self.truth = open_truth(folder / "memory.db", clock=clock)
        self.store = SQLiteMemoryStore(self.truth)
        self.notes = NotesFile(folder / "NOTES.md", clock=clock, level="household")
        self.index = Index(folder / "index.db", self.truth, embedder=embedder, notes=self.notes)
        self.recaller = Recall(self.truth, self.index, embedder=embedder, notes=self.notes)

    def say(self, n, *texts, session="s", speaker="alice", **more) -> None:
        """Store one turn of user and assistant messages."""
        say(self.truth, n, *texts, session=session, speaker=speaker, **more)

    def idle(self) -> None:
        work(self.index)

    def recall(self, query, *, reader=None, **options):
        """Recall as the operator unless a reader is given."""
        return self.recaller.recall(query, Request(reader=reader, **options))

    def texts(self, query, **options):
        return [item.text for item in self.recall(query, **options)]

    def close(self) -> None:
        self.index.close()
        self.truth.close()


def say(truth, n: int, *texts: str, session: str = "s", speaker: str = "alice", **more: Any) -> None:
    """Store one turn of user and assistant messages."""
    said = tuple(StoredMessage(("user", "assistant")[at % 2], text) for at, text in enumerate(texts))
    turn = Turn(session, n, said, heard=Heard(speaker=speaker), **more)
    truth.write(lambda tx: turns.commit_turn(tx, turn))


def tell(memory, text: str, session: str = "s", n: int = 0, *, speaker="alice", at=None, **more) -> None:
    """Store what somebody said as a turn, which they said at a moment."""
    heard = Heard(speaker=speaker, event_time=at)
    turn = Turn(session, n, (StoredMessage("user", text),), heard=heard, **more)
    memory.diagnostics.database.write(lambda tx: turns.commit_turn(tx, turn))


def words_of(database) -> set[str]:
    return {term for (terms,) in database.query("select terms from docs") for term in terms.split()}


def count_docs(index) -> int:
    return int(index.database.query("select count(*) from docs")[0][0])


def bytes_of(index) -> bytes:
    """Return everything that stands in the file and its log."""
    files = (index.path, index.path.with_name(index.path.name + "-wal"))
    return b"".join(file.read_bytes() for file in files if file.exists())


def check(index) -> None:
    """Hold the index against itself: text, counters and vectors."""
    assert index.database.quick_check() == []
    docs = index.database.query("select id, past from docs")
    check_vectors(index.database, {id_: bool(past) for id_, past in docs})


def check_vectors(database, docs: dict[int, bool]) -> None:
    """Hold the vectors against the docs, and whether each is over: each has some, or waits, once there is a model."""
    vectors = {doc: bool(past) for doc, past in database.query("select doc, past from vectors")}
    waiting = [(doc, not urgent) for doc, urgent in database.query("select doc, urgent from unembedded")]
    if database.query("select 1 from meta where key = 'model'"):
        assert vectors | dict(waiting) == docs
        assert len(vectors) + len(waiting) == len(docs)
    else:
        assert not vectors
        assert not waiting


def work(index: Index) -> None:
    while index.catch_up() + index.embed_pending():
        pass


def count(index: Index, table: str) -> int:
    return int(index.database.query(f"select count(*) from {table}")[0][0])


@contextmanager
def other_rules() -> Iterator[None]:
    """Cut words by other rules than edgemem's, as an older edgemem did."""
    before = words.WORDS_VERSION, words.stem
    words.WORDS_VERSION, words.stem = "other", lambda word, *_: word
    words.stems.cache_clear()
    try:
        yield
    finally:
        words.WORDS_VERSION, words.stem = before
        words.stems.cache_clear()
