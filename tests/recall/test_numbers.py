"""Numbers are found by their words and by their digits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.text.analyse import plain_words
from edgemem.recall.text.numbers import with_digits
from lab.noise import cardinal, ordinal, spoken

NORMAL = """
twenty one = 21 | 21 = 21 | three hundred and five = 305 | five thousand three hundred twenty one = 5321 | seven thirty = 7 30 |
7:30 = 7 30 | half past seven = 7 30 | a quarter to eight = a 7 45 | a 7:45 = a 7 45 | twenty five past one = 1 25 |
eight o'clock = 8 00 | double oh seven = 007 | 007 = 007 | four two nine one = 4291 | 4 2 9 1 = 4291 | 4291 = 4291 |
seven double three one = 7331 | oh four two eight = 0428 | the twenty first of April = the 21 of april |
the 21st of April = the 21 of april | third floor = 3 floor | 3rd floor = 3 floor | two point five = 2 5 | 2.5 = 2 5 |
one million two hundred thousand = 1200000 | three euros twenty = 3 euros 20 | twelve fifteen = 12 15 1215 |
12:15 = 12 15 1215 | forty two ninety one = 42 91 4291 | 42 91 = 42 91 4291 | the first of May = the 1 first of may |
May second = may 2 second | May 2nd = may 2 | twenty first of May = 21 of may | oh no = oh no | a double bed = a double bed |
at first = at first | wait a second = wait a second | half a cup = half a cup | a quarter of a tin = a quarter of a tin |
and so on = and so on | point taken = point taken
"""
"""What is spoken and what a screen shows, with its normal form; an ordinal that is a word as well stays beside its number."""
OTHERS = """
de einundzwanzig = 21 | de dreihundertfünf = 305 | de halb sieben = 6 30 | de sieben Uhr dreißig = 7 30 | de Viertel nach sechs = 6 15 |
de am einundzwanzigsten April = am 21 april | de am ersten Mai = am 1 ersten mai | de der erste = der erste |
de neunzehnhundertvierundachtzig = 1984 | de zweitausendsechsundzwanzig = 2026 | de vier zwei neun eins = 4291 |
es treinta y uno = 31 | es las siete y media = las 7 30 | es las ocho menos cuarto = las 7 45 |
es mil novecientos ochenta y cuatro = 1984 | es dos y tres = 2 y 3 | vi twenty one = twenty one
"""
TWO_WAYS = """
nineteen eighty four = 1984 | nineteen oh five = 1905 | seven oh five = 7:05 | seven oh five = 705 |
one thousand two hundred = 1,200 | ten to seven = 6:50 | ten to seven = 10 to 7
"""
SAID = """
one two nine ten fifteen twenty ninety hundred thousand million and oh o clock double half past quarter to first third
point 7 30 400 05 21st may of the cat
"""


def pairs(table: str) -> list[list[str]]:
    """Return what is said, and what it means, of each entry of a table."""
    return [entry.strip().split(" = ") for entry in table.split("|")]


def test_said_and_shown_are_the_same() -> None:
    """Numbers have one normal form; an oh that is a cry, a second that is short and a quarter of something are what they were."""
    for text, normal in pairs(NORMAL):
        assert with_digits(plain_words(text)) == normal.split()


def test_what_can_be_read_in_two_ways_is_found_by_both() -> None:
    """A year, a code and a time share at least one form with what is written, whatever else they may be."""
    for spoken_as, shown in pairs(TWO_WAYS):
        heard, other = set(with_digits(plain_words(spoken_as))), set(with_digits(plain_words(shown))) - {"to"}
        assert other <= heard or heard <= other


def test_other_languages() -> None:
    """German writes units before tens and says half of the hour to come; an unknown language has no number words."""
    for text, normal in pairs(OTHERS):
        language, _, spoken_as = text.partition(" ")
        assert with_digits(plain_words(spoken_as), language) == normal.split()


@given(st.integers(0, 10**9 - 1))
def test_every_number_is_read(number: int) -> None:
    """Whatever whole number is said in words is the one in digits."""
    assert with_digits(cardinal(number)) == [str(number)]
    assert with_digits([str(number)]) == [str(number)]


@given(st.integers(3, 999).filter(lambda number: number % 100))
def test_every_place_in_a_row_is_read(number: int) -> None:
    """Third, twenty first and hundred and second are numbers, too; first and second alone are words."""
    assert with_digits(ordinal(number)) == [str(number)]


@given(st.lists(st.sampled_from(SAID.split()), max_size=9))
def test_any_words_are_taken(words: list[str]) -> None:
    """Nothing fails, no word that is no number is lost, and what was normal stays so in meaning."""
    built = with_digits(words)
    assert built.count("cat") == words.count("cat")
    assert all(built)
    assert with_digits([word for word in words if word in {"cat", "the", "of"}]) == [
        word for word in words if word in {"cat", "the", "of"}
    ]


@given(st.text(max_size=40), st.sampled_from(["en", "de", "es", "xx"]))
def test_any_text_is_taken(text: str, language: str) -> None:
    """Other scripts, their digits and signs pass through."""
    assert isinstance(with_digits(plain_words(text), language), list)


def test_a_sentence_without_numbers_is_not_copied() -> None:
    """The same list comes back, so that most sentences pay for one look only."""
    words = plain_words("where does helene keep the oven gloves")
    assert with_digits(words) is words


def test_what_noise_reads_aloud_is_found_by_digits() -> None:
    """Numbers that the noise of the benchmark turns into words come back."""
    utterances = [member.word for member in spoken("PIN 4291, 21 people, the 3rd")]
    assert with_digits(utterances) == ["pin", "4291", "21", "people", "the", "3"]
