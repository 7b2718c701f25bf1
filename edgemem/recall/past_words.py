"""Past words: whether a question asks what was before, and what was first of all, in five languages.

It decides whether facts that do not hold any more may answer, not whether others may: one that is taken for such a
question by mistake still finds what holds. So it asks for a word that says "not any more", or for one that may say so
("before", "old", "antes") beside a verb in the past: "what must I do before the trip?" asks about no past.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MAX_CHARS = 2000

_PLAIN = re.compile(
    r"""
      \b(?: used \s to | did\b .{0,80} \b use \s to | previous(?:ly)? | former(?:ly)? | original(?:ly)? | initial(?:ly)? | no \s longer
        | (?:not|\w+n['’]?t)\b .{0,40} \b any \s? more | back \s then | in \s the \s (?:past|old \s days|early \s days)
        | (?:at|in) \s the \s beginning | at \s first | until \s (?:recently|lately) | beforehand | last \s but \s one
        | in \s (?:those \s days|earlier \s times) | long \s ago | back \s when | preceding | outdated | obsolete | bygone
      | früher(?:e[nrsm]?)? | vorher(?:ige[nrsm]?)? | zuvor | davor | damals | damalige[nrsm]? | ehemal(?:s|ige[nrsm]?)
        | ursprünglich(?:e[nrsm]?)? | anfangs | bisherige[nrsm]? | nicht \s mehr
        | seinerzeit | vormals | vormalige[nrsm]?
      | sol(?:ía|íamos|ían|ías|ia|ian)s? | anterior(?:es|mente)? | previamente | originalmente | al \s principio
        | en \s aquel \s entonces | ya \s no | antigu[oa]s? | antiguamente
        | antaño | en \s el \s pasado
      | trước \s (?:đây|kia|đó) | (?:hồi|lúc|khi|ngày|dạo) \s (?:trước|xưa|đó|ấy) | ban \s đầu | lúc \s đầu | đã \s từng
        | thuở \s trước | không \s còn )\b
      | 以前 | 之前 | 从前 | 過去 | 过去 | 原来 | 原先 | 本来 | 曾经 | 当时 | 那时 | 最初 | 起初 | 一开始 | 先前 | 早先 | 原本 | 旧的 | 不再
    """,
    re.VERBOSE | re.IGNORECASE,
)


class _Language(NamedTuple):
    """Verbs in the past, and words that speak of what was where one of them stands as well."""

    was: re.Pattern[str]
    words: re.Pattern[str]


def _language(was: str, words: str) -> _Language:
    return _Language(
        *(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE) for pattern in (was, words)),
    )


_LANGUAGES = (
    _language(
        r"did|didn['’]?t|was|wasn['’]?t|were|weren['’]?t|had|hadn['’]?t|would have|who \w+(?:ed|ght|nt|me|ew|ad)",
        "before|earlier|old|older|prior|first|then|until|ago|once|still|been|to begin with|to start with|replaced?",
    ),
    _language(
        "war|warst|waren|wart|hatte[nst]?|hattet|wurde[nst]?|hieß(?:en|t)?|gab|stand(?:en)?|lag(?:en)?|lautete[nst]?",
        "alte[nrsm]?|zuerst|zunächst|erste[nrsm]?|einst|bevor|noch",
    ),
    _language(
        r"era[ns]?|eran|éramos|fue|fueron|había[ns]?|\w+(?:aba|ía)[ns]?|\w+(?:aban|ían)",
        "antes|primer[oa]?|entonces|viej[oa]s?|todavía|aún",
    ),
    _language("đã", "cũ|trước"),
)
_FIRST = re.compile(
    r"\b(?:at first|first|originally|initially|in the beginning|ursprünglich\w*|anfangs|zuerst|erste[nrsm]?"
    r"|al principio|originalmente|primer[oa]?|ban đầu|lúc đầu|đầu tiên)\b|最初|起初|一开始|原来|本来",
    re.IGNORECASE,
)


def asks_past(text: str) -> bool:
    """Tell whether a question asks for what was, and is not any more."""
    text = text[-_MAX_CHARS:]
    return bool(
        _PLAIN.search(text) or any(one.words.search(text) and one.was.search(text) for one in _LANGUAGES)
    )


def asks_first(text: str) -> bool:
    """Tell whether a question about the past asks for what was before all else, not for what was last."""
    return bool(_FIRST.search(text[-_MAX_CHARS:]))
