"""Time alone: whether a question names a time and little else, as "what did we do yesterday?" does, and who is meant.

Nothing is left of it to look for when its times, the people that it names and the words that say no more than "what was
there?" are taken out. Then it asks for what was said or lived through in that time. In English, German, Spanish,
Vietnamese and Chinese. Who asks for a deed ("what can we do today?") or for the robot itself ("what are you doing today?")
asks for nothing that was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from edgemem.provisions import provided
from edgemem.recall.date_words import fold

if TYPE_CHECKING:
    from collections.abc import Collection

    from edgemem.recall.dates import Span

_MAX_CHARS = 200  # who asks for a time alone says so in few words
_LETTER = "[^\\W\u3400-\u9fff]"  # no spaces stand around a name in Chinese
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\d_\u3400-\u9fff]+")


class TimeAlone(msgspec.Struct, frozen=True):
    """Who asks for a time and little else, and what of it."""

    of: Literal["anyone", "asker", "named", "robot"] = "anyone"
    """Whose words and deeds are asked for: those of whoever asks, of the people that are named, of the robot."""
    words: bool = False
    """Whether it asks for what was said, and not for what was done or happened."""
    reader: str | None = None
    """Who asks, if known."""


class _Language(NamedTuple):
    """What may be left of a question in one language."""

    words: frozenset[str]
    asks: re.Pattern[str]
    """What makes it a question, of which one must stand there."""
    speech: re.Pattern[str]
    """Whether it asks for what was said."""
    asker: re.Pattern[str]
    """Whether whoever asks is the one who spoke or acted."""
    robot: re.Pattern[str]
    """Whether the robot is."""
    not_asked: re.Pattern[str]
    """What asks for something else in the same words."""


def time_alone(
    text: str, spans: Collection[Span], *, named: Collection[str] = (), reader: str | None = None, now: float
) -> TimeAlone | None:
    """Return what a question asks for that names a time and little else; None: it asks for more, or names none.

    Args:
        spans: the times that it names.
        named: the people that it names.
        reader: who asks, if known.
        now: seconds since the epoch.
    """
    if not spans or len(text) > _MAX_CHARS:
        return None
    for said in sorted({span.said for span in spans}, key=len, reverse=True):
        text = text.replace(said, " ")
    if len(named) > 1 and not _BOTH.search(text):
        return None
    for name in sorted(named, key=len, reverse=True):
        text = re.sub(
            rf"(?<!{_LETTER}){re.escape(name)}(?:['’]s)?(?!{_LETTER})", " ", text, flags=re.IGNORECASE
        )
    left = " ".join(text.casefold().replace("’", "'").split())
    for language in _languages():
        # Vietnamese words mean something else without their accents.
        exact = language is _languages()[3] and not left.isascii()
        plain = " ".join(_TELL.sub(" ", left if exact else fold(left)).split())
        words = _WORD.findall(plain)
        if not language.words.issuperset(words):
            continue
        if language.asks.search(plain) is None and not (len(words) <= _FEW and left.endswith(("?", "？"))):
            continue
        if language.not_asked.search(plain) or (
            _WHAT_IS.issuperset(words) and any(s.begin <= now < s.end for s in spans)
        ):
            return None
        speech = language.speech.search(plain) is not None
        of: Literal["anyone", "asker", "named", "robot"] = "named" if named else "anyone"
        if language.robot.search(plain):
            of = "robot"
        elif reader is not None and language.asker.search(plain):
            of = "asker"
        return TimeAlone(of, speech, reader)
    return None


_BOTH = re.compile(r"\b(?:and|und|y|và|va)\b|[和跟与與,、]", re.IGNORECASE)
"""Without it, of two people that are named it is asked what one did for the other."""
_FEW = 2
"""Words that are a question with nothing but its mark: "and yesterday?"."""
_WHAT_IS = frozenset("what which was s is it ist es das que wer".split())  # noqa: SIM905
"""What day it is, is asked with these."""
_TELL = re.compile(
    r"^(?:(?:please|and|so|then|hey|ok|okay)[ ,]+)*(?:(?:can|could|would|will) you )?(?:please )?(?:tell|remind|show) (?:me|us)\b|\b(?:kannst|konntest) du (?:mir|uns)\b"
    r"|\bpuedes\b|\bcho (?:toi|minh|tôi|mình) biết\b"
)

_ENGLISH = """
what who which did do does done doing was were is are be been being s re ve d have has had having i me my we us you he she
they it our of a the on in at to for with from by about so and or that this those there here then else anything something
everything anyone anybody someone somebody everyone everybody all any some ever just please also too new news happen happened
happening happens more go goes going went on say said saying says tell told telling tells talk talked talking talks speak spoke spoken
speaking speaks mention mentioned mentions discuss discussed chat chatted hear heard learn learned learnt know knew
remember recall recap summary summarize summarise miss missed occur occurred take took taken place away out absent asleep off while
when during gone not home house thing things stuff event events exactly actually really interesting important special notable
experience experienced came left far give hey hi hello ok okay well robot listen sum since until before after
"""
_GERMAN = """
was wer welche welches passiert passierte passieren geschehen geschah gab gibt es los war waren ist sind hat hatte habe hab haben habt
hast hatten ich wir du ihr er sie man uns mir mich dir euch dich gemacht machte machten getan tat taten gesagt sagte sagten erzahlt
erzahlte gesprochen sprachen geredet redeten besprochen unterhalten gehort berichtet mitgeteilt erwahnt woruber worum ging s lief so wovon uber von
mit denn so alles etwas irgendwas irgendetwas neues neu sonst noch bitte das der die den dem des am an im in und oder aber als
wahrend weg fort nicht da unterwegs hier zu hause daheim bei eigentlich genau vorgefallen ereignet sich erlebt verpasst weisst
erinnerst erinnere daran sag erzahl mal zusammenfassung ab abgelaufen ablief
"""
_SPANISH = """
que quien quienes cual paso pasado pasa pasaba pasando sucedio sucedido ocurrio ocurrido ocurre hubo hay hicimos hice hizo hicieron
hiciste hecho dije dijo dijimos dijeron dijiste dicho conte conto contaste contamos contado hable hablamos hablo hablaron hablaste
hablado comente comento comentado he ha has hemos han habia de con te me nos le les lo la el los las se a en por para y o sobre algo
todo nada nuevo mas alguien mientras cuando yo estaba estuve estabamos fuera ausente casa recuerdas acuerdas sabes dime cuentame
fue era es novedades tu ella ellos nosotros durante no aqui importante interesante resumen vivimos perdi estuvimos estuvo haciendo
"""
_VIETNAMESE = """
gì chuyện có đã xảy ra diễn tôi mình chúng ta bạn em anh chị con cháu nói kể bảo làm biết về điều việc sự kiện trong khi lúc vào
những cái nào ai không chưa vậy thế à nhỉ nghe trò với của và thì là mà vắng nhà đi ở đây mới nhớ cho các được nhắc đến những gì rồi
"""
_CHINESE = (
    "什么麼甚发發生了过過做干说說讲講告诉訴聊谈談到我们們你您他她咱跟对對和给給的有没沒吗嗎呢啥谁誰在这這那些都还還是不时時"
    "候吧请請记記得知道新事情件哪话話论論提起出门門离離开開家里裡里面"
)


@provided
def _languages() -> tuple[_Language, ...]:
    return (
        _language(
            _ENGLISH,
            asks=r"\b(?:what|who|anything|something|everything|recap|summar\w+|(?:do|can) you (?:still )?(?:remember|recall))\b|^(?:more )?about$",
            speech=r"\b(?:s(?:ay|aid|ays|aying)|t(?:ell|old|elling|ells)|talk\w*|sp(?:eak|oke|oken|eaking)|mention\w*|discuss\w*|chat\w*)\b",
            asker=r"\b(?:did|have|had|what|things?|everything|anything|all|was|ve|that) i\b(?! miss)|\bwhat i['’]ve\b",
            robot=r"\b(?:did|have|had|what|everything|all) you (?:\w+ )?(?:say|said|tell|told|do|done|mention\w*|talk\w*|spoke|spoken)\b",
            not_asked=r"\bgoing to (?!happen)|\bwhat an?\b|\bwho (?:am|are|is)\b|\b(?:are|were) you\b|\bdo you (?!(?:still )?(?:remember|recall|know|have)\b)"
            r"|\bwhat (?:do|does) \w+ do\b",
        ),
        _language(
            _GERMAN,
            asks=r"\b(?:was|wer|woruber|worum|wovon|etwas|irgend\w+|neues|zusammenfassung|erinnerst|erzahle? (?:mir|uns))\b",
            speech=r"\b(?:ge)?(?:sag\w*|sprochen|sprachen|redet\w*)|\b(?:erzahl\w*|besprochen|unterhalten|erwahnt|mitgeteilt|berichtet)\b",
            asker=r"\b(?:hab|habe|hatte|was|sagte|erzahlte|tat|machte) (?:(?:dir|euch|mit|alles) )*ich\b(?!.*\bverpasst\b)",
            robot=r"\b(?:hast|hattest) du (?:(?:mir|uns|alles) )*(?:gesagt|erzahlt|gemacht|getan|berichtet)\b",
            not_asked=r"\b(?:was|wer) (?:bist|machst)\b",
        ),
        _language(
            _SPANISH,
            asks=r"\b(?:que|quien(?:es)?|algo|novedades|recuerdas|acuerdas|resumen|nada|cuentame)\b",
            speech=r"\b(?:di(?:je|jo|jimos|jeron|jiste|cho)|cont(?:e|o|aste|amos|ado)|habl\w+|coment\w+)\b",
            asker=r"\b(?:dije|conte|hice|hable|comente|he (?:dicho|hecho|contado|hablado|comentado))\b",
            robot=r"\b(?:dijiste|contaste|hiciste|hablaste|has (?:dicho|hecho|contado))\b",
            not_asked=r"\b(?:que|quien) (?:eres|haces)\b",
        ),
        _language(
            f"{_VIETNAMESE} {fold(_VIETNAMESE)}",
            asks=r"\b(?:gì|nào|ai|chuyện|gi|nao|chuyen)\b",
            speech=r"\b(?:nói|kể|bảo|trò chuyện|nhắc|noi|ke|tro chuyen|nhac)\b",
            asker=r"(?<!chúng )(?<!chung )\b(?:tôi|toi|mình|minh)(?: (?:đã|có|da|co))* (?:nói|kể|bảo|làm|noi|ke|lam)\b",
            robot=r"\b(?:bạn|ban)(?: (?:đã|có|da|co))* (?:nói|kể|bảo|làm|noi|ke|lam)\b",
            not_asked=r"\b(?:là|la) (?:ai|gì|gi)\b|\b(?:ngày|thứ) (?:gì|nào)\b",
        ),
        _language(
            " ".join(_CHINESE),
            asks=r"什么|什麼|啥|谁|誰|哪|吗|嗎|有没有|有沒有|记得|記得",
            speech=r"说|說|讲|講|告诉|告訴|聊|谈|談|提",
            asker=r"我(?![们們]).{0,5}(?:说|說|讲|講|告诉|告訴|做|干|聊|谈|談|提)",
            robot=r"^(?:.*[^跟对對和给給])?你(?![们們])[^我]{0,4}(?:说|說|讲|講|告诉|告訴|做|干)",
            not_asked=r"你是谁|你是誰|几号|星期几",
        ),
    )


def _language(words: str, *, asks: str, speech: str, asker: str, robot: str, not_asked: str) -> _Language:
    return _Language(
        frozenset(words.split()), *(re.compile(each) for each in (asks, speech, asker, robot, not_asked))
    )
