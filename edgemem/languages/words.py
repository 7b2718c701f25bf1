"""Words: what `<code>.toml` says about the words of a language, ready to be looked for in a text."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.patterns import Pattern
from edgemem.provisions import provided

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

CODES = ("en", "de", "es", "vi", "zh")

_SIGN = re.compile("[\u3400-\u9fff]")
"""Chinese, where no spaces stand between words."""


class Items:
    """Words as a file lists them.

    Args:
        items: with commas between them.
    """

    def __init__(self, items: str = "") -> None:
        self.items = tuple(dict.fromkeys(small(item.strip()) for item in items.split(",") if item))


class Exact(Items):
    """Words and phrases, to be found whole in a text as `small` writes it; without their accents they mean something else."""

    def __init__(self, items: str = "") -> None:
        super().__init__(items)
        longest = sorted(self.items, key=len, reverse=True)  # before a short one that it begins with
        signs = [re.escape(item) for item in longest if _SIGN.match(item)]
        words = [re.escape(item) for item in longest if not _SIGN.match(item)]
        whole = [rf"(?<!\w)(?:{'|'.join(words)})(?!\w)"] if words else []
        self.pattern = Pattern("|".join([*signs, *whole]) or "(?!)")

    def stand_in(self, text: str) -> bool:
        """Tell whether one of them stands in a text."""
        return self.pattern.search(text) is not None


class Phrases(Exact):
    """The same, with their accents or without."""

    def __init__(self, items: str = "") -> None:
        super().__init__(f"{items},{_bare(items)}")


class Safety(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of thing that may hurt somebody who does not think of it."""

    keys: Exact
    """Words of the keys of facts that tell of it: allergy, medication."""
    comes_up: tuple[str, ...]
    """What people say where it matters: "Can I eat this?"."""


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words of one language, as its file lists them."""

    i: Exact
    """Whoever speaks, as who does something; in Spanish also verbs that say so."""
    me: Exact
    """The same, as to whom something is done: "tell me", and in Spanish verbs that end so."""
    my: Exact
    we: Exact
    """Several, whoever speaks among them, as who does something."""
    us: Exact
    """The same, as to whom something is done."""
    you: Exact
    please: Phrases
    """What stands before a request or a question and asks for nothing."""
    asks: Phrases
    """What makes a question of a sentence that has no question mark."""
    questions: Exact
    """Words that a question begins or ends with, where it has no question mark."""
    said: Phrases
    """Words of speech: say, talk, conversation."""
    done: Phrases
    """Words of deeds that do not say which."""
    little: Phrases
    """What else says no more than that something was there: happen, topic, news."""
    first: Phrases
    last: Phrases
    to_you: Exact = Exact()
    """What holds a `you` and is not who does something."""
    abbreviations: Items = Items()
    """They end with a full stop, which is not written here, and something follows them."""
    before_numbers: Items = Items()
    """The same, where a number follows."""
    before_ordinals: Items = Items()
    """Words after which "3." is the third, where a language writes its ordinals so."""
    ordinal_months: Items = Items()
    """Months of such a language."""
    safety: dict[str, Safety] = {}
    """By its kind, `food` or `medicine`."""
    one_word: int = 1
    """Signs or syllables of a usual word, where spaces do not tell words apart."""

    def speaks_of_itself(self, text: str) -> bool:
        """Tell whether a text, as `small` writes it, says "I", "me" or "my"; "we" does not."""
        text = self.we.pattern.sub(" ", text)
        return any(phrases.stand_in(text) for phrases in (self.i, self.me, self.my))


@provided
def all_words() -> dict[str, Words]:
    """Return the words of each language by its code, read when they are first asked for."""
    return {code: _read(Path(__file__).with_name(f"{code}.toml")) for code in CODES}


def comes_up_with(key: str, added: Mapping[str, str], *, among: Collection[str] = CODES) -> tuple[str, ...]:
    """Return what people say where a fact concerns somebody's safety; empty if it does not.

    Args:
        key: the fact's, with spaces between its words.
        added: further words of such keys, each with its kind: those of the profile.
        among: codes of the languages that count: to an embedder that does not know one, all its sentences are alike.
    """
    key, languages = small(key), [words for code, words in all_words().items() if code in among]
    told = [kind for words in languages for kind in words.safety.values() if kind.keys.stand_in(key)]
    said = [added[word] for word in added if Exact(word).stand_in(key)]
    told += [words.safety[kind] for words in languages for kind in said if kind in words.safety]
    return tuple(dict.fromkeys(phrase for kind in told for phrase in kind.comes_up))


def small(text: str) -> str:
    """Return a text as phrases are found in it: in small letters, composed, with straight apostrophes."""
    return unicodedata.normalize("NFC", text).casefold().replace("’", "'")


def _read(path: Path) -> Words:
    def listed(kind: type, items: Any) -> Items:
        found: Items = kind(items)
        return found

    return msgspec.toml.decode(path.read_bytes(), type=Words, dec_hook=listed)


def _bare(item: str) -> str:
    letters = unicodedata.normalize("NFD", item.replace("đ", "d"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
