"""Words: stems of three languages, text without spaces, accents, and the language of a text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hash_embedder import HashEmbedder
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem.config import LlamaSettings, Profile, RecallSettings
from edgemem.memory import Memory
from edgemem.recall.text.analyse import (
    DETECTED,
    language_in,
    language_of,
    plain_words,
    share_of_meaning,
    stem,
    terms,
)
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store.episodes import spell_out
from edgemem.store.turns import commit_turn

SAME = [
    ("Where are the spare keys?", "I put the spare key into the bowl"),
    ("Wo sind die Ersatzschlüssel?", "Der Ersatzschlüssel liegt in der Schale"),
    ("Wann wird die Tonne geleert?", "Leeren wir morgen die Tonnen?"),
    ("¿Dónde están las habitaciones?", "la habitación es grande"),
    ("¿Quién compró las manzanas?", "ha comprado una manzana"),
    ("chìa khóa ở đâu", "tôi để chìa khóa trên bàn"),
    ("钥匙在哪里", "我把钥匙放在抽屉里了"),
    ("鍵はどこ", "鍵は引き出しの中です"),
    ("กุญแจอยู่ไหน", "วางกุญแจไว้บนโต๊ะ"),
]


@pytest.mark.parametrize(("question", "said"), SAME)
def test_forms_of_a_word_meet(question: str, said: str) -> None:
    """A question and what answers it share a term, though the word has another form, or no spaces around it."""
    assert set(terms(question)) & set(terms(said))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("chia khoa o dau", "tôi để chìa khóa ở đây"),
        ("duong nao", "con đường này"),
        ("donde esta la habitacion", "la habitación está arriba"),
        ("wo ist der schlussel", "der Schlüssel liegt hier"),
    ],
)
def test_without_accents(typed: str, said: str) -> None:
    """Who types no accents finds what has them."""
    assert set(terms(typed)) & set(terms(said))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where did I put the keys?", "en"),
        ("Garage code?", "en"),
        ("the plants die in the sun", "en"),
        ("Will Anna come tomorrow?", "en"),
        ("Has Ben a son?", "en"),
        ("Will man das Brot?", "de"),
        ("Ya son las tres", "es"),
        ("See you at the café", "en"),
        ("", "en"),
        ("Klavierstunden kosten fünfzig Euro", "de"),
        ("¿Mañana habrá montaña?", "es"),
        ("Wo sind die Schlüssel?", "de"),
        ("was hat Anna gesagt", "de"),
        ("¿Dónde están las llaves?", "es"),
        ("donde estan mis llaves", "es"),
        ("chìa khóa ở đâu", "vi"),
        ("chia khoa cua toi o dau", "vi"),
        ("钥匙在哪里", "zh"),
        ("Ben 的钥匙在哪里", "zh"),
        ("где ключи", "other"),
        ("12345 !?", "en"),
    ],
)
def test_language_of_a_text(text: str, language: str) -> None:
    """The little words of a text, or its letters, tell its language."""
    assert language_in(text) == language


@given(
    st.sampled_from(
        ["anna", "torben", "lena", "carmen", "jesus", "marlene", "bernardo", "wohnungen", "garden"]
    )
)
def test_a_name_has_one_stem_everywhere(name: str) -> None:
    """What a fact is about is known by its stem, whatever the language of the question that names it."""
    for text in (
        f"what did {name} say to the others",
        f"was hat {name} zu den anderen gesagt",
        f"qué dijo {name} a los otros",
    ):
        assert set(terms(name)) <= set(terms(text))


def test_signs_are_cut_where_they_tell_nothing() -> None:
    """A Chinese text is found by its signs and by two neighbours, and not across 的 or a comma."""
    assert terms("蓝碗的钥匙，书") == ["蓝", "碗", "蓝碗", "钥", "匙", "钥匙", "书"]
    assert terms("Wi-Fi密码") == ["wi", "fi", "密", "码", "密码"]


@pytest.mark.parametrize(
    ("spoken", "written"),
    [
        ("it costs twenty five euros", "it costs 25 euros"),
        ("the bus leaves at half past seven", "The bus leaves at 7:30."),
        ("Das kostet fünfundzwanzig Euro", "das kostet 25 euro"),
        ("der Zug geht um halb acht", "Der Zug geht um 7:30"),
        ("el tren sale a las siete y media", "El tren sale a las 7:30, ¿no?"),
    ],
)
def test_numbers_are_found_by_words_and_by_digits(spoken: str, written: str) -> None:
    """Whichever way a number was said and asked for, it is the same term."""
    assert set(terms(written)) <= set(terms(spoken))


@pytest.mark.parametrize("word", ["", "a", "ab", "3d", "x" * 65, "naïve", "дверь", "钥匙"])
def test_what_has_no_stem(word: str) -> None:
    """Short words, very long ones, figures and other letters stay as they are."""
    assert stem(word) == word
    assert stem(word, "de") == word


@given(st.text())
def test_terms_are_one_word_each(text: str) -> None:
    """Whatever somebody says, a term is no longer than a word may be and holds no space, quote or control character."""
    for term in terms(text):
        assert 0 < len(term) <= 64
        assert not any(letter.isspace() or letter in "\"'*:^()-\0" for letter in term)
    assert language_in(text) in {"en", "de", "es", "vi", "zh", "other"}
    assert isinstance(language_of(plain_words(text)), str)


@pytest.mark.parametrize(
    "text",
    ["中" * 100_000, "e\u0301" * 50_000, "der " * 25_000, "ก" * 100_000, "中" + "д" * 500, "🙂" * 1000],
)
def test_hostile_length(text: str) -> None:
    """Text without an end has terms as well, each no longer than a word."""
    assert all(len(term) <= 64 for term in terms(text))


def test_the_stemmer_is_loaded_when_needed() -> None:
    """Importing the words brings no compiled library in."""
    code = "import sys, edgemem.recall.text.analyse; sys.exit('Stemmer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


GERMAN, CHINESE, ENGLISH = "Wo ist denn der Kater?", "猫在哪里睡觉？", "Where is the cat?"


def test_meaning_has_all_its_weight_where_the_model_knows_the_language() -> None:
    """And where it knows many, or one that cannot be told from the others."""
    assert share_of_meaning("en", ("en",), 0.3) == 1.0
    assert share_of_meaning("de", ("en", "de"), 0.3) == 1.0
    for language in (*DETECTED, "other"):
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


@pytest.mark.parametrize("language", ["de", "es", "vi", "zh"])
def test_no_language_is_found_worse_than_by_words_alone(minilm: Path, language: str) -> None:
    """With the real model, which knows only English, on 40 questions."""
    from lab.languages import run

    figures = run(languages=language, models="all-minilm-l6-v2")
    assert figures["bars"][f"all-minilm-l6-v2 {language}, as words"]["ok"]


def test_a_word_is_no_little_one_with_its_accents() -> None:
    """Té is tea, and te is you; schön is no schon."""
    assert "te" in terms("¿Quién toma té con leche?")
    assert "te" not in terms("¿Te gusta la leche?")
    assert stem("schon", "de") in terms("Das ist ein schönes Bild, schön ist es")
    assert terms("Das ist schön") != terms("Das ist schon")
    assert terms("Das ist schon") == []


def test_the_sign_before_a_question_tells_spanish() -> None:
    """Where no little word does."""
    assert language_in("¿Coche nuevo?") == "es"
    assert language_in("¡Gol!") == "es"
    assert language_in("Coche nuevo?") == "en"


def test_number_words_of_other_languages_are_none() -> None:
    """What is a number in English is one in no Vietnamese or Chinese text."""
    assert "five" in terms("chó có bốn chân, five")
    assert terms("25号的钥匙") == terms("25号的钥匙".replace("的", " "))


def test_names_are_left_out() -> None:
    """Words that the caller knows better are left out, whatever their language."""
    assert terms("Anna's keys", without={"anna"}) == [stem("keys")]
    assert "anna" not in terms("Wo hat Anna die Schlüssel?", without={"anna"})


def test_vietnamese_dog_is_no_preposition() -> None:
    """With its accent chó is a dog, and found; cho, without, tells nothing."""
    assert "cho" in terms("con chó của hàng xóm")
    assert "cho" not in terms("quà cho mẹ tôi, đẹp")


def test_forms_of_a_word_share_a_stem():
    """Cook, cooks, cooked and cooking are one word; the speaker's accents and case do not matter."""
    assert len({stem(word) for word in ("cook", "cooks", "cooked", "cooking")}) == 1
    assert terms("CAFÉ café Cafe\u0301") == [stem("cafe")] * 3
    assert terms("Straße") == terms("STRASSE")


def test_stop_words_are_dropped():
    """Words that tell nothing are not looked for, nor what is left of contractions."""
    assert terms("What did she say to you? I don't know, it's what they'd have") == [
        stem("say"),
        stem("know"),
    ]


def test_keys_are_spelt_out():
    """The parts of a key are words of their own."""
    assert spell_out("user.favouriteColour_2-b") == "user favourite Colour 2 b"
