"""Excerpts: what was said, in fewer of its own words.

Words are left out, none is added or moved, so an excerpt says nothing that was not said. Greetings and articles go first,
then clauses and sentences: those that share nothing with the question and say little for their length. What turns a
statement round goes only together with it: a negation, a condition, "but …", "just kidding". Where something was left out
that told anything, `…` stands, so that whoever reads it knows that there was more.

Sentences are found in every language; clauses are cut, and little words left out, in English alone.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from edgemem.context.sentences import split_sentences
from edgemem.patterns import Pattern
from edgemem.provisions import provided
from edgemem.recall.words import STOP_WORDS, plain_words, terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

GAP = "…"
"""Stands where something was left out that told anything."""

SHARES = (0.4, 0.6, 0.75, 1.0)
"""How much of a text's content words its excerpts hold at least, each as short as that allows."""

MOST_CHARS = 2000
"""What stands behind them in a text is in no excerpt."""
_MOST_PIECES = 6
"""Pieces that are tried in every combination; of more, those that say least for their length go beforehand."""
_WORTH_CHARS = 50
"""Characters that an excerpt may be longer for if it then holds all that is asked for, and not nothing of it."""


class Excerpt(NamedTuple):
    """A text in fewer words."""

    text: str
    share: float
    """Of its content words, how many stand there, 0 to 1."""
    asked: float
    """The same, with those counting twice that the question has, too, more what is a name or a number, and half small talk."""


class _Piece(NamedTuple):
    """A sentence or clause that may be left out."""

    text: str
    stems: frozenset[str]
    needs: bool = False
    """Whether it means something else, or nothing, without the piece before it."""


_SUBJECT = r"(?:i|we|you|he|she|it|they|my|our|his|her|their|this|that|these|those|there|the|a|an)\b"
_ENGLISH = Pattern(
    r"\b(?:the|and|with|my|you|it['’]s|i['’]m|have|this|they|she|were|been|don['’]t|would|what|about"
    r"|of|it|for)\b",
    flags=re.IGNORECASE,
)
_GREETING = Pattern(
    r"(?:(?:wow|who?a+h?|hey|hi|hiya|hello|oh|ooh+|ah+|aw+|yeah|yep|yup|okay|ok|well|ha(?:ha)+|lol|hm+|um+|uh+|gosh|gee|man"
    r"|thanks|thank you|congrats|congratulations|great|cool|awesome|nice|sure|absolutely|definitely|totally|of course"
    r"|no worries|no problem|you know|by the way|btw|(?:good )?(?:morning|evening|afternoon))"
    r"(?: so much| a lot| a bunch| again| there| everyone| everybody)?(?:,? (?!I\b)(?-i:[A-Z])\w+)?(?: *[,!.…]+ *| +[-–—]+ +|$))+",
    flags=re.IGNORECASE,
)  # fmt: skip
_CALLED = Pattern(r", (?!I\b)[A-Z]\w+(?=[!.?]+$)")
"""Whom a sentence is addressed to, at its end."""
_VERB = (
    r"(?:(?:just|then|also|even|really) )?(?:\w+ (?:up |out |off |back |down )?)?(?:the|an?|my|our|his|her|their|your|this"
    r"|that|these|those|some|it|me|us|him|them|you|to|into|in|on|at|for|with|from|about|how|what)\b"
)
"""How it goes on behind `and` where a second verb does: with what stands before nouns, soon."""
_CUT = Pattern(
    rf"(?: +(?=and (?!{_SUBJECT}){_VERB}))|(?:,? +(?=(?:and|so|because|cause|since|as|which|while|where|plus) {_SUBJECT})"
    rf"|, +(?=(?:and|so|because|since|which|who|while|where|plus|especially|like|including|\w+ing)\b|{_SUBJECT})"
    r"| +[-–—]+ +|; +)",
    flags=re.IGNORECASE,
)
_INSIDE = Pattern(r"[\"“”«»()\[\]]")
"""What stands between these belongs together."""
_HANGS_ON = Pattern(
    rf"(?:because|cause|since|as|which|who|while|where|especially|like|including|\w+ing|and (?!{_SUBJECT}))\b",
    flags=re.IGNORECASE,
)
_PAIR = Pattern(
    r"\b(?:between|both|either|mix\w*|combin\w+|together|same|differen\w+)\b|\d\W*$", flags=re.IGNORECASE
)
"""What is only said of two things together."""
_HALF = Pattern(r"and (?:an? )?(?:half|quarter|third|\d)", flags=re.IGNORECASE)
_AND = Pattern(r"and\b", flags=re.IGNORECASE)
_UNDOES = Pattern(
    r"\b(?:cancel\w*|call\w* off|postpon\w+|reschedul\w+|mov(?:e|ed|ing)|chang\w+|switch\w*|swap\w*|replac\w+|return\w*"
    r"|sell|sold|los[et]|lost|br(?:eak|oke|oken)|thr(?:ow|ew|own)|g(?:ive|ave|iven) (?:up|away|back|it|them)|stop\w*|quit"
    r"|delet\w+|remov\w+|t(?:ake|ook|aken)|turn\w* (?:\w+ )?off|left|leave|fail\w*|forg[eo]t|regret\w*|die[sd]?|gone)\b",
    flags=re.IGNORECASE,
)
"""What may make what was done before it undone: the oven was turned on, and then off."""
_TURNS = Pattern(
    r"\b(?:if|unless|until|till|except|without|but|although|though|tho|however|instead|rather|than|or|whether"
    r"|not|no|nope|never|none|nothing|nobody|neither|nor|cannot|\w+n['’]t|(?:d(?:o|oes|id)|is|are|w(?:as|ere|o|ould)|ha(?:s|ve|d)|c(?:a|ould)|should|must|need|ai)nt|wrong|false|jok(?:e|ing)|kidding|mistake|actually"
    r"|meant?|(?:i|we) (?:think|guess|suppose|believe|hope|doubt|wish)|maybe|perhaps|probably|supposed|almost|nearly|used to)\b",
    flags=re.IGNORECASE,
)  # fmt: skip
"""What may turn round or weaken what stands before it."""
_FRAMES = Pattern(
    r"\b(?:if|unless|until|when(?:ever)?|once|although|though|instead|wish|hope|imagine|suppose|pretend|dream\w*|says?|said"
    r"|tells?|told|claim\w*|heard|think|thought|guess|maybe|perhaps|would|could|might|never|nobody|not|\w+n['’]t)\b",
    flags=re.IGNORECASE,
)
"""What makes something else of what follows it: a condition, a wish, what somebody else says."""
_TAKES_BACK = Pattern(
    r"(?:but|however|although|though|except|unless|otherwise|or|actually|no|nope|not|wait|sorry|correction|scratch that|i mean"
    r"|instead|still|yet|never ?mind|on second thoughts?)\b(?! (?:worries|problem|doubt|bad|wonder))"
    r"|.*\b(?:kidding|jok(?:e|ing)|not (?:true|right|so)|wrong|mistake[n]?|lied?|misspoke|misheard|take (?:that|it) back)\b",
    flags=re.IGNORECASE,
)  # fmt: skip
"""How a sentence begins, or what stands in it, that may take back the one before."""
_FILLER = Pattern(
    r"(?<!\bnot )(?<!n't )(?<!n’t )(?<!\bnever )(?:\b(?:really|very|truly|totally|absolutely|super|honestly|literally|basically) "
    r"|(?<=\b(?:was|are) )so |(?<=\bis )so |(?<=['’][ms] )so |(?<=['’]re )so |(?<=\b(?:been|feel|felt|were) )so )"
    r"(?!much\b|many\b|that\b|far\b|long\b|few\b|little\b)"
)
_ARTICLE = Pattern(
    r"(?<![\d$€£] )(?<!\bonce )(?<!\btwice )(?<!\btimes )(?<![A-Z] )\b(?:the|an?) (?=[a-z])(?!(?:few|little|lot|bit|while|couple|day"
    r"|week|month|year|hour|minute|night|piece|person|head|time|more|less)\b)"
)
"""Those that can be missed: "a few" is more than "few", "twice a day" is not "twice day", and "The Hague" is a name."""
_SMALL, _CONTENT = 1, 2
"""What a word of small talk, and any other, counts for the question."""
_VALUE = Pattern(r"\d|(?<=[\w,;:] )(?!I\b)[A-Z][\w’'-]+")


def excerpts(text: str, asked: Collection[str] = ()) -> list[Excerpt]:
    """Return a text in ever more words, for each of `SHARES`; never empty.

    Args:
        asked: stems of the question; what shares any with it goes last.
    """
    text = text[:MOST_CHARS]
    words = _Words(text, asked)
    pieces = _pieces(text, words.stems)
    if not words.bits or not pieces:
        return [Excerpt(text, 1.0, 1.0)]
    made = _combinations(pieces, words)
    most = max(each.share for each in made)
    best: list[_Kept] = []
    for share in SHARES:
        enough = (each for each in made if each.share >= min(share, most))
        one = max(enough, key=lambda each: each.asked - each.chars / _WORTH_CHARS)
        if one not in best:
            best.append(one)
    return [Excerpt(_joined(pieces, each.numbers), each.share, each.asked) for each in best]


class _Kept(NamedTuple):
    """Some pieces, and what of the text they hold."""

    numbers: tuple[int, ...]
    chars: int
    share: float
    asked: float


class _Words:
    """The content words of a text as bits, so that what some pieces hold together is counted quickly.

    Each has one bit, and in a second number as many as it counts for the question.
    """

    def __init__(self, text: str, asked: Collection[str]) -> None:
        values = {stem for value in _VALUE.findall(text) for stem in _stems_of(value)}
        self.stems = dict.fromkeys(terms(text))
        self.bits: dict[str, tuple[int, int]] = {}
        place, empty = 0, _empty()
        for number, stem in enumerate(self.stems):
            width = _SMALL if stem in empty else _CONTENT
            width += _CONTENT * (stem in asked) + _SMALL * (stem in values)
            self.bits[stem] = 1 << number, ((1 << width) - 1) << place
            place += width
        self._width = place

    def held(self, stems: Iterable[str]) -> tuple[int, int]:
        """Return both numbers of some stems."""
        plain = weighed = 0
        for stem in stems:
            one, wide = self.bits.get(stem, (0, 0))
            plain |= one
            weighed |= wide
        return plain, weighed

    def kept(self, numbers: tuple[int, ...], chars: int, plain: int, weighed: int) -> _Kept:
        """Return what pieces with these bits hold."""
        return _Kept(numbers, chars, plain.bit_count() / len(self.bits), weighed.bit_count() / self._width)


@lru_cache(maxsize=1024)  # names and digits come again and again
def _stems_of(value: str) -> tuple[str, ...]:
    return tuple(terms(value))


def _combinations(pieces: Sequence[_Piece], words: _Words) -> list[_Kept]:
    """Return pieces that may stand together: all, and every choice of those that tell most for their length."""
    held = [words.held(piece.stems) for piece in pieces]
    left = list(range(len(pieces)))
    while len(left) > _MOST_PIECES:
        loose = [n for n in left if not (n + 1 in left and pieces[n + 1].needs)]
        left.remove(min(loose, key=lambda n: held[n][1].bit_count() / (len(pieces[n].text) + 4)))
    whole = tuple(range(len(pieces)))
    plain = weighed = 0
    for one, wide in held:
        plain, weighed = plain | one, weighed | wide
    out = [words.kept(whole, sum(len(piece.text) + 1 for piece in pieces), plain, weighed)]
    needs = sum(1 << place for place, n in enumerate(left) if pieces[n].needs)
    sums: list[tuple[tuple[int, ...], int, int, int]] = [((), 0, 0, 0)]
    for chosen in range(1, 1 << len(left)):
        # What the choice without its last piece holds is known.
        place = chosen.bit_length() - 1
        numbers, chars, plain, weighed = sums[chosen ^ (1 << place)]
        n = left[place]
        each = (*numbers, n), chars + len(pieces[n].text) + 1, plain | held[n][0], weighed | held[n][1]
        sums.append(each)
        if not (chosen & needs) >> 1 & ~chosen and each[0] != whole:
            out.append(words.kept(*each))
    return out


def _joined(pieces: Sequence[_Piece], kept: Sequence[int]) -> str:
    out = ""
    last = -1
    for n in (*kept, len(pieces)):
        if any(_tells(piece.stems) for piece in pieces[last + 1 : n]):
            out = f"{out.rstrip(' .,;!-–—')}{GAP}"
        if n < len(pieces):
            out += f" {pieces[n].text}" if out else pieces[n].text
        last = n
    return out.rstrip(" ,;-–—")


def tells(text: str) -> bool:
    """Tell whether a sentence says more than small talk does, so that a reader would miss it."""
    return not _GREETING.fullmatch(text) and _tells(frozenset(terms(text)))


def _tells(stems: frozenset[str]) -> bool:
    stems = stems - _empty()
    # A script without spaces makes one long word of a whole clause.
    return len(stems) > 1 or any(len(stem) > 2 and not stem.isascii() for stem in stems)


@provided
def _empty() -> frozenset[str]:
    """Return the stems of small talk."""
    return frozenset(
        terms(
            "wow great awesome amazing cool nice good glad happy lovely wonderful fantastic incredible excited exciting thank thanks"
            " hey hi hello congrats congratulations proud sound sounds hear hearing see look looks bet guess sure yeah really"
            " definitely totally absolutely thing things stuff way lot lots bit know think feel mean make makes love luck fun well"
            " best super inspiring special agree appreciate support impressive beautiful pretty gorgeous cute interesting"
        )
    )


def _pieces(text: str, stems: Iterable[str]) -> list[_Piece]:
    """Return what may be left out of a text, each without its little words.

    Args:
        stems: of the whole text.
    """

    def stems_in(part: str) -> frozenset[str]:
        # Most texts are one sentence that stays as it is.
        return frozenset(stems if part == text else terms(part))

    english = len(_ENGLISH.findall(text)) * 12 >= len(text.split())
    out: list[_Piece] = []
    for sentence in split_sentences(text):
        if not english:
            out.append(_Piece(sentence, stems_in(sentence)))
            continue
        bare = _CALLED.sub(
            "", _GREETING.sub("", sentence, count=1) if _GREETING.match(sentence) else sentence
        )
        takes_back = bool(_TAKES_BACK.match(sentence))
        for n, part in enumerate(_clauses(bare)):
            shorn = " ".join(_ARTICLE.sub("", _FILLER.sub("", part)).split())
            if takes_back and n == 0 and out and shorn:
                shorn = f"{out.pop().text} {shorn}"
            if shorn:
                out.append(_Piece(shorn, stems_in(shorn), n > 0 and _needs(part, bare)))
    return out


def _clauses(sentence: str) -> Iterable[str]:
    """Return a sentence cut where what follows may be left out."""
    start = 0
    if not _INSIDE.search(sentence):
        for cut in _CUT.finditer(sentence):
            part, rest = sentence[start : cut.end()], sentence[cut.end() :]
            if _says_two(part) and _says_two(rest) and _may_go(part, rest):
                yield part
                start = cut.end()
    yield sentence[start:]


def _says_two(part: str) -> bool:
    """Tell whether English words are more than one that tell anything."""
    return sum(word not in STOP_WORDS for word in plain_words(part)) > 1


def _may_go(part: str, rest: str) -> bool:
    """Tell whether a sentence may end before its rest and still say what it said."""
    if _TURNS.search(rest) or _HALF.match(rest):
        return False
    if not _AND.match(rest):
        return True
    # What turns the first of two verbs may turn both, and the second may undo the first.
    return not (_TURNS.search(part) or _PAIR.search(part) or _UNDOES.search(rest))


def _needs(part: str, sentence: str) -> bool:
    """Tell whether a clause that is not the first may only stand behind the one before it."""
    return bool(_HANGS_ON.match(part) or _FRAMES.search(sentence[: sentence.index(part)]))
