"""Disclaimers: what a robot says when it does not know, and which answers nothing when the same is asked again.

"I'm sorry, I don't have any information about the garage code" holds every word of the question and means the same, so
nothing is nearer to it by words or by meaning, and what was told afterwards stands behind it. A text is a disclaimer if
a clause of it says that something is not known, and the others apologise, ask for it, or offer to keep it. In English,
German, Spanish, Vietnamese and Chinese.
"""

from __future__ import annotations

import re

from edgemem.patterns import Pattern
from edgemem.provisions import provided

MOST_CHARS = 400
"""Characters; whoever says more than that says something."""

_NOT = r"(?:\b(?:not(?! to\b)|no|never|nobody|no one|nothing|none|neither|cannot)\b|n['’]t\b|\bun(?=(?:able|aware|sure|certain|known)))"
_KNOWN = (
    r"(?:known?|able to (?:recall|remember|tell|say)|aware|sure|certain|familiar|information|informed|details|data|idea|clue"
    r"|mention(?:ed)?|recall|remember|recollect|recollection|access to|hear[d]?|(?:been|was|were|ever|one|ody|has|have|you) told|told me|mentioned|stored|noted"
    r"|come across|find any\w*|found any\w*|have (?:that|this|it)|got (?:that|this|it))"
)
_DISCLAIMS = (
    rf"{_NOT}(?: ?[\w’']+){{0,5}}? ?\b{_KNOWN}\b",
    rf"{_NOT}.*\b(?:my (?:memory|notes|records)|memor(?:y|ies) of|records? of)\b",
    rf"\bmy (?:memory|notes|records)\b.*{_NOT}",
    rf"{_NOT} (?:say|tell|answer)\b",
    r"\bnobody (?:has |had )?(?:ever )?(?:told|said|mentioned)\b|\bunable to (?:recall|find|tell|remember|access)\b",
    r"\b(?:i['’]d|i would) (?:only )?(?:have to )?(?:be )?guess\w*|\b(?:new|news) to me\b",
    # German
    r"\b(?:weiß|weiss)\b.*\bnichts?\b|\bkeine\w* (?:informationen?|ahnung|notiz\w*|angaben|erinnerung\w*|daten|hinweise?|einträge?)\b",
    r"\bnichts (?:dazu|darüber|davon|gespeichert|notiert|gefunden)\b|\b(?:dazu|darüber|davon)\b.*\bnichts\b",
    r"\bnicht (?:sicher|bekannt|erinnern|sagen|gesagt|erzählt|finden)\b|\bniemand hat (?:mir|uns)\b|\bmir (?:ist )?(?:das )?unbekannt\b",
    # Spanish
    r"\bno (?:l[oa]s? |me |te |se )*(?:sé|recuerdo|acuerdo|consta)\b|\bni idea\b|\bdesconozco\b|\bno estoy segur[oa]\b",
    r"\bno (?:tengo|dispongo|encuentro|encontré|he encontrado|hay)\b.*\b(?:información|datos|registros?|constancia|idea|nada|mención|memoria)\b",
    r"\b(?:nadie|no) me (?:l[oa]s? )?(?:ha|han|había|habían) (?:dicho|contado|mencionado)\b",
    # Vietnamese, Chinese
    r"\b(?:không|chưa)(?: \w+)? (?:biết|nhớ|rõ|có thông tin|nghe|tìm thấy|chắc)\b|\bchưa ai (?:nói|kể|cho)\b",
    r"[不没沒](?:太)?(?:知道|清楚|记得|記得|确定|確定|听说|聽說)|没有.{0,14}(?:信息|记录|资料)|沒有.{0,14}(?:資訊|記錄|資料)|没人告诉|沒人告訴|找不到",
)
_FILLS = (
    r"^(?:(?:and |so |or |also |then )?(?:could|can|would|will|do|did|shall|should|may|what|when|where|who|which|how|why|is|are|was)\b)",
    r"^(?:i['’]?m |i am )?(?:\w+ )?(?:sorry|afraid)\b|\bapolog\w+\b|^(?:no|nope|yes|oh|well|h+m+|not yet|not so far|unfortunately|regarding\b.*|concerning\b.*|as (?:far|for|an?)\b.*|about\b.*)$",
    r"^(?:and |so |maybe |perhaps |but |just |please )*(?:please|ask|tell|let me|feel free|you (?:can|could|may|might|would|['’]d)|if you)\b|^that i know of",
    r"\b(?:happy|glad) to\b|\bi(?:['’]ll| will| can| could)\b.*\b(?:remember|keep|note|look|help|ask|check|save|write|store)\b|^i(?:['’]m| am) (?:here|(?:just |only )?an? \w+)\b",
    r"^(?:tut mir|leider|entschuldig\w*|frag|sag|bitte|wenn du|möchtest|soll|kannst|könntest|magst|ich (?:merke|kann)|wo|wer|was|wann|wie|ob|warum|welche\w*)\b",
    r"^(?:lo siento|perdón\w*|dime\w*|si (?:me|quieres)|puedes|podrías|quieres|por favor|pregunta\w*|dónde|quién|qué|cuándo|cómo)\b",
    r"^(?:xin lỗi|rất tiếc|bạn|nếu|hãy)\b|^(?:抱歉|对不起|對不起|不好意思|请|請|如果|你可以|您可以)",
)
_CUE = Pattern(
    r"n['’]t\b|\b(?:not?|never|no\w+|cannot|un\w+|guess\w*|news?|nichts?|kein\w*|niemand|nadie|ni|desconozco|không|chưa)\b|[不没沒找]"
)
"""What most texts hold none of; looking for it takes a tenth of the time."""
_ENDS = Pattern(r"([?？])|[.!;:。！；，]+|,\s|\bbut\b|\baber\b|\bpero\b|\bnhưng\b|但")


@provided
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile("|".join(_DISCLAIMS)), re.compile("|".join(_FILLS))


def disclaims(text: str) -> bool:
    """Tell whether a text says that something is not known, and tells nothing else; in doubt it does not."""
    if len(text) > MOST_CHARS:
        return False
    said = text.lower()
    if not _CUE.search(said):
        return False
    disclaimed, fills = _patterns()
    *pieces, last = _ENDS.split(said)
    told = [piece for piece, mark in zip(pieces[::2], pieces[1::2], strict=True) if mark is None]
    known = True
    for clause in (each.strip(" \"'”") for each in [*told, last]):
        if disclaimed.search(clause):
            known = False
        # One word afterwards calls somebody: "I don't know, Anna."
        elif clause and not fills.search(clause) and (known or not clause.isalpha()):
            return False
    return not known
