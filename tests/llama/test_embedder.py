"""The embedder: unit vectors of the real model, from many threads, whatever the text."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from edgemem.errors import ClosedError, ModelError
from edgemem.llama import embedder as embedders
from edgemem.llama.embedder import Centre, LlamaEmbedder, open_embedder, shipped_centres
from edgemem.llama.models.catalog import entry_of
from edgemem.llama.models.convert import convert_bert
from lab.random_model import key
from support.models import write_llama_gguf, write_tiny_bert
from support.refusals import refusal

LONG = "The doctor's appointment was moved to Thursday because of the strike. " * 30


@pytest.fixture(scope="module")
def embedder(minilm: Path) -> LlamaEmbedder:
    with LlamaEmbedder(minilm) as made:
        yield made


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    convert_bert(write_tiny_bert(tmp_path / "source"), tmp_path / "tiny.gguf", name="tiny")
    return tmp_path / "tiny.gguf"


class Begun:
    """A condition that says when it was looked at so many times."""

    def __init__(self, turn: threading.Event | None = None, *, looks: int = 1) -> None:
        self.event = threading.Event()
        self.turn, self.left = turn, looks

    def __call__(self) -> bool:
        self.left -= 1
        if self.left <= 0:
            self.event.set()
        return self.turn is not None and self.turn.is_set()


def test_8_bits_are_as_good_as_the_original(embedder: LlamaEmbedder) -> None:
    """Against 38 vectors of our F32 conversion of the same weights, kept in tests/data."""
    with np.load(Path(__file__).parents[1] / "data" / "minilm_f32.npz") as kept:
        texts, wanted = [str(text) for text in kept["texts"]], kept["vectors"].astype(np.float32)
    cosines = np.sum(embedder.embed_texts(texts) * wanted, axis=1)
    assert cosines.mean() > 0.998
    assert cosines.min() > 0.996


def test_vectors_are_taken_from_the_centre(embedder: LlamaEmbedder, minilm: Path) -> None:
    """Questions from theirs, stored texts from theirs; with another centre it is another model."""
    rows = [[round(10_000 * x) for x in embedder.embed_query(text).tolist()] for text in ("home", "work")]
    centre = Centre(query=tuple(rows[0]), text=tuple(rows[1]))
    with LlamaEmbedder(minilm, centre=centre) as centred:
        assert centred.fingerprint != embedder.fingerprint
        made = [
            centred.embed_query("tea"),
            *centred.embed_texts(["tea"]),
            *centred.embed_until(["tea"], bool),
        ]
    for row, vector in zip((rows[0], rows[1], rows[1]), made, strict=True):
        way = embedder.embed_query("tea") - np.array(row) / 10_000
        assert vector == pytest.approx(way / np.linalg.norm(way), abs=1e-6)


def test_a_centre_is_of_an_embedder_in_the_catalogue() -> None:
    """It has a number for each dimension."""
    for name, centre in shipped_centres().items():
        assert len(centre.query) == len(centre.text) == entry_of(name).dimensions


def test_the_mean_of_the_tokens_is_what_llama_cpp_pools(
    embedder: LlamaEmbedder, minilm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass gives a text's vector and those of its words; a model without a projection gives none of words."""
    texts = ["Hello.", "The keys hang by the door, on the left.", LONG]
    ours = embedder.encode_texts(texts)
    monkeypatch.setattr(embedders, "shipped_projections", dict)
    with LlamaEmbedder(minilm) as pooling:
        theirs = pooling.encode_texts(texts)
        assert pooling.fingerprint != embedder.fingerprint
    cosines = [float(own.vector @ other.vector) for own, other in zip(ours, theirs, strict=True)]
    assert cosines == pytest.approx([1.0] * len(texts), abs=1e-6)
    assert [None if own.tokens is None else own.tokens.shape for own in ours] == [(1, 64), (9, 64), (48, 64)]
    assert [other.tokens for other in theirs] == [None] * len(texts)


def test_alone_or_among_others_a_text_gets_the_same_vector(embedder: LlamaEmbedder) -> None:
    """Neither the batch nor the order matters, to the bit."""
    texts = ["short", LONG, "The keys hang by the door.", "12:30"]
    together = embedder.embed_texts(texts)
    for text, row in zip(texts, together, strict=True):
        assert np.array_equal(embedder.embed_texts([text])[0], row)
        assert np.array_equal(embedder.embed_query(text), row)
    assert np.array_equal(embedder.embed_texts(texts[::-1])[::-1], together)


@pytest.mark.parametrize(
    "text",
    [
        "", "word " * 200_000, " " * 1_000_000 + "late", "a\0b", "\ud800",
        "".join(chr(c) for c in range(1, 256)), "e" + "\u0301" * 5000, "\U0010ffff\ufffe\ufdd0",
        "[CLS] [SEP] [MASK] [PAD] [UNK]",
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_no_text_can_end_the_process(embedder: LlamaEmbedder, text: str) -> None:
    """Whatever somebody says or pastes, a unit vector comes out."""
    vector = embedder.embed_query(text)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(embedder.embed_texts([text])[0], vector)


def test_a_text_is_cut_before_its_end_token(minilm: Path, tiny: Path) -> None:
    """Not with it, and at what the model was trained for, whatever is asked for; what looks like a special token stays text."""
    with LlamaEmbedder(minilm, n_ctx=32) as short:
        assert np.array_equal(*short.embed_texts(["hello " * 500, "hello " * 30]))
        assert short.count_tokens(["hello " * 300, "[CLS] [SEP]"]) == [302, 9]
    with LlamaEmbedder(tiny, n_ctx=4096) as embedder:  # more than its 64 positions ends llama.cpp's process
        assert embedder.embed_texts(["a b c d " * 100]).shape == (1, 32)


def test_what_makes_other_vectors_is_told(minilm: Path, tiny: Path, embedder: LlamaEmbedder) -> None:
    """The same file and settings give the same one; another file, prefix or length another."""
    prints = {embedder.fingerprint}
    for file, more in (
        (minilm, {"query_prefix": "q: "}),
        (minilm, {"text_prefix": "q: "}),
        (minilm, {"n_ctx": 128}),
        (tiny, {}),
    ):
        with LlamaEmbedder(file, **more) as other:
            prints.add(other.fingerprint)
    assert len(prints) == 5
    with LlamaEmbedder(minilm, threads=2) as same:
        assert same.fingerprint == embedder.fingerprint


def test_a_query_is_answered_while_stored_text_is_embedded(minilm: Path) -> None:
    """It interrupts the background, which goes on where it was and gives the same vectors as undisturbed."""
    texts = [f"{i} {LONG}" for i in range(12)]
    with LlamaEmbedder(minilm, n_ctx=128) as embedder:
        undisturbed = embedder.embed_texts(texts)
        with ThreadPoolExecutor(1) as pool:
            # Far more than three queries take: a busy machine is not done before they are asked.
            begun = Begun()
            background = pool.submit(embedder.embed_until, texts * 2, begun)
            assert begun.event.wait(30)
            for i in range(3):
                embedder.embed_query(f"question {i}")
                assert not background.done()
            assert np.array_equal(background.result(), np.tile(undisturbed, (2, 1)))


def test_text_that_is_embedded_gives_way_to_a_turn(minilm: Path) -> None:
    """It stops in the middle of a text, keeps what was made, and is not taken up again while the turn is open."""
    texts = [f"{i} {LONG}" for i in range(12)]
    turn = threading.Event()
    with LlamaEmbedder(minilm) as embedder, ThreadPoolExecutor(2) as pool:
        undisturbed = embedder.embed_texts(texts)
        begun = Begun(turn, looks=3)
        yielding = pool.submit(embedder.embed_until, texts, begun)
        other = pool.submit(embedder.embed_texts, texts[:1])
        assert begun.event.wait(30)
        embedder.yield_to_speech()  # nobody speaks, so nothing is lost
        assert not yielding.done()
        turn.set()
        embedder.yield_to_speech()
        made = yielding.result()
        assert 0 < len(made) < len(texts)
        assert np.array_equal(made, undisturbed[: len(made)])
        assert embedder.embed_query("is anybody there?") is not None
        assert not list(embedder.embed_until(texts, turn.is_set))
        # Whoever waits for text without a condition gets all of it.
        assert np.array_equal(other.result(), undisturbed[:1])
        turn.clear()
        left = embedder.embed_until(texts[len(made) :], turn.is_set)
        assert np.array_equal(left, undisturbed[len(made) :])


def test_a_query_past_its_deadline_is_none_and_dropped(minilm: Path) -> None:
    """Nothing of it stays in the queue, and the next query is answered."""
    with LlamaEmbedder(minilm) as embedder:
        embedder.embed_query("load the model")
        assert embedder.embed_query("no time at all " * 60, timeout_s=0.0) is None
        assert embedder.embed_query("plenty of time", timeout_s=30.0) is not None


def test_a_question_asked_again_is_remembered(minilm: Path) -> None:
    """The last few query vectors are kept, read-only, and the oldest leaves first."""
    with LlamaEmbedder(minilm) as embedder:
        first = embedder.embed_query("one")
        assert embedder.embed_query("one", timeout_s=0.0) is first
        with pytest.raises(ValueError, match="read-only"):
            first[0] = 0
        for n in range(64):
            embedder.embed_query(f"another {n}")
        assert embedder.embed_query("one") is not first


def test_closing_wakes_whoever_waits(minilm: Path) -> None:
    """Work in the queue ends with ClosedError, not never."""
    embedder = LlamaEmbedder(minilm)
    embedder.warm()
    with ThreadPoolExecutor(4) as pool:
        begun = [Begun() for _ in range(4)]
        waiting = [pool.submit(embedder.embed_until, [LONG] * 200, looks) for looks in begun]
        assert all(looks.event.wait(30) for looks in begun)
        embedder.close()
        for each in waiting:
            refusal(ClosedError, each.result)


def test_a_forgotten_embedder_is_closed_and_complained_about(minilm: Path) -> None:
    """Garbage collection frees the model and says who forgot."""
    held = [LlamaEmbedder(minilm)]
    held[0].embed_query("one")
    with pytest.warns(ResourceWarning, match="was not closed"):
        held.clear()


def test_a_bad_file_is_refused_when_it_is_opened(minilm: Path, tmp_path: Path, vocabularies: Path) -> None:
    """Missing, cut short, no GGUF, or a vocabulary without weights: one sentence, before llama.cpp sees it."""
    cut, junk = tmp_path / "cut.gguf", tmp_path / "junk.gguf"
    cut.write_bytes(minilm.read_bytes()[:1_000_000])
    junk.write_bytes(b"junk" * 1000)
    for path in (cut, junk, tmp_path / "none.gguf", vocabularies / "ggml-vocab-bert-bge.gguf"):
        refusal(ModelError, LlamaEmbedder, path)


def test_what_only_llama_cpp_can_tell_is_an_error_of_every_call(minilm: Path, tmp_path: Path) -> None:
    """A file with a sound header that llama.cpp refuses is a ModelError, again and again."""
    strange = tmp_path / "strange.gguf"
    strange.write_bytes(minilm.read_bytes().replace(b"blk.0.attn_q.weight", b"blk.0.attn_x.weight"))
    with LlamaEmbedder(strange) as embedder:
        for _ in range(2):
            refusal(ModelError, embedder.embed_query, "hello", match=r"strange\.gguf \(.*attn_q")


def test_a_model_of_nonsense_numbers_is_told(tiny: Path) -> None:
    """Weights that are not finite give an error, not vectors that match everything."""
    data = bytearray(tiny.read_bytes())
    data[-4 * 32 :] = np.full(32, np.nan, np.float32).tobytes()
    tiny.write_bytes(data)
    with LlamaEmbedder(tiny) as embedder, pytest.raises(ModelError, match="no finite vectors"):
        embedder.embed_query("hello")


def test_an_embedder_knows_what_its_file_says(minilm: Path, tmp_path: Path, vocabularies: Path) -> None:
    """By name, by the path of that file; one of the operator's own by its header, else it knows many."""
    with open_embedder("all-minilm-l6-v2") as named, open_embedder(str(minilm)) as placed:
        assert named.languages == placed.languages == ("en",)
    (tmp_path / "own.gguf").symlink_to(minilm)
    with open_embedder(str(tmp_path / "own.gguf")) as own:
        assert own.languages == ()
    told = key("general.languages", ("de", "en"))
    told_file = write_llama_gguf(tmp_path / "told.gguf", vocabularies=vocabularies, more=[told])
    with LlamaEmbedder(told_file) as embedder:
        assert embedder.languages == ("de", "en")


def test_eight_threads_get_their_own_vectors(embedder: LlamaEmbedder) -> None:
    """Queries and texts from eight threads at once are neither mixed up nor lost."""
    texts = [f"sentence {i} about the {word}" for i, word in enumerate(["cat", "oven", "key", "tea"] * 8)]
    expected = embedder.embed_texts(texts)

    def ask(i: int) -> bool:
        rows = embedder.embed_texts(texts[i : i + 2])
        query = embedder.embed_query(texts[i])
        return bool(np.array_equal(rows, expected[i : i + 2]) and np.array_equal(query, expected[i]))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(len(texts) - 1)))


def test_after_close_every_call_says_so(minilm: Path) -> None:
    """From any thread, also for what is remembered; closing twice is fine, and so is closing unused."""
    embedder = LlamaEmbedder(minilm)
    embedder.embed_query("one")
    embedder.close()
    embedder.close()
    assert embedder.closed
    for call in (
        lambda: embedder.embed_query("one"),
        lambda: embedder.embed_texts(["two"]),
        lambda: embedder.embed_texts([]),
        lambda: embedder.embed_until(["two"], lambda: False),
        embedder.warm,
    ):
        refusal(ClosedError, call, match="was closed")
        with ThreadPoolExecutor(1) as pool, pytest.raises(ClosedError):
            pool.submit(call).result()
    LlamaEmbedder(minilm).close()


def test_a_decoder_embeds_too(vocabularies: Path, tmp_path: Path) -> None:
    """A model that generates gives the mean of its tokens; of no token at all, the zero vector."""
    write_llama_gguf(tmp_path / "chat.gguf", vocabularies=vocabularies, layers=1, width=32)
    with LlamaEmbedder(tmp_path / "chat.gguf", n_ctx=64) as embedder:
        rows = embedder.embed_texts(["hello robot", "", "word " * 1000, "hello robot"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 1, 1], abs=1e-5)
    assert np.array_equal(rows[0], rows[3])
