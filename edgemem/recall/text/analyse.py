"""Analyse: the words and terms by which a text is matched, and its language.

Index, query and unindexed text all pass through here, and have the same stems, those of Snowball (snowballstem.org); not FTS5's,
because a query looks up how common each stem is, and unindexed text is matched in memory. Little words tell the language; a
mistake in a short text costs little, since a text is found by its English stems in any language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.languages.words import all_words, bare, small, words_digest
from edgemem.preload import Pattern, preloaded

if TYPE_CHECKING:
    from edgemem.languages.words import Words

_SHORTEST, _LONGEST = 3, 64
QUESTION_MARKS, POINTS = "?？؟", ".!。！।۔"
_GREEK_QUESTION = Pattern("[\u0370-\u03ff\u1f00-\u1fff]\\s*[;\u037e]$")
_SENTENCE, _SPACED = re.compile(r"(?:[^.!?。！？؟]+|(?<=\d)\.(?=\d))+[.!?。！？؟]*"), re.compile(r"[\w']+")
_stemmer_lock = Lock()
WORDS_VERSION = "12"
"""Changes with every rule below; the files of the languages change `words_version` by themselves."""
_RUN = re.compile(r"[^\W_]+")
_SPOKEN = Pattern(r"[^\W_]+(?:['’]s\b)?")
_GENITIVE = re.compile(r"['’]s$")
_MARK = re.compile(
    "(?<![\u0400-\u052f])[\u0300-\u036f]"  # accents; on Cyrillic letters they make another letter,
    "|(?<=[аеиоуыэюяіє])[\u0300\u0301]|(?<=е)\u0308"  # but for stress, and ё, which Russians mostly write е
    "|[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]"  # points of Hebrew
    "|[\u0610-\u061a\u0621\u0640\u064b-\u065f\u0670\u06d6-\u06ed]"  # vowels, hamza and strokes of Arabic
)
_PILE = Pattern(r"([^\w\s]{30})[^\w\s]+")
"""More marks than any letter has; to order n of them takes n² steps."""
_SPELLINGS = str.maketrans("đٱىیکةךםןףץ", "dاييكهכמנפצ")
"""Letters that are written for one another."""
_MAX_LETTERS = 64
FOREIGN_MEANING = 0.1
"""Part of its weight that meaning keeps where the embedder does not know the question's language: 0 is words alone; with more MiniLM
does harm in German and Spanish (`make lab ARGS=languages`)."""
MAX_CHARS = 2000
"""Of a question; of a longer one the end counts."""
MOST_ASKED = 1000
"""Letters of a text that only asks; to compare longer ones with a question takes long."""
_SIGNS = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese and Japanese
_LETTERS = "\u0e01-\u0edf\u1000-\u109f\u1780-\u17dd"
"""Thai, Lao, Burmese and Khmer, which have no spaces between words either."""
_SIGN = Pattern(f"[{_SIGNS}]")
_KANA = Pattern("[\u3040-\u30ff]")
_UNSPACED = Pattern(f"[{_SIGNS}{_LETTERS}]")
_PIECE = Pattern(f"[{_SIGNS}]|[{_LETTERS}]+|[^{_SIGNS}{_LETTERS}]+")
_LETTERS_TOGETHER = 3
_LATIN = Pattern("[a-zA-Z\u00aa-\u024f\u1e00-\u1eff]")
_SCRIPTS = {
    "arabic": Pattern("[\u0622-\u064a]+"), "greek": Pattern("[α-ω]+"), "hindi": Pattern("[\u0900-\u0963]+"), "russian": Pattern("[а-я]+"),
}  # fmt: skip
"""Letters of languages without a file, and the stemmer of the one that most who write them speak."""
_PARTICLES = (
    Pattern("^(?:[وف]?[بك]?ال|[وف]?لل)(?=[\u0622-\u064a]{2})"),
    Pattern("(?<=[א-ת]{2})(?:ימ|ות|ה|ת|י)$"),
    Pattern("^[והבלמשכ]+(?=[א-ת]{3})"),
    Pattern("(?<=[가-힣])(?:에서|에게|으로|부터|까지|마다|이야|은|는|이|가|을|를|에|로|와|과|의|도|만|야)+$"),
)
"""Little words that Arabic, Hebrew and Korean write together with others, and endings of Hebrew."""


@lru_cache(maxsize=16384)
def stem(word: str, language: str = "en") -> str:
    """Return the stem of one lower-case word without accents, in en, de or es, or in the language that is likeliest by its letters."""
    if not _SHORTEST <= len(word) <= _LONGEST:
        return word
    if word.isascii():
        name = all_words()[language].stemmer if word.isalpha() else ""
    else:
        for particles in _PARTICLES:
            word = particles.sub("", word)
        name = next((name for name, letters in _SCRIPTS.items() if letters.fullmatch(word)), "")
    if not name:
        return word
    with _stemmer_lock:  # a stemmer keeps the word that it works on
        return str(_stemmer(name).stemWord(word))


def stemmed(language: str) -> bool:
    """Tell whether a language's words have stems of their own."""
    words = all_words().get(language)
    return words is not None and bool(words.stemmer)


def stems_version() -> str:
    """Return a string that changes whenever a stem may."""
    import Stemmer

    return str(Stemmer.version())


@cache
def _stemmer(name: str) -> Any:
    import Stemmer

    return Stemmer.Stemmer(name, 0)  # 0: `stem` remembers enough


class _Tables(NamedTuple):
    empty: dict[str, frozenset[str]]
    little: dict[str, frozenset[str]]
    """Words that tell a language other than English,"""
    shared: frozenset[str]
    """and those that do so only beside others."""
    letters: dict[str, Pattern]
    content: dict[str, frozenset[str]]
    accented: frozenset[str]
    """Languages whose letters tell them alone."""
    signs: frozenset[str]


@preloaded
def _tables() -> _Tables:
    languages = {code: words for code, words in all_words().items() if words.spaced}
    english = languages["en"].stop.words
    others = {code: words for code, words in languages.items() if code != "en"}
    plain = {code: frozenset(map(_plain, words.stop.words)) for code, words in others.items()}
    return _Tables(
        # Without its accents chó, which is a dog, would be cho, and nothing.
        {"en": english}
        | {
            code: words.stop.words if words.stop_bare.words else english | plain[code]
            for code, words in others.items()
        },
        {code: words.stop_bare.words or plain[code] | _days(words) for code, words in others.items()},
        english.union(*(words.foreign.words for words in others.values())),
        {code: Pattern(f"[{words.letters}]" if words.letters else "(?!)") for code, words in others.items()},
        {code: words.content.words for code, words in languages.items()},
        frozenset(code for code, words in languages.items() if words.accented),
        frozenset().union(*(words.stop.words for words in all_words().values() if not words.spaced)),
    )


def _days(words: Words) -> frozenset[str]:
    """Return a language's words for days: "Was steht heute an?" has more words that are English as well."""
    rows = words.dates.words
    return frozenset(map(_plain, re.findall(r"\w{4,}", f"{rows['day']} {rows['weekday']}".lower())))


def empty_signs() -> frozenset[str]:
    """Return the signs that bind others in languages without spaces; text is cut at them."""
    return _tables().signs


def language_of(plain: Collection[str], spelled: str = "") -> str:
    """Return the language with the most stop words among a text's `plain` words; en where none has more than English.

    `spelled` is the text in small letters, if it has accents or the signs of Spanish, which tell as much as a word.
    """
    tables = _tables()
    if spelled and (code := language_by_letters(spelled)):
        return code
    words = set(plain)
    most, best = len(words & tables.empty["en"]), "en"
    for code, known in tables.little.items():
        little = words & known
        count = len(little) if little - tables.shared else 0
        if spelled and tables.letters[code].search(spelled):
            count += 1
        if count > most:
            most, best = count, code
    return best


def language_by_letters(text: str) -> str:
    """Return the language that the letters of a lower-case text tell alone; empty where they tell none."""
    tables = _tables()
    return next((code for code in tables.accented if tables.letters[code].search(text)), "")


def embedder_weight(language: str, known: Collection[str]) -> float:
    """Return meaning's weight for a question, from an embedder that knows some languages (none given: many).

    A known language, or one that we cannot tell, gets 1, another in letters that the model reads FOREIGN_MEANING; other letters are no
    words to a model, so its vectors say nothing: 0.
    """
    if not known or language in known or not all_words().keys() >= set(known):
        return 1.0
    return FOREIGN_MEANING if language in all_words() and all_words()[language].spaced else 0.0


def stop_words(language: str) -> frozenset[str]:
    """Return the words that tell nothing in en, de, es (without accents) or vi (with them).

    German and Spanish ones include the English: a question too short to tell its language does not ask for these.
    """
    return _tables().empty[language]


def words_version() -> str:
    """Return a string that changes with every rule here, word of a language and stem; other indexes are made again."""
    return f"{WORDS_VERSION}/{stems_version()}/{words_digest()}"


class Analysis(NamedTuple):
    """A text, cut into words once."""

    text: str = ""
    words: tuple[str, ...] = ()
    """In order, as from `plain_words`."""
    tokens: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Each word with content, in order, and the terms that find it; see `terms`."""
    language: str = "en"
    """de, es, vi, zh, other where most letters are no Latin ones, else en."""

    def terms(self, without: Collection[str] = ()) -> list[str]:
        """Return the text's terms, in order and repeated as in it, without some plain words, such as names."""
        return [term for word, found_by in self.tokens if word not in without for term in found_by]


NOTHING = Analysis()


class SpokenWord(NamedTuple):
    """A word with its place, without an English genitive."""

    word: str
    """In small letters, without accents."""
    stem: str
    begin: int
    end: int
    parts: tuple[str, ...]
    """As in `plain_words`: where no spaces are written, several."""
    content: bool
    """Whether it is no stop word of the text's language."""


def analyse(text: str) -> Analysis:
    """Cut a text into words, and find its language and its terms."""
    spelled, plain = _cut(text)
    language = _language_of(text, spelled, plain)
    tokens = tuple(_tokens(spelled, plain, language))
    return Analysis(text, tuple(_in_pieces(plain)), tokens, _script_of(text) or language)


def analyse_query(text: str, times: Mapping[str, bool]) -> tuple[Analysis, Analysis, frozenset[str]]:
    """Cut a question into words, with and without its times: phrases, each with whether it surely names a time.

    The second has them all the same where nothing else is left; the terms of the times come last.
    """
    undated = text
    for phrase, sure in times.items():
        if sure:
            undated = undated.replace(phrase, " ", 1)
    whole = analyse(text)
    rest = whole if undated == text else analyse(undated)
    date_terms = frozenset(term for phrase in times for term in terms(phrase))
    return whole, rest if rest.tokens else whole, date_terms


def spoken_words(text: str) -> list[SpokenWord]:
    """Return the words of a text, each with its place."""
    stop, words = stop_words(_language_of(text, *_cut(text))), []
    for match in _SPOKEN.finditer(text):
        bare_word = _GENITIVE.sub("", match[0])
        parts = (bare_word.lower()[:_MAX_LETTERS],) if bare_word.isascii() else tuple(plain_words(bare_word))
        word = "".join(parts)
        content = word not in stop and match[0].casefold() not in stop
        words.append(SpokenWord(word, stem(word), *match.span(), parts, content))
    return words


def plain_words(text: str) -> list[str]:
    """Return the words of a text in order: lower case, no accents, with stop words; each Chinese or Japanese sign is one."""
    return _in_pieces(_cut(text)[1])


def terms(text: str) -> list[str]:
    """Return the terms that find a text, in order and repeated as in it.

    These are the stems of words with content. German and Spanish words have their English stem as well: so a question too short
    to tell its language finds them, and a name has one stem everywhere. Where no spaces are written, terms are each sign and each
    two neighbours, or each three neighbouring letters.
    """
    spelled, plain = _cut(text)
    tokens = _tokens(spelled, plain, _language_of(text, spelled, plain))
    return [term for _, found_by in tokens for term in found_by]


def language_in(text: str) -> str:
    """Return a text's language: de, es, vi, zh, other where most letters are no Latin ones, else en."""
    return _script_of(text) or _language_of(text, *_cut(text))


def _cut(text: str) -> tuple[list[str], list[str]]:
    if text.isascii():
        words = _RUN.findall(text.lower())
        return words, words
    spelled = _spelled(text)
    return spelled, [_plain(word) for word in spelled]


def _in_pieces(plain: list[str]) -> list[str]:
    """Return words with each sign, and each run between signs, as a word."""
    return [
        piece[:_MAX_LETTERS]
        for word in plain
        for piece in ((word,) if word.isascii() else _PIECE.findall(word))
    ]


def _tokens(spelled: list[str], plain: list[str], language: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each word with content, and its terms."""
    stop, content = stop_words(language), _tables().content[language]
    accented = language in _tables().accented
    for written, word in zip(spelled, plain):  # noqa: B905 - as long as one another
        if not word.isascii() and _UNSPACED.search(word):
            yield from _neighbours(word)
        elif (written if accented else word) not in stop or written in content:
            yield word[:_MAX_LETTERS], stems(word[:_MAX_LETTERS], language)


def _language_of(text: str, spelled: list[str], plain: list[str]) -> str:
    """Return a text's language by its words, their accents, and the signs of Spanish before them."""
    if text.isascii():
        return language_of(plain)
    return language_of(plain, " ".join((*spelled, *(sign for sign in "¿¡" if sign in text))))


def _script_of(text: str) -> str:
    """Return zh for mostly Chinese signs, other for other letters than Latin ones, and nothing for those."""
    if text.isascii():
        return ""
    letters = [letter for letter in text if letter.isalpha()]
    if 2 * sum(1 for letter in letters if _SIGN.match(letter)) > len(letters):
        return "zh"
    return "other" if 2 * sum(1 for letter in letters if not _LATIN.match(letter)) > len(letters) else ""


def _spelled(text: str) -> list[str]:
    text = _PILE.sub(r"\1", text)
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold())
    # A vowel sign belongs to its letter in Indic scripts: all but letters, digits and marks separate.
    text = "".join(sign if sign.isalnum() or unicodedata.category(sign)[0] == "M" else " " for sign in text)
    return [word for word in text.split() if _plain(word)]


def _plain(word: str) -> str:
    return word if word.isascii() else _without_accents(word)


def without_accents(text: str) -> str:
    """Return a text as `plain_words` has its words: small letters, no accents."""
    return _without_accents.__wrapped__(unicodedata.normalize("NFKC", text).casefold())


def fold(text: str) -> str:
    """Return a text of the same length in small letters without accents, and in simplified Chinese characters."""
    small = text.lower()
    if text.isascii():
        return small
    plain = bare(small.translate(_simplified()))
    letters = (bare(letter.lower())[:1] or letter for letter in text)
    return plain if len(plain) == len(text) else "".join(letters)


@preloaded
def _simplified() -> dict[int, int]:
    tables = [words.dates for words in all_words().values()]
    traditional = "".join(table.traditional for table in tables)
    return str.maketrans(traditional, "".join(table.simplified for table in tables))


@lru_cache(maxsize=4096)
def _without_accents(word: str) -> str:
    bare = _MARK.sub("", unicodedata.normalize("NFD", word)).translate(_SPELLINGS)
    return unicodedata.normalize("NFC", bare)


@lru_cache(maxsize=16384)
def stems(word: str, language: str) -> tuple[str, ...]:
    """Return a word's stem in its language, and the English one if that is another."""
    english = stem(word)
    if language == "en" or not stemmed(language):
        return (english,)
    return tuple(dict.fromkeys((stem(word, language), english)))


def _neighbours(run: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the terms of each piece of text without spaces; empty signs cut it, and a lone kana, a syllable, is none."""
    signs: list[str] = []
    signs_that_bind = empty_signs()
    for piece in (*_PIECE.findall(run), ""):
        if piece and _SIGN.match(piece) and piece not in signs_that_bind:
            signs.append(piece)
            continue
        if signs:
            alone = (sign for sign in signs if len(signs) == 1 or not _KANA.match(sign))
            yield "", (*alone, *(first + second for first, second in pairwise(signs)))
            signs = []
        if not piece or _SIGN.match(piece):
            continue
        if _UNSPACED.match(piece):
            last = max(1, len(piece) - _LETTERS_TOGETHER + 1)
            yield piece, tuple(piece[at : at + _LETTERS_TOGETHER] for at in range(last))
        else:
            yield piece, (stem(piece[:_MAX_LETTERS]),)


def only_asks(text: str) -> bool:
    """Tell whether all sentences of a text are questions or requests to be told something, empty words apart."""
    if len(text) > MOST_ASKED:
        return False
    sentences = sentences_of(text)
    asking = [sentence for sentence in sentences if _asks(sentence, text)]
    if not asking or len(asking) == len(sentences):
        return bool(asking)
    return any(map(terms, asking)) and not any(terms(part) for part in sentences if part not in asking)


def asks(text: str) -> bool:
    """Tell whether the last sentence of a text is a question or such a request."""
    sentences = sentences_of(text[-MOST_ASKED:])
    return bool(sentences) and _asks(sentences[-1], text)


def has_question(text: str) -> bool:
    """Tell whether any sentence of a text is a question or such a request."""
    return any(_asks(sentence, text) for sentence in sentences_of(text[-MOST_ASKED:]))


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, each with the marks at its end."""
    return [stripped for sentence in _SENTENCE.findall(text) if (stripped := sentence.strip())]


def _asks(sentence: str, text: str) -> bool:
    if sentence[-1] in QUESTION_MARKS or _GREEK_QUESTION.search(sentence):
        return True
    if (words := all_words().get(language_in(text))) is None:
        return False
    whole = small(sentence)
    bare = _words_of(words.please.pattern.sub(" ", whole))
    wants = words.wants.pattern.match(bare)
    if wants or sentence[-1] in POINTS or words.clauses.pattern.match(_words_of(whole)):
        return wants is not None
    # A verb before its subject is the order of a question, behind any topic: "the keys where are they".
    return words.polar.pattern.match(bare) is not None or any(
        hit.start() == 0 or hit.end() == len(form) or words.polar.pattern.match(form, hit.end() + 1)
        for form in map(_words_of, (whole, without_politeness(sentence, words)))
        for hit in words.questions.pattern.finditer(form)
    )


def _words_of(text: str) -> str:
    return " ".join(_SPACED.findall(text))


def without_politeness(text: str, words: Words | None) -> str:
    """Return a text in small letters, without "please", "can you tell me", and "do you know"."""
    bare = small(text)
    for phrases in () if words is None else (words.please, words.me, words.us, words.speech, words.little):
        bare = phrases.pattern.sub(" ", bare)
    return bare


class Utterance(NamedTuple):
    """A sentence as a voice says it."""

    words: str
    """Without case, punctuation and needless white space; empty if nothing was said."""
    ending: str
    """`?`, `.` for any other end, or nothing where it goes on or nobody knows.

    Without the question mark a third of 400 utterances got another block; case and commas changed the block of one in thirty.
    """


def read_utterance(text: str) -> Utterance:
    """Return the part of a text that two recognisers, or one that hears the rest of a sentence, would agree on."""
    folded = unicodedata.normalize("NFC", text).casefold()
    if folded.isascii():
        words = folded.translate(_UNSPOKEN)
    else:
        words = "".join(letter if _is_spoken(letter) else " " for letter in folded)
    return Utterance(" ".join(words.split()), _ending(text[len(_without_tail(text)) :]))


def with_ending(text: str, ending: str) -> str:
    """Return an unfinished sentence as it would be written if it ended here."""
    return _without_tail(text) + ending


def _is_spoken(letter: str) -> bool:
    # Marks are parts of letters in many scripts, and a sign such as that of a currency is spoken.
    return letter.isalnum() or unicodedata.category(letter)[0] in "MS"


_UNSPOKEN = {n: " " for n in range(128) if not _is_spoken(chr(n))}


def _without_tail(text: str) -> str:
    """Return a text without punctuation and white space at its end."""
    end = len(text)
    while end and not _is_spoken(text[end - 1]):
        end -= 1
    return text[:end]


def _ending(tail: str) -> str:
    if any(mark in tail for mark in QUESTION_MARKS):
        return "?"
    goes_on = "…" in tail or ".." in tail
    return "." if not goes_on and any(mark in tail for mark in POINTS) else ""
