"""Vectors of docs: what comes first, what is interrupted, and another model, which never mixes with the one before."""

import logging
import shutil

import pytest

import edgemem
from edgemem.errors import ClosedError, ModelError
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.recall.index import embedding
from edgemem.recall.index.docs import replace_doc
from edgemem.recall.index.index import Index
from edgemem.recall.index.sources import FACT_SOURCE, read_docs
from edgemem.recall.recall import Recall, Request
from edgemem.records import Reader
from edgemem.store import turns
from lab.languages import household
from support.embedders import HashEmbedder, TokenEmbedder
from support.homes import bytes_of, check, check_of, count, say, tell, work
from support.refusals import refusal


def embedder_line(memory) -> str:
    line = check_of(memory, "embedder")
    assert line.state == "ok"
    return line.detail


def pieces_of(index: Index, doc: int) -> int:
    sql = "select 1 + (length(codes) - 64) / 32 from vectors where doc = ?"
    return sum(pieces for (pieces,) in index.database.query(sql, (doc,)))


@pytest.fixture
def opened(tmp_path, truth, monkeypatch):
    """Return a function that opens the one index file with a model."""

    def open_(embedder, pieces=16) -> Index:
        monkeypatch.setattr(embedding, "PIECES", pieces)
        return Index(tmp_path / "index.db", truth, embedder=embedder)

    return open_


def found(index, question: str, **options) -> list[tuple[str, tuple[str, ...]]]:
    recall = Recall(index.truth, index, embedder=index.embedder)
    return [(item.text, item.why) for item in recall.recall(question, Request(reader=None, **options))]


def by_meaning(index, question: str) -> set[str]:
    """Return what of it meaning has found, alone or beside words."""
    return {text for text, why in found(index, question, k=99) if "meaning" in why}


def test_another_model_of_the_same_length_finds_by_words_until_its_vectors_are_made(truth, store, opened):
    """Words find what is not embedded yet; what is, by meaning too; no vector of the other model is ever compared."""
    for n in range(6):
        store.add_fact(f"cup {n}", f"stands in drawer {n}")
    with opened(HashEmbedder(64, name="old")) as index:
        work(index)
    new = HashEmbedder(64, name="new", means={"mug": "cup"})
    with opened(new) as index:
        assert index.vectors(index.state()) is None
        assert index.pending()["vectors"] == 6
        assert found(index, "drawer 3")[0][0] == "cup 3: stands in drawer 3"
        assert by_meaning(index, "drawer 3") == by_meaning(index, "mug") == set()
        assert index.embed_pending(2) == 2
        assert index.pending()["vectors"] == 4
        assert by_meaning(index, "mug") == {"cup 4: stands in drawer 4", "cup 5: stands in drawer 5"}
        assert found(index, "drawer 3")[0][0] == "cup 3: stands in drawer 3"
        work(index)
        check(index)
        assert len(by_meaning(index, "mug")) == 6


def test_the_vectors_of_the_model_before_are_erased(truth, store, opened):
    """They go as the new model begins, also where it is one of an earlier day."""
    for n in range(3):
        store.add_fact(f"cup {n}", f"drawer {n}")
    for name in ("a", "b", "a"):
        with opened(HashEmbedder(64, name=name)) as index:
            before = {codes for (codes,) in index.database.query("select codes from vectors")}
            index.catch_up()
            index.embed_pending(2)
            assert count(index, "vectors") == 2
            assert not before & {codes for (codes,) in index.database.query("select codes from vectors")}
            work(index)
            check(index)
            assert count(index, "vectors") == 3


def test_a_process_whose_model_was_replaced_finds_by_words(truth, store, opened):
    """Two processes do not take the vectors from one another for ever: that of the model which came last goes on."""
    store.add_fact("milk", "empty")
    mine = opened(HashEmbedder(64, name="mine"))
    work(mine)
    assert by_meaning(mine, "empty milk")
    with opened(HashEmbedder(64, name="theirs")) as theirs:
        work(theirs)
        work(mine)
        assert found(mine, "empty milk")
        assert not by_meaning(mine, "empty milk")
        assert by_meaning(theirs, "empty milk")
        check(theirs)
    mine.close()


def test_what_was_embedded_while_another_model_came_is_not_kept(truth, store, opened):
    """What a process made with the model before is thrown away."""

    class Overslept(HashEmbedder):
        calls = 0

        def embed_texts(self, texts):
            self.calls += 1
            if self.calls == 2:
                with opened(HashEmbedder(64, name="theirs")) as theirs:
                    work(theirs)
            return super().embed_texts(texts)

    for n in range(12):
        say(truth, n, f"word{n}", f"answer{n}")
    with opened(Overslept(64, name="mine")) as mine:
        mine.catch_up()
        mine.embed_pending(8)
        check(mine)
        work(mine)
        check(mine)
        assert mine.vectors(mine.state()) is None


def test_forgetting_reaches_every_piece(truth, store, opened):
    """What was erased leaves no vector and nothing in the queue."""
    long = " ".join(f"The zeppelin number {n} carries xylophones to the harbour." for n in range(60))
    store.add_fact("door.zigzag", long)
    store.add_fact("umbrella.colour", "red")
    with opened(HashEmbedder(64)) as index:
        work(index)
        store.add_fact("kite", "zeppelin")
        index.catch_up()
        assert count(index, "unembedded") == 1
        store.forget_fact("kite")
        store.forget_fact("door.zigzag")
        index.erase()
        check(index)
        assert count(index, "vectors") == 1
        assert index.database.query("select doc from unembedded") == []
        assert b"zeppelin" not in bytes_of(index)
        assert b"zigzag" not in bytes_of(index)


def test_forgetting_reaches_every_token(truth, store, opened):
    """Of what was erased the file holds no token's vector, in its free pages neither."""
    store.add_fact("kite.colour", "zeppelin")
    store.add_fact("umbrella.colour", "red")
    with opened(TokenEmbedder(64)) as index:
        work(index)
        (kite,), (umbrella,) = index.database.query("select tokens from vectors order by doc")
        assert len(kite) == 3 * 8
        assert kite in bytes_of(index)
        store.forget_fact("kite.colour")
        index.erase()
        assert kite not in bytes_of(index)
        assert umbrella in bytes_of(index)


class Interrupted(HashEmbedder):
    """Makes one vector each time that it is asked, because somebody begins to speak."""

    def embed_until(self, texts, stop):
        return list(self.embed_texts(texts[:1])) if texts else []

    def yield_to_speech(self):
        return None


@pytest.mark.parametrize("embedder", [HashEmbedder(), Interrupted()])
def test_what_is_interrupted_stays_in_the_queue(truth, store, opened, embedder):
    """Vectors that were made are kept, each of its own text, and the other texts are embedded later."""
    for n in range(7):
        store.add_fact(f"cup {n}", f"stands in drawer {n}")
    with opened(embedder) as index:
        index.catch_up()
        before = index.pending()["vectors"]
        looks = iter(range(1000))
        index.embed_pending(stop=lambda: next(looks) > 3)
        check(index)
        assert 0 < index.pending()["vectors"] < before
        while index.pending()["vectors"]:
            index.embed_pending(stop=lambda: False)
        check(index)
        assert len(embedder.embedded) == len(set(embedder.embedded)) == before
        for number, terms in index.database.query("select id, terms from docs"):
            (nearest, *_) = index.vectors(index.state()).nearest(embedder.vector_of(terms), 1)
            assert nearest[0] == number


def test_a_long_text_gets_on_although_it_is_always_interrupted(truth, opened):
    """Pieces that were made are not made again, and nothing is stored before the text is whole."""
    say(truth, 0, " ".join(f"Anecdote {n} about the fishing trip." for n in range(200)), "I see.")
    embedder = Interrupted()
    with opened(embedder) as index:
        index.catch_up()
        rounds = 0
        while index.pending()["vectors"]:
            rounds += 1
            index.embed_pending(stop=lambda: False)
            assert pieces_of(index, 1) in (0, 8)
            assert rounds < 20
        assert len(embedder.embedded) == len(set(embedder.embedded)) == 9
        check(index)


class Choking(HashEmbedder):
    """Cannot embed a certain text, or nothing at all."""

    broken = False

    def embed_texts(self, texts):
        if self.broken or any("zeppelin" in text for text in texts):
            raise ModelError("The embedding model computes no finite vectors")
        return super().embed_texts(texts)


def test_a_text_that_the_model_cannot_embed_keeps_nothing_else_from_its_vector(truth, opened, caplog):
    """It is found by its words, stays in the queue, and is tried again by the next process; a broken model is an error."""
    for n in range(5):
        say(truth, n, f"word{n}", "the zeppelin landed" if n == 3 else f"answer{n}")
    embedder = Choking()
    with opened(embedder) as index, caplog.at_level(logging.WARNING):
        embedder.broken = True
        index.catch_up()
        refusal(ModelError, index.embed_pending)
        assert index.pending()["vectors"] == 10
        embedder.broken = False
        work(index)
        assert index.pending()["vectors"] == 1
        assert len(caplog.records) == 1
        assert found(index, "zeppelin")[0][0] == "the zeppelin landed"
        check(index)
    with opened(HashEmbedder()) as index:
        work(index)
        assert index.pending()["vectors"] == 0
        check(index)


def test_a_model_file_that_vanishes_leaves_words(tmp_path, minilm):
    """Gone before it was loaded: no recall fails, the check says so, and with the file everything is as before."""
    model = tmp_path / "model.gguf"
    for there in (True, False, True):
        shutil.copy(minilm, model)
        with (
            LlamaEmbedder(model) as embedder,
            edgemem.open(tmp_path / "home", embedder=embedder, worker=False) as memory,
        ):
            memory.store.add_fact("tea", "black, no sugar")
            if not there:
                model.unlink()
                memory.store.add_fact("guest", "Professor Oyelaran")
            memory.idle(30)
            assert memory.recall("tea?")[0].text == "tea: black, no sugar"
            assert memory.recall("Oyelaran?")[0].text or there
            line = check_of(memory, "embedder")
            assert line.state == ("ok" if there else "warn")
            assert "is gone" in line.detail or there
            assert memory.diagnostics.index.pending()["vectors"] == (0 if there else 1)
    refusal(ClosedError, memory.recall, "tea?")


def test_a_home_that_speaks_another_language_hears_of_an_embedder_that_knows_it(tmp_path):
    """Where most of the newest messages are in one; an embedder that tells no languages knows many."""
    embedder = HashEmbedder()
    embedder.languages = ("en",)
    with edgemem.open(tmp_path / "home", embedder=embedder, worker=False) as memory:
        for day, language, state in ((1, "en", "ok"), (2, "de", "warn"), (3, "zh", "warn"), (4, "en", "ok")):
            for turn, (_, _, text) in enumerate(household(language).said):
                tell(memory, text, f"day {day}", turn)
            line = check_of(memory, "embedder")
            assert line.state == state
            assert state == "ok" or "edgemem models get multilingual-e5-small" in line.advice
            assert state == "ok" or f"({language})" in line.detail
        embedder.languages = ()
        assert "language" not in embedder_line(memory)


@pytest.mark.parametrize("resident", [False, True])
def test_past_values_crowd_out_nothing(store, opened, hand, resident, monkeypatch):
    """However often one thing has changed, what holds of another is found by meaning, and so is what it was before."""
    monkeypatch.setattr("edgemem.recall.index.vectors.LEAST", 1 if resident else 10**6)
    embedder = HashEmbedder(64, means={"brew": "drink"})
    store.add_fact("mara.drink", "tea", scope="household")
    hand.advance(60)
    store.add_fact("mara.drink", "coffee", scope="household")
    for n in range(150):
        store.add_fact("mara.brew.heat", f"level {n}", scope="household")
        hand.advance(60)
    with opened(embedder) as index:
        work(index)
        near = index.vectors(index.state()).nearest(embedder.embed_query("mara brew"), 9)
        assert len(near) == 2
        assert "mara drink: coffee" in by_meaning(index, "mara brew")
        asked = found(index, "which drink was mara's brew before", k=99)
        assert any(text.startswith("mara drink: tea (until") for text, _ in asked)


def test_a_fingerprint_that_lies_about_the_length_is_another_model(truth, store, opened):
    """A function of the user's own says what it likes; vectors of two lengths never mix."""
    store.add_fact("milk", "empty")
    for dimensions in (64, 128):
        embedder = HashEmbedder(dimensions)
        embedder.fingerprint = "mine"
        with opened(embedder) as index:
            assert index.vectors(index.state()) is None
            work(index)
            assert "meaning" in found(index, "milk")[0][1]
            check(index)


def test_what_does_not_hold_any_more_keeps_its_vector(store, opened, hand):
    """A fact that is over is not embedded anew, nor when it holds again, and stands apart from what holds."""
    embedder = HashEmbedder()
    with opened(embedder) as index:
        store.add_fact("milk.kind", "empty zeppelin")
        work(index)
        hand.advance(60)
        store.add_fact("milk.kind", "full")
        work(index)
        assert embedder.embedded == ["milk kind: empty zeppelin", "kind", "milk kind: full", "kind"]
        query = embedder.embed_query("milk kind")
        vectors = index.vectors(index.state())
        assert [len(vectors.nearest(query, 9, past=past)) for past in (False, True)] == [1, 1]
        check(index)
        refs = [ref for (ref,) in index.database.query("select ref from docs")]
        docs = read_docs(index.truth, FACT_SOURCE[0], refs, hand.wall).values()
        (doc,) = [doc for doc in docs if doc.past]
        for past in (False, True, True, False, True):
            index.database.write(lambda tx, past=past: replace_doc(tx, doc._replace(past=past)))
            check(index)
            assert count(index, "unembedded") == 0
            assert len(index.vectors(index.state()).nearest(query, 9, past=True)) == int(past)
        assert len(embedder.embedded) == 4


def test_check_tells_how_far_the_vectors_are(tmp_path):
    """`edgemem check` says how many texts wait for their vectors."""
    for name in ("old", "new"):
        with edgemem.open(tmp_path, embedder=HashEmbedder(64, name=name), worker=False) as memory:
            if name == "old":
                for n in range(3):
                    memory.store.add_fact(f"cup.place{n}", f"drawer {n}")
            memory.diagnostics.index.catch_up()
            assert "waiting for vectors: 3 texts" in embedder_line(memory)
            memory.diagnostics.index.embed_pending(1)
            assert "waiting for vectors: 2 texts" in embedder_line(memory)
            memory.diagnostics.index.embed_pending(1)
            assert "waiting for idle time: 1 vector;" in check_of(memory, "upkeep").detail
            assert memory.idle(30)
            assert "wait" not in embedder_line(memory)


def test_a_long_text_is_found_by_its_end(truth, opened):
    """Each part of a long text has a vector, and the doc is as near as the best of them; before, its end had none."""
    told = " ".join(f"Anecdote {n} about the fishing trip with uncle Theodor." for n in range(40))
    say(truth, 0, f"{told} The spare keys hang behind the boiler.", "I see.")
    embedder = HashEmbedder(64)
    with opened(embedder) as index:
        work(index)
        assert pieces_of(index, 1) > 2
        query = embedder.embed_query("spare keys behind the boiler")
        pieces = [text for text in embedder.embedded if text != "I see."]
        assert pieces[-1].endswith("behind the boiler.")
        near = max(float(embedder.vector_of(piece) @ query) for piece in pieces)
        assert index.vectors(index.state()).cosines(query, [1]) == {1: pytest.approx(near, abs=0.05)}
        assert len(index.vectors(index.state()).nearest(query, 5)) == 2
        truth.write(lambda tx: turns.amend_turn(tx, "s", 0, [""]))
        work(index)
        check(index)
    with opened(HashEmbedder(64, name="few"), pieces=2) as index:
        work(index)
        assert pieces_of(index, 1) == 2


def test_a_reader_finds_while_vectors_are_made_again_only_what_is_theirs(truth, store, opened):
    """Private is private with another model, too."""
    store.add_fact("pin", "zeppelin", scope="user:bob")
    store.add_fact("door", "umbrella")
    with opened(HashEmbedder(64, name="old")) as index:
        work(index)
    with opened(HashEmbedder(64, name="new")) as index:
        for _ in range(2):
            recall = Recall(truth, index, embedder=index.embedder)
            for reader in (Reader("alice"), Reader(None)):
                told = recall.recall("zeppelin pin umbrella", Request(reader=reader))
                assert [item.text for item in told] == ["door: umbrella"]
            work(index)


def test_what_is_over_and_forgotten_leaves_no_vector(store, opened, hand):
    """Erasing a fact reaches the vectors of its past, also in memory."""
    store.add_fact("milk.kind", "empty zeppelin")
    hand.advance(60)
    store.add_fact("milk.kind", "full")
    with opened(HashEmbedder()) as index:
        work(index)
        index.warm()
        query = index.embedder.embed_query("empty zeppelin")
        vectors = index.vectors(index.state())
        assert vectors.nearest(query, 9, past=True)
        assert [len(packed) for packed in vectors.packed] == [1, 1]
        store.forget_fact("milk.kind")
        index.erase()
        assert [len(packed) for packed in vectors.packed] == [0, 0]
        assert count(index, "vectors") == 0
        assert vectors.nearest(query, 9, past=True) == []
        assert b"zeppelin" not in bytes_of(index)
        check(index)
