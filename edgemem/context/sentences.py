"""Sentences: messages cut into pieces for a summary, and the content of each piece.

Cues (first person, decisions, corrections, days) are those of `en.toml`; numbers, names and places count in every language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Literal

import msgspec

from edgemem.context.messages import call_name, repair_orphans, tool_calls
from edgemem.languages.words import Items, all_words, cues, small
from edgemem.preload import Pattern
from edgemem.recall.text.analyse import language_in, stop_words
from edgemem.records import Message, text_of

MAX_CHARS = 240
"""Longer sentences are cut between two words: speech recognisers often write no full stops."""

OUTCOME_CHARS = 100  # characters of a tool's result in a summary

_SOMEBODY, _ROBOT = "Somebody", "Robot"  # speakers of messages without a name

_INJECTED = Pattern(r"<memory\b[^>]*>.*?</memory>|<think>.*?(?:</think>|\Z)", flags=re.DOTALL)
_STOP = Pattern(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+[”’」』]*")
_NEXT = Pattern(r"\s*(\S)")
_INITIAL = Pattern(r"\b[A-ZÀ-ÞĐ]\.$")
_WORD = Pattern(r"[^\W_]+(?:['’][^\W_]+)*")
_NAME = Pattern(r"(?<=[\w,;:] )(?!I\b)[A-Z][^\W_]{2,}")
_ASKS = Pattern(r"[?？]\W*$")
_OPEN = Pattern(r"\w$")

Teller = Literal["user", "assistant", "tool"]
Values = frozenset[tuple[str, str]]


class Sentence(msgspec.Struct, frozen=True):
    """One thing that was said, word for word, or the outcome of one tool call."""

    text: str
    speaker: str
    teller: Teller
    source: int
    """Number of its message or summary line."""
    words: frozenset[str]
    """Words that carry meaning, lower case, without its values."""
    values: Values
    """Numbers, days and months, each with its kind."""

    question: bool
    denial: bool
    """Whether it says that something said before is not so."""
    correction: bool
    """Whether it says that something is otherwise than before."""
    first_person: bool
    """Whether its meaning depends on who said it."""
    information: float
    """About how much is lost with it, roughly 0 to 1: facts about people before small talk."""


def gather(
    turns: Iterable[Sequence[Message]], *, previous: str, stop: Callable[[], bool] | None = None
) -> list[Sentence]:
    """Return the sentences of an earlier summary and of the turns, oldest first, without empty phrases.

    `previous` has lines such as `Alice: I moved to Bonn.` `stop` is asked at each message; once it is true, nothing is returned.
    """
    out: list[Sentence] = []
    lines = previous.splitlines()
    for number, line in enumerate(lines):
        speaker, colon, rest = line.partition(": ")
        if " -> " in line and (not colon or " -> " in speaker):
            out.append(_sentence(line, "", "tool", number))
        elif colon:
            teller: Teller = "assistant" if speaker == _ROBOT else "user"
            out += (_sentence(text, speaker, teller, number) for text in split_sentences(rest))
    for number, (text, speaker, told_by) in enumerate(_told(turns), len(lines)):
        if stop is not None and stop():
            return []
        if told_by == "tool":
            out.append(_sentence(text, "", told_by, number))
        else:
            out += (_sentence(part, speaker, told_by, number) for part in split_sentences(text))
    return [sentence for sentence in out if _tells_something(sentence)]


def spoken_lines(turns: Iterable[Sequence[Message]], *, previous: str) -> list[str]:
    """Return an earlier summary and all messages as lines; arguments as for `gather`."""
    texts = _told(turns)
    lines = (f"{who}: {_one_line(text)}" if who else text for text, who, _ in texts if text.strip())
    return [*(line for line in previous.splitlines() if line.strip()), *lines]


def _told(turns: Iterable[Sequence[Message]]) -> Iterator[tuple[str, str, Teller]]:
    """Yield text, speaker and teller of each message, without injected text; of a tool the outcome alone."""
    for turn in turns:
        repaired = repair_orphans(turn)
        tools = iter(tool_lines(repaired))
        for message in repaired:
            role = message.get("role")
            if role == "tool":
                yield next(tools), "", "tool"
            elif role in ("user", "assistant"):
                named = _one_line(str(message.get("name") or "")).replace(":", "")
                speaker = named or (_SOMEBODY if role == "user" else _ROBOT)
                yield _INJECTED.sub("\n", text_of(message)), speaker, role


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text unchanged; over-long ones in pieces."""
    out: list[str] = []
    for line in text.splitlines():
        start = 0
        short = [match.span() for match in _no_ends(language_in(line)).finditer(line)] if "." in line else []
        for stop in _STOP.finditer(line):
            if not _goes_on(line, stop, short):
                out += _pieces(line[start : stop.end()])
                start = stop.end()
        out += _pieces(line[start:])
    return out


def tool_lines(turn: Sequence[Message]) -> list[str]:
    """Return a line `name -> outcome` for each tool result of a turn, in order."""
    out = []
    waiting: list[str] = []
    names: dict[str, str] = {}
    for message in repair_orphans(turn):
        if calls := tool_calls(message):
            waiting = [call_name(call) for call in calls]
            names = {str(call.get("id")): call_name(call) for call in calls}
        elif message.get("role") == "tool":
            by_order = waiting.pop(0) if waiting else ""
            name = message.get("name") or names.get(str(message.get("tool_call_id"))) or by_order
            outcome = _one_line(text_of(message) or str(message.get("content") or "done"))
            if len(outcome) > OUTCOME_CHARS:
                outcome = outcome[: OUTCOME_CHARS - 1].rstrip() + "…"
            out.append(f"{_one_line(str(name)) or 'tool'} -> {outcome}")
    return out


def _sentence(text: str, speaker: str, teller: Teller, source: int) -> Sentence:
    known, plainly = cues(), small(text)
    words = [word.lower().replace("’", "'") for word in _WORD.findall(text)]
    values = frozenset(_values(words))
    plain = {value for _, value in values}
    meaning = frozenset(word.removesuffix("'s") for word in words if word not in plain) - known.empty.words
    information = 0.02 * min(len(meaning), 10) + 0.2 * bool(values) + 0.1 * (len(values) > 1)
    information += 0.1 * min(len(_NAME.findall(text)), 2)
    first_person = bool(known.first_person.pattern.search(plainly))
    asks = denial = correction = False
    if teller == "tool":
        information += 0.2 * bool(known.failures.pattern.search(plainly))
    else:
        asks = bool(_ASKS.search(text)) or bool(known.questions.pattern.match(plainly) and _OPEN.search(text))
        denial = not asks and bool(
            known.begin_denials.pattern.match(plainly) or known.denials.pattern.search(plainly)
        )
        correction = denial or (not asks and bool(known.changes.pattern.search(plainly)))
        information += 0.2 * bool(known.decisions.pattern.search(plainly)) + 0.25 * correction
        information += (0.2 if teller == "user" else 0.1) * first_person
        information -= 0.5 * asks + 0.1 * bool(known.leaning.pattern.match(plainly))
    return Sentence(
        text, speaker, teller, source, meaning, values, asks, denial, correction, first_person, information
    )


def _values(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    known = cues()
    for word in words:
        if word[0].isdigit() or word in known.numbers.words:
            yield "number", word
        elif word in known.days.words:
            yield "day", word
        elif word in known.months.words:
            yield "month", word


def _tells_something(sentence: Sentence) -> bool:
    if sentence.teller == "tool" or sentence.values or len(sentence.words) > 1:
        return True
    # A script without spaces makes one long word of a whole clause.
    return any(sentence.first_person or (len(word) > 4 and not word.isascii()) for word in sentence.words)


def _goes_on(line: str, stop: re.Match[str], short: Sequence[tuple[int, int]]) -> bool:
    """Tell whether a full stop ends no sentence: it is in one of the spans `short`, or a lower-case letter follows."""
    if not stop[0].startswith(".") or len(stop[0]) > 1:
        return False
    following = _NEXT.match(line, stop.end())
    if following is not None and following[1].islower():
        return True
    if any(begin <= stop.start() < end for begin, end in short):
        return True
    return bool(_INITIAL.search(line, max(0, stop.end() - 3), stop.end()))


@cache
def _no_ends(language: str) -> re.Pattern[str]:
    """Return a pattern for abbreviations of all languages, and the ordinals of one that writes them with a full stop.

    There "3." is an ordinal before a month, and after an article where no little word begins the next sentence. After an
    article and before a month it is one in any text: a date is too short to tell its language.
    """
    languages = all_words()
    patterns = [
        rf"(?<![\w.])(?:{_listed(words.abbreviations for words in languages.values())})\.",
        rf"(?<![\w.])(?:{_listed(words.before_numbers for words in languages.values())})\.(?=\s*\d)",
    ]
    for code, words in languages.items():
        if not words.ordinal_months.items:
            continue
        articles, months = "|".join(words.before_ordinals.items), "|".join(words.ordinal_months.items)
        patterns.append(rf"(?<!\w)(?:{articles})\s+\d{{1,2}}\.(?=\s+(?:{months})(?!\w))")
        if code == language:
            little = "|".join(stop_words(code))
            patterns.append(rf"(?<![\w.])\d{{1,2}}\.(?=\s+(?:{months})(?!\w))")
            patterns.append(rf"(?<!\w)(?:{articles})\s+\d{{1,2}}\.(?!\s+(?:{little})(?!\w))")
    return re.compile("|".join(patterns), re.IGNORECASE)


def _listed(lists: Iterable[Items]) -> str:
    """Return a pattern for any item of some lists; spaces may follow a full stop inside of one."""
    items = sorted({item for listed in lists for item in listed.items}, key=len, reverse=True)
    return "|".join(re.escape(item).replace(r"\.", r"\.\s?") for item in items)


def _pieces(sentence: str) -> Iterator[str]:
    sentence = sentence.strip().lstrip("-*•# ")
    start = 0
    while start < len(sentence):
        end = start + MAX_CHARS
        if end < len(sentence):
            space = sentence.rfind(" ", start + 1, end)
            end = space if space > 0 else end
        if piece := sentence[start:end].strip():
            yield piece
        start = end


def _one_line(text: str) -> str:
    return " ".join(text.split())
