"""What the checks of a summary look for: words and forms of English, German, Spanish and Vietnamese, and of scripts without spaces.

The lists are short on purpose: each word is one that a small model was seen to use, or may be expected to.
"""

from __future__ import annotations

import re

from edgemem.recall.function_words import FUNCTION_WORDS
from edgemem.recall.words import STOP_WORDS


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
SIGNS = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af]+")
"""Scripts that put no spaces between words."""
KATAKANA = re.compile("[\u30a1-\u30fa\u30fc]{2,}")
TITLED = re.compile("([\u3400-\u9fff]{1,3})(?:さん|先生|小姐|女士|様|君|太太)")
END = re.compile(r"[.!?。！？][\"'”’»)\]）」』]*$")
DANGLING = re.compile(
    r"[,;:(\[{–—/&+-]$|…$|\.\.\.$|\b(?:the|a|an|and|or|but|of|to|in|on|at|for|with|by|from|that|is|are|was|has|his|her"
    r"|der|die|das|und|oder|aber|ein|eine|mit|von|zu|im|am|für|dass|ist|hat|sein|ihr"
    r"|el|la|los|las|un|una|y|o|pero|de|del|en|con|por|para|que|es|su|và|hoặc|của|là|với|cho|ở|rằng|một)$",
    re.IGNORECASE,
)
SPEAKER = re.compile(r"^\s*[-*•]?\s*([^\W\d_][^:.!?]{0,30}):\s+")
IDENTIFIER = re.compile(
    r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b|\b[a-z]+[a-z0-9]*[A-Z]\w*\b|\b([\w.]+)\((?=[^)]*\))|^\s*([\w.-]+) ->",
    re.MULTILINE,
)
TOOL = re.compile(
    r"\b(?:the )?([a-z]+)[ -](?:tool|function|api)\b|\bherramienta (\w+)|\bcông cụ (\w+)", re.IGNORECASE
)
CALL = re.compile(
    r"[{\[]\s*\"(?:name|function|tool|arguments)\"|```|</?\w*(?:tool|think|memory)\w*>", re.IGNORECASE
)
YOU = re.compile(
    r"\b(?:you|your|yours|yourself|du|dich|dir|deine?[mnrs]?|usted|ustedes|contigo|tú|tus|quý khách)\b"
    r"|\bbạn\b(?! (?:bè|của \w|gái|trai|thân|học|cùng|ấy|mình))|[你您]|あなた|\bihnen\b(?=[?!]| (?:gerne|helfen|sagen))",
    re.IGNORECASE,
)
OWN = re.compile(
    r"\b(?:I|I['’](?:m|ll|ve|d)|we['’]ll|as an ai|ich|yo|puedo|tôi|here(?: is|['’]s)|hier ist|aquí (?:está|tiene)|dưới đây)\b"
    r"|^(?:sure|certainly|of course|okay|sorry|natürlich|gerne|claro|por supuesto|chắc chắn|vâng|dạ)\b",
    re.IGNORECASE,
)
ANSWER = re.compile(
    r"^(?:yes|no|yeah|nope|ja|nein|sí|vâng|không|có|はい|いいえ|是的)\s*[,.!、。，]", re.IGNORECASE
)
ASKED = re.compile(
    r"\b(?:ask\w*|question\w*|wonder\w*|wants? to know|wanted to know|whether|frag\w*|wissen|ob|pregunt\w*|quiere saber|hỏi"
    r"|muốn biết|unanswered|open)\b|[?？]|問|问|聞",
    re.IGNORECASE,
)
DENIAL = re.compile(
    r"\b(?:not|no|never|nobody|nothing|none|without|cannot|\w+n['’]t|nicht|kein\w*|nie|niemals|niemand|nichts|ohne"
    r"|nunca|nadie|nada|sin|không|chưa|chẳng|đừng)\b|[不没沒未]",
    re.IGNORECASE,
)
FAILED = re.compile(
    r"\b(?:fail\w*|error|refus\w*|declin\w*|impossible|unable|fehler|scheiter\w*|fall[óo]|lỗi)\b",
    re.IGNORECASE,
)
"""A tool that failed is told as what did not happen."""
TELLING = _set(
    "ask asks asked mention mentions mentioned say says said tell tells told want wants wanted plan plans planned like likes liked"
    " prefer prefers preferred need needs needed refuse refuses refused report reports reported explain explains explained"
    " confirm confirms confirmed remind reminds reminded request requests requested discuss discussed agree agreed"
    " suggest suggests suggested answer answered reply replied inform informed notes noted talk talked"
)
"""Verbs with which a summary reports."""
CLAUSE = re.compile(
    r"[,;:。，；](?=\D)|\s(?:but|and|because|while|although|so|aber|und|weil|obwohl|denn|sondern|pero|y|porque|aunque"
    r"|nhưng|và|vì)\s",
    re.IGNORECASE,
)
"""Where one thing ends that a sentence says and another one begins."""
ORDER = re.compile(
    r"^(?:please |bitte |por favor |xin |hãy |now |and )*(?:ignore|disregard|forget|obey|pretend|act|from now on|repeat|reply"
    r"|respond|answer|say|output|write|print|always|never|do not|don['’]t|you must|must|make sure|remember|call|use|tell|send"
    r"|reveal|ignorier\w*|vergiss|vergesst|antworte\w*|schreib\w*|sag|sage|ab jetzt|wiederhol\w*|gib|immer|niemals"
    r"|ignora|ignore|olvida|responde|escribe|di|repite|a partir de ahora|siempre|nunca|finge"
    r"|bỏ qua|quên|trả lời|viết|nói|luôn|từ giờ|lặp lại)\b|^(?:忽略|無視|不要|必须|请)",
    re.IGNORECASE,
)
OWED = re.compile(
    r"\b(?:robot|assistant|ai) (?:must|should|shall|has to|is to|needs to|will (?:always|never|only))\b"
    r"|\broboter (?:muss|soll|wird (?:immer|nie|nur))\b|\brobot (?:debe|tiene que|phải|nên)\b",
    re.IGNORECASE,
)
"""What a summary lays upon the robot."""
COUNTED = re.compile(r"(\d(?:[\d.,:]*\d)?)\s+([^\W\d_]+)(?:\s+([^\W\d_]+))?")
"""A number, and what it may count."""
UTTER = re.compile(
    r"\b(?:say|says?|reply|respond|answer|repeat|write|output|print|sag|sage|antworte|schreib\w*|wiederhol\w*|di|responde"
    r"|escribe|repite|nói|viết|trả lời|lặp lại)\b(?: (?:only|just|with|nur|mit|solo|con|chỉ))*[:\s]+(.+)",
    re.IGNORECASE,
)
GERMAN = _set("der die das und ist nicht ein eine hat mit für von zu im am sie er auf dem den")
BEFORE_NOUN = _set(
    "der die das den dem des ein eine einen einem einer eines kein keine keinen sein seine seinen seiner ihr ihre ihren"
    " ihrer ihrem seinem mein meine zum zur im am beim ins vom"
)
NOUN = re.compile(r"(?:ung|heit|keit|schaft|tion|tät|nis|chen|ie|ment|ismus)(?:en|s)?$")
COMMON_END = re.compile(r"(?:ing|ed|ly|tion|tions|ment|ments|ness|ción|mente)$")
OPENERS = _set(
    "somebody someone everybody everyone nobody robot user assistant speaker family household guest people person they both"
    " earlier later today also currently according conversation nothing summary"
    " jemand niemand alle beide roboter familie später außerdem gespräch laut"
    " alguien nadie ambos ambas robot familia además después según usuario mientras tanto hoy luego"
    " họ người gia robot ngoài hiện trước sau đó ai mọi bạn"
)
SMALL = STOP_WORDS | FUNCTION_WORDS | OPENERS
ENDINGS = ("'s", "s'", "s", "es", "n", "en", "e")
