"""The homes of the judge as their files hold them, and what two sets share."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec

from edgemem.languages.words import all_words

FOLDER = Path(__file__).parent / "judge"

Row = Literal[
    "direct", "none", "talk", "helped", "not_helped", "household", "replaced", "former", "series", "follow",
    "coming", "safety", "safe", "exact",
]  # fmt: skip


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact that a model kept of something told; an empty scope is the household's."""

    key: str
    value: str
    scope: str = ""


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that somebody told the robot; an empty speaker is a voice that it does not know."""

    id: str
    at: str
    speaker: str
    text: str
    audience: tuple[str, ...] = ()
    private: bool = False
    reply: str = ""
    fact: Kept | None = None
    confidence: float | None = None


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An exchange directly before a question."""

    speaker: str
    text: str
    reply: str


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody says then, and what memory must show or keep back."""

    id: str
    row: Row
    speaker: str
    text: str
    at: str = ""
    audience: tuple[str, ...] = ()
    before: tuple[Exchange, ...] = ()
    answer: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


class Home(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file."""

    language: str
    people: tuple[str, ...]
    zone: str
    asked_at: str
    told: tuple[Told, ...]
    asked: tuple[Asked, ...]

    def time(self, local: str) -> float:
        """Return a local time of the home in seconds since the epoch, UTC."""
        return datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(self.zone)).timestamp()


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An utterance of a session, and what memory must show before its reply; an empty answer wants nothing of memory."""

    at: str
    speaker: str
    text: str
    audience: tuple[str, ...] = ()
    reply: str = ""
    fact: Kept | None = None
    answer: tuple[str, ...] = ()


class Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of turns: a week of a home, or an evening in a small window with its notes and tools."""

    language: str
    people: tuple[str, ...]
    zone: str
    turn: tuple[Turn, ...]
    told: tuple[Told, ...] = ()
    notes: tuple[str, ...] = ()
    tools: dict[str, str] = {}


def paths(kind: str, folder: Path = FOLDER) -> list[Path]:
    """Return the files of the sets that judge (`test`) or learn (`train`), or of the sessions (`week`, `window`)."""
    return sorted(folder.glob(f"{kind}_*.toml"))


def read(path: Path) -> Home:
    """Return the home of a file."""
    return msgspec.toml.decode(path.read_bytes(), type=Home)


def read_session(path: Path) -> Session:
    """Return the session of a file."""
    return msgspec.toml.decode(path.read_bytes(), type=Session)


def texts(home: Home) -> list[str]:
    """Return all that is said in a home."""
    said = [told.text for told in home.told] + [asked.text for asked in home.asked]
    return said + [before.text for asked in home.asked for before in asked.before]


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return re.findall(r"\w+", text.lower())


def is_outdated(asked: Asked, text: str) -> bool:
    """Tell whether a text of a home says what was so before, and not what is asked for."""
    return _says(text, asked.outdated) and not _says(text, asked.answer)


def _says(text: str, parts: Sequence[str]) -> bool:
    said = set(words(text))
    return any(set(words(part)) <= said for part in parts)


def shared(train: Iterable[Home], test: Iterable[Home]) -> list[str]:
    """Return what sets that learn and sets that judge have in common: people, answers, and three words in a row.

    A row of three counts, and an answer, where two of its words are neither common nor of numbers and dates.
    """
    first, second = list(train), list(test)
    both = [f"the name {name!r}" for name in sorted(_people(first) & _people(second))]
    both += [f"the answer {text!r}" for text in sorted(_answers(first) & _answers(second))]
    return both + [f"the words {' '.join(row)!r}" for row in sorted(_rows(first) & _rows(second))]


def _people(homes: Iterable[Home]) -> set[str]:
    return {name.lower() for home in homes for name in home.people}


def _answers(homes: Iterable[Home]) -> set[str]:
    answers: set[str] = set()
    for home in homes:
        common = _common(home)
        parts = [words(part) for asked in home.asked for part in asked.answer]
        answers.update(" ".join(part) for part in parts if _is_rare(part, common))
    return answers


def _rows(homes: Iterable[Home]) -> set[tuple[str, ...]]:
    rows: set[tuple[str, ...]] = set()
    for home in homes:
        common = _common(home)
        for said in map(words, texts(home)):
            rows.update(row for row in zip(said, said[1:], said[2:], strict=False) if _is_rare(row, common))
    return rows


def _common(home: Home) -> set[str]:
    # Late: an older tree cannot import it.
    from edgemem.recall.text.lexicon import common_words

    language = all_words()[home.language]
    dates = re.findall(r"\w+", " ".join(language.dates.words.values()))
    return {*language.stop.words, *language.counting.words, *dates, *common_words()}


def _is_rare(row: Sequence[str], common: Collection[str]) -> bool:
    return sum(word not in common and not word.isdecimal() for word in row) > 1
