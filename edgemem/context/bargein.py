"""Barge-in: what of a turn's speech was heard when somebody cut it off.

A voice rarely plays the written text: numbers become words, signs vanish. So the words are matched, and the reply is cut where
they end; history keeps the reply's own text. What is spoken before a tool runs and behind it are two speeches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from edgemem.errors import InvalidInputError
from edgemem.preload import Pattern

CHARS_A_SECOND = 15.0
"""An estimate: 150 words of 6 characters a minute, as English is read aloud; languages and voices differ by half."""

Timed = tuple[str, float, float]
"""A word with its start and end; milliseconds since the voice began with the reply."""

# Chinese and Japanese write no blanks: there each sign can be the last that was heard.
_SIGN = "[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
_WORD = Pattern(rf"{_SIGN}[^\w\s]*|(?:(?!{_SIGN})\S)+")
_SILENT = re.compile(r"[\W_]+")
_DIGIT = re.compile(r"\d")

_LONGEST_NUMBER = 12
"""Words that a number may be spoken in: "one million two hundred thousand three hundred and forty-five" has 10."""
_LONGEST_OTHER = 3  # words that anything else may be spoken in: "e.g." is two

_AHEAD = 2 * _LONGEST_NUMBER

INTERRUPTION = "interrupted"


def interruption(n: int) -> str:
    """Return the id of the line that reports the cut of turn `n`."""
    return f"{INTERRUPTION}:{n}"


class _Word(NamedTuple):
    sound: str
    """Letters and digits in lower case; empty where nothing is spoken."""
    end: int
    number: bool


def heard_part(
    reply: str,
    *,
    heard_text: str | None = None,
    heard_ms: float | None = None,
    words: Sequence[Timed] | None = None,
    chars_per_s: float = CHARS_A_SECOND,
) -> str:
    """Return the beginning of a reply that was heard; all of it if nothing tells how much.

    The reply's own beginning is taken as it is; everything else ends at a word. An exact report goes before an estimate: the
    text, then the times of the words, then the time alone.

    Args:
        heard_text: the text that was played, as written or as the voice spelled it; "" is nothing.
        heard_ms: milliseconds that the voice had spoken the reply for.
        words: when each word was played, in their order; without `heard_ms`, all of them were heard.
        chars_per_s: the voice's speed, for `heard_ms` alone.

    Raises:
        InvalidInputError: an argument is no text, no number, or no word with its times.
    """
    until = None if heard_ms is None else _milliseconds(heard_ms)
    if heard_text is not None:
        if not isinstance(heard_text, str):
            raise InvalidInputError(f"What was heard must be text; got {type(heard_text).__name__}.")
        if reply.startswith(heard_text):
            return heard_text
        ends = _ends(reply, _words_of(heard_text))
        return reply[: ends[-1]] if ends else ""
    if words is not None:
        return reply[: _end_of_timed(reply, words, until)]
    if until is None:
        return reply
    characters = until * chars_per_s / 1e3
    if characters >= len(reply.rstrip()):
        return reply
    return reply[: max((word.end for word in _words_of(reply) if word.end <= characters), default=0)]


def heard_speeches(speeches: Sequence[str], **report: Any) -> list[str]:
    """Return the heard part of each speech of one turn, oldest first; all of them are one reply as for `heard_part`.

    A voice may tell of all of them, or of the one that it was cut off in: then those before it were heard.
    """
    pieces = [*(f"{speech} " if speech else "" for speech in speeches[:-1]), *speeches[-1:]]
    together = "".join(pieces)
    begins = list(accumulate(map(len, pieces), initial=0))[:-1]
    told = report.get("heard_text")
    begin = next((at for at in begins if told is not None and together.startswith(told, at)), None)
    if begin is None:
        # A report on one speech matches most from where that one begins; it may begin like another.
        spoken: dict[str, Any] = {"heard_text": told, "words": report.get("words")}
        matching = [len(heard_part(together[at:], **spoken)) for at in begins]
        begin = begins[matching.index(max(matching))] if matching else 0
    end = begin + len(heard_part(together[begin:], **report))
    heard = [speech[: max(0, end - at)] for speech, at in zip(speeches, begins, strict=True)]
    # Where only blanks are missing of one that another followed, it stays as the model has seen it.
    for n, speech in enumerate(speeches[:-1]):
        if not speech[len(heard[n]) :].strip():
            heard[n] = speech
    return heard


def tells_of_earlier(earlier: Sequence[str], prepared: Sequence[str], **report: Any) -> bool:
    """Tell whether a voice played the earlier speeches of a turn, and not those of the next one, `prepared` meanwhile.

    The earlier one goes first, since nothing of a prepared reply has been spoken yet. A time alone tells neither. While no
    prepared speech is known, all that was played must be of the earlier ones.
    """
    played = _played(**report)
    of_earlier = _played_of(earlier, played)
    whole = of_earlier == len(played)
    return of_earlier > 0 and (whole or (any(prepared) and of_earlier > _played_of(prepared, played)))


def may_tell_of(speeches: Sequence[str], **report: Any) -> bool:
    """Tell whether a voice may have played these speeches: its words, if it tells any, begin one of them."""
    played = _played(**report)
    return not played.strip() or _played_of(speeches, played) > 0


def _played(heard_text: str | None = None, words: Sequence[Timed] | None = None, **_: Any) -> str:
    return heard_text or " ".join(str(entry[0]) for entry in words or () if entry)


def _played_of(speeches: Sequence[str], played: str) -> int:
    """Return how many played characters are of these speeches, from the start of one of them."""
    parts = (heard_part(" ".join(speeches[n:]), heard_text=played) for n in range(len(speeches)))
    # A number may be spelt in any way, but one written in digits is no other number.
    numbers = _numbers_in(played)
    same = [part for part in parts if part and numbers <= _numbers_in(part)]
    return max((len(heard_part(played, heard_text=part)) for part in same), default=0)


def _numbers_in(text: str) -> frozenset[str]:
    return frozenset(word.sound for word in _words_of(text) if word.number)


def _end_of_timed(reply: str, words: Sequence[Timed], until: float | None) -> int:
    heard: list[_Word] = []
    played = 0
    for entry in words:
        if not isinstance(entry, (tuple, list)) or len(entry) != 3:
            raise InvalidInputError(f"A word must be (word, start_ms, end_ms); got {entry!r:.80}.")
        text, _, over = entry
        # The text of one entry may be two words, and both are over when it is.
        heard += _words_of(str(text))
        end = _milliseconds(over)
        if until is None or end <= until:
            played = len(heard)
    # All words, also the unheard ones, tell which belong to a number.
    return _ends(reply, heard)[played - 1] if played else 0


def _words_of(text: str) -> list[_Word]:
    return [
        _Word(_SILENT.sub("", match.group().casefold()), match.end(), bool(_DIGIT.search(match.group())))
        for match in _WORD.finditer(text)
    ]


def _ends(reply: str, heard: Sequence[_Word]) -> list[int]:
    """Return for each heard word how far the reply had come when it was over; it never goes back."""
    written = [word for word in _words_of(reply) if word.sound]
    ends: list[int] = []
    at = end = 0
    spoken = [(n, word) for n, word in enumerate(heard) if word.sound]
    sounds = [word for _, word in spoken]
    n = 0
    while n < len(spoken):
        step = _step(sounds[n : n + _AHEAD], written[at : at + _AHEAD])
        if step is None:
            break
        mine, theirs = step
        # The heard part of several words with one meaning ends with the last of them.
        ends += [end] * (spoken[n + mine - 1][0] - len(ends))
        n, at = n + mine, at + theirs
        end = len(reply) if at == len(written) else written[at - 1].end
        ends.append(end)
    if n < len(spoken) and at < len(written) and written[at].number:
        # It was cut off within a number, or right behind it: how a number reads aloud is not known here.
        end = len(reply) if at + 1 == len(written) else written[at].end
    return ends + [end] * (len(heard) - len(ends))


def _step(heard: Sequence[_Word], written: Sequence[_Word]) -> tuple[int, int] | None:
    """Return how many heard and written words at the head of both stand for one another."""
    same = _same_sound(heard, written)
    if same is not None or not written:
        return same
    mine_most = min(_LONGEST_NUMBER if written[0].number else _LONGEST_OTHER, len(heard) - 1)
    theirs_most = min(_LONGEST_NUMBER if heard[0].number else _LONGEST_OTHER, len(written) - 1)
    for both in range(2, mine_most + theirs_most + 1):
        for theirs in range(max(1, both - mine_most), min(theirs_most, both - 1) + 1):
            # Words that differ are passed over only where both go on alike behind them.
            if _same_sound(heard[both - theirs :], written[theirs:]) is not None:
                return both - theirs, theirs
    return None


def _same_sound(heard: Sequence[_Word], written: Sequence[_Word]) -> tuple[int, int] | None:
    """Return how many words at the head of both sound the same together, such as "ice cream" and "ice-cream"."""
    mine = theirs = 0
    ours = yours = ""
    while True:
        if len(ours) <= len(yours):
            if mine == len(heard):
                return None
            ours, mine = ours + heard[mine].sound, mine + 1
        else:
            if theirs == len(written):
                return None
            yours, theirs = yours + written[theirs].sound, theirs + 1
        if ours == yours:
            return mine, theirs
        if not (ours.startswith(yours) or yours.startswith(ours)):
            return None


def _milliseconds(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"A time must be a number of milliseconds; got {value!r:.80}.") from error
    if math.isnan(number) or number < 0:
        raise InvalidInputError(f"A time must be 0 or more milliseconds; got {value!r:.80}.")
    return number
