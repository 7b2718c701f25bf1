"""The checks that a written summary must pass before it may stand for what was said.

A small model invents names, swaps figures, answers the last question instead of noting it, and does what it reads. None
of that can be told for certain without a better model, so each check is a plain rule about words, and refuses rather
than lets pass: the summary that is made of sentences that were said is always there instead. What the rules cannot see:
a clause made of a clause's own words in another order (who did what to whom), one common word put for another, a name
that nobody wrote with a capital letter in another language than English, and in German a name behind an article.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from edgemem.context.check_source import Source, bare, content, names_of_tools, pairs, plain_words
from edgemem.context.check_support import invented, reversed_, swapped
from edgemem.context.check_words import (
    ANSWER,
    ASKED,
    BEFORE_NOUN,
    CALL,
    COMMON_END,
    COUNTED,
    DANGLING,
    DENIAL,
    END,
    GERMAN,
    KATAKANA,
    NOUN,
    ORDER,
    OWED,
    OWN,
    SMALL,
    SPEAKER,
    TELLING,
    TITLED,
    UTTER,
    WORD,
    YOU,
)
from edgemem.context.numbers import dates, folded, is_date, is_number, numbers
from edgemem.context.sentences import split_sentences
from edgemem.fence import clean
from edgemem.recall.stemmer import stem

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer

KINDS = (
    "empty", "too long", "cut off", "repetition", "markers", "unknown tools", "unknown numbers", "unknown units",
    "unknown dates", "unknown names", "unknown words", "unknown denials", "swapped", "reversed", "speaks to somebody",
    "answers a question", "orders", "the prompt itself",
)  # fmt: skip
"""What a refusal is counted as."""

_NEW_WORDS = 0.5
"""Share of the words, or of pairs of signs, that the source may lack: a summary is told in some words of its own."""
_PROMPT_RUN = 7
"""Words of the prompt in a row that no summary has by chance."""


__all__ = ("KINDS", "Refusal", "Source", "check_summary")


class Refusal(msgspec.Struct, frozen=True):
    """Why a summary is not used."""

    kind: str
    """One of `KINDS`."""
    told: str
    """A sentence; it may quote the summary."""


def check_summary(
    summary: str, source: Source, *, tokenizer: Tokenizer, max_tokens: int, ended: bool = True
) -> Refusal | None:
    """Return why a summary cannot be used, or None.

    Args:
        max_tokens: its budget.
        ended: whether the model stopped by itself.
    """
    if not re.search(r"[^\W\d_]", summary):
        return Refusal("empty", "It is empty.")
    if not ended or _is_cut(summary):
        return Refusal("cut off", "It is cut off: its last line does not end.")
    tokens = len(tokenizer.encode(summary))
    if tokens > max_tokens:
        return Refusal("too long", f"It takes {tokens} tokens, and {max_tokens} are planned.")
    for kind, look in _CHECKS:
        found = look(summary, source)
        if found:
            return Refusal(kind, found)
    return None


def _repetition(summary: str, _source: Source) -> str:
    lines = [bare(line) for line in summary.splitlines() if line.strip()]
    twice = next((line for line in lines if lines.count(line) > 1), "")
    return f"It says “{twice}” more than once." if twice else ""


def _markers(summary: str, _source: Source) -> str:
    for line in summary.splitlines():
        plain = " ".join(line.split())
        if CALL.search(line) or clean(plain, max_chars=len(plain) + 1) != plain:
            return f"It holds markers of a role, a tool call or a fence: “{plain}”."
    return ""


def _unknown_tools(summary: str, source: Source) -> str:
    for name in names_of_tools(summary):
        if folded(name) not in source.tools and not source.knows(folded(name)):
            return f"No tool {name} was used."
    return ""


def _unknown_numbers(summary: str, source: Source) -> str:
    wrong = sorted(one.value for one in numbers(summary) if one.value not in source.values)
    return f"Nobody said {wrong[0]}." if wrong else ""


def _unknown_units(summary: str, source: Source) -> str:
    wrong = sorted((one for one in numbers(summary) if one.unit and one not in source.numbers), key=str)
    if wrong:
        return f"Nobody said {wrong[0].value} {wrong[0].unit}."
    # "54 square feet" where metres were said: of what somebody counted, something else is told.
    for match in COUNTED.finditer(summary):
        number, *words = (folded(part) for part in match.groups() if part)
        if number in source.counted and any(
            word not in SMALL and word not in TELLING and not source.means(word) for word in words
        ):
            return f"Nobody said {match[0]}."
    return ""


def _unknown_dates(summary: str, source: Source) -> str:
    wrong = sorted(dates(summary) - source.dates)
    return f"Nobody spoke of {wrong[0]}." if wrong else ""


def _unknown_names(summary: str, source: Source) -> str:
    german = len(GERMAN & set(plain_words(summary))) > 1
    for line in summary.splitlines():
        speaker = SPEAKER.match(line)
        end = speaker.end() if speaker else 0
        before, start = "", True
        for match in WORD.finditer(line):
            word = match[0]
            between = line[end : match.start()]
            start = start or bool(re.search(r"[.!?:•]\s", between))
            named = speaker is not None and match.end() <= speaker.end()
            if word[0].isupper() and not _may_stand(
                word, source, start=start and not named, after=before if german else None
            ):
                return f"Nobody spoke of {word}."
            before, end, start = folded(word), match.end(), False
    strange = [
        name
        for name in [*KATAKANA.findall(summary), *TITLED.findall(summary)]
        if folded(name) not in source.text
    ]
    return f"Nobody spoke of {strange[0]}." if strange else ""


def _may_stand(word: str, source: Source, *, start: bool, after: str | None) -> bool:
    """Tell whether a word with a capital letter is known, or no name.

    Args:
        start: it begins a sentence.
        after: the word before it, in German; None: not German.
    """
    plain = folded(word)
    if plain in SMALL or source.knows(plain) or is_date(plain) or is_number(plain):
        return True
    family = stem(plain) in {stem(common) for common in source.common} or (
        len(plain) > 4 and plain[:5] in source.common_heads
    )
    if after is not None:
        return family or after in BEFORE_NOUN or bool(NOUN.search(plain))
    return start and (family or bool(COMMON_END.search(plain)))


def _unknown_words(summary: str, source: Source) -> str:
    words = [
        word for word in plain_words(summary) if word not in SMALL and not is_number(word) and len(word) > 2
    ]
    strange = [word for word in words if not source.means(word)]
    if len(strange) > 2 and len(strange) > _NEW_WORDS * len(words):
        return f"It is not made of what was said: {', '.join(strange[:3])}."
    told = pairs(folded(summary))
    lacking = [pair for pair in told if pair not in source.pairs]
    if len(lacking) > 5 and len(lacking) > _NEW_WORDS * len(told):
        return f"It is not made of what was said: {', '.join(lacking[:3])}."
    return ""


def _unknown_denials(summary: str, source: Source) -> str:
    denied = DENIAL.search(summary)
    return f"Nobody said “{denied[0]}”." if denied and not DENIAL.search(source.text) else ""


def _speaks(summary: str, source: Source) -> str:
    for line in summary.splitlines():
        speaker = SPEAKER.match(line)
        for sentence in split_sentences(SPEAKER.sub("", line)):
            if speaker is None and sentence.endswith(("?", "？")):
                return f"It asks somebody: “{sentence}”."
            # `Alice: I moved` is reported speech; without who said it, it is the model that speaks.
            if speaker is None and OWN.search(sentence):
                return f"It speaks as if to somebody: “{sentence}”."
            if not source.holds(sentence) and YOU.search(sentence):
                return f"It speaks to somebody: “{sentence}”."
    return ""


def _answers(summary: str, source: Source) -> str:
    asked = content(source.question)
    for line in summary.splitlines():
        for sentence in split_sentences(SPEAKER.sub("", line)):
            if source.holds(sentence):
                continue
            if ANSWER.search(sentence):
                return f"It answers somebody: “{sentence}”."
            told = content(sentence)
            if not asked or ASKED.search(line) or 2 * len(asked & told) < len(asked):
                continue
            # What somebody else told may repeat the question's words; then one sentence holds all of them.
            others = (content(other) for other in source.sentences[:-1])
            if not any(2 * len(told & other) > len(told) and not told - asked - other for other in others):
                return f"It answers a question that nobody answered: “{sentence}”."
    return ""


def _orders(summary: str, source: Source) -> str:
    for line in summary.splitlines():
        if SPEAKER.match(line):
            continue
        for sentence in split_sentences(line.lstrip("-*• ")):
            owed = OWED.search(sentence)
            if ORDER.search(sentence) or (owed and folded(owed[0]) not in source.text):
                return f"It repeats an order as its own: “{sentence}”."
    whole = set(plain_words(summary)).difference(SMALL) or set(pairs(folded(summary)))
    for sentence in source.sentences:
        wanted = UTTER.search(sentence)
        if wanted and whole <= set(plain_words(wanted[1])):
            return f"It does what somebody said: “{sentence}”."
    return ""


def _prompt(summary: str, source: Source) -> str:
    words = plain_words(summary)
    prompt = " ".join(source.prompt)
    for at in range(len(words) - _PROMPT_RUN + 1):
        run = " ".join(words[at : at + _PROMPT_RUN])
        if run in prompt:
            return f"It repeats its instructions: “{run}”."
    return ""


_CHECKS: tuple[tuple[str, Callable[[str, Source], str]], ...] = (
    ("the prompt itself", _prompt),
    ("repetition", _repetition),
    ("markers", _markers),
    ("orders", _orders),
    ("unknown tools", _unknown_tools),
    ("speaks to somebody", _speaks),
    ("answers a question", _answers),
    ("unknown numbers", _unknown_numbers),
    ("unknown units", _unknown_units),
    ("unknown dates", _unknown_dates),
    ("unknown names", _unknown_names),
    ("unknown words", _unknown_words),
    ("unknown words", invented),
    ("unknown denials", _unknown_denials),
    ("swapped", swapped),
    ("reversed", reversed_),
)


def _is_cut(summary: str) -> bool:
    lines = [line.rstrip() for line in summary.splitlines() if line.strip()]
    last = lines[-1]
    if END.search(last) and last.count("(") <= last.count(")") and not last.endswith("..."):
        return False
    # A list may do without full stops, if it does so on every line.
    return len(lines) < 2 or bool(DANGLING.search(last)) or any(END.search(line) for line in lines[:-1])
