"""Words: stems of three languages, text without spaces, accents, and the language of a text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.docs import add_docs
from edgemem.recall.index.file import SCHEMA
from edgemem.recall.index.sources import EPISODE, Doc
from edgemem.recall.languages import language_of
from edgemem.recall.stemmer import stem, stems_version
from edgemem.recall.words import WORDS_VERSION, language_in, plain_words, terms, words_version
from edgemem.store.database import Database

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


def test_a_language_unknown_still_matches() -> None:
    """A question too short to tell its language finds a German text by the stem that both have."""
    assert language_in("Klavierstunden Kosten") == "en"
    assert set(terms("Klavierstunden Kosten")) <= set(terms("Die Kosten der Klavierstunden sind hoch"))


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


def test_number_words_stay_where_the_language_may_be_another() -> None:
    """A question too short to tell its language finds the words of a German number."""
    assert set(terms("Zug halb acht")) <= set(terms("der Zug geht um halb acht"))


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


@pytest.mark.parametrize("text", [said for pair in SAME for said in pair])
def test_the_index_keeps_terms_as_they_are(text: str, tmp_path) -> None:
    """FTS5 splits and changes none of them, in any script."""
    with Database(tmp_path / "index.db", migrations=SCHEMA, durable=False) as database:
        database.write(lambda tx: add_docs(tx, [Doc(EPISODE, 1, text, 0, None, None)]))
        kept = {term for (term,) in database.query("select term from vocabulary")}
    assert kept == set(terms(text))


@pytest.mark.parametrize(
    "text",
    ["中" * 100_000, "e\u0301" * 50_000, "der " * 25_000, "ก" * 100_000, "中" + "д" * 500, "🙂" * 1000],
)
def test_hostile_length(text: str) -> None:
    """Text without an end has terms as well, each no longer than a word."""
    assert all(len(term) <= 64 for term in terms(text))


def test_the_version_names_the_stemmer() -> None:
    """An index made by another release of the stemmer is made again."""
    assert words_version() == f"{WORDS_VERSION}/{stems_version()}"


def test_the_stemmer_is_loaded_when_needed() -> None:
    """Importing the words brings no compiled library in."""
    code = "import sys, edgemem.recall.words; sys.exit('Stemmer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
