"""Past words: whether a question asks what was before, what was first of all, and what all was, in five languages.

It decides whether facts that do not hold any more may answer, not whether others may: one that is taken for such a
question by mistake still finds what holds. So it asks for a word that says "not any more", or for one that may say so
("before", "old", "antes") beside a verb in the past: "what must I do before the trip?" asks about no past.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MAX_CHARS = 2000

# What is no more may be said of these in the present, too: "what is the old code?". An old ladder is a ladder still.
_VALUE = r"""
  (?:\w+ \s)?(?: address | alarm | appointment | boss | brand | code | combination | date | day | deadline | dentist | doctor | email | employer
    | flat | habit | hiding \s place | job | landlord | login | name | neighbou?rs? | nickname | number | passcode | password | passphrase
    | pin | place | plan | price | provider | rent | room | routine | rule | schedule | school | shift | size | spot | teacher | time
    | value | version | vet )s?
"""
_WERT = r"""
  \w*(?: adresse | anschrift | arbeit | arzt | ärztin | chef | code | firma | gewohnheit | größe | kennwort | kombination | lehrer(?:in)?
    | marke | miete | name | nachbarn? | nummer | ort | passwort | pin | plan | platz | preis | raum | regel | schule | stelle | tag
    | termin | uhrzeit | vermieter | versteck | version | wohnung | zeit | zimmer )n?
"""
_PLAIN = re.compile(
    rf"""
      \b(?: used \s to | did\b .{{0,80}} \b use \s to | previous(?:ly)? | former(?:ly)? | original(?:ly)? | initial(?:ly)? | no \s longer
        | (?:not|\w+n['’]?t)\b .{{0,40}} \b any \s? (?:more|longer) | back \s then | in \s the \s (?:past|old(?:en)? \s days|early \s days)
        | (?:at|in) \s the \s (?:(?:very \s)?(?:beginning|start)|outset) | at \s first | until \s (?:recently|lately) | beforehand
        | last \s but \s one | in \s (?:those \s days|earlier \s times|days \s gone \s by) | (?:long|ages) \s ago | back \s when
        | preceding | outdated | obsolete | bygone | erstwhile | one-?time | hitherto | superseded | discontinued
        | (?:up \s)? (?:until|till|to) \s (?:then|that \s point) | a \s (?:long \s)? (?:time|while) \s (?:ago|back) | way \s back
        | back \s in \s the \s day | at \s one \s (?:time|point) | in \s an \s? earlier \s \w+ | early \s on | once \s upon
        | (?:old|prior|earlier|past) \s {_VALUE} (?= \W | $)
        | did\b .{{0,60}} \b (?:chang|switch|swap|mov|convert|renam)e?\b .{{0,40}} \b from
        | (?:did|has|have|had)\b .{{0,60}} \b (?: (?:stop|quit)(?:ped)? \s \w+ing | (?:give|gave|given) \s up | (?:got|gotten) \s rid \s of )
        | had\b .{{0,40}} \b (?: been | kept | lived | worked | stood | stored | called | named | liked | planned | agreed | chosen | used )
      | früher(?:e[nrsm]?)? | vorher(?:ige[nrsm]?)? | zuvor | davor | damals | damalige[nrsm]? | ehemal(?:s|ige[nrsm]?)
        | ursprünglich(?:e[nrsm]?)? | anfangs | bisherige[nrsm]? | nicht \s (?:mehr|länger)
        | seinerzeit | vormals | vormalige[nrsm]? | bislang | einst(?:mals|ige[nrsm]?)? | anfänglich(?:e[nrsm]?)?
        | (?:am|zu) \s (?:anfang|beginn) | bis \s (?:dahin|vor \s kurzem|neulich) | kein\w* \b .{{0,40}} \b mehr | in \s der \s vergangenheit
        | vorige[nrsm]? \s {_WERT} (?= \W | $) | alte[nrsm]? \s {_WERT} (?= \W | $)
        | vor \s (?:dem|der) \s (?:änderung|umstellung|umzug|wechsel|tausch) | veraltete?[nrsm]? | gewesen | zuallererst
        | (?:hat|habt|haben|hast|habe)\b .{{0,60}} \b (?:aufgehört|abgewöhnt|aufgegeben)
      | sol(?:ía|íamos|ían|ías|ia|ian)s? | anterior(?:es|mente)? | previ(?:amente|[oa]s?) | originalmente | originari[oa]s? | inicial(?:es|mente)?
        | (?:al|en \s un) \s (?:principio|inicio|comienzo) | (?:en|por) \s (?:aquel|ese) \s entonces | ya \s no | antigu[oa]s? | antiguamente
        | antaño | en \s el \s pasado | otrora | hasta \s (?:hace \s poco|entonces) | de \s antes | en \s (?:su \s día|otros \s tiempos)
        | dej(?:ó|é|aste|amos|aron|asteis) \s de | obsolet[oa]s? | tiempo \s atrás | hace \s (?:mucho|tiempo|años)
      | trước \s (?:đây|kia|đó|đấy|nay) | (?:hồi|lúc|khi|ngày|dạo|thời) \s (?:trước|xưa|đó|ấy|nọ) | ban \s đầu | lúc \s đầu | đã \s từng
        | th(?:uở|ủa) \s (?:trước|xưa|ấy) | không \s còn | xưa (?:\s kia)? | bấy \s giờ | thoạt \s (?:đầu|tiên) | vốn \s (?:là|dĩ) | nguyên \s là
        | trước \s (?:khi|lúc|hồi) \b .{{0,30}} \b (?:đổi|chuyển|thay) | không \b .{{0,40}} \b nữa
        | (?:mật \s khẩu|mã|số|địa \s chỉ|tên|chỗ|nơi|lịch|kế \s hoạch|việc|trường|giờ|bác \s sĩ|nha \s sĩ|giá|phòng) \b .{{0,20}} \b cũ )\b
      | 以前 | 之前 | 从前 | 過去 | 过去 | 原来 | 原先 | 本来 | 曾经 | 当时 | 那时 | 最初 | 起初 | 一开始 | 先前 | 早先 | 原本 | 旧的 | 不再
      | 以往 | 往日 | 昔日 | 早前 | 当初 | 那会儿 | 那阵 | 曾(?!孙|祖) | 旧(?:密码|地址|号码|名|址|家|版|电话) | 原(?:名|址|定|始) | 前(?:一个|任|一任)
      | 上一(?:个|任) | [换改搬]\w{{0,4}}前 | 起先 | 最早 | 最开始 | 老(?:密码|地址|号码) | (?:已经|早就)不
    """,
    re.VERBOSE | re.IGNORECASE,
)


_ALL = re.compile(
    r"""
      \b(?: how \s (?:has|have|had|did|was|were)\b .{0,60} \b (?:chang|develop|evolv|var)(?:e|ed|ing|y|ied)\b
        | (?:history|course) \s of | over \s (?:time|the \s (?:last \s)?(?:year|month|week|day)s?)
        | (?:what|which|who|where) \s (?:was|were|have|has|had)\b .{0,40} \b all | so \s far
      | wie \s (?:hat|haben|hatte)\b .{0,60} \b (?:ver|ge)ändert | wie \s (?:hat|haben)\b .{0,60} \b entwickelt
        | im \s (?:lauf|laufe|verlauf) \s de[rs] | bisher | (?:was|wer|welche[rs]?)\b .{0,30} \b (?:waren|hatten)\b .{0,40} \b alle
      | cómo \s (?:ha|han) \s (?:ido \s)? cambia(?:do|ndo) | cómo \s cambi(?:ó|aron) | a \s lo \s largo \s del? | hasta \s ahora
        | (?:cuáles|qué|quiénes) \s (?:fueron|eran|ha[ns]? \s sido)\b .{0,40} \b tod[oa]s
      | thay \s đổi \s (?:như \s thế \s nào|thế \s nào|ra \s sao) | từ \s trước \s (?:đến|tới) \s (?:nay|giờ) | cho \s đến \s nay )\b
      | 怎么变 | 如何变 | 变化 | 历来 | 至今 | 到目前为止
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
        r"did|didn['’]?t|was|wasn['’]?t|were|weren['’]?t|had|hadn['’]?t|would have|who \w+(?:ed|ght|nt|me|ew|ad)"
        r"|\w+['’]d (?:we|you|he|she|they|i)|worked|lived|liked|stood|hung|came|held|lay|slept|wore|drove|kept",
        "before|earlier|old|older|prior|first|then|until|till|ago|once|still|been|to begin with|to start with|replaced?"
        "|up to now|at the time|at that time|those days|start(?:ed)? (?:out|off)",
    ),
    _language(
        "war|warst|waren|wart|hatte[nst]?|hattet|wurde[nst]?|hieß(?:en|t)?|gab|stand(?:en)?|lag(?:en)?|lautete[nst]?"
        "|trank(?:en)?|aß(?:en)?|wohnte[nst]?|lebte[nst]?|arbeitete[nst]?|mochte[nst]?|fuhr(?:en)?|nannte[nst]?|hing(?:en)?"
        "|galt(?:en)?|schlief(?:en)?|benutzte[nst]?|verwendete[nst]?|parkte[nst]?",
        "alte[nrsm]?|zuerst|zunächst|erste[nrsm]?|einst|bevor|noch|bis jetzt|vorige[nrsm]?",
    ),
    _language(
        r"era[ns]?|eran|éramos|fue|fueron|había[ns]?|\w+(?:aba|ía)[ns]?|\w+(?:aban|ían)",
        "antes|primer[oa]?|entonces|viej[oa]s?|todavía|aún",
    ),
    _language("đã", "cũ|trước"),
)
_FIRST = re.compile(
    r"\b(?:at first|first|original(?:ly)?|initial(?:ly)?|(?:at|in) the (?:very )?(?:beginning|start|outset)|to (?:begin|start) with"
    r"|start(?:ed)? (?:out|off)|ursprünglich\w*|anfangs|anfänglich\w*|(?:am|zu) (?:anfang|beginn)|zu(?:aller)?erst|erste[nrsm]?"
    r"|(?:al|en un) (?:principio|inicio|comienzo)|original(?:mente)?|inicial(?:mente)?|primer[oa]?"
    r"|ban đầu|lúc đầu|đầu tiên|thoạt (?:đầu|tiên))\b|最初|起初|一开始|最开始|最早|起先|当初|原来|本来",
    re.IGNORECASE,
)


def asks_past(text: str) -> bool:
    """Tell whether a question asks for what was, and is not any more."""
    text = text[-_MAX_CHARS:]
    return bool(
        _PLAIN.search(text) or any(one.words.search(text) and one.was.search(text) for one in _LANGUAGES)
    )


def asks_all(text: str) -> bool:
    """Tell whether a question asks for all that was, one after the other: how something changed, what all it was so far."""
    return bool(_ALL.search(text[-_MAX_CHARS:]))


def asks_first(text: str) -> bool:
    """Tell whether a question about the past asks for what was before all else, not for what was last."""
    return bool(_FIRST.search(text[-_MAX_CHARS:]))
