"""Words: what `<code>.toml` says about the words of a language, ready to be looked for in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeVar
from zlib import crc32

import msgspec

from edgemem.preload import Pattern, preloaded
from edgemem.records import Unkept

_LONGEST_YES = 80  # characters: a longer answer says more than yes

_SIGN = re.compile("[\u3400-\u9fff]")  # Chinese, where no spaces stand between words
_LETTERS_BETWEEN, _SIGNS_BETWEEN = 60, 4
_WORD = re.compile(r"[\w']+")
_GAP = r"[\w']+(?: [\w']+)?"


class Items:
    """Words as a file lists them, with commas between them."""

    def __init__(self, items: str = "") -> None:
        self.items = tuple(dict.fromkeys(small(item.strip()) for item in items.split(",") if item))


class Exact(Items):
    """Phrases to be found whole in a text as `small` writes it; without their accents they mean something else."""

    def __init__(self, items: str = "") -> None:
        super().__init__(items)
        longest = sorted(self.items, key=len, reverse=True)  # before a short one that it begins with
        signs = [re.escape(item) for item in longest if _SIGN.match(item)]
        words = [re.escape(item).replace("…", _GAP) for item in longest if not _SIGN.match(item)]
        whole = [rf"(?<!\w)(?:{'|'.join(words)})(?!\w)"] if words else []
        self.pattern = Pattern("|".join([*signs, *whole]) or "(?!)")

    def stand_in(self, text: str) -> bool:
        """Tell whether a text has one of these phrases."""
        return self.pattern.search(text) is not None

    def make_up(self, text: str) -> bool:
        """Tell whether a text is made of these phrases alone."""
        rest = self.pattern.sub(" ", text)
        return rest != text and not any(map(str.isalnum, rest))


class Phrases(Exact):
    """The same, with their accents or without."""

    def __init__(self, items: str = "") -> None:
        super().__init__(f"{items},{bare(items)}")


class Templates(Exact):
    """The same, written as for `templates`."""

    def __init__(self, items: str = "") -> None:
        Items.__init__(self, items)
        self.pattern = templates(self.items)


class WordSet:
    """Single words as a file lists them, with spaces between them."""

    def __init__(self, words: str = "") -> None:
        self.words = frozenset(words.split())

    def plain(self) -> frozenset[str]:
        """Return the words in small letters, without accents."""
        return frozenset(bare(small(word)) for word in self.words)


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ordinary words of a language, in small letters and without accents."""

    common: WordSet
    """Words that everybody uses at home, in their usual forms: nobody's name, and no surprise to a recogniser."""
    ordinary: WordSet
    """Words that are neither names nor among the commonest, so that none is taken for a misheard name."""
    endings: WordSet
    """Endings that make another form of a word."""
    first_names: WordSet
    """First names that a recogniser writes rightly, so that who is called so is mostly meant."""


class Numbers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number words of a language, with spaces between them."""

    units: str
    """From 0."""
    tens: str
    """From 20."""
    sizes: dict[str, int]
    """Multipliers of the number before them."""
    hundreds: str = ""
    """From 100."""
    hundred: str = ""
    places: str = ""
    """Ordinals from the third."""
    place_tens: str = ""
    """Ordinals from the twentieth."""
    rare_places: str = ""
    """Ordinals from the first that mean something else but after tens."""
    inflections: str = ""
    """Endings of an ordinal."""
    ones: str = ""
    """From 1, where a language writes a number in one word: einundzwanzig."""
    and_within: str = ""
    hundred_within: str = ""
    place_ending: str = ""
    """Makes ordinals from 20 on in such a language."""
    repeats: dict[str, int] = {}
    """Words before a digit, each with how often the digit is meant: double, triple."""
    zeros: WordSet = WordSet()
    """Words for zero only beside other digits: oh."""


class Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words that stand beside names, and names that are not written as they are spoken."""

    first: WordSet = WordSet()
    """First names that are usual where the language is spoken."""
    titles: WordSet = WordSet()
    kin: WordSet = WordSet()
    """Words for kin by which somebody is called, and which are names themselves."""
    other_titles: WordSet = WordSet()
    never: WordSet = WordSet()
    """Words that no name begins or ends with: they are the commonest, and recognisers know them best."""
    before_things: WordSet = WordSet()
    """Words behind which nobody's name follows."""
    before_names: WordSet = WordSet()
    """Words after which a name is likelier than a thing without an article."""
    heard: dict[str, str] = {}
    """Names whose spelling no rule leads to, as a speaker of the language would write what they hear."""


class Past(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Phrases of questions about the past, written as for `templates`."""

    over: Items
    """Phrases that say "not any more" by themselves."""
    first: Items
    """Phrases that ask for the first of all states."""
    all: Items
    """Phrases that ask for all states, one after the other."""
    now: Items
    """Phrases about what holds now, whatever the verb is."""
    spoke: Items
    """Verbs and signs of a sentence about the past."""
    before: Items
    """Phrases about the past without such a verb."""
    was: Items = Items()
    """Verbs in the past."""
    beside: Items = Items()
    """Words that say "not any more" beside a verb of `was`: what must I do before the trip?"""
    value: Items = Items()
    """Things that have a new value when they change: an old ladder is a ladder still, and an old code is none."""
    over_but: Items = Items()
    """Phrases that only look like one of `over`."""


class Safety(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words of what may hurt somebody who does not think of it; phrases but `keys` are written as for `templates`."""

    keys: Exact
    """Words of the keys of such facts: allergy, medication."""
    tells: Templates
    """Words that tell of an allergy, an intolerance or an illness by themselves,"""
    harms: Templates
    """and those that do so beside one of `things`: swollen, cannot eat."""
    things: Templates
    """Food, drinks, medicines, plants and cleaning agents."""
    acts: Templates
    """Words for eating, drinking and cooking, and for using such things."""
    speaker: Templates
    """Words for who speaks,"""
    others: Templates
    """and for whom else it may hurt: kin, children, animals, she."""
    also: Exact
    """Phrases that add the speaker to others, at the end of a clause or before a danger: and so am I."""
    none: Exact
    """Phrases that say that nothing hurts: allergic to nothing,"""
    exceptions: Exact
    """and words for what does, though: except."""

    def endangers_speaker(self, text: str) -> bool | None:
        """Tell whether who speaks is the last one named before a danger is over, or else the first behind it, or is added; None: names nobody."""
        for hit in self.also.pattern.finditer(text):
            rest = re.split("[,.;:!?，。；：！？]", text[hit.end() :])[0]
            if not rest.strip() or self.tells.stand_in(rest) or self.harms.stand_in(rest):
                return True
        mine, others, tells, harms = (
            [hit.end() for hit in words.pattern.finditer(text)]
            for words in (self.speaker, self.others, self.tells, self.harms)
        )
        named = sorted([(end, True) for end in mine if end not in others] + [(end, False) for end in others])
        for danger in tells + harms or [len(text)]:
            before = [own for end, own in named if end <= danger]
            if named and (before[-1] if before else named[0][1]):
                return True
        return False if named else None


class Statements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Phrases that tell whom a statement is about, written as for `templates`."""

    frames: Templates
    """Clauses that only introduce what is told: I heard that, my wife says;"""
    states: Templates
    """the speaker as somebody who is, has, likes or always does something,"""
    deeds: Templates
    """and as somebody who did something to a thing: I bought, I put."""
    traits: Templates
    """Words for what people are or have for themselves,"""
    things: Templates
    """and for what all in a house share."""
    people: Templates
    """Words for people by what they are to others, beside those that may be in danger (`Safety.others`): boss, twin."""
    beside: Templates
    """Phrases with somebody who is named beside whom it is about: like *, don't tell *."""
    confidence: Templates
    """Phrases that ask to tell nobody else."""


class Cues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Phrases that tell how much a sentence says, written as for `templates`."""

    questions: Templates
    """Beginnings of questions; recognisers that write no question mark write no full stop either."""
    first_person: Templates
    decisions: Templates
    """Phrases of a decision, or of something that matters from now on."""
    begin_denials: Templates
    """Beginnings of a sentence that says that something said before is not so."""
    denials: Templates
    """Phrases that say so anywhere in a sentence."""
    changes: Templates
    """Phrases that say that something is otherwise than before."""
    leaning: Templates
    """Beginnings of a sentence that leans on the one before."""
    failures: Templates
    """Words of a tool that failed."""
    days: WordSet
    months: WordSet
    numbers: WordSet
    empty: WordSet
    """Words that say nothing in a summary."""
    refers: Items
    """Beginnings of an answer that refers to the subject of the question."""
    before_refers: Items
    """Words that may precede one of `refers`."""
    answers_before: Items
    """The same, with a comma or without."""
    small_talk: Items
    behind_small_talk: Items
    of_small_talk: WordSet
    """Words of sentences that say nothing else."""


DateWord = Literal[
    "number", "ordinal", "month", "season", "weekday", "weekend", "day", "part", "unit", "shift", "edge"
]
Naming = Literal["ignored", "days", "ago", "ahead", "stretch", "weekly", "time"]
Binding = Literal["span", "beside", "since", "until", "before", "after", "seldom", "every"]
DateForm = Literal[Naming, Binding, "written"]


class Dates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words of a language that name a time, and their forms.

    In lists "," parts items, "/" words for the same item. Capitals do not matter, nor accents unless the language is `accented`.
    """

    words: dict[DateWord, str]
    """Words by their places: numbers from 0, ordinals and months from 1, seasons from spring, weekdays from Monday, days from the day before yesterday, parts of a day from the morning, units from the day, shifts from "last", edges from the beginning."""
    forms: dict[DateForm, tuple[str, ...]]
    """Forms of what names a time: two days of one month (days), and so many units in the past (ago), to come (ahead) or up to
    now (stretch; a few, where no number stands); then of what binds such times (`{time}`), of what lies beside one and is told as that one (the week before Monday: beside), and of what makes a habit of one (every). In a form `{month}` is a word of `words`, `{nth}` the number of a day, `{short}` day and month in figures, `{count}` a number of units, `{away}` a shift other than "this", `[…]` what may be missing, and `|` parts alternatives. Of forms that begin at one place the first in the list counts. Last, how a day is written (written): whole, short, short with its year, and whole with its weekday and year; `{number}` is that of the month, `{Month}` has a capital."""
    prepositions: str
    """Words behind which a doubtful word is a time: in May."""
    past: str
    """Words of a sentence about the past."""
    coming: str
    """Words of a sentence about the future."""
    before_coming: str
    """Words behind which a time is to come, whatever the sentence is about: booked for the 14th."""
    either: str
    before_other: str
    """Words in whose sentence a day may be past or to come (moved, always), and those behind which a weekday is another time's."""
    asks: str
    """Phrases that ask for a time."""
    whole: dict[str, str] = {}
    """Words that stand for several, each as word:value."""
    before_monthday: str = ""
    """Words behind which the number of a day stands alone; empty: nowhere."""
    doubtful: str = ""
    """Words that have another meaning as well."""
    asks_alone: str = ""
    asks_accented: str = ""
    begins: Items = Items()
    """Beginnings of a question, beside its `questions`; in Vietnamese instead of them: there, mấy is a few as well."""
    whole_weeks: bool = False
    """Whether "last Friday" is the one of the week before."""
    traditional: str = ""
    """Characters of the words above in another script, each at the place of its simplified form."""
    simplified: str = ""


class Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answers to "Shall I erase this?", and phrases that ask to keep it."""

    yes: Items
    """Phrases that agree, without punctuation. Two of them in a row are a yes, too: "yes" and "please"."""
    no: Items
    do_not_forget: Items
    """Phrases that ask to keep something: "don't forget". `…` means one or two words: "vergiss … nicht"."""


class Words(Answers, frozen=True, forbid_unknown_fields=True):
    """The words of one language, as its file lists them."""

    i: Exact
    """The speaker as the one who does something; in Spanish also verbs that say so."""
    me: Exact
    """The same, as to whom something is done: "tell me", and in Spanish verbs that end so."""
    my: Exact
    we: Exact
    us: Exact
    """The speaker and others as those who do something, and as those to whom something is done."""
    others: Exact
    """Words for somebody or something named before: she, them, that one."""
    you: Exact
    please: Phrases
    """Polite words before a request or a question."""
    asks: Phrases
    """Phrases that make a question of a sentence without a question mark."""
    questions: Templates
    """Words that a question without a question mark begins or ends with, written as for `templates`."""
    clauses: Templates
    """Beginnings that only look like one of `questions`: where I parked is level three."""
    polar: Templates
    """Beginnings of a question for yes or no, likewise."""
    wants: Templates
    """Beginnings of requests to be told something, whatever mark ends them, written as for `templates`."""
    speech: Phrases
    """Words of speech: say, talk, conversation."""
    done: Phrases
    """Words of deeds that do not say which."""
    little: Phrases
    """Other words that say no more than that something was there: happen, topic, news."""
    lists: Templates
    """Words for what is kept item by item, so that who adds one must know the others: a shopping list."""
    joins: WordSet
    """Words between the last items of a list, and between parts of one number: and."""
    dates: Dates
    past: Past
    statements: Statements
    stop: WordSet
    """Words that say nothing about what a text is about, as they are written; of Chinese, signs that bind others."""
    off_the_record: dict[Unkept, Phrases] = {}
    """Phrases that say which turns not to keep, and nothing else."""
    determiners: Exact = Exact()
    """Those of `others` that only introduce a word behind them: that key."""
    stop_bare: WordSet = WordSet()
    """Stop words that tell the language of a text without accents, where some words mean something else so."""
    content: WordSet = WordSet()
    """Words that tell something, though without their accents they are stop words."""
    foreign: WordSet = WordSet()
    """Stop words that another language or a name may have as well: "Will Ann come?", "Has he a son?"."""
    binding: WordSet = WordSet()
    """Other words that need no hint to a recogniser."""
    speaker: WordSet = WordSet()
    """Words for the speaker, alone or with others."""
    counting: WordSet = WordSet()
    """Words that tell how many, in a text."""
    changes: Exact = Exact()
    """Words and phrases that say that something is otherwise than before."""
    hedges: Exact = Exact()
    certain: Exact = Exact()
    """Words and phrases of somebody who only supposes something; and those that only look like one of them."""
    hails: Exact = Exact()
    """Greetings and calls after which somebody is called by name."""
    greetings: Exact = Exact()
    """Other greetings and thanks that say nothing else."""
    names: Names = Names()
    numbers: Numbers | None = None
    letters: str = ""
    """Letters and signs by which the language is known."""
    stemmer: str = ""
    """The stemmer of the Snowball project for it, if there is one that we use."""
    cues: Cues | None = None
    vocabulary: Vocabulary | None = None
    abbreviations: Items = Items()
    """They end with a full stop, which is not written here, and something follows them."""
    before_numbers: Items = Items()
    """Abbreviations before a number."""
    before_ordinals: Items = Items()
    """Words after which "3." is the third, where a language writes its ordinals so."""
    ordinal_months: Items = Items()
    safety: Safety | None = None
    learning: dict[str, dict[str, str]] = {}
    """Words that a learner reads by, by its name; see `learn`."""
    spaced: bool = True
    """Whether spaces stand between words; where not, text is cut at the signs of `stop`, and found by pairs of signs."""
    accented: bool = False
    """Whether words of one syllable mean something else without their accents; its `letters` tell such a language alone."""
    compounds: bool = False
    """Whether nouns are written together with their parts: Gartenschlauch."""
    word_length: int = 1
    """Signs or syllables of a usual word, where spaces do not tell words apart."""

    def speaks_of_itself(self, text: str) -> bool:
        """Tell whether a text, as `small` writes it, says "I", "me" or "my"; "we" does not."""
        text = self.we.pattern.sub(" ", text)
        return any(phrases.stand_in(text) for phrases in (self.i, self.me, self.my))


_File = TypeVar("_File", bound=Answers)


def _files(*, whole: bool) -> dict[str, bytes]:
    """Return files by language, English first, for texts that do not tell theirs; not `whole`: those of answers alone."""
    paths = sorted(Path(__file__).parent.glob("*.toml"), key=lambda path: (path.stem != "en", path.stem))
    files = {path.stem: path.read_bytes() for path in paths}
    return {code: content for code, content in files.items() if (b"\n[" in content) == whole}


@preloaded
def all_words() -> dict[str, Words]:
    """Return the words of each language that is known in full, by its code."""
    return {code: _parsed(content, Words) for code, content in _files(whole=True).items()}


@preloaded
def words_digest() -> int:
    """Return a digest of the words of all languages that are known in full, without comments."""
    lines = (
        line
        for code, content in _files(whole=True).items()
        for line in (code.encode(), *content.splitlines())
        if not line.startswith(b"#")
    )
    return crc32(b"\n".join(lines))


@preloaded
def _answers() -> tuple[Phrases, Phrases, Phrases]:
    """Return the phrases of yes, of no, and of not to forget, of all languages."""
    answers = (_parsed(content, Answers) for content in _files(whole=False).values())
    files = [*all_words().values(), *answers]
    return (
        _together(file.yes for file in files),
        _together(file.no for file in files),
        _together(file.do_not_forget for file in files),
    )


def _together(lists: Iterable[Items]) -> Phrases:
    return Phrases(",".join(item for items in lists for item in items.items))


def says_yes(text: str) -> bool:
    """Tell whether an answer is a plain yes, in one of the languages known here."""
    if len(text) > _LONGEST_YES:
        return False
    return _answers()[0].make_up(" ".join(_WORD.findall(small(text))))


def says_no(text: str) -> bool:
    """Tell whether an answer holds a no."""
    return _answers()[1].stand_in(small(text))


def says_not_to_forget(text: str) -> bool:
    """Tell whether somebody asks to keep something: "don't forget"."""
    return _answers()[2].stand_in(" ".join(small(text).split()))


def record_wish(text: str) -> Unkept | None:
    """Return which turns an utterance that says nothing else wants kept off the record; None: it says nothing of that."""
    said = "" if len(text) > _LONGEST_YES or "?" in text else " ".join(_WORD.findall(small(text)))
    for words in all_words().values():
        rest = " ".join(words.please.pattern.sub(" ", said).split())
        for which, phrases in words.off_the_record.items():
            if phrases.make_up(rest):
                return which
    return None


def says_in_confidence(text: str) -> bool:
    """Tell whether a text asks to tell nobody else."""
    return any(words.statements.confidence.stand_in(small(text)) for words in all_words().values())


def in_any(pick: Callable[[Words], Items], kind: type[Exact] = Exact) -> Exact:
    """Return the phrases that `pick` takes of the words of each language, as one."""
    return kind(",".join(item for words in all_words().values() for item in pick(words).items))


def templates(items: Iterable[str], values: Iterable[str] = ()) -> Pattern:
    """Return a pattern for whole phrases in a text as `small` writes it.

    In each phrase "/" parts words for the same place, "*" for any letters, "+" behind a letter for more of it, "…" for
    some words between, or a few signs, and "{value}" for one of some values.
    """
    value = rf"(?:{'|'.join(_template(item) for item in values)})"
    signs = [_template(item, rf"\w{{0,{_SIGNS_BETWEEN}}}") for item in items if _SIGN.match(item)]
    words = [_template(item).replace("{value}", value) for item in items if not _SIGN.match(item)]
    return Pattern("|".join([*signs, *([rf"(?<!\w)(?:{'|'.join(words)})(?!\w)"] if words else [])]) or "(?!)")


def either(items: Items) -> str:
    """Return an expression that matches any of some phrases, written as for `templates`."""
    return f"(?:{'|'.join(map(_template, items.items))})"


def cues() -> Cues:
    """Return the English cues."""
    known = all_words()["en"].cues
    if known is None:
        raise LookupError("en.toml has no [cues]")
    return known


def _template(item: str, between: str = rf"\b.{{0,{_LETTERS_BETWEEN}}}\b") -> str:
    places = []
    for place in item.split():
        ways = [
            re.escape(way).replace(r"\*", r"\w*").replace(r"\+", "+").replace(r"\{value\}", "{value}")
            for way in place.split("/")
        ]
        places.append(ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})")
    return r"\s".join(places).replace(r"\s…\s", between).replace("…", between)


def is_safety_key(key: str) -> bool:
    """Tell whether a fact's key, with spaces between its words, concerns somebody's safety."""
    return _safety_keys().stand_in(small(key))


def tells_of_safety(text: str) -> bool:
    """Tell whether a text tells what may hurt somebody, in any language: "I'm allergic to nuts", "milk makes me ill"."""
    text = small(text)
    known = [words.safety for words in all_words().values() if words.safety]
    for safety in known:
        rest = safety.none.pattern.sub(" ", text)
        text = text if safety.exceptions.stand_in(rest) else rest
    return any(
        safety.tells.stand_in(text) or (safety.harms.stand_in(text) and safety.things.stand_in(text))
        for safety in known
    )


def endangers_speaker(text: str, language: str) -> bool | None:
    """Tell whether what a text tells may hurt who says it, not "my son"; None: it names nobody, in its language or any."""
    words, text = all_words(), small(text)
    for listed in words.values():
        text = listed.hedges.pattern.sub(" ", text)
    known = (some.safety for some in (words.get(language), *words.values()) if some and some.safety)
    return next((own for safety in known if (own := safety.endangers_speaker(text)) is not None), None)


@preloaded
def _safety_keys() -> Exact:
    return in_any(lambda words: words.safety.keys if words.safety else Exact())


def small(text: str) -> str:
    """Return a text as phrases are found in it: in small letters, composed, with straight apostrophes."""
    return unicodedata.normalize("NFC", text).casefold().replace("’", "'")


def _parsed(content: bytes, kind: type[_File]) -> _File:
    return msgspec.toml.decode(content, type=kind, dec_hook=lambda kind, items: kind(items))


def bare(item: str) -> str:
    """Return a text without its accents."""
    letters = unicodedata.normalize("NFD", item.replace("đ", "d"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@preloaded
def function_words() -> frozenset[str]:
    """Return words that bind a sentence in any language, as they are written, and words of programs."""
    spaced = (words for words in all_words().values() if words.spaced)
    return frozenset().union(*(words.stop.words | words.binding.words for words in spaced))


@preloaded
def number_words() -> frozenset[str]:
    """Return the words for numbers in any language, as they are written; none that its language also uses as an article."""
    listed = ((words.stop.words, words.dates.words["number"]) for words in all_words().values())
    return frozenset().union(*(frozenset(re.findall(r"\w+", numbers)) - stop for stop, numbers in listed))
