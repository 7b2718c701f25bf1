"""What a summary is checked against: the words, numbers, names and sentences of what was said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from edgemem.context.check_words import (
    CLAUSE,
    COUNTED,
    DENIAL,
    ENDINGS,
    FAILED,
    IDENTIFIER,
    SIGNS,
    SMALL,
    SPEAKER,
    TOOL,
    WORD,
)
from edgemem.context.numbers import dates, folded, is_date, is_number, numbers
from edgemem.context.sentences import split_sentences
from edgemem.recall.stemmer import stem


class Clause(msgspec.Struct, frozen=True):
    """A part of a sentence that says one thing."""

    text: str
    about: frozenset[str]
    """What it is about, but for its numbers."""
    exact: frozenset[str]
    """Its numbers and days."""
    denies: bool


class Source:
    """What a summary is made of, read once for all checks.

    Args:
        lines: what was said, such as `Alice: I moved to Bonn.`, oldest first, and outcomes such as `timer -> done`.
        prompt: what the model was told to do with it.
    """

    def __init__(self, lines: Sequence[str], *, prompt: str = "") -> None:
        self.text = folded("\n".join(lines))
        self.counted = {match[1] for match in COUNTED.finditer(self.text) if match[2] not in SMALL}
        self.clauses = list(clauses_of("\n".join(lines), generous=True))
        self.prompt = plain_words(prompt)
        found = WORD.findall("\n".join(lines))
        self.words = {part for word in found for part in parts(folded(word))}
        self.common = {folded(word) for word in found if word[0].islower()}
        self.stems = {stem(word) for word in self.words}
        self.heads = {word[:5] for word in self.words if len(word) > 4}
        self.common_heads = {word[:5] for word in self.common if len(word) > 4}
        self.numbers = numbers("\n".join(lines), generous=True)
        self.values = {one.value for one in self.numbers}
        self.dates = dates("\n".join(lines), generous=True)
        self.tools = {folded(name) for line in lines for name in names_of_tools(line)}
        self.pairs = set(pairs(self.text))
        said = [(SPEAKER.sub("", line), line) for line in lines]
        self.sentences = [sentence for text, _ in said for sentence in split_sentences(text)]
        self.known = {bare(sentence) for sentence in self.sentences} | {bare(line) for line in lines}
        self.question = self.sentences[-1] if self.sentences and is_question(self.sentences[-1]) else ""

    def knows(self, word: str) -> bool:
        """Tell whether a folded word stands there, perhaps with another ending."""
        if all(part in self.words for part in parts(word)):
            return True
        bases = {word.removesuffix(end) for end in ENDINGS if len(word) - len(end) > 2}
        return bool(bases & self.words) or any(word + end in self.words for end in ENDINGS)

    def means(self, word: str) -> bool:
        """Tell whether a folded word, or one of its family, stands there."""
        return self.knows(word) or stem(word) in self.stems or (len(word) > 4 and word[:5] in self.heads)

    def holds(self, sentence: str) -> bool:
        """Tell whether somebody said this word for word."""
        return bare(sentence) in self.known


def is_question(sentence: str) -> bool:
    """Tell whether a sentence asks."""
    return bool(re.search(r"[?？]\W*$|(?:吗|呢|ですか|か)[。？?]?$", sentence))


def names_of_tools(text: str) -> Iterator[str]:
    """Yield what is spelled or spoken of like a tool."""
    yield from (match[1] or match[2] or match[0] for match in IDENTIFIER.finditer(text))
    yield from (
        name for match in TOOL.finditer(text) for name in match.groups() if name and folded(name) not in SMALL
    )


def plain_words(text: str) -> list[str]:
    """Return the folded words of a text in order, of scripts that put spaces between them."""
    return [part for word in WORD.findall(text) for part in parts(folded(word)) if not SIGNS.search(part)]


def parts(word: str) -> list[str]:
    """Return the parts of a word that is put together with hyphens or apostrophes."""
    return [part for part in re.split("['-]", word) if len(part) > 1 or part == word] or [word]


def content(text: str) -> frozenset[str]:
    """Return what a sentence is about: stems of its words, or pairs of signs, and its numbers."""
    words = {stem(word) for word in plain_words(text) if word not in SMALL}
    return frozenset(words | set(pairs(folded(text))) | {one.value for one in numbers(text)})


def pairs(text: str) -> list[str]:
    """Return each two neighbouring signs, of scripts without spaces."""
    return [run[i : i + 2] for run in SIGNS.findall(text) for i in range(len(run) - 1)]


def bare(text: str) -> str:
    """Return a text without all but its words."""
    return " ".join(re.findall(r"\w+", folded(text)))


def clauses_of(text: str, *, generous: bool = False) -> Iterator[Clause]:
    """Yield the clauses of some lines, without who said them.

    Args:
        generous: read what may be a number as one, since it is the source.
    """
    for line in text.splitlines():
        for sentence in split_sentences(SPEAKER.sub("", line)):
            for part in CLAUSE.split(sentence):
                if part and part.strip():
                    yield _clause(part, generous=generous)


def _clause(text: str, *, generous: bool) -> Clause:
    words = (word for word in plain_words(text) if word not in SMALL)
    about = {stem(word) for word in words if not is_number(word) and not is_date(word)}
    return Clause(
        text,
        frozenset(about | set(pairs(folded(text)))),
        frozenset({one.value for one in numbers(text, generous=generous)} | dates(text, generous=generous)),
        DENIAL.search(text) is not None or FAILED.search(text) is not None,
    )
