"""Languages: what a model that knows only some of them is worth for a question in another."""

from __future__ import annotations

from pathlib import Path

import pytest
from ggufs import write_reranker_gguf
from hash_embedder import HashEmbedder
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem.config import LlamaSettings, Profile, RecallSettings
from edgemem.llama.embedder import LlamaEmbedder, open_embedder
from edgemem.llama.models.gguf import read_header
from edgemem.memory import Memory
from edgemem.recall.languages import TOLD, share_of_meaning
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store.turns import commit_turn

GERMAN, CHINESE, ENGLISH = "Wo ist denn der Kater?", "猫在哪里睡觉？", "Where is the cat?"


def test_meaning_has_all_its_weight_where_the_model_knows_the_language() -> None:
    """And where it knows many, or one that cannot be told from the others."""
    assert share_of_meaning("en", ("en",), 0.3) == 1.0
    assert share_of_meaning("de", ("en", "de"), 0.3) == 1.0
    for language in (*TOLD, "other"):
        assert share_of_meaning(language, (), 0.3) == 1.0
        assert share_of_meaning(language, ("en", "fr"), 0.3) == 1.0


@given(st.sampled_from(["de", "es", "vi"]), st.floats(0, 1))
def test_it_has_less_for_another_language_and_none_for_other_letters(language: str, foreign: float) -> None:
    """The profile says how much; what the model cannot read tells nothing."""
    assert share_of_meaning(language, ("en",), foreign) == foreign
    assert share_of_meaning("zh", ("en",), foreign) == 0.0
    assert share_of_meaning("other", ("en",), foreign) == 0.0
    assert share_of_meaning("en", ("zh",), foreign) == foreign


class Knowing(HashEmbedder):
    """An embedder that says which languages it knows, for which a tomcat is a cat, and that notes what it is asked."""

    def __init__(self, languages: tuple[str, ...]) -> None:
        super().__init__(means={"kat": "cat", "kater": "cat", "tom": "cat"})
        self.languages = languages
        self.asked: list[str] = []

    def embed_query(self, text: str, *, timeout_s: float | None = None):
        """Note the question."""
        self.asked.append(text)
        return super().embed_query(text, timeout_s=timeout_s)


def told(folder: Path, embedder: HashEmbedder | None, **settings: object) -> Memory:
    """Open a memory in which a few things were said."""
    memory = edgemem.open(
        folder,
        profile=Profile(recall=RecallSettings(**settings), llama=LlamaSettings(embedder="")),
        embedder=embedder,
        worker=False,
    )
    said = [
        "Der Kater schläft im Korb.",
        "Tom schläft.",
        "Das Brot ist im Ofen.",
        "The cat is in the basket.",
        "猫在篮子里睡觉。",
    ]

    def write(tx: object) -> None:
        for at, text in enumerate(said):
            commit_turn(tx, Turn("talk", at, (StoredMessage("user", text),), heard=Heard(speaker="anna")))

    memory.database.write(write)
    memory.store.add_fact("user.pet", "Kater Tom")
    memory.idle(30)
    return memory


def scores(folder: Path, embedder: HashEmbedder | None, query: str, **settings: object) -> dict[str, float]:
    """Return the score of everything that is recalled."""
    with told(folder, embedder, **settings) as memory:
        return {item.text: item.score for item in memory.recall(query, k=9)}


def near(expected: dict[str, float]) -> object:
    """Return scores, but for the moment that one memory was asked later than another."""
    return pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("query", [ENGLISH, "cat", "Who has a cat called José?"])
def test_an_english_question_is_scored_as_ever(tmp_path: Path, query: str) -> None:
    """Whatever the profile says of other languages."""
    ever = scores(tmp_path / "many", Knowing(()), query)
    for foreign in (0.0, 0.3):
        assert scores(tmp_path / f"en{foreign}", Knowing(("en",)), query, foreign_meaning=foreign) == near(
            ever
        )


def test_a_german_question_lies_between_words_and_meaning(tmp_path: Path) -> None:
    """With a model that knows only English: words alone at 0, as one that knows German at 1, in between else."""
    words = scores(tmp_path / "words", None, GERMAN)
    german = scores(tmp_path / "german", Knowing(("en", "de")), GERMAN)
    many = scores(tmp_path / "many", Knowing(()), GERMAN)
    assert german == near(many)
    assert scores(tmp_path / "0", Knowing(("en",)), GERMAN, foreign_meaning=0.0) == near(words)
    assert scores(tmp_path / "1", Knowing(("en",)), GERMAN, foreign_meaning=1.0) == near(many)
    half = scores(tmp_path / "half", Knowing(("en",)), GERMAN, foreign_meaning=0.5)
    low, high = sorted(max(found.values()) for found in (words, many))
    assert low < max(half.values()) < high


def test_what_the_model_cannot_read_is_not_embedded(tmp_path: Path) -> None:
    """No time is spent on a vector that says nothing; words find, and the statistics say so."""
    embedder = Knowing(("en",))
    with told(tmp_path / "home", embedder) as memory:
        assert memory.recall(CHINESE)[0].text == "猫在篮子里睡觉。"
        assert not embedder.asked
        assert memory.last_recall().signals == ("words",)
        memory.recall(GERMAN)
        assert embedder.asked
        assert "meaning" in memory.last_recall().signals


def test_an_embedder_knows_what_the_catalogue_or_its_file_says(
    minilm: Path, tmp_path: Path, vocabularies: Path
) -> None:
    """By name, by the path of that file; one of the operator's own by its header, else it knows many."""
    with open_embedder("all-minilm-l6-v2") as named, open_embedder(str(minilm)) as placed:
        assert named.languages == placed.languages == ("en",)
    (tmp_path / "own.gguf").symlink_to(minilm)
    with open_embedder(str(tmp_path / "own.gguf")) as own:
        assert own.languages == ()
    told_file = write_reranker_gguf(
        tmp_path / "told.gguf", vocabularies=vocabularies, head=False, languages=("de", "en")
    )
    assert read_header(told_file).languages == ("de", "en")
    with LlamaEmbedder(told_file) as embedder:
        assert embedder.languages == ("de", "en")
    endless = write_reranker_gguf(
        tmp_path / "endless.gguf", vocabularies=vocabularies, head=False, languages=("xx",) * 1000
    )
    assert read_header(endless).languages == ()


@pytest.mark.parametrize("language", ["de", "es", "vi", "zh"])
def test_no_language_is_found_worse_than_by_words_alone(minilm: Path, language: str) -> None:
    """With the real model, which knows only English, on 40 questions."""
    from lab.languages import run

    figures = run(languages=language, models="all-minilm-l6-v2")
    assert figures["bars"][f"all-minilm-l6-v2 {language}, as words"]["ok"]
