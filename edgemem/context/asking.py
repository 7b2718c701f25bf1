"""Asking: whether somebody wants to know something, or says or orders something.

Recognisers leave punctuation out, so a sentence that begins as questions do is one, behind whatever people begin with:
"um pip". So is one that says what somebody does not know: "I forgot where". Taking a statement for a question costs a few
tokens; taking a question for a statement may cost the answer. So what is in doubt is a question: "can you turn the
light on" is one, too. In English, German, Spanish, French, Italian, Portuguese, Dutch, Vietnamese and Chinese;
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
OPENING = (
    rf"(?:(?:(?:hey|hi|hello|ok|okay|excuse me),? (?!(?:{_ENGLISH}|any\w*|tell|let|remind|help|show|and|or)\b)\w+|and|so|but|then|well|oh|ah|u[hm]+|er+m?|hey|hi"
    r"|hello|(?:good )?(?:morning|evening|afternoon|night)|ok|okay|right|now|no|yes|yeah|just|pip|robot|please|sorry|excuse me|actually|anyway"
    r"|wait|hang on|honestly|seriously|by the way|i mean|say|listen|quick question|tell (?:me|us)|ask you|und|also|äh|sag mal|y|oye|et|e|en)[ ,]+){0,4}"
)
"""What stands before a question, and is none of it: fillers, and whom it is put to. No more, so that looking costs the
length of a text."""

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

_SHORT = (
    r"any(?:thing|one|body)?\b(?! (?:can|could|will|would|who|but|is|more|way|day|time|old)\b)"
    r"|you (?:remember|recall|know (?:what|when|where|who|which|how|if|whether) \w)"
    r"|(?:is|are|was|were|does|did|has|have|had|ca|could|wo|would|should)n['’]?t (?:i|you|he|she|it|we|they|there|any\w*|some\w*)\b"
)
"""How people begin who leave the verb out, and those who expect a yes."""
_WH = r"(?:what|when|where|who|whose|whom|which|how|why)"
LATER = (
    r"\b(?:what|when|where|which|how|why)(?:['’]?[sd]|(?: (?!(?:i|you|we|they|it|he|she)\b)\w+)?"
    r" (?:is|are|was|were|do|does|did|has|have|had|can|could|should|will|would))"
    r" (?:i|you|he|she|it|we|they|that|the|my|our|his|her|their)\b"
)
"""A question behind anything, told by the order of its words: "gizmo where did I put it", "the blue folder where'd it go"."""
_NOT = r"(?:\w+n['’]?t|not|never|no longer|cannot)(?: \w+)?"
_WHOSE = r"(?:the|my|our|his|her|their|\w+['’]s)"
_TOLD = r"(?:number|address|code|password|pin|name|date|time|list|recipe|birthday|combination|directions|instructions|details)"
"""What people ask for by its name."""
_DAY = (
    r"(?:(?:the|our|my) )?(?:yesterday|today|tonight|last|this|past|weekend|week|day|month|morning|afternoon|evening|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|gestern|heute|vorgestern|letzte\w*|ayer|anteayer|hoy|la semana|este|esta)\b"
)
WONDERS = (
    r"\b(?:wonder(?:ing)?|forg[eo]t(?:ten)?|asking myself|ask you|remind (?:me|us)|let (?:me|us) know|let['’]?s see|tells (?:me|us)|idea|clue"
    rf"|(?:{_NOT}|to) (?:remember|recall|know|think|find out|sure|certain))"
    rf"(?: (?:any ?more|now|again|about|of|exactly|quite))*,? (?:(?:on|at|in|to|for|from|with) )?"
    rf"(?=(?:{_WH}|if|whether)\b(?! to (?:say|do|wear|think|begin|start)\b))"
)
"""What stands before something that is not known: "I wonder", "not sure", "no idea", "remind me"."""
_LACKS = (
    rf"{WONDERS}"
    # "can't find my keys", "help me remember the pin", "I need the landlord's number", "the pin again please"
    rf"|\b(?:(?:{_NOT}|help (?:me|us)|trying to|needs? to|wants? to|like to) (?:find|remember|recall|know|think of)|looking for) {_WHOSE}\b"
    rf"|\b(?:remind (?:me|us) (?:of|about)|tell (?:me|us)(?: \w+)? about) {_WHOSE}\b"
    rf"|\b(?:needs?|wants?|forgot(?:ten)?|lost) {_WHOSE}(?: \w+){{0,2}} {_TOLD}\b|\b{_TOLD}(?:,? again)?,? please\b"
    rf"|\b(?:and|but) {_WH}[.!]*$"
    # "tell me about yesterday", "a summary of last week"
    rf"|\b(?:tell (?:me|us)(?: more)? about|(?:summary|recap) of|summari[sz]e|recap|erzähl\w* (?:mir|uns) (?:von|über)|zusammenfassung von|cuéntame (?:de|sobre)|resumen de) {_DAY}"
    # German and Spanish
    r"|\b(?:weiß|weiss) (?:\w+ )?nicht(?: mehr)?,? (?:w\w+|ob)\b|\b(?:frag[e']? mich|keine ahnung|vergessen),? (?:w\w+|ob)\b|\berinner[en]? mich (?:an|w\w+)\b"
    r"|\bich (?:suche|finde) (?:mein\w*|den|die|das)\b"
    r"|\b(?:no (?:s[eé]|recuerdo|me acuerdo(?: de)?)|me pregunto|olvid[eé]|ni idea(?: de)?) (?:si|qu[eé]|qui[eé]n|cu[aá]ndo|d[oó]nde|c[oó]mo|cu[aá]l)\b"
    r"|\brecu[eé]rdame (?:qu[eé]|qui[eé]n|cu[aá]ndo|d[oó]nde|c[oó]mo|cu[aá]l|el|la|los|las|mi)\b|\b(?:busco|no encuentro) (?:mis?|el|la|los|las)\b"
)
"""What somebody does not know, said as a statement."""

_WITHIN = (
    rf"{_TELL}|{LATER}|{_LACKS}"
    # Vietnamese and Chinese
    r"|\b(?:gì|đâu|bao giờ|khi nào|mấy giờ|thế nào|bao nhiêu|tại sao|vì sao)\b|\b(?:không|chưa|chứ)[.!]*$"
    r"|[吗嗎呢谁誰哪]|什么|什麼|怎么|怎麼|为何|為何|几点|幾點|几个|多少|多久"
)
_ASKS = Pattern(rf"[?？؟]|(?:^|[.!,;¿] *){OPENING}(?:{_BEGINS}|{_SHORT})|{_WITHIN}")
_BEGINNING = Pattern(
    rf"^{OPENING}(?:{_BEGINS}|{_SHORT}|\w+n['’]?t (?:i|you|he|she|it|we|they|that|this|there)\b)|{_WITHIN}"
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
