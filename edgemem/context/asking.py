"""Asking: whether somebody wants to know something, or says or orders something.

Recognisers leave punctuation out, so a sentence that begins as questions do is one. Taking a statement for a question
costs a few tokens; taking a question for a statement may cost the answer. So what is in doubt is a question: "can you
turn the light on" is one, too. In English, German, Spanish, French, Italian, Portuguese, Dutch, Vietnamese and Chinese;
in every other language a question mark tells.
"""

from __future__ import annotations

import unicodedata

from edgemem.context.excerpt import tells
from edgemem.context.sentences import split_sentences
from edgemem.patterns import Pattern

_ENGLISH = (
    r"what(?! an?\b(?! \w+ (?:is|are|was|were|do|does|did|has|have|had|can|could|should|would)\b))|when|where|who|whose|whom|which|how|why|do|does|did|can|could|is|are|am|was|were|will|would|shall|should"
    r"|may|might|has|have|had"
)
_BEGINS = (
    rf"(?:{_ENGLISH})\b(?! be\b)"
    # German
    r"|(?:wer|wem|wen|wessen|wie|wo|wohin|woher|wann|warum|wieso|weshalb|welche[rsnm]?|ist|sind|war|waren|kann|kannst"
    r"|können|könntest|darf|dürfen|soll|sollen|muss|müssen|hat|haben|hast|gibt|weißt|weisst|wird|wirst)\b"
    # Spanish, French, Italian, Portuguese
    r"|(?:qu[eé]|qui[eé]n(?:es)?|cu[aá]ndo|a?d[oó]nde|c[oó]mo|cu[aá]l(?:es)?|cu[aá]nt[oa]s?|por qu[eê]|hay|puedes?|tiene)\b"
    r"|(?:qui|quoi|quand|où|comment|pourquoi|quel(?:le)?s?|combien|est-ce|qu['’]est-ce|y a-t-il)\b"
    r"|(?:chi|cosa|che cosa|quando|dove|come|perch[eé]|quale|quali|quant[oaie])\b"
    r"|(?:quem|o que|onde|qual|quais)\b"
    # Dutch
    r"|(?:wat|waar|wanneer|waarom|hoe|hoeveel|welke?|kun|kan|heeft|zijn)\b"
    # Vietnamese
    r"|(?:ai|mấy giờ|tại sao|vì sao|khi nào|bao giờ|bao nhiêu)\b"
)
_TELL = (
    r"\b(?:tell|show) (?:me|us)(?: again)?(?: (?:on|at|in|to|for|from|with|of))?"
    r" (?:what|when|where|who|whose|which|how|why|if|whether)\b"
    r"|\b(?:sag|erzähl|zeig)e?(?: mir| uns)?(?: noch ?mal)? (?:was|wer|wie|wo|wann|warum|welche[rsnm]?|ob)\b"
)
"""Wherever it stands: "add two lemons and tell me how long the list is"."""

_WITHIN = (
    rf"{_TELL}"
    # Vietnamese and Chinese
    r"|\b(?:gì|đâu|bao giờ|khi nào|mấy giờ|thế nào|bao nhiêu|tại sao|vì sao)\b|\b(?:không|chưa|chứ)[.!]*$"
    r"|[吗嗎呢谁誰哪]|什么|什麼|怎么|怎麼|为何|為何|几点|幾點|几个|多少|多久"
)
_ASKS = Pattern(rf"[?？؟]|(?:^|[.!,;¿] *)(?:and |so |but |then |und |y |et |e |en )?(?:{_BEGINS})|{_WITHIN}")
_BEGINNING = Pattern(
    rf"^(?:and |so |but |then |und |y |et |e |en )?(?:{_BEGINS}|\w+n['’]?t (?:i|you|he|she|it|we|they|that|this|there)\b)|{_WITHIN}"
)
"""The same of one clause, "shouldn't we" too."""
_SAYS_SO = Pattern(
    r"(?:^|(?<=[.!?,;] )|(?<=[.!?,;]))¿?(?:and |but |so )?(?:(?:is|was|are|were|does|do|has|have|did|ca|wo|would)n['’]?t (?:it|that|this|he|she|they|we|you|i)"
    r"(?: (?:agree|think(?: so)?|strange|funny|weird|odd|crazy|great|nice|lovely|awful|terrible|amazing|wonderful|sad|sweet|true|right"
    r"|something|ridiculous|typical))?"
    r"|(?:do )?you know(?: what i mean)?|know what i mean|you see|have you noticed|can you believe (?:it|that|this)|right|okay|huh|eh"
    r"|what (?:do|would) you (?:say|think)(?: (?:to|of|about) (?:it|that|this))?|who(?: would have thought| knows| cares)"
    r"|who am i to (?:judge|say)|nicht wahr|oder|gell|verdad|no es cierto|n['’]est-ce pas|vero"
    r"|对吧|對吧|是吧|đúng không|phải không)"
    r"(?:, (?!i\b)\w+)?(?: *[?？.!]+|$)",
)
"""What is hung on to a statement, and asks for nothing but a nod; perhaps with the name of whoever shall nod."""
MOST_CHARS = 1000
"""Characters; nobody only asks for longer than a minute, and looking costs the more the longer it is."""
_TELLS_US = Pattern(rf"^[^.!]*(?:{_TELL})[^.!]*[.!]?$")
_ENDS = Pattern(r"(?<=[.!?;。！？；])")
_MARK = Pattern(r"[?？؟][\"'”’)\]]*$")


def asks(utterance: str) -> bool:
    """Tell whether somebody asks something."""
    said = plain(utterance)
    if _ASKS.search(said) is None:
        return False
    left = _SAYS_SO.sub(" ", said)
    # By itself it may ask about what the robot has just said.
    return left == said or not left.strip(" .,!?") or _ASKS.search(left.strip()) is not None


def clauses(said: str) -> list[str]:
    """Return the clauses of a text that ask, given in small letters; a sentence that asks by its mark alone is one."""
    out = []
    for sentence in filter(str.strip, _ENDS.split(_SAYS_SO.sub(" ", said) or said)):
        asking = [part for part in sentence.split(",") if _BEGINNING.search(part.strip())]
        out += asking or ([sentence] if _ASKS.search(sentence.strip()) else [])
    return out


def only_asks(said: str) -> bool:
    """Tell whether something that was said asks and tells nothing; in doubt it does not."""
    if len(said) > MOST_CHARS:
        return False
    if _TELLS_US.search(plain(said)):
        return True
    if not _MARK.search(said.rstrip()):
        return False
    return not any(tells(sentence) for sentence in split_sentences(said) if not _MARK.search(sentence))


def plain(text: str) -> str:
    """Return a text in small letters, composed."""
    return unicodedata.normalize("NFC", text.strip().lower())
