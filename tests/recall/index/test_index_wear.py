"""The index file: few commits to the card, long texts by their pieces, nothing that was closed since, and damage that is mended."""

import itertools
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from conftest import HandClock
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import edgemem
from edgemem.clock import Clock
from edgemem.config import NotesSettings
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.recall.index.embedding import Window, window_of
from edgemem.recall.index.index import Index
from edgemem.recall.recall import Recall, Request
from edgemem.store.db.database import Database
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from support.embedders import HashEmbedder
from support.homes import count_docs, say
from support.models import Listener, Model


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how many transactions were written, by the name of the file."""
    counted: Counter[str] = Counter()
    submit = Database.submit

    def counting(database: Database, *args: Any, **kwargs: Any) -> Any:
        counted[database.path.name] += 1
        return submit(database, *args, **kwargs)

    monkeypatch.setattr(Database, "submit", counting)
    return counted


def talk(memory: Memory, turns: int, hand: HandClock) -> None:
    """Have Ben say two sentences a turn, with enough silence behind each for all that the worker does."""
    model = Model(*(f"Noted as number {n}. Shelf {n} is free now." for n in range(turns)))
    loop = AgentLoop(model, hooks=memory.hooks(session_id="hall", speaker="ben"), speaker="ben")
    for n in range(turns):
        loop.run(f"Lamp {n} stands in room {n}. Its colour is number {n} of the chart.")
        hand.advance(1)
        memory.idle(60, thorough=False)
    assert loop.hooks.failures() == memory.diagnostics.upkeep.failures() == []


def test_vectors_are_written_with_the_rows_that_they_belong_to(
    tmp_path: Path, hand: HandClock, commits: Counter[str]
) -> None:
    """A hundred turns are in the index after some commits, and each doc that is there has its vector."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        commits.clear()
        talk(memory, 100, hand)
        assert memory.diagnostics.search.pending()["text"] < 120
        assert memory.diagnostics.search.pending()["vectors"] == 0
        assert commits["index.db"] <= 12
        said = [text for text in embedder.embedded if text.startswith("Lamp") and text.endswith("chart.")]
        assert len(said) == len(set(said)) == 100


@pytest.mark.parametrize("unembedded", [0, 1])
def test_closing_embeds_nothing_and_keeps_what_was_embedded(
    tmp_path: Path, hand: HandClock, unembedded: int
) -> None:
    """The index file takes what had its vectors in memory; what has none waits for the next silence, and keeps no other back."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        talk(memory, 3, hand)
        assert memory.diagnostics.search.pending()["text"]
        for _ in range(unembedded):
            memory.store.add_episode("task", {"text": "The attic was swept."}, "done", agent="robot")
        embedder.embedded.clear()
    assert embedder.embedded == []
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        assert set(memory.diagnostics.search.pending().values()) <= {0, unembedded}
        assert memory.diagnostics.search.pending()["vectors"] == unembedded
        memory.idle(60)
        assert len(memory.recall("attic", speaker="ben")) >= unembedded
        assert ["attic" in text for text in embedder.embedded] == [True] * unembedded


def test_nothing_forgotten_stays_embedded(tmp_path: Path, hand: HandClock) -> None:
    """What is forgotten before the index knows it is embedded anew when it is said once more: its vector is gone."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        for _ in range(2):
            talk(memory, 1, hand)
            assert memory.diagnostics.search.pending()["text"]
            memory.forget(session="hall")
            memory.idle(60, thorough=False)
    assert len(embedder.embedded) == 2 * len(set(embedder.embedded))


def test_what_waits_is_not_embedded_again_when_something_else_goes(tmp_path: Path, hand: HandClock) -> None:
    """Forgetting a fact, or the end of an epoch, costs no vector of what was said meanwhile."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        memory.store.add_fact("gate", "green", scope="household")
        memory.idle(60)
        talk(memory, 3, hand)
        memory.forget(key="gate", scope="household")
        memory.idle(60)
    assert len(embedder.embedded) == len(set(embedder.embedded))


pytestmark = pytest.mark.usefixtures("patient")
KINDS = ("fact", "preference", "episode", "turn", "note")


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with edgemem.open(tmp_path / "home", worker=False) as opened:
        opened.store.add_fact("bicycle key", "bicycle key hangs behind the oven", scope="household")
        opened.store.set_preference("bicycle", "bicycle lamp always on", scope="household")
        opened.store.add_episode("bicycle", {"text": "bicycle was repaired"}, "ok", level="household")
        loop = AgentLoop(Listener(), hooks=opened.hooks(session_id="hall"))
        loop.run("The bicycle stands in the shed.", speaker="Ann")
        loop.run("Good night.", speaker="Ann")
        opened.store.flush()
        opened.notes.append("- oil the bicycle")
        opened.idle(seconds=20)
        yield opened


def found(memory: Memory, kind: Any, speaker: str | None) -> set[str]:
    return {
        item.kind
        for item in memory.recall("bicycle", speaker=speaker, k=20, kinds={kind})
        if "icycle" in item.text
    }


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_closed_since_it_was_indexed_is_not_recalled(memory: Memory, kind: str) -> None:
    """A row that became private behind the index's back is found there, and told to nobody but its owner."""
    assert found(memory, kind, "Ben") == {kind}
    assert found(memory, kind, None) == set()

    def close(tx: Any) -> None:
        # As an operator's own SQL does it, which tells the index nothing.
        tx.execute("drop trigger facts_only_closed")
        for table in ("facts", "preferences", "episodes", "turns"):
            tx.execute(f"update {table} set level = 2, owner = 'Ann'")

    memory.diagnostics.database.write(close)
    level: Any = "shared" if kind != "note" else "private"
    memory.diagnostics.settings.now = msgspec.structs.replace(
        memory.profile, notes=NotesSettings(level=level)
    )
    assert found(memory, kind, "Ben") == set()
    assert found(memory, kind, "Ann") == ({kind} if kind != "note" else set())


SENTENCE = "The ladder stands behind the green boat in the garage."


@given(
    st.lists(st.sampled_from(["x", "xx ", " ", "\n", "x. ", "x! ", "x。", "x" * 40, "x…” "]), max_size=200),
    st.integers(10, 40),
)
def test_every_character_is_in_a_piece_and_every_piece_fits(parts, size):
    """Whatever the text is made of: pieces follow one another, and leave nothing out."""
    numbers = itertools.count(0x10000)
    text = "".join(chr(next(numbers)) if letter == "x" else letter for letter in "".join(parts))
    count = Window(size, lambda texts: [len(text) + 2 for text in texts], 0)
    pieces = count.split(text, 10_000)
    if len(text) + 2 <= size:
        assert pieces[0] == text
        assert all(piece in text for piece in pieces)
        return
    assert all(len(piece) + 2 <= size for piece in pieces)
    end = 0
    for piece in pieces:
        at = text.index(piece, end)
        assert not text[end:at].strip()
        end = at + len(piece)
    assert not text[end:].strip()
    assert len(pieces) <= 2 + 5 * len(text) // (size - 2)


def test_a_hostile_text_takes_no_time():
    """Points, quotation marks and spaces by the thousand do not make the search for ends slow."""
    for text in ("." * 8000, '."' * 4000, " " * 8000, ". " * 4000, ".\n" * 4000):
        count = Window(100, lambda texts: [len(text) for text in texts], 0)
        assert count.split(text + "end", 100)


@pytest.mark.parametrize("prefix", ["", "passage: " * 5])
def test_the_real_model_embeds_each_piece_whole(minilm: Path, prefix: str) -> None:
    """Tokens are the model's own, with its prefix: no piece is cut, and what stands at the end of a text is found."""
    told = " ".join(
        f"{SENTENCE} Zephyr number {n} sails at {n} o'clock — naïve, isn't it? 价格{n}元。" for n in range(40)
    )
    end = "My grandmother keeps the spare key under the flower pot."
    with LlamaEmbedder(minilm, n_ctx=128, text_prefix=prefix) as embedder:
        pieces = window_of(embedder).split(f"{told} {end}", 99)
        counts = embedder.count_tokens(pieces)
        assert max(counts) <= 128
        assert min(counts) > 40
        assert pieces[-1].endswith(end)
        query = embedder.embed_query("Where is the spare key?")
        near = embedder.embed_texts(pieces) @ query
        assert int(np.argmax(near)) == len(pieces) - 1
        assert near[-1] > 0.15 + float(embedder.embed_texts([f"{told} {end}"])[0] @ query)


def test_tokens_are_counted_as_they_are_embedded(minilm: Path) -> None:
    """With the prefix, the begin and the end, beyond the window too; special tokens in a text are text."""
    with LlamaEmbedder(minilm, n_ctx=64) as plain, LlamaEmbedder(minilm, text_prefix="a b ") as prefixed:
        assert plain.count_tokens(["", "cat", "cat " * 500, "[SEP]"]) == [2, 3, 502, 5]
        assert prefixed.count_tokens(["cat"]) == [5]
        assert plain.count_tokens([]) == []
        assert plain.n_ctx == 64


WALL = 1_770_000_000.0
YEAR = 366 * 86400.0
HUGE = 2**63 - 1
BAD: tuple[Any, ...] = (None, "x\x00;é", "", HUGE, -HUGE - 1, 1.5, float("inf"), b"\x01\x02")
"""What a card may give back; SQLite stores no other float that is no number."""
QUESTIONS = ("answer 7", "where is the drawer?", "what was in the drawer before?", "")


class Home(NamedTuple):
    """A folder with a truth and its index, and the columns of the index."""

    folder: Path
    columns: list[tuple[str, str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Home:
    """Return a home in which every table of the index holds something."""
    folder = tmp_path_factory.mktemp("damage")
    with opened(folder) as truth:
        for n in range(10):
            say(truth, n, f"question {n} about boats", f"answer {n}")
        store = SQLiteMemoryStore(truth)
        store.add_fact("gone.box", "nothing", scope="household")
        for value in ("spoons", "forks"):
            store.add_fact("kitchen.drawer", value, scope="household")
        with Index(folder / "index.db", truth, embedder=HashEmbedder()) as index:
            work(index)
            store.forget_fact("gone.box", scope="household")
            work(index)
    (folder / "index.db-wal").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / "index.db")
    tables = connection.execute(
        "select name from sqlite_master where type = 'table' and sql not like 'create virtual%' and name not like 'sqlite_%'"
    ).fetchall()
    columns = [
        (table, column)
        for (table,) in tables
        for _, column, *_ in connection.execute(f"pragma table_info({table})").fetchall()
    ]
    connection.close()
    return Home(folder, columns)


def opened(folder: Path) -> Database:
    return open_truth(folder / "memory.db", clock=Clock(wall=lambda: WALL, monotonic=lambda: 1.0))


def work(index: Index) -> None:
    for _ in range(30):
        if not index.catch_up() + index.embed_pending():
            break


def spoil(path: Path, table: str, column: str, value: Any) -> None:
    """Put something into all cells of a column, or into one where they must differ; not where SQLite refuses it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma ignore_check_constraints = on")
    for one in ("", f" where {column} is (select {column} from {table} limit 1)"):
        try:
            connection.execute(f"update {table} set {column} = ?{one}", (value,))
            break
        except sqlite3.Error:
            continue
    connection.close()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000), st.sampled_from(BAD), st.booleans())
@example(("unembedded", "doc"), "", False)
@example(("docs", "ref"), "", True)
@example(("docs", "rules"), "", False)
@example(("vectors", "codes"), b"\x01\x02", True)
@example(("vectors", "past"), "", True)
@example(("vectors", "seq"), HUGE, True)
@example(("docs", "past"), HUGE, False)
@example(("docs", "id"), -HUGE - 1, False)
@example(("meta", "value"), "", True)
def test_a_cell_that_holds_what_we_never_wrote_costs_nothing(home, cell, value, live):
    """Found when it is opened or while it is used: nothing is raised, the index heals, and truth and clock stay as they are."""
    table, column = home.columns[cell % len(home.columns)] if isinstance(cell, int) else cell
    path = home.folder / "damaged.db"
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.copy(home.folder / "index.db", path)
    if not live:
        spoil(path, table, column, value)
    embedder = HashEmbedder()
    with opened(home.folder) as truth, Index(path, truth, embedder=embedder) as index:
        before = truth.query("select max(id), count(*) from messages")
        recall = Recall(truth, index, embedder=embedder)
        if live:
            recall.recall("answer 7", Request(reader=None))
            spoil(path, table, column, value)
        for _ in range(3):
            for question in QUESTIONS:
                recall.recall(question, Request(reader=None))
            index.pending()
            index.catch_up()
            index.embed_pending()
            index.warm()
        work(index)
        assert "answer 7" in [item.text for item in recall.recall("answer 7", Request(reader=None, k=3))]
        (fact,) = recall.recall("kitchen drawer", Request(reader=None, k=1, kinds={"fact"}))
        assert fact.value == "forks"
        assert truth.query("select max(id), count(*) from messages") == before
        assert truth.clock.now() < WALL + 86400


def test_only_a_derived_file_is_doubted(tmp_path):
    """A truth that is years ahead is taken at its word; an index that is years ahead of its truth is made again."""
    with opened(tmp_path) as truth:
        truth.clock.witness(int((WALL + 5 * YEAR) * 1e6))
        SQLiteMemoryStore(truth).add_fact("key", "value")
    with opened(tmp_path) as truth:
        assert truth.clock.now() > WALL + 4 * YEAR
        with Index(tmp_path / "index.db", truth) as index:
            work(index)
            file = index.path.stat().st_ino
        with Index(tmp_path / "index.db", truth) as index:
            assert index.path.stat().st_ino == file
    connection = sqlite3.connect(tmp_path / "index.db")
    connection.execute("insert into removals (seq, doc) values (?, 1)", (int((WALL + 8 * YEAR) * 1e6),))
    connection.commit()
    connection.close()
    with opened(tmp_path) as truth, Index(tmp_path / "index.db", truth) as index:
        work(index)
        assert count_docs(index) == 1
        assert truth.clock.now() < WALL + 6 * YEAR
