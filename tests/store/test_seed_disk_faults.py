"""Faults of EdgeVox's files, models and search (research/edgevox.md, section 3) that must not be found here, by number."""

from __future__ import annotations

import os
import re
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from ggufs import write_llama_gguf
from hash_embedder import HashEmbedder
from llama_cpp import Llama
from talkers import SQLITE, held
from tiny_bert import write_tiny_bert

import edgemem
from edgemem import (
    AgentLoop,
    EpisodeLoggerHook,
    JSONMemoryStore,
    JSONSessionStore,
    NotesFile,
    Session,
    SQLiteMemoryStore,
    SQLiteSessionStore,
    VectorMemoryStore,
    llama_embed,
)
from edgemem.errors import BusyError, ModelError, StoreError
from edgemem.llama.chat import LlamaChat
from edgemem.llama.models.convert import convert_bert
from edgemem.loop.replies import ChatReplies
from edgemem.loop.toolbox import Tool
from edgemem.records import Kind, Message, Reply, ToolCall
from edgemem.store.db.database import Database


class Model:
    """Answers what it is told to, and keeps what it was handed."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.handed: list[list[Message]] = []

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.handed.append(list(messages))
        return self.replies.pop(0) if self.replies else Reply("ok")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


def execute(store: SQLiteMemoryStore, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement on the connection that writes."""
    return store.database.write(lambda tx: tx.execute(sql))


PULL = "create trigger pull before delete on {} begin select raise(abort, 'pulled'); end"


# Models


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a real embedding model of a few thousand random weights."""
    folder = tmp_path_factory.mktemp("bert")
    convert_bert(write_tiny_bert(folder / "source"), folder / "tiny.gguf", name="tiny")
    return folder / "tiny.gguf"


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory, vocabularies: Path) -> Path:
    """Return a real chat model of random weights."""
    return write_llama_gguf(
        tmp_path_factory.mktemp("talker") / "phi-3.gguf",
        vocabularies=vocabularies,
        vocabulary="phi-3",
        template="microsoft-Phi-3.5-mini-instruct",
        width=32,
    )


def test_10_one_llama_embeds_for_one_thread_at_a_time(bert: Path) -> None:
    """However many functions are made of a `Llama` and threads call them, it is never entered twice at once."""
    inside = threading.Semaphore(1)
    met: list[str] = []

    class Watched(Llama):  # type: ignore[misc]
        def embed(self, *args: Any, **rest: Any) -> Any:
            alone = inside.acquire(blocking=False)
            if not alone:
                met.append(threading.current_thread().name)
            try:
                return super().embed(*args, **rest)
            finally:
                if alone:
                    inside.release()

    with closing(Watched(str(bert), embedding=True, n_ctx=64, verbose=False)) as llm:
        functions = [llama_embed(llm) for _ in range(4)]
        wanted = functions[0]("hello robot")
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda n: functions[n % 4]("hello robot"), range(80)))
    assert met == []
    assert all(vector == pytest.approx(wanted) for vector in made)


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"embedding": False}, "embedding=True"), ({"embedding": True, "pooling_type": 0}, "whole text")],
)
def test_10_a_model_that_cannot_embed_a_text_is_refused_at_once(
    bert: Path, talker: Path, settings: dict[str, Any], told: str
) -> None:
    """A `Llama` for chatting and one without pooling are no embedders, and are told so before the first fact."""
    for file in (bert, talker):
        with (
            closing(Llama(str(file), n_ctx=64, verbose=False, **settings)) as llm,
            pytest.raises(ModelError, match=told),
        ):
            llama_embed(llm)


class SlowEmbedder(HashEmbedder):
    """Takes as long over the texts of upkeep as a test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.busy, self.go_on = threading.Event(), threading.Event()

    def embed_texts(self, texts: Sequence[str]) -> Any:
        self.busy.set()
        assert self.go_on.wait(10)
        return super().embed_texts(texts)


@contextmanager
def embedding(embedder: SlowEmbedder, work: Callable[[], Any]) -> Iterator[None]:
    """Run the work in a thread, and the block in the middle of its embedding."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert embedder.busy.wait(10)
        yield
        assert thread.is_alive()
    finally:
        embedder.go_on.set()
        thread.join()


@pytest.mark.parametrize("work", ["search_facts", "embed_pending"])
def test_11_the_store_is_open_to_all_while_a_model_embeds(tmp_path: Path, work: str) -> None:
    """In the middle of an embedding, facts and episodes are written, read and rendered."""
    embedder = SlowEmbedder()
    with VectorMemoryStore(tmp_path / "v.db", embed_fn=embedder) as store:
        store.add_fact("drink", "tea")
        todo: dict[str, Callable[[], Any]] = {
            "search_facts": lambda: store.search_facts("tea"),
            "embed_pending": store.embed_pending,
        }
        with embedding(embedder, todo[work]):
            store.add_fact("food", "bread")
            store.add_fact("drink", "coffee")
            store.add_episode("bake", {}, "ok")
            assert store.get_fact("drink") == "coffee"
            assert "bread" in store.render_for_prompt()
            assert store.retract_fact("food")
        assert [fact.value for fact, _ in store.search_facts("coffee")] == ["coffee"]


def test_11_a_turn_waits_for_no_upkeep_that_embeds(tmp_path: Path) -> None:
    """In the middle of an embedding, a whole turn recalls, answers and is stored."""
    embedder = SlowEmbedder()
    with edgemem.open(tmp_path / "home", embedder=embedder, worker=False) as memory:
        for n in range(40):
            memory.store.add_fact(f"shelf {n}", f"holds jar {n}", scope="household")
        memory.store.add_fact("bicycle", "green", scope="household")
        model = Model()
        loop = AgentLoop(model, hooks=memory.hooks(session_id="s", speaker="ann"))
        with embedding(embedder, lambda: memory.idle(5.0)):
            assert loop.run("what colour is the bicycle?", speaker="ann").reply == "ok"
            assert len(memory.sessions.journal.read_turns("s")) == 1
        assert "bicycle: green" in model.handed[0][-1]["content"]
        assert loop.hooks.failures() == []


# What is stored


def test_12_a_forgotten_fact_is_gone_whole_or_not_at_all(tmp_path: Path) -> None:
    """Where the last row of it cannot be deleted, every version is still there, and still found."""
    embedder = HashEmbedder()
    with VectorMemoryStore(tmp_path / "v.db", embed_fn=embedder) as store:
        for value in ("tea", "coffee", "cocoa"):
            store.add_fact("drink", value)
        assert store.search_facts("cocoa")
        before = store.fact_history("drink")
        for table in ("facts", "fact_keys"):
            execute(store, PULL.format(table))
            with pytest.raises(StoreError, match="pulled"):
                store.forget_fact("drink")
            assert store.fact_history("drink") == before
            assert [fact.value for fact, _ in store.search_facts("cocoa")] == ["cocoa"]
            execute(store, "drop trigger pull")
        assert store.forget_fact("drink")
        assert store.fact_history("drink") == []
        assert store.search_facts("cocoa") == []


def test_12_an_episode_and_what_it_pushes_out_are_one_transaction(tmp_path: Path) -> None:
    """Where the oldest ones cannot be deleted, the newest was not added either."""
    with SQLiteMemoryStore(tmp_path / "m.db", max_episodes=10) as store:
        for n in range(11):
            store.add_episode("step", {"n": n}, "ok")
        execute(store, PULL.format("episodes"))
        with pytest.raises(StoreError, match="pulled"):
            store.add_episode("step", {"n": 11}, "ok")
        assert store.database.query("select count(*) from episodes") == [(11,)]
        execute(store, "drop trigger pull")
        store.add_episode("step", {"n": 12}, "ok")
        assert store.database.query("select count(*) from episodes") == [(10,)]
        assert store.recent_episodes(1)[0].payload == {"n": 12}


def test_12_a_process_that_dies_in_between_leaves_all(tmp_path: Path) -> None:
    """After every row is deleted and before the commit, a process ends: the next one has the fact with its history."""
    program = (
        "import os, sys\n"
        "from edgemem.store.erase.records import erase_fact\n"
        "from edgemem.store.memory_store import SQLiteMemoryStore\n"
        "store = SQLiteMemoryStore(sys.argv[1])\n"
        "store.add_fact('drink', 'tea')\n"
        "store.add_fact('drink', 'coffee')\n"
        "store.database.write(lambda tx: (erase_fact(tx, 'drink') and os._exit(9)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "m.db")], check=False)
    assert done.returncode == 9
    with SQLiteMemoryStore(tmp_path / "m.db") as store:
        assert [fact.value for fact in store.fact_history("drink")] == ["tea", "coffee"]
        assert store.forget_fact("drink")
        assert store.fact_history("drink") == []


FULL = 2  # SQLite's number: each commit is synced


def test_14_a_commit_is_on_the_disk_and_the_file_is_whole_when_closed(tmp_path: Path) -> None:
    """Each commit is synced, closing leaves one file without a log, and the file says which schema it has."""
    path = tmp_path / "m.db"
    with SQLiteMemoryStore(path) as store:
        store.add_fact("cup", "red")
        assert execute(store, "pragma journal_mode") == [("wal",)]
        assert execute(store, "pragma synchronous") == [(FULL,)]
        assert path.with_name("m.db-wal").stat().st_size > 0
        assert store.database.query("select count(*) > 0 from migrations") == [(1,)]
    assert not path.with_name("m.db-wal").exists()
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as alone:
        assert alone.execute("select count(*) from facts where value = 'red'").fetchone() == (1,)


def test_16_two_savers_of_one_session_leave_a_whole_file(tmp_path: Path) -> None:
    """Savers that come at the same moment do not write into each other's file."""

    def save(n: int) -> None:
        with JSONSessionStore(tmp_path / "s") as store:
            store.save("talk", Session([{"role": "user", "content": f"{n} " * 5000}]))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(save, range(24)))
    with JSONSessionStore(tmp_path / "s") as store:
        found = store.load("talk")
    assert found is not None
    assert len(set(found.messages[0]["content"].split())) == 1
    assert not list((tmp_path / "s").glob("*damaged*"))


# Notes


def test_17_a_prune_that_fails_loses_no_note(tmp_path: Path) -> None:
    """Where the disk takes only part of the new file, the old one stands as it was."""
    notes = NotesFile(tmp_path / "NOTES.md", max_size_chars=65_536)
    while notes.path.stat().st_size < 65_000 if notes.path.exists() else True:
        notes.append("a line of a note\n" * 60)
    before = notes.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(StoreError, match="too large"):
            notes.append("one more " * 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert notes.path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["NOTES.md"]
    notes.append("and now")
    assert notes.read().endswith("and now\n")


# Sessions and the voice


def test_27_the_save_of_a_turn_costs_what_the_turn_adds(tmp_path: Path) -> None:
    """Turn 500 writes no more than turn 50, in rows and in bytes of the log, and nothing when nothing is new."""
    session = Session()

    def speak(turns: int) -> None:
        for _ in range(turns):
            n = len(session.messages)
            session.messages += [
                {"role": "user", "content": f"question {n} about the cup on the shelf"},
                {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look"}}]},
                {"role": "tool", "content": f"a cup, {n}"},
                {"role": "assistant", "content": f"answer {n}: it stands on the shelf"},
            ]

    with SQLiteSessionStore(tmp_path / "s.db") as store:

        def cost_of_ten() -> tuple[int, int]:
            store.database.checkpoint()
            newest = store.database.query("select max(id) from messages")[0][0]
            for _ in range(10):
                speak(1)
                store.save("talk", session)
            new = store.database.query("select count(*) from messages where id > ?", (newest,))[0][0]
            return new, (tmp_path / "s.db-wal").stat().st_size

        costs = []
        for turns in (50, 440):
            speak(turns)
            store.save("talk", session)
            costs.append(cost_of_ten())
        assert [rows for rows, _ in costs] == [40, 40]
        early, late = (size for _, size in costs)
        assert 0 < late < 1.5 * early < 100_000
        store.database.checkpoint()
        store.save("talk", session)
        assert (tmp_path / "s.db-wal").stat().st_size == 0
        assert store.database.query("select count(*) from messages") == [(len(session.messages),)]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_30_a_barge_in_stops_a_real_model_within_a_token(talker: Path, temperature: float) -> None:
    """The reply ends where it was interrupted, and up to there it is the one that the seed gives anyway."""
    pieces: list[str] = []

    def speak(piece: str) -> None:
        pieces.append(piece)
        if len(pieces) == 5:
            other = threading.Thread(target=loop.interrupt, args=("".join(pieces[:3]),))
            other.start()
            other.join()

    with LlamaChat(talker, n_ctx=1024, threads=1) as chat:
        asked = [{"role": "user", "content": "tell me a long story"}]
        "".join(chat.stream(asked, max_tokens=60, temperature=temperature, seed=7))
        whole = chat.last.ids
        loop = AgentLoop(ChatReplies(chat, max_tokens=60, temperature=temperature, seed=7))
        result = loop.run("tell me a long story", on_text=speak)
        assert result.interrupted
        assert len(pieces) <= 6
        assert chat.last.stopped == "interrupted"
        assert len(whole) > len(chat.last.ids) > 0
        assert chat.last.ids == whole[: len(chat.last.ids)]
        assert loop.hooks.failures() == []


def test_30_a_model_with_another_signature_is_told_and_not_asked_again() -> None:
    """A TypeError is an error: nothing is tried again without the stop, the schema or the seed."""
    asked: list[dict[str, Any]] = []

    class Strict(Model):
        def complete(self, messages: Sequence[Message], **rest: Any) -> Reply:
            asked.append(rest)
            if "stop" in rest:
                raise TypeError("complete() got an unexpected keyword argument 'stop'")
            return super().complete(messages, **rest)

    with pytest.raises(TypeError, match="stop"):
        AgentLoop(Strict()).run("hello")
    assert len(asked) == 1


# Search


def test_36_what_is_stored_is_found_by_hooks_and_tools(tmp_path: Path) -> None:
    """Facts, episodes and notes reach the model by the words of the user, and through the tool that it calls."""
    home = tmp_path / "home"
    with edgemem.open(home, embedder=HashEmbedder(), worker=False) as memory:
        for n in range(40):
            memory.store.add_fact(f"shelf {n}", f"holds jar {n}", scope="household")
        memory.store.add_fact("bicycle", "green, with a basket", scope="household")
        memory.store.add_episode("repair", {"name": "boiler"}, "leaked again")
        memory.notes.append("- the plumber charges ninety euros", heading="House")
        memory.idle(5.0)
        asked: list[tuple[str, Kind]] = [("bicycle", "fact"), ("boiler", "episode"), ("plumber", "note")]
        found = {kind: [item.text for item in memory.recall(query, kinds=[kind])] for query, kind in asked}
        assert all(found.values())
        assert "ninety euros" in found["note"][0]
        calls = [
            Reply("", (ToolCall("search_memory", {"query": word}),))
            for word in ("bicycle basket", "boiler", "plumber")
        ]
        model = Model(*(reply for call in calls for reply in (call, Reply("done"))))
        loop = AgentLoop(
            model,
            hooks=memory.hooks(session_id="s", speaker="ann"),
            tools=memory.tools(speaker="ann"),
        )
        said = [loop.run(f"search number {n}", speaker="ann").tools[0] for n in range(3)]
        assert [call.error for call in said] == [None] * 3
        told = [str(call.result) for call in said]
        assert "green, with a basket" in told[0]
        assert "leaked again" in told[1]
        assert "ninety euros" in told[2]
        for question, answer in (
            ("what colour is the bicycle?", "green, with a basket"),
            ("what happened at the repair of the boiler?", "leaked again"),
            ("what does the plumber charge?", "- note: House: the plumber charges ninety euros"),
        ):
            asker = Model()
            fresh = AgentLoop(asker, hooks=memory.hooks(session_id=question, speaker="ann"))
            fresh.run(question, speaker="ann")
            assert answer in asker.handed[0][-1]["content"]
            assert fresh.hooks.failures() == []
        assert loop.hooks.failures() == []


def test_14_damage_is_noticed_and_a_copy_can_be_had(tmp_path: Path) -> None:
    """A backup made while the store is open has everything; a damaged file is told from a sound one."""
    copy = tmp_path / "copy.db"
    with SQLiteMemoryStore(tmp_path / "m.db") as store:
        for n in range(200):
            store.add_fact(f"cup {n}", "on the shelf " * 20)
        assert store.database.quick_check() == []
        store.database.backup(copy)
    with SQLiteMemoryStore(copy) as store:
        assert len(store.facts()) == 200
    data = bytearray(copy.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096] = os.urandom(4096)
    copy.write_bytes(data)
    with Database(copy) as database:
        assert database.quick_check()


def test_15_a_lock_of_another_program_stops_no_reader_and_no_writer_for_ever(tmp_path: Path) -> None:
    """While somebody else holds the file everything is read; a write is told who is in the way, and works later."""
    path = tmp_path / "m.db"
    with Database(path, busy_timeout_s=0.1) as database, SQLiteMemoryStore(database) as store:
        store.add_fact("cup", "red")
        with held(SQLITE, path):
            with ThreadPoolExecutor(4) as pool:
                seen = list(pool.map(lambda _: store.get_fact("cup"), range(8)))
            assert seen == ["red"] * 8
            assert "red" in store.render_for_prompt()
            with pytest.raises(BusyError, match=re.escape("Another process holds")):
                store.add_fact("cup", "blue")
        store.add_fact("cup", "green")
        assert [fact.value for fact in store.fact_history("cup")] == ["red", "green"]


def test_15_a_reader_does_not_wait_for_a_writer_of_its_own_process(tmp_path: Path) -> None:
    """In the middle of a write another thread reads what was committed before; who cannot wait is told."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(tx: Any) -> None:
        tx.execute("insert into meta values ('slow', 1)")
        begun.set()
        assert go_on.wait(10)

    with SQLiteMemoryStore(tmp_path / "m.db") as store:
        store.add_fact("cup", "red")
        waiting = store.database.submit(slow)
        try:
            assert begun.wait(10)
            assert store.get_fact("cup") == "red"
            with pytest.raises(BusyError, match="will be written"):
                store.database.write(lambda tx: tx.execute("select 1"), wait_s=0.01)
        finally:
            go_on.set()
        waiting.result(10)


@pytest.mark.usefixtures("patient")
def test_13_the_end_of_a_turn_writes_what_waited(tmp_path: Path) -> None:
    """What a turn added is in the file when the turn is over, without a later write and without closing."""
    path = tmp_path / "m.json"
    with JSONMemoryStore(path, flush_after_s=600) as store:
        loop = AgentLoop(
            Model(Reply("", (ToolCall("look", {}),))),
            tools=[Tool("look", "", {}, lambda: store.add_fact("cup", "on the shelf"))],
            hooks=[EpisodeLoggerHook(store)],
        )
        loop.run("where is the cup?")
        assert loop.hooks.failures() == []
        with JSONMemoryStore(path) as other:
            assert other.get_fact("cup") == "on the shelf"
            assert len(other.recent_episodes()) == 1


def test_15_a_locked_file_costs_no_reply(tmp_path: Path) -> None:
    """The voice answers from memory while another program holds it; that the turn was not stored is told."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n[store]\nbusy_timeout_s = 0.1\n')
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("cup", "red", scope="household")
        model = Model()
        loop = AgentLoop(model, hooks=memory.hooks(session_id="s", speaker="ann"))
        with held(SQLITE, memory.database.path):
            assert loop.run("where is the red cup?", speaker="ann").reply == "ok"
        assert "cup: red" in model.handed[0][-1]["content"]
        (failure,) = loop.hooks.failures()
        assert (failure.hook, failure.count) == ("PersistSessionHook", 1)
        assert "Another process holds" in failure.message
        assert loop.run("and now?", speaker="ann").reply == "ok"
        assert memory.sessions.journal.read_turns("s")[-1].messages[0].content == "and now?"
