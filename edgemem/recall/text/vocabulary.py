"""Vocabulary: which words are ordinary English, which names are common, and which words no recogniser needs a hint for."""

from __future__ import annotations

from edgemem.languages.words import Vocabulary, all_words
from edgemem.provisions import provided

_MACHINES = """
api com config conf csv device enabled disabled false html http https json net null org sensor temp timestamp token true url
uuid xml yaml mode status
"""


@provided
def common_words() -> frozenset[str]:
    """Return the English words that everybody uses at home, in small letters."""
    return _english().common.words | all_words()["en"].stop.words


def common_names() -> frozenset[str]:
    """Return first names that a recogniser writes rightly, so that who is called so is mostly meant."""
    return _english().first_names.words


@provided
def function_words() -> frozenset[str]:
    """Return words that bind a sentence in other languages than English, as they are written, and words of programs."""
    others = [words for code, words in all_words().items() if code in {"de", "es", "vi"}]
    return frozenset(_MACHINES.split()).union(
        *(words.stop.words | words.binding.words for words in others),
    )


def is_english(word: str) -> bool:
    """Tell whether a word in small letters is an ordinary English one, or a form of one."""
    known = _ordinary()
    if word in known:
        return True
    for ending in _english().endings.words:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            root = word[: -len(ending)]
            forms = {root, f"{root}e", f"{root}y", root[:-1] if root[-1:] == root[-2:-1] else root}
            if not known.isdisjoint(forms):
                return True
    return False


@provided
def _ordinary() -> frozenset[str]:
    return common_words() | _english().ordinary.words


@provided
def _english() -> Vocabulary:
    vocabulary = all_words()["en"].vocabulary
    if vocabulary is None:
        raise LookupError("en.toml has no [vocabulary]")
    return vocabulary
