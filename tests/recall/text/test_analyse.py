"""Words: stems of three languages, text without spaces, accents, and the language of a text."""

import subprocess
import sys
import unicodedata
from itertools import islice, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem.bench.ground import quiet
from edgemem.config import LlamaSettings, Profile, RecallSettings
from edgemem.languages.words import all_words
from edgemem.memory import Memory
from edgemem.recall.text.analyse import language_in, language_of, plain_words, terms
from lab.languages import household
from support.embedders import HashEmbedder
from support.homes import tell
from support.selection import LONG

SAID = (
    "Der Kater schläft im Korb.", "Tom schläft.", "Das Brot ist im Ofen.", "The cat is in the basket.", "猫在篮子里睡觉。",
)  # fmt: skip
GERMAN, CHINESE, ENGLISH = "Wo ist denn der Kater?", "猫在哪里睡觉？", "Where is the cat?"


def test_signs_are_cut_where_they_tell_nothing() -> None:
    """A Chinese text is found by its signs and by two neighbours, and not across 的 or a comma."""
    assert terms("蓝碗的钥匙，书") == ["蓝", "碗", "蓝碗", "钥", "匙", "钥匙", "书"]
    assert terms("Wi-Fi密码") == ["wi", "fi", "密", "码", "密码"]


@given(st.text())
def test_terms_are_one_word_each(text: str) -> None:
    """Whatever somebody says, a term is no longer than a word may be and holds no space, quote or control character."""
    for term in terms(text):
        assert 0 < len(term) <= 64
        assert not any(letter.isspace() or letter in "\"'*:^()-\0" for letter in term)
    assert language_in(text) in {*all_words(), "other"}
    assert isinstance(language_of(plain_words(text)), str)


HOSTILE = (
    "中" * 100_000, "e\u0301" * 50_000, "e" + "\u0301\u0316" * 50_000, "ب" + "\u0651\u064b" * 50_000, "der " * 25_000,
    "ก" * 100_000, "中" + "д" * 500, "🙂" * 1000,
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_length(text: str) -> None:
    """Text without an end has terms as well, each no longer than a word."""
    assert all(len(term) <= 64 for term in terms(text))


def test_the_stemmer_is_loaded_when_needed() -> None:
    """Importing the words brings no compiled library in."""
    code = "import sys, edgemem.recall.text.analyse; sys.exit('Stemmer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


SPELLINGS = (
    ("الْمِفْتَاحُ الأَزْرَق", "مفتاح ازرق"), ("المـــفتاح", "والمفتاح"), ("مسؤول قراءة مكتبة", "مسوول قراه مكتبه"),
    ("הַמִּפְתֵּחַ", "מפתח"), ("הַשּׁוּלְחָן", "שולחנות"), ("Ο ΚΩΔΙΚΌΣ", "ο κωδικός"), ("Πολυτονικὸς", "πολυτονικος"),
    ("ёлка за́мок", "елка замок"), ("열쇠가", "열쇠는"), ("crème brûlée đẹp", "creme brulee dep"),
)  # fmt: skip


@pytest.mark.parametrize(("written", "asked"), SPELLINGS)
def test_marks_and_particles_hide_no_word(written: str, asked: str) -> None:
    """Vowel marks, hamza, accents, points and particles are no part of a word, in what is told and in what is asked."""
    assert set(terms(asked)) <= set(terms(written))
    for form in ("NFC", "NFD"):
        assert terms(unicodedata.normalize(form, written)) == terms(written)


@pytest.mark.parametrize(
    ("one", "other"),
    [("мой", "мои"), ("їжа", "іжа"), ("がき", "かき"), ("ผ้า", "ผา"), ("कि", "क"), ("फल", "फूल")],
)
def test_marks_that_are_letters_stay(one: str, other: str) -> None:
    """In Cyrillic, Japanese, Thai and Indic scripts another mark makes another word."""
    assert plain_words(one) != plain_words(other)


def test_ten_thousand_names_by_marks_and_case() -> None:
    """Names that differ by marks and case alone have the words of one, each within a word's length."""
    marks = ["", *"\u0301\u0308\u030a\u0323\u0327\u0303\u0304", "\u0316\u0301", "\u0302\u0323"]
    names = {f"{a}{'n'.join(rest)}nton" for a in "aA" for rest in product(marks, repeat=4)}
    names = set(islice(sorted(names), 10_000))
    assert len(names) == 10_000
    assert {tuple(plain_words(name)) for name in names} == {("annnnton",)}


class Knowing(HashEmbedder):
    """An embedder that says which languages it knows, for which a tomcat is a cat."""

    def __init__(self, languages: tuple[str, ...]) -> None:
        super().__init__(means={"kat": "cat", "kater": "cat", "tom": "cat"})
        self.languages = languages


def told(folder: Path, embedder: HashEmbedder | None, **settings: object) -> Memory:
    profile = Profile(recall=RecallSettings(**settings), llama=LlamaSettings(embedder=""))
    memory = edgemem.open(folder, profile=profile, embedder=embedder, worker=False)
    for at, text in enumerate(SAID):
        tell(memory, text, "talk", at, speaker="anna")
    memory.store.add_fact("user.pet", "Kater Tom")
    memory.idle(30)
    return memory


def scores(folder: Path, embedder: HashEmbedder | None, query: str, **settings: object) -> dict[str, float]:
    with told(folder, embedder, **settings) as memory:
        return {item.text: item.score for item in memory.recall(query, k=9)}


def near(expected: dict[str, float]) -> object:
    return pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("query", [ENGLISH, "Who has a cat called José?"])
def test_an_english_question_is_scored_as_ever(tmp_path: Path, query: str) -> None:
    """Whether the model knows other languages or not."""
    ever = scores(tmp_path / "many", Knowing(()), query)
    assert scores(tmp_path / "en", Knowing(("en",)), query) == near(ever)


def test_a_german_question_lies_between_words_and_meaning(tmp_path: Path) -> None:
    """With a model that knows only English; one that knows German finds by meaning."""
    words = scores(tmp_path / "words", None, GERMAN)
    german = scores(tmp_path / "german", Knowing(("en", "de")), GERMAN)
    many = scores(tmp_path / "many", Knowing(()), GERMAN)
    assert german == near(many)
    little = scores(tmp_path / "little", Knowing(("en",)), GERMAN)
    low, high = sorted(max(found.values()) for found in (words, many))
    assert low < max(little.values()) < high


def test_what_the_model_cannot_read_is_not_embedded(tmp_path: Path) -> None:
    """No time is spent on a vector that says nothing; words find, and the statistics say so."""
    embedder = Knowing(("en",))
    with told(tmp_path / "home", embedder) as memory:
        assert memory.recall(CHINESE)[0].text == "猫在篮子里睡觉。"
        assert not embedder.questions
        assert memory.diagnostics.search.last.signals == ("words",)
        memory.recall(GERMAN)
        assert embedder.questions
        assert "meaning" in memory.diagnostics.search.last.signals


@pytest.mark.parametrize("language", ["ar", "el", "hi", "ko", "ru"])
def test_a_question_in_a_language_without_a_file_is_answered(tmp_path: Path, language: str) -> None:
    """What answers it stands before the model, by words alone; of what has no word in common, nothing."""
    spoken, before = household(language), 0
    texts = {name: text for name, _, text in spoken.said}
    with edgemem.open(tmp_path, profile=quiet(), worker=False) as memory:
        for at, text in enumerate(texts.values()):
            tell(memory, text, "talk", at, speaker="anna")
        memory.idle(30)
        for name, question in (*spoken.asked, ("", "Ĉu vi bone fartas?")):
            with memory.session("asked").turn(question, speaker="anna") as turn:
                block = str(turn.messages[-1]["content"])
                before += name != "" and texts[name][2:14] in block
                turn.abort()
    assert before >= 12
    assert not any(text[2:14] in block for text in texts.values())


def test_what_a_tenth_of_the_texts_say_finds_nothing(tmp_path: Path) -> None:
    """In a language without a list of empty words."""
    with edgemem.open(tmp_path, profile=quiet(), worker=False) as memory:
        for at in range(20):
            tell(memory, f"Στο σπίτι η Λένα είναι {at}.", f"talk {at}", 0, speaker="Λένα")
        tell(memory, "Ο κήπος έχει τριανταφυλλιές.", "garden", 0, speaker="Λένα")
        memory.idle(30)
        for question in ("Τι είναι στο σπίτι και στον κήπο;", "Τι έχει η Λένα στον κήπο;"):
            assert [hit.session for hit in memory.recall(question, k=30) if "words" in hit.why] == ["garden"]
        assert len(memory.recall("Τι είναι στο σπίτι;", k=30)) > 9  # where nothing else is asked for


@pytest.mark.long
@pytest.mark.parametrize("language", ["de", "es", "vi", "zh"] if LONG else ["de"])
def test_no_language_is_found_worse_than_by_words_alone(minilm: Path, language: str) -> None:
    """With the real model, which knows only English, on 40 questions."""
    from lab.languages import run

    figures = run(languages=language, models="all-minilm-l6-v2")
    assert figures["bars"][f"all-minilm-l6-v2 {language}, as words"]["ok"]


def test_the_sign_before_a_question_tells_spanish() -> None:
    """Where no little word does."""
    assert language_in("¿Coche nuevo?") == "es"
    assert language_in("¡Gol!") == "es"
    assert language_in("Coche nuevo?") == "en"


def test_vietnamese_dog_is_no_preposition() -> None:
    """With its accent chó is a dog, and found; cho, without, tells nothing."""
    assert "cho" in terms("con chó của hàng xóm")
    assert "cho" not in terms("quà cho mẹ tôi, đẹp")
