"""Languages: which one a text is in, told by its little words, and which words tell nothing there.

The same rule serves index and question. It may be wrong about a short text, and then little is lost: whatever the
language, a text is found by its English stems too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Collection

_ENGLISH = """
a about above after again ain all also am an and any are aren as at be because been before being below between
both but by can cannot could couldn d did didn do does doesn doing don down during each either else ever every
few for from further get gets getting go goes going gonna got had hadn has hasn have haven having he her here hers
herself him himself his how i if im in into is isn it its itself just let ll m me more most mustn my myself needn
no nor not now of off oh ok okay on once only or other our ours ourselves out over own please re really s same she
should shouldn so some such t than that the their theirs them themselves then there these they this those
through to too under until up upon us ve very was wasn we were weren what whatever when where whether which while
who whom whose why with won would wouldn yeah yes yet you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_ENGLISH.split())
"""English words that say nothing about what a text is about; they are neither indexed nor asked for."""

_GERMAN = """
aber als am an auch auf aus bei beim bin bis bist bitte da damit dann das dass dein deine deinem deinen deiner dem den
denn der des dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer
eines er es etwas euch euer eure fur ganz gegen gib gibt hab habe haben hat hatte hatten hattest hast hier ich ihm ihn
ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jetzt kann kannst kein keine keinem keinen
keiner konnen konnte lautet mal man mein meine meinem meinen meiner mich mir mit muss musste nach nein nicht nichts noch
nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so soll sollen sollte sondern sonst uber
um und uns unser unsere unserem unseren unserer unter viel vom von vor wann war waren warum was weil welche welchem welchen
welcher welches wem wen wenn wer werde werden wessen wie wieder wieso will wir wird wirst wo woher wohin wurde wurden
wurde zu zum zur
"""
_SPANISH = """
a al algo alguien ante aqui asi aun cada casi como con cual cuales cuando cuanta cuantas cuanto cuantos de del desde donde
e el ella ellas ellos en entre era eran eres es esa esas ese eso esos esta estaba estaban estamos estan estar este esto
estos estoy fue fueron ha habia hace hacia han has hasta hay he hemos la las le les lo los mas me mi mis mucho muy nada ni
no nos nosotros nuestra nuestras nuestro nuestros o os para pero por porque pues que quien quienes se ser si sido sin
sobre solo son soy su sus tambien te tener tengo tenia tiene tienen ti todo tu tus u un una unas uno unos va vamos van voy
y ya yo
"""
_VIETNAMESE = """
à ai anh bà bạn bao bị bởi các cái cả chị cho chưa chúng chỉ có cô của cũng còn đã đang đâu đây để đến đi đó được em gì
hãy hay hơn khi không là lại lên lúc lắm mà mấy mình mới nào này nên nếu nhé nhiêu những như nhưng nó ở ra rất rồi sao sẽ
ta tại thế thì tôi trên trong từ và vào vậy vẫn về vì với vừa
"""
_CHINESE = (
    "的了着过在是我你您他她它们这那哪什么谁怎吗呢吧啊把被和与跟就也都很还又不没有个请给让从到会能要得地之而"
)

_UNACCENTED_VIETNAMESE = """
bao biet cai cho chua chung co cua dang dau day duoc gi hay khi khong la nao nay nguoi nhe nhieu nhung o roi sao se
thi toi trong tren va voi
"""
_LITTLE = {
    "de": frozenset(_GERMAN.split()),
    "es": frozenset(_SPANISH.split()),
    "vi": frozenset(_UNACCENTED_VIETNAMESE.split()),
}
_ACCENTED_VIETNAMESE = frozenset(_VIETNAMESE.split())
_EMPTY = {
    "en": STOP_WORDS,
    "de": STOP_WORDS | _LITTLE["de"],
    "es": STOP_WORDS | _LITTLE["es"],
    # Without its accents chó, which is a dog, would be cho, and nothing.
    "vi": _ACCENTED_VIETNAMESE,
}
_LETTERS = {
    "de": Pattern("[äöüß]"),
    "es": Pattern("[ñáíóú¿¡]"),
    "vi": Pattern("[ăđơư\u1ea0-\u1ef9]"),
}
_ALSO_ENGLISH = STOP_WORDS | {"will", "man", "son"}
"""Little words of other languages that tell nothing alone: "Will Ann come?", "Has he a son?"."""

TELLING = {"de": frozenset({"schön"}), "es": frozenset({"té"})}
"""Words that tell something, though without their accents they are little words."""

TOLD = frozenset({"en", "de", "es", "vi", "zh"})
"""The languages that are told from one another."""
_LATIN = TOLD - {"zh"}

EMPTY_SIGNS = frozenset(_CHINESE)
"""Chinese signs that bind others; text without spaces is cut where they stand."""


def language_of(plain: Collection[str], spelled: str = "") -> str:
    """Return de, es or vi where more of a text's little words are of that language than English, else en.

    Args:
        plain: its words in small letters, without accents.
        spelled: the text in small letters, if it has accents or the signs of Spanish: they tell as much as a word.
    """
    if spelled and _LETTERS["vi"].search(spelled):
        return "vi"
    said = set(plain)
    most, best = len(said & STOP_WORDS), "en"
    for name, words in _LITTLE.items():
        little = said & words
        found = len(little) if little - _ALSO_ENGLISH else 0
        if spelled and _LETTERS[name].search(spelled):
            found += 1
        if found > most:
            most, best = found, name
    return best


def share_of_meaning(language: str, known: Collection[str], foreign: float) -> float:
    """Return how much of its weight meaning keeps for a question, from an embedder that knows only some languages.

    One that knows the language, or one that we cannot tell, has all of it. Other letters than its own are no words to a
    model, so its vectors of them say nothing: words alone find then. Measured with all-MiniLM-L6-v2 (`make lab ARGS=languages`,
    three orders): a tenth finds .03 to .05 more among the first five than words alone in German, Spanish and Vietnamese,
    and as much or more among the first ten. With three tenths Vietnamese loses again, and with all of it .08.

    Args:
        language: of the question, as `words.language_in` tells it.
        known: in two letters; none: many.
        foreign: the weight for another language in letters that the model reads.
    """
    if not known or language in known or not TOLD.issuperset(known):
        return 1.0
    return foreign if language in _LATIN else 0.0


def empty_words(language: str) -> frozenset[str]:
    """Return the words that tell nothing in a language: without accents, but for Vietnamese.

    The English ones are left out whatever the language: who asks in too few words to tell it does not ask for them.
    """
    return _EMPTY[language]
