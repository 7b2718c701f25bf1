"""VectorMemoryStore: facts found by meaning, whatever happens to the model, the index and the file."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import edgemem
from edgemem.errors import ClosedError, InvalidInputError, ModelError
from edgemem.llama.models.convert import convert_bert
from edgemem.recall.vector_store import VectorMemoryStore
from edgemem.records import Reader
from support.embedders import HashEmbedder
from support.models import write_tiny_bert
from support.refusals import refusal

MEANS = {"cook": "allergi", "safe": "allergi"}


class Embedding:
    """A plain function from text to numbers, which remembers what it was called with."""

    def __init__(self, name: str = "one", dimensions: int = 64) -> None:
        self.embedder = HashEmbedder(dimensions, name=name, means=MEANS)
        self.texts: list[str] = []

    def __call__(self, text: str) -> list[float]:
        self.texts.append(text)
        return (3 * self.embedder.embed_texts([text])[0]).tolist()


@pytest.fixture
def embed() -> Embedding:
    return Embedding()


@pytest.fixture
def store(tmp_path: Path, clock, embed: Embedding):
    with VectorMemoryStore(tmp_path / "x.db", embed_fn=embed, clock=clock) as made:
        yield made


def keys(found) -> list[str]:
    return [fact.key for fact, _ in found]


def test_the_example_of_the_seed_finds_what_is_safe_to_cook(store: VectorMemoryStore) -> None:
    """What was just added is found at once, by meaning, nearest first."""
    store.add_fact("user.allergies", "peanuts, shellfish")
    store.add_fact("kitchen.fridge.contents", "milk, eggs, cheese")
    found = store.search_facts("what's safe to cook?", k=3)
    assert keys(found) == ["user.allergies", "kitchen.fridge.contents"]
    assert found[0][0].value == "peanuts, shellfish"
    assert 0 <= found[0][1] < found[1][1] <= 2


def test_a_scope_is_narrowed_down_before_k(store: VectorMemoryStore) -> None:
    """Fifty nearer facts of somebody else do not hide the one that was asked for."""
    for n in range(50):
        store.add_fact(f"tea{n}", "tea", scope="user:bob")
    store.add_fact("drink", "coffee", scope="user:alice")
    assert keys(store.search_facts("tea", k=5, scope="user:alice")) == ["drink"]
    assert len(store.search_facts("tea", k=5, scope="user:bob")) == 5
    assert store.search_facts("tea", scope="user:carol") == []


def test_a_reader_finds_only_what_it_may_read(store: VectorMemoryStore) -> None:
    """Without a reader it is the operator's view; with one, law 7 holds before k."""
    store.add_fact("pin", "tea", scope="user:bob")
    store.add_fact("door", "tea", scope="household")
    store.add_fact("city", "tea")
    assert set(keys(store.search_facts("tea"))) == {"pin", "door", "city"}
    assert set(keys(store.search_facts("tea", reader=Reader("alice")))) == {"door", "city"}
    assert keys(store.search_facts("tea", reader=Reader())) == ["city"]


def test_forgetting_leaves_no_vector(tmp_path: Path) -> None:
    """The bytes of a vector go with the fact, and the index is not given up."""
    embedder = HashEmbedder(64)
    with VectorMemoryStore(tmp_path / "x.db", embed_fn=embedder) as store:
        for n in range(5):
            store.add_fact(f"note{n}", f"word{n} thing{n}")
        store.embed_pending()
    with closing(sqlite3.connect(tmp_path / "x.index.db")) as index:
        vectors = [row for (row,) in index.execute("select codes from vectors order by doc")]
    assert all(vector in (tmp_path / "x.index.db").read_bytes() for vector in vectors)
    with VectorMemoryStore(tmp_path / "x.db", embed_fn=embedder) as store:
        assert store.forget_fact("note0")
        assert not store.index.damaged
    assert not [file for file in tmp_path.glob("x*") if vectors[0] in file.read_bytes()]
    with VectorMemoryStore(tmp_path / "x.db", embed_fn=embedder) as store:
        assert keys(store.search_facts("word3 thing3", k=1)) == ["note3"]
    assert all(vector in (tmp_path / "x.index.db").read_bytes() for vector in vectors[1:])


@pytest.mark.parametrize("query", ["", "  \n", "\0", "x\0y \ud800", "../../x", "'; drop --", "é" * 10**6])
def test_any_question_is_answered_or_empty(store: VectorMemoryStore, query: str) -> None:
    """Nothing that can be said breaks a search, and nothing is lost by it."""
    store.add_fact("drink", "tea")
    assert len(store.search_facts(query)) == (1 if query.strip(" \n\0") else 0)
    assert store.get_fact("drink") == "tea"
    assert store.search_facts("tea", k=0) == []


def test_bad_arguments_are_one_sentence(tmp_path: Path, store: VectorMemoryStore) -> None:
    """What cannot be used says so before anything is opened."""
    with pytest.raises(InvalidInputError, match="must be text"):
        store.search_facts(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="llama_embed"):
        VectorMemoryStore(tmp_path / "y.db", embed_fn=None)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="64 numbers instead of 32"):
        VectorMemoryStore(tmp_path / "y.db", embed_fn=Embedding(), embedding_dim=32)
    for bad in ([], [[1.0]], [float("nan"), 1.0], [float("inf")], ["a"], [None]):
        refusal(ModelError, VectorMemoryStore, tmp_path / "y.db", embed_fn=lambda _text, bad=bad: bad)
    assert not (tmp_path / "y.db").exists()


def test_a_function_that_fails_loses_nothing(tmp_path: Path, clock, embed) -> None:
    """The fact is stored, the search says what is wrong, and the next one finds it."""
    down = False

    def sometimes(text: str) -> list[float]:
        if down:
            raise RuntimeError("no more memory")
        return embed(text)

    with VectorMemoryStore(tmp_path / "x.db", embed_fn=sometimes, clock=clock) as store:
        down = True
        store.add_fact("drink", "tea")
        refusal(ModelError, store.search_facts, "tea", match="no more memory")
        down = False
        assert keys(store.search_facts("tea")) == ["drink"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    convert_bert(write_tiny_bert(folder / "bert"), folder / "nomic-embed-text-v1.5.Q4_K_M.gguf", name="tiny")
    return folder / "nomic-embed-text-v1.5.Q4_K_M.gguf"


@pytest.fixture
def llm(tiny: Path):
    from edgemem.llama.backend import llama

    opened = llama().Llama(model_path=str(tiny), embedding=True, n_ctx=64, verbose=False)
    yield opened
    opened.close()


def test_a_real_model_finds_facts(tmp_path: Path, clock, llm) -> None:
    """The seed's program runs on a GGUF; reopening it embeds nothing again."""
    for _ in range(2):
        embed = edgemem.llama_embed(llm)
        with edgemem.VectorMemoryStore(tmp_path / "vec.db", embed_fn=embed, clock=clock) as store:
            store.add_fact("robot", "kitchen")
            store.add_fact("hello", "unable")
            assert keys(store.search_facts("robot: kitchen", k=1)) == ["robot"]
    assert len(embed("hello")) == embed.dimensions == 32


def test_llama_embed_takes_text_of_any_length(llm) -> None:
    """What is longer than the context is cut before its end token, where llama.cpp would end the process."""
    embed = edgemem.llama_embed(llm)
    long = np.array(embed("robot " * 5000))
    assert np.linalg.norm(long) == pytest.approx(1)
    assert long @ np.array(embed("robot " * 60)) > 0.98


def test_llama_embed_puts_prefixes_before_questions_and_texts(llm) -> None:
    """A prefix belongs to a kind of text, and to the fingerprint."""
    bare = edgemem.llama_embed(llm, query_prefix="", text_prefix="")
    marked = edgemem.llama_embed(llm, query_prefix="hello ", text_prefix="robot ")
    assert marked.query("kitchen") == pytest.approx(bare("hello kitchen"))
    assert marked("kitchen") == pytest.approx(bare("robot kitchen"))
    assert bare.query("kitchen") == bare("kitchen")
    assert marked.fingerprint != bare.fingerprint
    assert edgemem.llama_embed(llm, query_prefix="", text_prefix="").fingerprint == bare.fingerprint


def test_a_closed_model_says_so(tmp_path: Path, clock, llm) -> None:
    """Where llama.cpp would end the process, there is an error, and what was stored is safe."""
    embed = edgemem.llama_embed(llm)
    with VectorMemoryStore(tmp_path / "x.db", embed_fn=embed, clock=clock) as store:
        store.add_fact("robot", "kitchen")
        llm.close()
        refusal(ClosedError, store.search_facts, "robot", match="model was closed")
        assert store.get_fact("robot") == "kitchen"


def test_llama_embed_refuses_a_model_that_gives_no_vector_of_a_text(tiny: Path) -> None:
    """A chat model, or one without pooling, is refused at once and not at the first fact."""
    from edgemem.llama.backend import llama

    tokens = {"embedding": True, "pooling_type": 0}
    for wrong, told in (({"embedding": False}, "embedding=True"), (tokens, "whole text")):
        opened = llama().Llama(model_path=str(tiny), n_ctx=64, verbose=False, **wrong)
        with closing(opened), pytest.raises(ModelError, match=told):
            edgemem.llama_embed(opened)


def test_forgetting_does_not_wait_for_a_model_at_work(tmp_path: Path, clock) -> None:
    """It returns while a batch is being embedded, and that batch brings nothing back."""
    begun, go_on = threading.Event(), threading.Event()
    plain = Embedding()

    def slowly(text: str) -> list[float]:
        if "zebra" in text:
            begun.set()
            assert go_on.wait(60)
        return plain(text)

    path = tmp_path / "truth.db"
    with VectorMemoryStore(path, embed_fn=slowly, clock=clock) as store:
        store.add_fact("pin", "4711-zebra")
        store.add_fact("tea", "green")
        worker = threading.Thread(target=store.embed_pending)
        worker.start()
        assert begun.wait(60)
        assert store.forget_fact("pin")
        assert worker.is_alive()
        assert b"zebra" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
        store.add_fact("pin", "another")
        go_on.set()
        worker.join()
        assert next(fact.value for fact, _ in store.search_facts("pin another")) == "another"
        docs = {doc for (doc,) in store.index.database.query("select id from docs")}
        assert {doc for (doc,) in store.index.database.query("select doc from vectors")} == docs


def test_rounding_does_not_look_like_another_model(tmp_path: Path, clock) -> None:
    """The probe's fingerprint stays the same when another processor rounds differently."""
    embed = Embedding()
    noise = np.random.default_rng(1)

    def rounded(text: str) -> list[float]:
        return (np.array(embed(text)) + noise.normal(0, 1e-6, 64)).tolist()

    for function in (embed, rounded, rounded):
        with VectorMemoryStore(tmp_path / "x.db", embed_fn=function, clock=clock) as store:
            store.add_fact("drink", "tea")
            store.search_facts("tea")
    assert embed.texts.count("drink: tea") == 1
